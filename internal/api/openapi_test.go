package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"mindrouter/internal/api"
)

// notDescribed are routes that the description leaves out, with the reason.
var notDescribed = map[string]string{
	"POST /rerank": "another name", "POST /v2/rerank": "another name", "POST /score": "another name", "POST /tokenize": "another name",
	"POST /v1/messages": "another name", "POST /v1/messages/count_tokens": "another name",
	"POST /v1/complete": "not offered", "POST /anthropic/v1/complete": "not offered",
	"GET /api/hello": "a sign of life", "GET /anthropic": "a sign of life", "GET /anthropic/": "a sign of life", "GET /anthropic/api/hello": "a sign of life",
}

// elsewhere are described operations that other packages serve.
var elsewhere = []string{"/livez", "/readyz", "/metrics", "/schema/cluster.json", "/openapi.json"}

// TestOpenAPIDescribesWhatIsServed compares the description with the routes, in both directions.
func TestOpenAPIDescribesWhatIsServed(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for _, op := range api.Operations {
		key := op.Method + " " + op.Path
		if strings.HasSuffix(op.Path, "models/{id}") {
			key = strings.Replace(key, "{id}", "*", 1)
		}
		if described[key] {
			t.Errorf("%s is described twice", key)
		}
		described[key] = true
	}
	served := map[string]bool{}
	r := chi.NewRouter()
	api.New(api.Config{}).Routes(r)
	err := chi.Walk(r, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		route = strings.ReplaceAll(route, "/*/", "/")
		key := method + " " + route
		switch {
		case method == http.MethodHead, method != http.MethodGet && method != http.MethodPost && (method != http.MethodDelete || !strings.HasPrefix(route, "/v1/responses")): // beside GET, or refused whatever the method
		case strings.Contains(route, "/batches"), route == "/v1/responses/compact", strings.HasSuffix(route, "/cancel"), slices.ContainsFunc([]string{"pull", "push", "create", "copy", "delete", "blobs/{digest}"}, func(s string) bool { return route == "/api/"+s }):
		case notDescribed[key] != "":
		default:
			served[key] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range served {
		if !described[key] {
			t.Errorf("%s is served and not described", key)
		}
	}
	for key := range described {
		if _, path, _ := strings.Cut(key, " "); !served[key] && !slices.Contains(elsewhere, path) {
			t.Errorf("%s is described and not served", key)
		}
	}
}

// TestOpenAPIHoldsTogether checks that every reference leads somewhere and every schema is used.
func TestOpenAPIHoldsTogether(t *testing.T) {
	t.Parallel()
	text := api.OpenAPI("v1")
	var doc struct {
		OpenAPI    string
		Components map[string]map[string]any
		Paths      map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %q", doc.OpenAPI)
	}
	used := map[string]bool{}
	for rest := string(text); ; {
		_, after, found := strings.Cut(rest, `"#/components/`)
		if !found {
			break
		}
		ref, after, _ := strings.Cut(after, `"`)
		rest = after
		kind, name, _ := strings.Cut(ref, "/")
		used[ref] = true
		if doc.Components[kind][name] == nil {
			t.Errorf("the reference %s leads nowhere", ref)
		}
	}
	for _, kind := range []string{"schemas", "parameters"} {
		for name := range doc.Components[kind] {
			if !used[kind+"/"+name] {
				t.Errorf("%s/%s is not used", kind, name)
			}
		}
	}
	ids := map[string]string{}
	for path, item := range doc.Paths {
		for method, op := range item {
			if other, twice := ids[op.OperationID]; twice || op.Summary == "" {
				t.Errorf("%s %s: id %q is that of %q, or no summary", method, path, op.OperationID, other)
			}
			ids[op.OperationID] = path
		}
	}
}
