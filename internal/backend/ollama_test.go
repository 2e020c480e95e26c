package backend_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mindrouter/internal/backend"
)

// TestOneBrokenModelHidesNoOther asks a server that cannot show one of its models.
func TestOneBrokenModelHidesNoOther(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/api/version":
			_, _ = fmt.Fprint(w, `{"version":"0.24.0"}`)
		case r.URL.Path == "/api/tags":
			_, _ = fmt.Fprint(w, `{"models":[{"name":"good:latest","digest":"1"},{"name":"broken:latest","digest":"2"}]}`)
		case r.URL.Path == "/api/ps":
			_, _ = fmt.Fprint(w, `{"models":[{"name":"good:latest"}]}`)
		case strings.Contains(string(body), "good"):
			_, _ = fmt.Fprint(w, `{"capabilities":["completion"],"model_info":{"general.architecture":"a","a.context_length":4096}}`)
		default:
			http.Error(w, `{"error":"cannot read the weights"}`, http.StatusInternalServerError)
		}
	}))
	t.Cleanup(srv.Close)
	p, err := backend.ProbeAddress(t.Context(), srv.URL, "")
	if err != nil || p.Engine != backend.EngineOllama || len(p.Models) != 2 {
		t.Fatalf("%+v, %v; want an Ollama with two models", p, err)
	}
	for _, m := range p.Models {
		if known := m.Capabilities != nil; known != (m.Name == "good:latest") {
			t.Errorf("%s has the capabilities %v", m.Name, m.Capabilities)
		}
	}
	if fmt.Sprint(p.Resident) != "[good:latest]" {
		t.Errorf("resident: %v", p.Resident)
	}
}
