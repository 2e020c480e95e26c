package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"mindrouter/internal/app"
	"mindrouter/internal/dialect/anthropic/anthropictest"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// messagesClient is the official client, with the strict reader of streams beside it.
func messagesClient(t *testing.T, s *e2e.Server, base, key string) sdk.Client {
	t.Helper()
	return sdk.NewClient(option.WithBaseURL(s.URL+base), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			resp, err := next(r)
			if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				resp.Body = &checkedBody{ReadCloser: resp.Body, check: func(raw []byte) {
					if _, err := anthropictest.CheckStream(raw); err != nil {
						t.Errorf("stream: %v\n%s", err, raw)
					}
				}}
			}
			return resp, err
		}))
}

// messagesOverEngines runs a test through a gateway to each engine.
func messagesOverEngines(t *testing.T, test func(t *testing.T, s *e2e.Server, c sdk.Client)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, e2e.Options{
				Backends: map[string]simbackend.Config{"sim": {Dialect: e.dialect, Models: models(t)}},
				Cluster: `
backends: [{name: sim, engine: ` + string(e.dialect) + `, url: "%sim%"}]
models: [{name: think, thinking: {profile: toggle}}]`,
			})
			test(t, s, messagesClient(t, s, "/anthropic", s.Key(app.NewKey{})))
		})
	}
}

func message(model, text string) sdk.MessageNewParams {
	return sdk.MessageNewParams{
		Model: model, MaxTokens: 500,
		Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(text))},
	}
}

// messageBothWays asks whole and streamed and returns the answer; both must agree.
func messageBothWays(t *testing.T, c sdk.Client, p sdk.MessageNewParams) sdk.Message {
	t.Helper()
	whole, err := c.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatalf("whole: %v", err)
	}
	stream := c.Messages.NewStreaming(t.Context(), p)
	var streamed sdk.Message
	for stream.Next() {
		if err := streamed.Accumulate(stream.Current()); err != nil {
			t.Fatalf("the SDK does not accept an event: %v", err)
		}
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		t.Fatalf("streamed: %v", err)
	}
	if w, s := plain(whole.Content), plain(streamed.Content); w != s {
		t.Errorf("whole %s and streamed %s differ", w, s)
	}
	if whole.StopReason != streamed.StopReason || whole.Usage.OutputTokens != streamed.Usage.OutputTokens ||
		whole.Usage.InputTokens != streamed.Usage.InputTokens || whole.Usage.OutputTokens == 0 {
		t.Errorf("whole %s %+v, streamed %s %+v", whole.StopReason, whole.Usage, streamed.StopReason, streamed.Usage)
	}
	return *whole
}

// plain is what blocks say, without their ids.
func plain(blocks []sdk.ContentBlockUnion) string {
	var b strings.Builder
	for _, c := range blocks {
		switch c.Type {
		case "text":
			b.WriteString("text:" + c.Text + ";")
		case "thinking":
			b.WriteString("thinking:" + c.Thinking + ";")
		case "tool_use":
			b.WriteString("call:" + c.Name + string(c.Input) + ";")
		default:
			b.WriteString("?" + c.Type + ";")
		}
	}
	return b.String()
}

func TestMessagesText(t *testing.T) {
	t.Parallel()
	messagesOverEngines(t, func(t *testing.T, s *e2e.Server, c sdk.Client) {
		for _, base := range []string{"/anthropic", ""} { // both bases serve
			got := messageBothWays(t, messagesClient(t, s, base, s.Key(app.NewKey{})), message("chat", "[[say=Blue — синий — 青 🟦]]"))
			if text := plain(got.Content); text != "text:Blue — синий — 青 🟦;" || got.StopReason != "end_turn" || got.Model != "chat" {
				t.Errorf("%q: %s, stop %s, model %s", base, text, got.StopReason, got.Model)
			}
		}
		p := message("chat", "[[tokens=50]]")
		p.MaxTokens = 7
		if got := messageBothWays(t, c, p); got.StopReason != "max_tokens" || got.Usage.OutputTokens != 7 {
			t.Errorf("stop %s after %d tokens, want max_tokens after 7", got.StopReason, got.Usage.OutputTokens)
		}
	})
}

func TestMessagesToolRoundTrip(t *testing.T) {
	t.Parallel()
	messagesOverEngines(t, func(t *testing.T, _ *e2e.Server, c sdk.Client) {
		p := message("chat", "Call weather and clock for Oslo")
		for _, name := range []string{"weather", "clock"} {
			p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
				Name: name, Description: sdk.String("Tells the " + name),
				InputSchema: sdk.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}, Required: []string{"city"}},
			}})
		}
		got := messageBothWays(t, c, p)
		p.Messages = append(p.Messages, got.ToParam())
		var results []sdk.ContentBlockParamUnion
		ids := map[string]bool{}
		for _, block := range got.Content {
			if block.Type != "tool_use" {
				continue
			}
			var args struct{ City string }
			if err := json.Unmarshal(block.Input, &args); err != nil || args.City == "" {
				t.Errorf("input %s is no object with a city: %v", block.Input, err)
			}
			ids[block.ID] = true
			results = append(results, sdk.NewToolResultBlock(block.ID, "result of "+block.Name, false))
		}
		if got.StopReason != "tool_use" || len(ids) != 2 {
			t.Fatalf("stop %s with %s, want two parallel calls", got.StopReason, plain(got.Content))
		}
		p.Messages = append(p.Messages, sdk.NewUserMessage(results...))
		if got := messageBothWays(t, c, p); !strings.Contains(plain(got.Content), "result of") {
			t.Errorf("answer %s does not use the results", plain(got.Content))
		}
	})
}

func TestMessagesThinking(t *testing.T) {
	t.Parallel()
	messagesOverEngines(t, func(t *testing.T, _ *e2e.Server, c sdk.Client) {
		p := message("think", "[[think=Let me see.]][[say=It is blue.]]")
		if got := messageBothWays(t, c, p); plain(got.Content) != "text:It is blue.;" {
			t.Errorf("without thinking: %s", plain(got.Content))
		}
		p.MaxTokens = 3000
		p.Thinking = sdk.ThinkingConfigParamOfEnabled(1024)
		got := messageBothWays(t, c, p)
		if plain(got.Content) != "thinking:Let me see.;text:It is blue.;" {
			t.Errorf("with thinking: %s", plain(got.Content))
		}
		if got.Content[0].Signature == "" {
			t.Error("the thinking has no signature")
		}
		p.Messages = append(p.Messages, got.ToParam(), sdk.NewUserMessage(sdk.NewTextBlock("[[say=Still blue.]]")))
		if got := messageBothWays(t, c, p); !strings.Contains(plain(got.Content), "text:Still blue.;") {
			t.Errorf("after a turn of thinking: %s", plain(got.Content))
		}
	})
}

func TestMessagesImages(t *testing.T) {
	t.Parallel()
	messagesOverEngines(t, func(t *testing.T, _ *e2e.Server, c sdk.Client) {
		_, data, _ := strings.Cut(picture(t, 13, 7), ",")
		if _, err := base64.StdEncoding.DecodeString(data); err != nil {
			t.Fatal(err)
		}
		p := message("chat", "")
		p.Messages = []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("What is it?"), sdk.NewImageBlockBase64("image/png", data))}
		if text := plain(messageBothWays(t, c, p).Content); !strings.Contains(text, "13") || !strings.Contains(text, "7") {
			t.Errorf("answer %s does not know the picture of 13 x 7", text)
		}
	})
}

func TestMessagesCountAndModels(t *testing.T) {
	t.Parallel()
	messagesOverEngines(t, func(t *testing.T, s *e2e.Server, c sdk.Client) {
		count, err := c.Messages.CountTokens(t.Context(), sdk.MessageCountTokensParams{
			Model: "chat", Messages: message("chat", strings.Repeat("word ", 100)).Messages,
		})
		if err != nil || count.InputTokens < 80 || count.InputTokens > 300 {
			t.Errorf("count %+v, %v; want some 100", count, err)
		}
		page, err := c.Models.List(t.Context(), sdk.ModelListParams{Limit: sdk.Int(2)})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range page.Data {
			names = append(names, m.ID)
		}
		if got := strings.Join(names, " "); got != "chat embed" || !page.HasMore {
			t.Errorf("first page of two: %q, more %v", got, page.HasMore)
		}
		one, err := c.Models.Get(t.Context(), "think", sdk.ModelGetParams{})
		if err != nil || one.ID != "think" || one.MaxInputTokens == 0 {
			t.Errorf("model %+v, %v", one, err)
		}
		// The same path, three readers.
		key := s.Key(app.NewKey{})
		if got := s.Do("GET", "/v1/models", key, ""); !strings.Contains(got.Body, `"object":"list"`) {
			t.Errorf("OpenAI's shape: %s", got.Body)
		}
		if got := s.Do("GET", "/v1/models", key, "", "Anthropic-Version", "2023-06-01"); !strings.Contains(got.Body, `"display_name"`) {
			t.Errorf("Anthropic's shape: %s", got.Body)
		}
	})
}

func TestMessagesErrors(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
		Cluster:  `backends: [{name: sim, engine: vllm, url: "%sim%"}, {name: gone, engine: vllm, url: "http://127.0.0.1:1", models: [{name: absent}]}]`,
	})
	key := s.Key(app.NewKey{})
	narrow := s.Key(app.NewKey{Models: []string{"think"}})
	hi := `"max_tokens":10,"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct {
		name, path, key, body string
		status                int
		kind, mentions        string
	}{
		{"no key", "/v1/messages", "", `{}`, 401, "authentication_error", "key"},
		{"bad JSON", "/v1/messages", key, `{"model":`, 400, "invalid_request_error", "byte"},
		{"field at fault", "/anthropic/v1/messages", key, `{"model":"chat","temperature":"hot",` + hi + `}`, 400, "invalid_request_error", "temperature"},
		{"no bound", "/v1/messages", key, `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`, 400, "invalid_request_error", "max_tokens"},
		{"unknown model", "/v1/messages", key, `{"model":"nobody",` + hi + `}`, 404, "not_found_error", "nobody"},
		{"model not allowed", "/v1/messages", narrow, `{"model":"chat",` + hi + `}`, 403, "permission_error", "chat"},
		{"configured but down", "/v1/messages", key, `{"model":"absent",` + hi + `}`, 529, "overloaded_error", ""},
		{"prompt too long", "/v1/messages", key, `{"model":"chat","max_tokens":10,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 40_000) + `"}]}`, 400, "invalid_request_error", "prompt is too long: "},
		{"no such path", "/anthropic/v1/nothing", key, `{}`, 404, "not_found_error", "/anthropic/v1/nothing"},
		{"batches", "/v1/messages/batches", key, `{}`, 404, "not_found_error", "not offered"},
		{"base URL with a version too many", "/anthropic/v1/v1/messages", key, `{}`, 404, "not_found_error", "base URL"},
	} {
		for _, stream := range []string{"", `"stream":true,`} {
			body := strings.Replace(tt.body, `{"model"`, `{`+stream+`"model"`, 1)
			got := s.Post(tt.path, tt.key, body)
			var reply struct {
				Type      string
				Error     struct{ Type, Message string }
				RequestID string `json:"request_id"`
			}
			if err := json.Unmarshal([]byte(got.Body), &reply); err != nil {
				t.Errorf("%s: %v in %s", tt.name, err, got.Body)
			}
			if got.Status != tt.status || reply.Type != "error" || reply.Error.Type != tt.kind || !strings.Contains(reply.Error.Message, tt.mentions) {
				t.Errorf("%s: %d %s; want %d %s with %q", tt.name, got.Status, got.Body, tt.status, tt.kind, tt.mentions)
			}
			if reply.RequestID == "" || got.Header.Get("Request-Id") != reply.RequestID {
				t.Errorf("%s: request id %q in the body, %q in the header", tt.name, reply.RequestID, got.Header.Get("Request-Id"))
			}
			if tt.status == 529 && got.Header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", tt.name)
			}
		}
	}
	for _, path := range []string{"/api/hello", "/anthropic", "/anthropic/"} {
		for _, method := range []string{"GET", "HEAD"} {
			if got := s.Do(method, path, "", ""); got.Status != http.StatusOK {
				t.Errorf("%s %s: %d", method, path, got.Status)
			}
		}
	}
}
