package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"mindrouter/internal/app"
	"mindrouter/internal/dialect/openai/responsestest"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// responsesClient is the official client, with the strict reader of streams beside it.
func responsesClient(t *testing.T, s *e2e.Server, key string) openai.Client {
	t.Helper()
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			resp, err := next(r)
			if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				resp.Body = &checkedBody{ReadCloser: resp.Body, check: func(raw []byte) {
					if _, err := responsestest.CheckStream(raw); err != nil {
						t.Errorf("stream: %v\n%s", err, raw)
					}
				}}
			}
			return resp, err
		}))
}

func responsesOverEngines(t *testing.T, test func(t *testing.T, s *e2e.Server, c openai.Client)) {
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
			test(t, s, responsesClient(t, s, s.Key(app.NewKey{})))
		})
	}
}

func respond(model, text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(text)}, Store: param.NewOpt(false),
	}
}

// outline is what a response says, without its ids.
func outline(r responses.Response) string {
	var b strings.Builder
	for _, item := range r.Output {
		switch item.Type {
		case "message":
			for _, c := range item.Content {
				b.WriteString("text:" + c.Text + ";")
			}
		case "reasoning":
			for _, c := range item.AsReasoning().Content {
				b.WriteString("thinking:" + c.Text + ";")
			}
		case "function_call":
			call := item.AsFunctionCall()
			b.WriteString("call:" + call.Name + call.Arguments + ";")
		default:
			b.WriteString("?" + item.Type + ";")
		}
	}
	return b.String()
}

// respondBothWays asks whole and streamed; both must agree.
func respondBothWays(t *testing.T, c openai.Client, p responses.ResponseNewParams) responses.Response {
	t.Helper()
	whole, err := c.Responses.New(t.Context(), p)
	if err != nil {
		t.Fatalf("whole: %v", err)
	}
	stream := c.Responses.NewStreaming(t.Context(), p)
	var last responses.Response
	var text strings.Builder
	for stream.Next() {
		ev := stream.Current()
		switch ev.Type {
		case "response.completed", "response.incomplete":
			last = ev.Response
		case "response.output_text.delta":
			text.WriteString(ev.Delta)
		}
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		t.Fatalf("streamed: %v", err)
	}
	if outline(*whole) != outline(last) || whole.Status != last.Status || whole.Usage.OutputTokens != last.Usage.OutputTokens ||
		whole.Usage.OutputTokens == 0 || text.String() != whole.OutputText() {
		t.Errorf("whole %s %s %d, streamed %s %s %d", whole.Status, outline(*whole), whole.Usage.OutputTokens, last.Status, outline(last), last.Usage.OutputTokens)
	}
	return *whole
}

func TestResponsesText(t *testing.T) {
	t.Parallel()
	responsesOverEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		got := respondBothWays(t, c, respond("chat", "[[say=Blue — синий — 青 🟦]]"))
		if outline(got) != "text:Blue — синий — 青 🟦;" || got.Status != "completed" || got.Model != "chat" {
			t.Errorf("%s %s %s", got.Status, outline(got), got.Model)
		}
		p := respond("chat", "[[tokens=50]]")
		p.MaxOutputTokens = param.NewOpt[int64](7)
		if got := respondBothWays(t, c, p); got.Status != "incomplete" || got.IncompleteDetails.Reason != "max_output_tokens" {
			t.Errorf("status %s because %s, want incomplete because of max_output_tokens", got.Status, got.IncompleteDetails.Reason)
		}
	})
}

func TestResponsesToolsAndThinking(t *testing.T) {
	t.Parallel()
	responsesOverEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := respond("chat", "Call weather for Oslo")
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name: "weather", Description: param.NewOpt("Tells the weather"),
			Parameters: map[string]any{"type": "object", "required": []string{"city"}, "properties": map[string]any{"city": map[string]any{"type": "string"}}},
		}}}
		got := respondBothWays(t, c, p)
		call := got.Output[len(got.Output)-1].AsFunctionCall()
		if call.Name != "weather" || !strings.Contains(call.Arguments, "city") {
			t.Fatalf("got %s, want a call of weather", outline(got))
		}
		p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage("Call weather for Oslo", responses.EasyInputMessageRoleUser),
			responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name),
			{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: param.NewOpt(call.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt("result of weather")},
			}},
		}}
		if got := respondBothWays(t, c, p); !strings.Contains(outline(got), "result of") {
			t.Errorf("answer %s does not use the result", outline(got))
		}

		p = respond("think", "[[think=Let me see.]][[say=It is blue.]]")
		p.Include = []responses.ResponseIncludable{"reasoning.encrypted_content"}
		got = respondBothWays(t, c, p)
		if outline(got) != "thinking:Let me see.;text:It is blue.;" {
			t.Errorf("got %s", outline(got))
		}
		if sealed := got.Output[0].AsReasoning().EncryptedContent; sealed == "" || strings.Contains(sealed, "Let me see") {
			t.Errorf("encrypted reasoning %q", sealed)
		}
	})
}

func TestResponsesAreStored(t *testing.T) {
	t.Parallel()
	responsesOverEngines(t, func(t *testing.T, s *e2e.Server, c openai.Client) {
		p := respond("chat", "[[say=My name is Ada.]]")
		p.Store = param.Opt[bool]{} // the protocol's default
		first := respondBothWays(t, c, p)
		again, err := c.Responses.Get(t.Context(), first.ID, responses.ResponseGetParams{})
		if err != nil || outline(*again) != outline(first) {
			t.Fatalf("read back: %v, %v", again, err)
		}
		p = respond("chat", "[[say=Still Ada.]]")
		p.Store, p.PreviousResponseID = param.Opt[bool]{}, param.NewOpt(first.ID)
		second := respondBothWays(t, c, p)
		if second.PreviousResponseID != first.ID {
			t.Errorf("previous response %q, want %q", second.PreviousResponseID, first.ID)
		}
		// The server behind saw the whole conversation.
		sent := s.Backends["sim"].InferenceRequests()
		if body := string(sent[len(sent)-1].Body); !strings.Contains(body, "My name is Ada.") || !strings.Contains(body, "Still Ada.") {
			t.Errorf("the backend was sent %s", body)
		}
		items, err := c.Responses.InputItems.List(t.Context(), first.ID, responses.InputItemListParams{})
		if err != nil || len(items.Data) != 1 {
			t.Errorf("input items: %+v, %v", items, err)
		}
		// Nobody else sees it, and nobody sees it after its end.
		var apiErr *openai.Error
		other := responsesClient(t, s, s.Key(app.NewKey{User: "nosy"}))
		if _, err := other.Responses.Get(t.Context(), first.ID, responses.ResponseGetParams{}); !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound {
			t.Errorf("somebody else: %v, want 404", err)
		}
		p.PreviousResponseID = param.NewOpt(first.ID)
		if _, err := other.Responses.New(t.Context(), p); !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound || apiErr.Code != "previous_response_not_found" {
			t.Errorf("somebody else continues it: %v, want 404 previous_response_not_found", err)
		}
		if err := c.Responses.Delete(t.Context(), first.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, err := c.Responses.Get(t.Context(), first.ID, responses.ResponseGetParams{}); !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound {
			t.Errorf("after delete: %v, want 404", err)
		}
		p = respond("chat", "[[say=Forget me.]]")
		gone := respondBothWays(t, c, p)
		if _, err := c.Responses.Get(t.Context(), gone.ID, responses.ResponseGetParams{}); !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound {
			t.Errorf("store false: %v, want 404", err)
		}
	})
}

func TestResponsesCompressedBodies(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
	})
	key := s.Key(app.NewKey{})
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	body := enc.EncodeAll([]byte(`{"model":"chat","input":"[[say=Blue]]","store":false}`), nil)
	if got := s.Post("/v1/responses", key, string(body), "Content-Encoding", "zstd"); got.Status != http.StatusOK || !strings.Contains(got.Body, `"Blue"`) {
		t.Errorf("zstd: %d %s", got.Status, got.Body)
	}
	bomb := enc.EncodeAll(bytes.Repeat([]byte{' '}, 64<<20), nil)
	for name, tt := range map[string]struct {
		body, encoding string
		status         int
	}{
		"a bomb":           {string(bomb), "zstd", http.StatusRequestEntityTooLarge},
		"not what it says": {`{"model":"chat"}`, "zstd", http.StatusBadRequest},
		"cut":              {string(body[:len(body)-4]), "zstd", http.StatusBadRequest},
		"unknown":          {string(body), "br", http.StatusBadRequest},
	} {
		got := s.Post("/v1/responses", key, tt.body, "Content-Encoding", tt.encoding)
		var reply struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(got.Body), &reply); err != nil || got.Status != tt.status || reply.Error.Message == "" {
			t.Errorf("%s: %d %s, want %d", name, got.Status, got.Body, tt.status)
		}
	}
	count := s.Post("/v1/responses/input_tokens", key, `{"model":"chat","input":"one two three four"}`)
	var n struct {
		Object string
		Tokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(count.Body), &n); err != nil || n.Object != "response.input_tokens" || n.Tokens < 4 {
		t.Errorf("input_tokens: %d %s %v", count.Status, count.Body, err)
	}
}
