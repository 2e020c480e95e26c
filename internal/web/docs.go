package web

import (
	"net/http"
	"strings"

	"mindrouter/views"
)

// Interface is the description of what programs are served.
type Interface struct {
	Groups  []views.OperationGroup // Base is a path
	Headers []views.Header
}

func (h *Web) docs(w http.ResponseWriter, r *http.Request) {
	base := h.base(r)
	d := views.Docs{Shell: h.shell("Interface for programs"), Headers: h.cfg.Interface.Headers}
	for _, g := range h.cfg.Interface.Groups {
		if strings.HasPrefix(g.Base, "/") {
			g.Base = base + strings.TrimSuffix(g.Base, "/")
		}
		d.Groups = append(d.Groups, g)
	}
	h.render(w, r, http.StatusOK, views.DocsPage(d))
}
