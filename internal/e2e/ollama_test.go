package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"mindrouter/internal/app"
	"mindrouter/internal/dialect/ollama/ollamatest"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// keyed adds the key, which the official client has no setting for, and checks every stream.
type keyed struct {
	t   *testing.T
	key string
}

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-ndjson") {
		resp.Body = &checkedBody{ReadCloser: resp.Body, check: func(raw []byte) {
			if _, err := ollamatest.CheckStream(raw); err != nil {
				k.t.Errorf("stream: %v", err)
			}
		}}
	}
	return resp, err
}

func ollamaClient(t *testing.T, s *e2e.Server, key string) *api.Client {
	t.Helper()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return api.NewClient(base, &http.Client{Transport: keyed{t, key}})
}

func ollamaOverEngines(t *testing.T, test func(t *testing.T, s *e2e.Server, c *api.Client)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, e2e.Options{
				Backends: map[string]simbackend.Config{"sim": {Dialect: e.dialect, Models: models(t), EmbeddingDims: 16}},
				Cluster: `
backends: [{name: sim, engine: ` + string(e.dialect) + `, url: "%sim%"}]
models: [{name: think, thinking: {profile: toggle}}]`,
			})
			test(t, s, ollamaClient(t, s, s.Key(app.NewKey{})))
		})
	}
}

// ollamaChat asks and joins what arrives.
func ollamaChat(t *testing.T, c *api.Client, req api.ChatRequest, stream bool) api.ChatResponse {
	t.Helper()
	req.Stream = &stream
	var all api.ChatResponse
	pieces := 0
	err := c.Chat(t.Context(), &req, func(r api.ChatResponse) error {
		pieces++
		text, thinking, calls := all.Message.Content, all.Message.Thinking, all.Message.ToolCalls
		all = r
		all.Message.Content, all.Message.Thinking = text+r.Message.Content, thinking+r.Message.Thinking
		calls = append(calls, r.Message.ToolCalls...)
		all.Message.ToolCalls = calls
		return nil
	})
	if err != nil {
		t.Fatalf("stream %v: %v", stream, err)
	}
	if !all.Done || (!stream && pieces != 1) {
		t.Errorf("stream %v: %d pieces, done %v", stream, pieces, all.Done)
	}
	return all
}

// ollamaBothWays asks whole and streamed; both must agree.
func ollamaBothWays(t *testing.T, c *api.Client, req api.ChatRequest) api.ChatResponse {
	t.Helper()
	whole, streamed := ollamaChat(t, c, req, false), ollamaChat(t, c, req, true)
	if whole.Message.Content != streamed.Message.Content || whole.Message.Thinking != streamed.Message.Thinking ||
		whole.DoneReason != streamed.DoneReason || len(whole.Message.ToolCalls) != len(streamed.Message.ToolCalls) {
		t.Errorf("whole %+v and streamed %+v differ", whole.Message, streamed.Message)
	}
	if whole.EvalCount != streamed.EvalCount || whole.PromptEvalCount != streamed.PromptEvalCount || whole.EvalCount == 0 {
		t.Errorf("counts: whole %d %d, streamed %d %d", whole.PromptEvalCount, whole.EvalCount, streamed.PromptEvalCount, streamed.EvalCount)
	}
	return whole
}

func userTurn(model, text string) api.ChatRequest {
	return api.ChatRequest{Model: model, Messages: []api.Message{{Role: "user", Content: text}}}
}

func TestOllamaChat(t *testing.T) {
	t.Parallel()
	ollamaOverEngines(t, func(t *testing.T, _ *e2e.Server, c *api.Client) {
		got := ollamaBothWays(t, c, userTurn("chat:latest", "[[say=Blue — синий — 青 🟦]]"))
		if got.Message.Content != "Blue — синий — 青 🟦" || got.DoneReason != "stop" || got.Model != "chat:latest" {
			t.Errorf("got %+v", got)
		}
		req := userTurn("chat", "[[tokens=50]]")
		req.Options = map[string]any{"num_predict": 7, "num_ctx": 1024, "num_gpu": 99}
		if got := ollamaBothWays(t, c, req); got.DoneReason != "length" || got.EvalCount != 7 {
			t.Errorf("reason %q after %d tokens, want length after 7", got.DoneReason, got.EvalCount)
		}
	})
}

func TestOllamaToolsThinkingAndSchema(t *testing.T) {
	t.Parallel()
	ollamaOverEngines(t, func(t *testing.T, _ *e2e.Server, c *api.Client) {
		req := userTurn("chat", "Call weather and clock for Oslo")
		if err := json.Unmarshal([]byte(`[
			{"type":"function","function":{"name":"weather","description":"Tells the weather","parameters":{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}}},
			{"type":"function","function":{"name":"clock","description":"Tells the clock","parameters":{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}}}]`), &req.Tools); err != nil {
			t.Fatal(err)
		}
		got := ollamaBothWays(t, c, req)
		if len(got.Message.ToolCalls) != 2 {
			t.Fatalf("calls %+v, want two", got.Message.ToolCalls)
		}
		req.Messages = append(req.Messages, got.Message)
		for _, call := range got.Message.ToolCalls {
			if city, ok := call.Function.Arguments.Get("city"); !ok || city == "" {
				t.Errorf("arguments %s have no city", call.Function.Arguments.String())
			}
			req.Messages = append(req.Messages, api.Message{Role: "tool", ToolName: call.Function.Name, Content: "result of " + call.Function.Name})
		}
		if got := ollamaBothWays(t, c, req); !strings.Contains(got.Message.Content, "result of") {
			t.Errorf("answer %q does not use the results", got.Message.Content)
		}

		req = userTurn("think", "[[think=Let me see.]][[say=It is blue.]]")
		req.Think = &api.ThinkValue{Value: true}
		if got := ollamaBothWays(t, c, req); got.Message.Thinking != "Let me see." || got.Message.Content != "It is blue." {
			t.Errorf("thought %q, said %q", got.Message.Thinking, got.Message.Content)
		}
		req.Think = &api.ThinkValue{Value: false}
		if got := ollamaBothWays(t, c, req); got.Message.Thinking != "" || got.Message.Content != "It is blue." {
			t.Errorf("switched off: thought %q, said %q", got.Message.Thinking, got.Message.Content)
		}

		req = userTurn("chat", "A person please")
		req.Format = json.RawMessage(`{"type":"object","required":["name","age"],"properties":{"name":{"type":"string"},"age":{"type":"integer"}}}`)
		var person struct {
			Name *string
			Age  *int
		}
		got = ollamaBothWays(t, c, req)
		if err := json.Unmarshal([]byte(got.Message.Content), &person); err != nil || person.Name == nil || person.Age == nil {
			t.Errorf("answer %q does not fit the schema: %v", got.Message.Content, err)
		}

		_, data, _ := strings.Cut(picture(t, 13, 7), ",")
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			t.Fatal(err)
		}
		req = userTurn("chat", "What is it?")
		req.Messages[0].Images = []api.ImageData{raw}
		if got := ollamaBothWays(t, c, req); !strings.Contains(got.Message.Content, "13") || !strings.Contains(got.Message.Content, "7") {
			t.Errorf("answer %q does not know the picture of 13 x 7", got.Message.Content)
		}
	})
}

func TestOllamaGenerate(t *testing.T) {
	t.Parallel()
	ollamaOverEngines(t, func(t *testing.T, s *e2e.Server, c *api.Client) {
		for _, raw := range []bool{false, true} {
			var text string
			var last api.GenerateResponse
			err := c.Generate(t.Context(), &api.GenerateRequest{Model: "chat", Prompt: "[[say=Blue]]", Raw: raw}, func(r api.GenerateResponse) error {
				text += r.Response
				last = r
				return nil
			})
			if err != nil || text != "Blue" || !last.Done || last.DoneReason != "stop" || last.EvalCount == 0 {
				t.Errorf("raw %v: %q, %+v, %v", raw, text, last, err)
			}
		}
		// A request without a prompt loads or unloads on a server of one's own. Here it is answered and does nothing.
		key := s.Key(app.NewKey{})
		for body, want := range map[string]string{
			`{"model":"chat"}`:                `"done_reason":"load"`,
			`{"model":"chat","keep_alive":0}`: `"done_reason":"unload"`,
		} {
			for _, path := range []string{"/api/generate", "/api/chat"} {
				got := s.Post(path, key, body)
				if got.Status != http.StatusOK || !strings.Contains(got.Body, want) || !json.Valid([]byte(got.Body)) {
					t.Errorf("%s %s: %d %s, want one object with %s", path, body, got.Status, got.Body, want)
				}
			}
		}
		if got := s.Post("/api/generate", key, `{"model":"nobody"}`); got.Status != http.StatusNotFound {
			t.Errorf("load of an unknown model: %d %s", got.Status, got.Body)
		}
	})
}

func TestOllamaEmbeddingsAndModels(t *testing.T) {
	t.Parallel()
	ollamaOverEngines(t, func(t *testing.T, s *e2e.Server, c *api.Client) {
		got, err := c.Embed(t.Context(), &api.EmbedRequest{Model: "embed", Input: []string{"one", "two"}})
		if err != nil || len(got.Embeddings) != 2 || len(got.Embeddings[0]) != 16 || got.PromptEvalCount == 0 {
			t.Errorf("embed: %+v, %v", got, err)
		}
		old, err := c.Embeddings(t.Context(), &api.EmbeddingRequest{Model: "embed", Prompt: "one"})
		if err != nil || len(old.Embedding) != 16 {
			t.Errorf("embeddings: %+v, %v", old, err)
		}
		list, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range list.Models {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != "chat:latest embed:latest think:latest" {
			t.Errorf("tags %q", got)
		}
		shown, err := c.Show(t.Context(), &api.ShowRequest{Model: "Think"})
		if err != nil || shown.ModelInfo["general.architecture"] == nil || len(shown.Capabilities) == 0 {
			t.Errorf("show: %+v, %v", shown, err)
		}
		if running, err := c.ListRunning(t.Context()); err != nil || len(running.Models) != 3 {
			t.Errorf("ps: %+v, %v", running, err)
		}
		if v, err := c.Version(t.Context()); err != nil || strings.Count(v, ".") != 2 {
			t.Errorf("version %q, %v", v, err)
		}
		if err := c.Heartbeat(t.Context()); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
		if got := s.Do("GET", "/", "", ""); got.Body != "Ollama is running" {
			t.Errorf("GET / without a browser: %q", got.Body)
		}
		if got := s.Do("GET", "/", "", "", "Accept", "text/html"); !strings.Contains(got.Body, "<html") {
			t.Errorf("GET / with a browser: %q", got.Body)
		}
	})
}

func TestOllamaErrors(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
		Cluster:  `backends: [{name: sim, engine: vllm, url: "%sim%"}, {name: gone, engine: vllm, url: "http://127.0.0.1:1", models: [{name: absent}]}]`,
	})
	key := s.Key(app.NewKey{})
	narrow := s.Key(app.NewKey{Models: []string{"think"}})
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct {
		name, path, key, body string
		status                int
		mentions              string
	}{
		{"no key", "/api/chat", "", `{}`, 401, "key"},
		{"bad JSON", "/api/chat", key, `{"model":`, 400, "byte"},
		{"field at fault", "/api/chat", key, `{"model":"chat","options":{"temperature":"hot"},` + hi + `}`, 400, "options.temperature"},
		{"wrong format", "/api/chat", key, `{"model":"chat","format":"xml",` + hi + `}`, 400, "format"},
		{"unknown model", "/api/chat", key, `{"model":"nobody",` + hi + `}`, 404, "nobody"},
		{"model not allowed", "/api/chat", narrow, `{"model":"chat",` + hi + `}`, 403, "chat"},
		{"configured but down", "/api/chat", key, `{"model":"absent",` + hi + `}`, 503, "model server"},
		{"context of an earlier answer", "/api/generate", key, `{"model":"chat","prompt":"hi","context":[1,2]}`, 400, "context"},
		{"raw with a system prompt", "/api/generate", key, `{"model":"chat","prompt":"hi","raw":true,"system":"s"}`, 400, "raw"},
		{"pull", "/api/pull", key, `{"model":"chat"}`, 403, "administrators"},
		{"no such path", "/api/nothing", key, `{}`, 404, "/api/nothing"},
	} {
		got := s.Post(tt.path, tt.key, tt.body)
		var reply struct{ Error string }
		if err := json.Unmarshal([]byte(got.Body), &reply); err != nil {
			t.Errorf("%s: %v in %s", tt.name, err, got.Body)
		}
		if got.Status != tt.status || !strings.Contains(reply.Error, tt.mentions) {
			t.Errorf("%s: %d %s; want %d with %q", tt.name, got.Status, got.Body, tt.status, tt.mentions)
		}
		if got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no request id", tt.name)
		}
	}
	err := ollamaClient(t, s, key).Chat(t.Context(), &api.ChatRequest{Model: "nobody", Messages: []api.Message{{Role: "user", Content: "hi"}}}, func(api.ChatResponse) error { return nil })
	var status api.StatusError
	if !errors.As(err, &status) || status.StatusCode != http.StatusNotFound {
		t.Errorf("the client sees %v, want 404", err)
	}
}
