// Package web serves the pages: it reads requests, calls services and chooses what to show. It owns no markup; views does.
package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"

	"mindrouter/internal/backend"
	"mindrouter/internal/routing"
	"mindrouter/static"
	"mindrouter/views"
)

// Config configures [New].
type Config struct {
	Fleet   *backend.Fleet
	Assets  *static.Assets
	Version string
	// PublicURL is where users reach the service; empty means where the request came in.
	PublicURL string
	// Interface is shown at /docs.
	Interface Interface
	// NotFound answers a program for whose path there is nothing.
	NotFound http.HandlerFunc
	// Simulated marks every page: the backends are simulated.
	Simulated bool
}

// Web holds the page handlers.
type Web struct {
	cfg Config
}

// New returns the page handlers.
func New(cfg Config) *Web { return &Web{cfg: cfg} }

// Routes mounts every URL of the pages.
func (h *Web) Routes(r chi.Router) {
	r.Method(http.MethodGet, static.Prefix+"*", h.cfg.Assets)
	r.Get("/", h.home)
	r.Head("/", h.home)
	r.Get("/docs", h.docs)
	r.Get("/docs/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs", http.StatusMovedPermanently)
	})
	r.NotFound(h.notFound)
}

// ollamaRuns is what clients of Ollama's protocol want to read at the root.
const ollamaRuns = "Ollama is running"

func (h *Web) home(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(ollamaRuns)) // the client may have gone
		return
	}
	base := h.base(r)
	view := h.cfg.Fleet.View()
	models := 0
	example := "MODEL"
	for _, l := range view.List() {
		if !l.Available {
			continue
		}
		models++
		if example == "MODEL" && !embeddingOnly(l) {
			example = l.Name
		}
	}
	h.render(w, r, http.StatusOK, views.HomePage(views.Home{
		Shell:   h.shell("Start"),
		BaseURL: base,
		State:   state(view.Status(), models),
		Models:  models,
		Command: h.command(),
		Curl: fmt.Sprintf("curl %s/v1/chat/completions \\\n  -H \"Authorization: Bearer $MINDROUTER_KEY\" \\\n"+
			"  -H \"Content-Type: application/json\" \\\n  -d '{\"model\": %q, \"stream\": true,\n"+
			"       \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'",
			base, example),
	}))
}

// command is how one gets a key.
func (h *Web) command() string {
	if h.cfg.Simulated {
		return "export MINDROUTER_KEY=mr2_... # the line \"key:\" where mindrouter demo runs"
	}
	return "mindrouter user create alice --email alice@example.edu --group staff\n" +
		"export MINDROUTER_KEY=$(mindrouter key create --user alice --name laptop)"
}

func embeddingOnly(l backend.Listed) bool {
	return len(l.Capabilities) == 1 && l.Capabilities[0] == "embedding"
}

// state is the verdict on the fleet in words. It names no backend: the page is public.
func state(fleet []backend.Status, models int) views.State {
	up, inService := 0, 0
	for _, b := range fleet {
		if b.Config.Intent != routing.IntentEnabled {
			continue
		}
		inService++
		if b.Health == routing.HealthUp {
			up++
		}
	}
	switch {
	case inService == 0:
		return views.State{Words: "No model server yet", Detail: "Add one with mindrouter apply; mindrouter backend probe URL says what a server offers."}
	case up == 0:
		return views.State{Words: "No model server answers", Detail: "mindrouter doctor says what is wrong with each."}
	case up < inService:
		return views.State{Words: fmt.Sprintf("%d of %d model servers answer", up, inService), Detail: serving(models)}
	default:
		return views.State{OK: true, Words: "All model servers answer", Detail: serving(models)}
	}
}

func serving(models int) string {
	if models == 1 {
		return "1 model is ready."
	}
	return fmt.Sprintf("%d models are ready.", models)
}

// notFound answers people with a page and programs in their protocol.
func (h *Web) notFound(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.cfg.NotFound(w, r)
		return
	}
	h.render(w, r, http.StatusNotFound, views.ErrorPage(h.shell("Not found"), "There is no such page",
		"The address may be mistyped, or the page may have moved."))
}

func (h *Web) shell(title string) views.Shell {
	a := h.cfg.Assets
	return views.Shell{
		Title: title, CSS: a.CSS, JS: a.JS, Icons: a.Icons, Version: h.cfg.Version, Simulated: h.cfg.Simulated,
	}
}

func (h *Web) base(r *http.Request) string {
	if h.cfg.PublicURL != "" {
		return h.cfg.PublicURL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// policy forbids everything that a page of ours does not need.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func (h *Web) render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) {
	var buf bytes.Buffer
	if err := page.Render(r.Context(), &buf); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = buf.WriteTo(w) // the client may have gone
}
