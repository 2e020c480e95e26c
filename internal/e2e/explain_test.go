package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

type explained struct {
	ID            string
	Model         string
	ResolvedModel string `json:"resolved_model"`
	Outcome       string
	Words         string
	Queue         struct {
		WaitMS int64 `json:"wait_ms"`
		Class  string
		Weight float64
	}
	Candidates []struct {
		Backend  string
		Chosen   bool
		Excluded *struct{ Reason string }
	}
	Attempts []struct{ Backend, Outcome, Error string }
	Dropped  []string
}

func TestExplain(t *testing.T) {
	t.Parallel()
	other, err := simbackend.ParseModels("else:chat@8192")
	if err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{
			"a": {Dialect: simbackend.DialectVLLM, Models: models(t)}, "b": {Dialect: simbackend.DialectVLLM, Models: models(t)},
			"c": {Dialect: simbackend.DialectVLLM, Models: other},
		},
		Cluster: `
backends: [{name: a, engine: vllm, url: "%a%", priority: 5}, {name: b, engine: vllm, url: "%b%"}, {name: c, engine: vllm, url: "%c%"}]
aliases: [{name: default, targets: [chat]}]`,
	})
	s.Backends["a"].Script(func(simbackend.Request) *simbackend.Fault {
		return &simbackend.Fault{Kind: simbackend.FaultError, Status: 500}
	})
	key := s.Key(app.NewKey{User: "asker"})
	answer := s.Post("/v1/chat/completions", key, `{"model":"default","foo":1,"messages":[{"role":"user","content":"hi"}]}`)
	if answer.Status != http.StatusOK {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	id := answer.Header.Get("X-Request-Id")
	var got explained
	s.Eventually("the end of the request is on record", func() error {
		reply := s.Do("GET", "/v1/requests/"+id+"/explain", key, "")
		got = explained{}
		if err := json.Unmarshal([]byte(reply.Body), &got); err != nil || got.Outcome == "" {
			return errBody(reply.Body)
		}
		return nil
	})
	if got.ID != id || got.Model != "default" || got.ResolvedModel != "chat" || got.Outcome != "success" {
		t.Errorf("%+v", got)
	}
	if len(got.Attempts) != 2 || got.Attempts[0].Backend != "a" || got.Attempts[0].Error == "" || got.Attempts[1].Backend != "b" || got.Attempts[1].Outcome != "ok" {
		t.Errorf("attempts %+v, want one that failed on a and one on b", got.Attempts)
	}
	verdicts := map[string]string{}
	for _, c := range got.Candidates {
		switch {
		case c.Chosen:
			verdicts[c.Backend] = "chosen"
		case c.Excluded != nil:
			verdicts[c.Backend] = c.Excluded.Reason
		}
	}
	if verdicts["b"] != "chosen" || verdicts["a"] == "" || verdicts["c"] != "does not serve the model" {
		t.Errorf("candidates %v", verdicts)
	}
	if got.Queue.Class != "standard" || got.Queue.Weight != 2 || len(got.Dropped) == 0 {
		t.Errorf("queue %+v, dropped %v; want class standard, the weight of staff, and foo dropped", got.Queue, got.Dropped)
	}
	for _, part := range []string{"The name default stood for chat.", "b", "2 attempts", "the first failed on a", "foo=dropped"} {
		if !strings.Contains(got.Words, part) {
			t.Errorf("words %q lack %q", got.Words, part)
		}
	}
	// Another's request does not exist for a caller, except for a key of scope admin.
	if reply := s.Do("GET", "/v1/requests/"+id+"/explain", s.Key(app.NewKey{User: "nosy"}), ""); reply.Status != http.StatusNotFound {
		t.Errorf("somebody else: %d %s", reply.Status, reply.Body)
	}
	if reply := s.Do("GET", "/v1/requests/"+id+"/explain", s.Key(app.NewKey{User: "boss", Scopes: []app.Scope{"inference", "admin"}}), ""); reply.Status != http.StatusOK {
		t.Errorf("an admin: %d %s", reply.Status, reply.Body)
	}
	for path, status := range map[string]int{"nonsense": http.StatusBadRequest, "01a22b7b-2287-740c-8e34-f4fecf970a3b": http.StatusNotFound} {
		if reply := s.Do("GET", "/v1/requests/"+path+"/explain", key, ""); reply.Status != status {
			t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
		}
	}
}
