package openai_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/dialect/openai/openaitest"
	"mindrouter/internal/llm"
)

// whole is a whole answer as a client reads it.
type whole struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int     `json:"index"`
		Message message `json:"message"`
		Finish  string  `json:"finish_reason"`
	} `json:"choices"`
	Usage *openaitest.Usage `json:"usage"`
}

type message struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Refusal   *string `json:"refusal"`
	Reasoning string  `json:"reasoning_content"`
	Calls     []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (m message) text() string {
	if m.Content == nil {
		return ""
	}
	return *m.Content
}

func (m message) refusal() string {
	if m.Refusal == nil {
		return ""
	}
	return *m.Refusal
}

// wholeAnswer encodes resp whole, decodes it strictly and returns it.
func wholeAnswer(t *testing.T, resp *llm.Response) whole {
	t.Helper()
	var w whole
	if err := json.Unmarshal(encodeWhole(t, resp, &llm.Request{}, ""), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

func encodeWhole(t *testing.T, resp *llm.Response, req *llm.Request, field string) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := openai.Chat{}.NewEncoder(&out, dialect.Reply{
		RequestID: "0192-aa", Model: "alias", Created: time.Unix(7, 0), Request: req, ReasoningField: field,
	})
	if enc.ContentType() != "application/json" {
		t.Errorf("content type %q", enc.ContentType())
	}
	if err := enc.EncodeResponse(resp); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func response(reason llm.StopReason, blocks ...llm.Block) *llm.Response {
	return &llm.Response{
		Choices: []llm.Choice{{Blocks: blocks, StopReason: reason}},
		Usage:   llm.Usage{Input: 9, CachedInput: 4, Output: 2, Reasoning: 1},
	}
}

func TestEncodeResponse(t *testing.T) {
	t.Parallel()
	const head = `{"id":"chatcmpl-0192aa","object":"chat.completion","created":7,"model":"alias","choices":[{"index":0,"message":{"role":"assistant",`
	const usage = `}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}}` + "\n"
	call := llm.Block{Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{"a":"<b>"}`)}}
	empty := llm.Block{Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "d", Name: "g"}}
	thought := llm.Block{Kind: llm.BlockThinking, Text: "t"}
	for name, c := range map[string]struct {
		resp  *llm.Response
		req   llm.Request
		field string
		want  string
	}{
		"text": {
			resp: response(llm.StopEnd, llm.TextBlock("a\u2028\"<")), want: "\"content\":\"a\u2028\\\"<\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"",
		},
		"nothing": {resp: response(llm.StopEnd), want: `"content":"","refusal":null},"logprobs":null,"finish_reason":"stop"`},
		"thinking": {
			resp: response(llm.StopMaxTokens, thought, llm.TextBlock("a")),
			want: `"content":"a","refusal":null,"reasoning_content":"t"},"logprobs":null,"finish_reason":"length"`,
		},
		"thinking by its new name": {
			resp: response(llm.StopContextFull, thought), field: "reasoning",
			want: `"content":"","refusal":null,"reasoning":"t"},"logprobs":null,"finish_reason":"length"`,
		},
		"thinking by both names": {
			resp: response(llm.StopSequence, thought), field: "both",
			want: `"content":"","refusal":null,"reasoning_content":"t","reasoning":"t"},"logprobs":null,"finish_reason":"stop"`,
		},
		"calls": {
			resp: response(llm.StopToolUse, call, empty),
			want: `"content":null,"refusal":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"<b>\"}"}},` +
				`{"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"`,
		},
		"legacy call": {
			resp: response(llm.StopToolUse, call), req: llm.Request{LegacyFunctions: true},
			want: `"content":null,"refusal":null,"function_call":{"name":"f","arguments":"{\"a\":\"<b>\"}"}},"logprobs":null,"finish_reason":"function_call"`,
		},
		"refusal": {
			resp: response(llm.StopRefusal, llm.Block{Kind: llm.BlockRefusal, Text: "no"}),
			want: `"content":null,"refusal":"no"},"logprobs":null,"finish_reason":"stop"`,
		},
		"filter": {resp: response(llm.StopRefusal), want: `"content":"","refusal":null},"logprobs":null,"finish_reason":"content_filter"`},
		"logprobs": {
			resp: &llm.Response{
				Choices: []llm.Choice{{StopReason: llm.StopEnd, Logprobs: []json.RawMessage{[]byte(`[{"token":"a"}]`), []byte(`[{"token":"b"},{"token":"c"}]`)}}},
				Usage:   llm.Usage{Input: 9, CachedInput: 4, Output: 2, Reasoning: 1},
			},
			want: `"content":"","refusal":null},"logprobs":{"content":[{"token":"a"},{"token":"b"},{"token":"c"}],"refusal":null},"finish_reason":"stop"`,
		},
	} {
		if got := string(encodeWhole(t, c.resp, &c.req, c.field)); got != head+c.want+usage {
			t.Errorf("%s:\n got %s\nwant %s", name, got, head+c.want+usage)
		}
	}
}

func TestEncodeStreamByteForByte(t *testing.T) {
	t.Parallel()
	resp := response(llm.StopToolUse, llm.Block{Kind: llm.BlockThinking, Text: "t"}, llm.TextBlock("a"),
		llm.Block{Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{"a":1}`)}},
		llm.Block{Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "d", Name: "g"}})
	const head = `data: {"id":"chatcmpl-0192aa","object":"chat.completion.chunk","created":7,"model":"alias","choices":[`
	var want strings.Builder
	for _, delta := range []string{
		`"role":"assistant","content":""`,
		`"reasoning_content":"t"`,
		`"content":"a"`,
		`"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]`,
		`"tool_calls":[{"index":1,"id":"d","type":"function","function":{"name":"g","arguments":""}}]`,
		`"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]`,
	} {
		want.WriteString(head + `{"index":0,"delta":{` + delta + `},"finish_reason":null}]}` + "\n\n")
	}
	want.WriteString(head + `{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n")
	want.WriteString(head + `],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}}` + "\n\ndata: [DONE]\n\n")
	got := encode(t, &llm.Request{Stream: true, IncludeUsage: true}, "", llm.Events(resp))
	if string(got) != want.String() {
		t.Errorf("stream\n got %s\nwant %s", got, want.String())
	}
}

func TestEncodeLegacyStream(t *testing.T) {
	t.Parallel()
	resp := response(llm.StopToolUse, llm.Block{Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{"a":1}`)}})
	got := string(encode(t, &llm.Request{Stream: true, LegacyFunctions: true}, "", llm.Events(resp)))
	for _, want := range []string{
		`"function_call":{"name":"f","arguments":""}`, `"function_call":{"arguments":"{\"a\":1}"}`, `"finish_reason":"function_call"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "tool_calls") {
		t.Errorf("tool_calls in a legacy answer: %s", got)
	}
}

func TestEncoderEndsOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := openai.Chat{}.NewEncoder(&out, dialect.Reply{RequestID: "1", Model: "m", Request: &llm.Request{Stream: true}})
	if enc.ContentType() != "text/event-stream" {
		t.Errorf("content type %q", enc.ContentType())
	}
	if err := enc.KeepAlive(); err != nil || out.String() != ": ka\n\n" {
		t.Errorf("keep-alive %q, %v", out.String(), err)
	}
	for _, ev := range []llm.Event{
		{Kind: llm.EventStart}, {Kind: llm.EventBlockStart, Block: llm.BlockText}, {Kind: llm.EventDelta, Block: llm.BlockText, Text: "a"},
	} {
		if err := enc.Encode(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil { // no stop was seen
		t.Fatal(err)
	}
	seen, err := openaitest.CheckStream(out.Bytes(), openaitest.Options{})
	if err != nil || seen.Error == nil {
		t.Errorf("an unfinished stream was closed as %+v, %v", seen, err)
	}
	length := out.Len()
	if enc.Close() == nil || enc.EncodeError(llm.Errorf(llm.CodeInternal, "x")) == nil || enc.Encode(llm.Event{}) == nil || out.Len() != length {
		t.Error("the encoder writes after its end")
	}
}

func TestStartAloneWritesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := openai.Chat{}.NewEncoder(&out, dialect.Reply{Request: &llm.Request{Stream: true}})
	for _, kind := range []llm.EventKind{llm.EventStart, llm.EventUsage, llm.EventKeepAlive} {
		if err := enc.Encode(llm.Event{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("before the first part of an answer %q was written; a refusal could have no true status then", out.String())
	}
}

func TestWriteError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err                *llm.Error
		status             int
		body, retry, again string
	}{
		"field": {
			llm.Invalid("stop[0]", "must be a string"), 400,
			`{"error":{"message":"stop[0]: must be a string","type":"invalid_request_error","param":"stop[0]","code":null}}`, "", "",
		},
		"context": {
			llm.Errorf(llm.CodeContextTooLong, "too long"), 400,
			`{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`, "", "",
		},
		"key":    {llm.Errorf(llm.CodeUnauthenticated, "no"), 401, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, "", ""},
		"model":  {llm.Errorf(llm.CodeModelNotFound, "no"), 404, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, "", ""},
		"budget": {llm.Errorf(llm.CodeBudgetSpent, "no"), 429, `{"error":{"message":"no","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, "", "false"},
		"rate": {
			&llm.Error{Code: llm.CodeRateLimited, Message: "slow", RetryAfter: 1500 * time.Millisecond}, 429,
			`{"error":{"message":"slow","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`, "2", "",
		},
		"upstream": {llm.Errorf(llm.CodeUpstream, "x"), 502, `{"error":{"message":"x","type":"server_error","param":null,"code":"upstream_error"}}`, "", ""},
		"overload": {llm.Errorf(llm.CodeOverloaded, "x"), 503, `{"error":{"message":"x","type":"server_error","param":null,"code":"overloaded"}}`, "5", ""},
		"timeout":  {llm.Errorf(llm.CodeTimeout, "x"), 504, `{"error":{"message":"x","type":"server_error","param":null,"code":"timeout"}}`, "", ""},
	} {
		w := httptest.NewRecorder()
		openai.Chat{}.WriteError(w, c.err.With(errNever), "id")
		h := w.Header()
		if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.body || h.Get("Retry-After") != c.retry ||
			h.Get("X-Should-Retry") != c.again || h.Get("Content-Type") != "application/json" || h.Get("X-Request-Id") != "id" {
			t.Errorf("%s: %d %v %s", name, w.Code, h, w.Body)
		}
	}
}

// errNever is a cause that must not reach a client.
var errNever = llm.Errorf(llm.CodeInternal, "http://10.0.0.1 secret")
