package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

func TestAliasPatterns(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
		Cluster: `
backends: [{name: sim, engine: vllm, url: "%sim%"}]
aliases: [{name: "claude-*", targets: [chat]}, {name: "claude-*-think-*", targets: [think]}, {name: "chat-*", targets: [think]}]`,
	})
	key := s.Key(app.NewKey{})
	ask := func(key, model string) e2e.Answer {
		return s.Post("/v1/messages", key, `{"model":"`+model+`","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`)
	}
	for model, want := range map[string]string{"claude-haiku-4-5-20251001": "chat", "claude-x-think-y": "think", "chat": "chat"} {
		if got := ask(key, model); got.Status != http.StatusOK || got.Header.Get("X-Mindrouter-Model") != want || !strings.Contains(got.Body, `"model":"`+model+`"`) {
			t.Errorf("%s: %d by %q: %s; want %s under the name that was asked", model, got.Status, got.Header.Get("X-Mindrouter-Model"), got.Body, want)
		}
	}
	if got := ask(key, "gpt-5"); got.Status != http.StatusNotFound {
		t.Errorf("a name that nothing matches: %d", got.Status)
	}
	narrow := s.Key(app.NewKey{Models: []string{"claude-*"}})
	if got := ask(narrow, "claude-haiku-4-5"); got.Status != http.StatusOK {
		t.Errorf("a key for the pattern: %d %s", got.Status, got.Body)
	}
	if got := ask(narrow, "think"); got.Status != http.StatusForbidden {
		t.Errorf("a key for the pattern asks for another model: %d", got.Status)
	}
	if got := s.Do("GET", "/v1/models", key, ""); strings.Contains(got.Body, "claude-*") {
		t.Errorf("a pattern is listed as a model: %s", got.Body)
	}
}
