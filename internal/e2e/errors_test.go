package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// oaiError is the body of every error on the OpenAI surface.
type oaiError struct {
	Error struct {
		Message string
		Type    string
		Param   *string
		Code    *string
	}
}

func decodeError(t *testing.T, body string) oaiError {
	t.Helper()
	var e oaiError
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("%s is no error of the OpenAI protocol: %v", body, err)
	}
	return e
}

func onVLLM(t *testing.T) *e2e.Server {
	t.Helper()
	return e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
		Cluster: `
backends: [{name: sim, engine: vllm, url: "%sim%"}, {name: gone, engine: vllm, url: "http://127.0.0.1:9", models: [{name: absent}]}]
groups: [{name: narrow, weight: 1, models: [chat]}, {name: outside, weight: 1, boundary: campus}]`,
	})
}

func TestRefusalsReachNoBackend(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	key := s.Key(app.NewKey{})
	narrow := s.Key(app.NewKey{Models: []string{"think"}})
	long := strings.Repeat("word ", 40_000)
	chat := `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`
	for name, c := range map[string]struct {
		key, body, code, param string
		status                 int
		header                 []string
	}{
		"no key":              {status: 401, body: chat, code: "invalid_api_key"},
		"wrong key":           {key: "mr2_nonsense", status: 401, body: chat, code: "invalid_api_key"},
		"two different keys":  {key: key, status: 401, body: chat, code: "invalid_api_key", header: []string{"X-Api-Key", "mr2_other"}},
		"bad JSON":            {key: key, status: 400, body: `{"model":"chat",`},
		"empty body":          {key: key, status: 400, body: ``},
		"not an object":       {key: key, status: 400, body: `[]`},
		"no messages":         {key: key, status: 400, body: `{"model":"chat"}`, param: "messages"},
		"bad role":            {key: key, status: 400, body: `{"model":"chat","messages":[{"role":7,"content":"hi"}]}`, param: "messages[0].role"},
		"bad temperature":     {key: key, status: 400, body: `{"model":"chat","temperature":"hot","messages":[{"role":"user","content":"hi"}]}`, param: "temperature"},
		"no model":            {key: key, status: 400, body: `{"messages":[{"role":"user","content":"hi"}]}`, param: "model"},
		"unknown model":       {key: key, status: 404, body: strings.Replace(chat, "chat", "nope", 1), code: "model_not_found"},
		"model not allowed":   {key: narrow, status: 403, body: chat, code: "model_not_allowed"},
		"configured but down": {key: key, status: 503, body: strings.Replace(chat, "chat", "absent", 1)},
		"prompt too long":     {key: key, status: 400, body: strings.Replace(chat, "hi", long, 1), code: "context_length_exceeded"},
		"bad class":           {key: key, status: 400, body: chat, param: "x-mindrouter-class", header: []string{"X-Mindrouter-Class", "vip"}},
		"bad deadline":        {key: key, status: 400, body: chat, param: "x-mindrouter-deadline", header: []string{"X-Mindrouter-Deadline", "-1"}},
		"unknown encoding":    {key: key, status: 400, body: chat, param: "Content-Encoding", header: []string{"Content-Encoding", "br"}},
		"embedding with chat": {key: key, status: 400, body: strings.Replace(chat, "chat", "embed", 1)},
		"deep JSON":           {key: key, status: 400, body: `{"model":"chat","messages":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`},
	} {
		for _, stream := range []bool{false, true} {
			body := c.body
			if stream {
				body = strings.Replace(body, `{"m`, `{"stream":true,"m`, 1)
			}
			got := s.Post("/v1/chat/completions", c.key, body, c.header...)
			if got.Status != c.status {
				t.Errorf("%s (stream %t): status %d, want %d: %s", name, stream, got.Status, c.status, got.Body)
				continue
			}
			e := decodeError(t, got.Body)
			if c.code != "" && (e.Error.Code == nil || *e.Error.Code != c.code) {
				t.Errorf("%s: code %v, want %s", name, got.Body, c.code)
			}
			if c.param != "" && (e.Error.Param == nil || *e.Error.Param != c.param) {
				t.Errorf("%s: %s, want it to name %s", name, got.Body, c.param)
			}
			if got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s: no request id", name)
			}
			if retry := got.Header.Get("Retry-After"); (c.status == 503) != (retry != "") {
				t.Errorf("%s: Retry-After %q with status %d", name, retry, c.status)
			}
		}
	}
	for _, r := range s.Backends["sim"].InferenceRequests() {
		t.Errorf("a refused request reached the backend: %s", r.Body)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	body := `{"model":"chat","messages":[{"role":"user","content":"` + strings.Repeat("x", 33<<20) + `"}]}`
	got := s.Post("/v1/chat/completions", s.Key(app.NewKey{}), body)
	if got.Status != 413 {
		t.Fatalf("status %d, want 413", got.Status)
	}
	decodeError(t, got.Body)
}

func TestUnknownPathsAnswerInTheProtocol(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	for _, c := range []struct {
		method, path string
		status       int
		words        string
	}{
		{"GET", "/v1/nothing", 404, "/v1/nothing"},
		{"POST", "/v1/v1/chat/completions", 404, "once too often"},
		{"GET", "/v1/chat/completions", 405, "GET"},
	} {
		got := s.Do(c.method, c.path, "", "")
		if e := decodeError(t, got.Body); got.Status != c.status || !strings.Contains(e.Error.Message, c.words) {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.Status, got.Body)
		}
	}
}

func TestRevokedKeyStopsWithinASecond(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	key := s.Key(app.NewKey{})
	if got := s.Do("GET", "/v1/models", key, ""); got.Status != 200 {
		t.Fatalf("status %d: %s", got.Status, got.Body)
	}
	s.Commands(func(ctx context.Context, c *app.Commands) error { return c.RevokeKey(ctx, key[:12]) })
	revoked := time.Now()
	s.Eventually("refused", func() error {
		if got := s.Do("GET", "/v1/models", key, ""); got.Status != 401 {
			return errStatus(got.Status)
		}
		return nil
	})
	if d := time.Since(revoked); d > 10*time.Second {
		t.Errorf("the key worked for %v after its revocation", d)
	}
}

func TestChangesReachARunningServer(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	key := s.Key(app.NewKey{})
	s.Apply(`groups: [{name: staff, weight: 2, models: [think]}]`)
	s.Eventually("only think is listed", func() error {
		if got := s.Do("GET", "/v1/models", key, ""); strings.Contains(got.Body, `"chat"`) {
			return errBody(got.Body)
		}
		return nil
	})
	s.Apply(`aliases: [{name: think, targets: [chat]}]`) // an alias grants its targets through itself
	s.Eventually("the alias answers", func() error {
		got := s.Post("/v1/chat/completions", key, `{"model":"think","messages":[{"role":"user","content":"[[say=ok]]"}]}`)
		if got.Header.Get("X-Mindrouter-Model") != "chat" {
			return errBody(got.Body)
		}
		if !strings.Contains(got.Body, `"model":"think"`) {
			t.Errorf("the answer names another model than was asked for: %s", got.Body)
		}
		return nil
	})
}

func TestBudgetAndRate(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	budget := s.Key(app.NewKey{Limits: app.Limits{TokenBudget: 3 * 120}})
	ok, refused := 0, 0
	goOn := make(chan struct{}) // nothing is settled before all were admitted or refused
	s.Backends["sim"].Script(func(simbackend.Request) *simbackend.Fault {
		return &simbackend.Fault{Kind: simbackend.FaultPause, Until: goOn}
	})
	results := make(chan e2e.Answer, 40)
	for range 40 {
		go func() {
			results <- s.Post("/v1/chat/completions", budget, `{"model":"chat","max_tokens":100,"messages":[{"role":"user","content":"[[tokens=5]]"}]}`)
		}()
	}
	for n := range 40 {
		if n == 37 {
			close(goOn)
		}
		switch got := <-results; got.Status {
		case 200:
			ok++
		case 429:
			refused++
			if e := decodeError(t, got.Body); *e.Error.Code != "insufficient_quota" || got.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("refusal %s", got.Body)
			}
			if got.Header.Get("Retry-After") == "" {
				t.Error("a refusal without Retry-After")
			}
		default:
			t.Errorf("status %d: %s", got.Status, got.Body)
		}
	}
	if ok != 3 || refused != 37 {
		t.Errorf("%d answered and %d refused; want the three that fit and 37", ok, refused)
	}
	s.Backends["sim"].Script(nil)
	rate := s.Key(app.NewKey{Limits: app.Limits{RequestsPerMinute: 2}})
	var statuses []int
	for range 3 {
		statuses = append(statuses, s.Post("/v1/chat/completions", rate, `{"model":"chat","messages":[{"role":"user","content":"[[say=x]]"}]}`).Status)
	}
	if statuses[0] != 200 || statuses[1] != 200 || statuses[2] != 429 {
		t.Errorf("statuses %v, want two answers and a 429", statuses)
	}
}
