package anthropic_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/dialect/anthropic/anthropictest"
	"mindrouter/internal/llm"
)

// signature is the one of the block "t" of the model alias without a key.
const signature = "gw1._pO4PJ5OdVB2fReG2ct1rA"

func TestEncodeResponse(t *testing.T) {
	t.Parallel()
	const head = `{"id":"msg_0192aa","type":"message","role":"assistant","model":"alias","content":[`
	const usage = `,"container":null,"diagnostics":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":2,"server_tool_use":null}}` + "\n"
	refusal := llm.Block{Kind: llm.BlockRefusal, Text: "no"}
	matched := response(llm.StopSequence, llm.TextBlock("a"))
	matched.Choices[0].StopSequence = "END"
	for name, c := range map[string]struct {
		resp *llm.Response
		req  llm.Request
		want string
	}{
		"text":    {resp: response(llm.StopEnd, llm.TextBlock("a\u2028\"<\xff")), want: "{\"type\":\"text\",\"text\":\"a\u2028\\\"<\\ufffd\",\"citations\":null}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"stop_details\":null"},
		"nothing": {resp: response(llm.StopEnd), want: `],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null`},
		"thinking": {
			resp: response(llm.StopMaxTokens, thought("t"), llm.TextBlock("a")),
			want: `{"type":"thinking","thinking":"t","signature":"` + signature + `"},{"type":"text","text":"a","citations":null}],"stop_reason":"max_tokens","stop_sequence":null,"stop_details":null`,
		},
		"omitted thinking": {
			resp: response(llm.StopEnd, thought("t")), req: llm.Request{Thinking: llm.Thinking{Mode: llm.ThinkingAdaptive, Omitted: true}},
			want: `{"type":"thinking","thinking":"","signature":"` + signature + `"}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null`,
		},
		"thinking with a signature of its own": {
			resp: response(llm.StopContextFull, llm.Block{Kind: llm.BlockThinking, Text: "t", Signature: "own"}),
			want: `{"type":"thinking","thinking":"t","signature":"own"}],"stop_reason":"model_context_window_exceeded","stop_sequence":null,"stop_details":null`,
		},
		"calls keep their bytes": {
			resp: response(llm.StopToolUse, call("c", "f", `{"id":12345678901234567890,"x":1.0}`), call("d", "g", ""), call("e", "h", " ")),
			want: `{"type":"tool_use","id":"c","name":"f","input":{"id":12345678901234567890,"x":1.0}},{"type":"tool_use","id":"d","name":"g","input":{}},` +
				`{"type":"tool_use","id":"e","name":"h","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"stop_details":null`,
		},
		"calls end with tool_use whatever the server says": {
			resp: response(llm.StopEnd, llm.TextBlock("a"), call("c", "f", `{}`)),
			want: `{"type":"text","text":"a","citations":null},{"type":"tool_use","id":"c","name":"f","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"stop_details":null`,
		},
		"cut call": {
			resp: response(llm.StopMaxTokens, call("c", "f", `{"a`)),
			want: `{"type":"tool_use","id":"c","name":"f","input":{}}],"stop_reason":"max_tokens","stop_sequence":null,"stop_details":null`,
		},
		"refusal": {
			resp: response(llm.StopEnd, refusal),
			want: `{"type":"text","text":"no","citations":null}],"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":null,"explanation":null}`,
		},
		"filter":                     {resp: response(llm.StopRefusal), want: `],"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":null,"explanation":null}`},
		"stop sequence":              {resp: matched, want: `{"type":"text","text":"a","citations":null}],"stop_reason":"stop_sequence","stop_sequence":"END","stop_details":null`},
		"the only sequence is known": {resp: response(llm.StopSequence), req: llm.Request{Stop: []string{"X"}}, want: `],"stop_reason":"stop_sequence","stop_sequence":"X","stop_details":null`},
		"one of two is not":          {resp: response(llm.StopSequence), req: llm.Request{Stop: []string{"X", "Y"}}, want: `],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null`},
		"other blocks are left out":  {resp: response(llm.StopEnd, llm.Block{Kind: llm.BlockImage}, llm.TextBlock("a")), want: `{"type":"text","text":"a","citations":null}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null`},
	} {
		got, err := whole(t, &c.req, c.resp)
		if err != nil || string(got) != head+c.want+usage {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, head+c.want+usage)
		}
	}
}

func TestEncodeResponseRefusesWhatItCannotSay(t *testing.T) {
	t.Parallel()
	for name, resp := range map[string]*llm.Response{
		"no answer":                {},
		"input cut without reason": response(llm.StopToolUse, call("c", "f", `{"a`)),
		"input is no object":       response(llm.StopToolUse, call("c", "f", `null`)),
		"input is two objects":     response(llm.StopEnd, call("c", "f", `{}{}`)),
	} {
		if _, err := whole(t, &llm.Request{}, resp); llm.CodeOf(err) != llm.CodeUpstream {
			t.Errorf("%s: %v", name, err)
		}
		if resp.Choices == nil {
			continue
		}
		if m := received(t, &llm.Request{}, llm.Events(resp)); m.Error == nil || m.Error.Type != "api_error" {
			t.Errorf("%s: the stream is passed as complete: %+v", name, m)
		}
	}
}

func TestEncodeStreamByteForByte(t *testing.T) {
	t.Parallel()
	resp := response(llm.StopToolUse, thought("t"), llm.TextBlock("a\n"), call("c", "f", `{"a":"<"}`), call("d", "g", ""))
	resp.Usage.Reasoning = 1
	want := `event: message_start
data: {"type":"message_start","message":{"id":"msg_0192aa","type":"message","role":"assistant","model":"alias","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"server_tool_use":null}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"t"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` + signature + `"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":null}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a\n"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"<\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"d","name":"g","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":2,"output_tokens_details":{"thinking_tokens":1},"server_tool_use":null}}

event: message_stop
data: {"type":"message_stop"}

`
	req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{llm.TextBlock("hi")}}}}
	if got := streamed(t, req, llm.Events(resp)); string(got) != want {
		t.Errorf("stream\n got %s\nwant %s", got, want)
	}
}

// answers are whole answers of every kind.
func answers() map[string]*llm.Response {
	matched := response(llm.StopSequence, llm.TextBlock("a"))
	matched.Choices[0].StopSequence = "END"
	return map[string]*llm.Response{
		"text":                {Choices: []llm.Choice{{Blocks: []llm.Block{llm.TextBlock("Blue \u2028 🐦 \x00")}, StopReason: llm.StopEnd}}},
		"nothing":             response(llm.StopEnd),
		"thinking":            response(llm.StopEnd, thought("t"), llm.TextBlock("a")),
		"thinking after tool": response(llm.StopToolUse, thought("t"), call("c", "f", `{"a":1}`), thought("u"), llm.TextBlock("a")),
		"calls":               response(llm.StopToolUse, llm.TextBlock("a"), call("c", "f", "{\"n\": 1.0,\n\"b\":[]}"), call("d", "g", "")),
		"blank input":         response(llm.StopToolUse, call("c", "f", " \n")),
		"cut call":            response(llm.StopMaxTokens, call("c", "f", `{"a`)),
		"refusal":             response(llm.StopEnd, llm.Block{Kind: llm.BlockRefusal, Text: "no"}),
		"filter":              response(llm.StopRefusal, llm.TextBlock("a")),
		"stop sequence":       matched,
		"context full":        response(llm.StopContextFull, llm.TextBlock("a")),
	}
}

func TestStreamAndWholeAnswerSayTheSame(t *testing.T) {
	t.Parallel()
	for _, req := range []*llm.Request{{}, {Thinking: llm.Thinking{Omitted: true}}} {
		for name, resp := range answers() {
			body, err := whole(t, req, resp)
			if err != nil {
				t.Fatal(err)
			}
			var want anthropictest.Message
			if err := json.Unmarshal(body, &want); err != nil {
				t.Fatalf("%s: %v in %s", name, err, body)
			}
			got := received(t, req, llm.Events(resp))
			got.Started = anthropictest.Usage{}
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("%s\nstream %+v\n whole %+v", name, *got, want)
			}
		}
	}
}

func TestSignatureDependsOnKeyModelAndText(t *testing.T) {
	t.Parallel()
	sign := func(model, text string, key byte) string {
		var out bytes.Buffer
		codec := anthropic.Messages{Sign: func(data []byte) [32]byte {
			sum := [32]byte{key}
			copy(sum[1:], data)
			return sum
		}}
		enc := codec.NewEncoder(&out, dialect.Reply{RequestID: "1", Model: model})
		if err := enc.EncodeResponse(response(llm.StopEnd, thought(text))); err != nil {
			t.Fatal(err)
		}
		var m anthropictest.Message
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m.Content[0].Signature
	}
	seen := map[string]bool{}
	for _, s := range []string{sign("m", "t", 1), sign("m", "u", 1), sign("n", "t", 1), sign("m", "t", 2)} {
		if seen[s] || !strings.HasPrefix(s, "gw1.") || len(s) != len(signature) {
			t.Errorf("signature %q", s)
		}
		seen[s] = true
	}
	if again := sign("m", "t", 1); !seen[again] {
		t.Errorf("the signature of the same text changes to %q", again)
	}
}

func TestEncoderEndsOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := anthropic.Messages{}.NewEncoder(&out, dialect.Reply{RequestID: "1", Model: "m", Request: &llm.Request{Stream: true}})
	if enc.ContentType() != "text/event-stream" {
		t.Errorf("content type %q", enc.ContentType())
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
	seen, err := anthropictest.CheckStream(out.Bytes())
	if err != nil || seen.Error == nil || seen.Error.Type != "api_error" {
		t.Errorf("an unfinished stream was closed as %+v, %v", seen, err)
	}
	length := out.Len()
	if enc.Close() == nil || enc.EncodeError(llm.Errorf(llm.CodeInternal, "x")) == nil || enc.Encode(llm.Event{}) == nil ||
		enc.EncodeResponse(response(llm.StopEnd)) == nil || enc.KeepAlive() != nil || out.Len() != length {
		t.Error("the encoder writes after its end")
	}
}

func TestCloseOfNothingIsAnError(t *testing.T) {
	t.Parallel()
	m := received(t, &llm.Request{}, func(func(llm.Event, error) bool) {})
	if m.Error == nil || m.Error.Type != "api_error" || m.Error.Message != "the model server sent no answer" {
		t.Errorf("message %+v", m)
	}
}

func TestStartAloneWritesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := anthropic.Messages{}.NewEncoder(&out, dialect.Reply{Request: &llm.Request{Stream: true}})
	for _, kind := range []llm.EventKind{llm.EventStart, llm.EventUsage, llm.EventKeepAlive} {
		if err := enc.Encode(llm.Event{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("before the first part of an answer %q was written; a refusal could have no true status then", out.String())
	}
}

func TestPingNeverPrecedesMessageStart(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := anthropic.Messages{}.NewEncoder(&out, dialect.Reply{RequestID: "1", Model: "m", Request: &llm.Request{Stream: true}})
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(enc.KeepAlive())
	step(enc.KeepAlive())
	for ev, err := range llm.Events(response(llm.StopEnd, llm.TextBlock("a"))) {
		step(err)
		step(enc.Encode(ev))
		step(enc.KeepAlive())
	}
	step(enc.Close())
	if m, err := anthropictest.CheckStream(out.Bytes()); err != nil || m.Pings != 8 {
		t.Errorf("%+v, %v in\n%s", m, err, out.String())
	}
	out.Reset()
	enc = anthropic.Messages{}.NewEncoder(&out, dialect.Reply{Request: &llm.Request{}})
	if err := enc.KeepAlive(); err != nil || out.Len() > 0 {
		t.Errorf("a whole answer begins with %q, %v", out.String(), err)
	}
}

func TestMessageStartHasTheCountOfTheBackend(t *testing.T) {
	t.Parallel()
	m := received(t, &llm.Request{}, func(yield func(llm.Event, error) bool) {
		_ = yield(llm.Event{Kind: llm.EventStart, Usage: &llm.Usage{Input: 26, CachedInput: 16}}, nil) &&
			yield(llm.Event{Kind: llm.EventBlockStart, Block: llm.BlockText}, nil) &&
			yield(llm.Event{Kind: llm.EventDelta, Block: llm.BlockText, Text: "12345678"}, nil) &&
			yield(llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: 26, CachedInput: 16, Output: 3}}, nil) &&
			yield(llm.Event{Kind: llm.EventBlockStop, Block: llm.BlockText}, nil) &&
			yield(llm.Event{Kind: llm.EventStop, StopReason: llm.StopEnd}, nil) &&
			yield(llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: 26, CachedInput: 16, Output: 7}}, nil)
	})
	if m.Started != (anthropictest.Usage{Input: 10, CacheRead: 16}) || m.Usage != (anthropictest.Usage{Input: 10, CacheRead: 16, Output: 7}) {
		t.Errorf("usage at the start %+v, at the end %+v", m.Started, m.Usage)
	}
}

func TestMissingUsageIsEstimated(t *testing.T) {
	t.Parallel()
	req := &llm.Request{
		Messages: []llm.Message{
			{Role: llm.RoleUser, Blocks: []llm.Block{llm.TextBlock(strings.Repeat("word", 10))}},
			{Role: llm.RoleTool, Blocks: []llm.Block{{Kind: llm.BlockToolResult, ToolResult: &llm.ToolResult{Content: []llm.Block{{Kind: llm.BlockImage, Media: &llm.Media{}}}}}}},
		},
		Tools: []llm.Tool{{Schema: json.RawMessage(`{"a":0000}`)}},
	}
	m := received(t, req, func(yield func(llm.Event, error) bool) {
		for ev, err := range llm.Events(response(llm.StopEnd, llm.TextBlock("12345678"))) {
			if ev.Kind != llm.EventUsage && !yield(ev, err) {
				return
			}
		}
	})
	if m.Started.Input != 1013 || m.Usage.Input != 1013 || m.Usage.Output != 2 {
		t.Errorf("usage at the start %+v, at the end %+v", m.Started, m.Usage)
	}
}

func TestOnlyTheFirstChoiceIsSent(t *testing.T) {
	t.Parallel()
	m := received(t, &llm.Request{}, func(yield func(llm.Event, error) bool) {
		for ev, err := range llm.Events(response(llm.StopEnd, llm.TextBlock("a"))) {
			other := ev
			other.Choice = 1
			if !yield(ev, err) || !yield(other, err) {
				return
			}
		}
	})
	if len(m.Content) != 1 || m.Content[0].Text != "a" {
		t.Errorf("message %+v", m)
	}
}
