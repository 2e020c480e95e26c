package anthropic_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"mindrouter/internal/dialect/anthropic/anthropictest"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// sse frames payloads as a server sends them.
func sse(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		b.WriteString("data: " + p + "\n\n")
	}
	return b.String()
}

// piece is a chunk with the given delta and, if it is not empty, finish reason.
func piece(delta, finish string) string {
	if finish == "" {
		return `{"id":"x","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":null}]}`
	}
	return `{"id":"x","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":"` + finish + `","stop_reason":null}]}`
}

// tool is a delta with a fragment of a tool call.
func tool(index int, id, name, arguments string) string {
	s := fmt.Sprintf(`"tool_calls":[{"index":%d,`, index)
	if id != "" {
		s += `"id":"` + id + `","type":"function",`
	}
	if name != "" {
		return piece(s+`"function":{"name":"`+name+`","arguments":"`+arguments+`"}}]`, "")
	}
	return piece(s+`"function":{"arguments":"`+arguments+`"}}]`, "")
}

const counts = `{"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":26,"completion_tokens":7,"total_tokens":33,"prompt_tokens_details":{"cached_tokens":16}}}`

// seen prints what a client sees.
func seen(m *anthropictest.Message) string {
	var parts []string
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			parts = append(parts, "text:"+b.Text)
		case "thinking":
			parts = append(parts, "thinking:"+b.Thinking)
		default:
			parts = append(parts, b.ID+":"+b.Name+":"+string(b.Input))
		}
	}
	if m.StopReason != "" {
		parts = append(parts, m.StopReason)
	}
	if m.StopSequence != nil {
		parts = append(parts, "="+*m.StopSequence)
	}
	if m.Error != nil {
		parts = append(parts, "error "+m.Error.Type)
	} else {
		parts = append(parts, fmt.Sprintf("%d+%d/%d", m.Usage.Input, m.Usage.CacheRead, m.Usage.Output))
	}
	return strings.Join(parts, " | ")
}

// vllm are answers as a server of the OpenAI protocol gives them, and what a client of this protocol sees.
var vllm = map[string]struct{ in, want string }{
	"text":                    {sse(piece(`"role":"assistant","content":""`, ""), piece(`"content":"Bl"`, ""), piece(`"content":"ue"`, ""), piece(``, "stop"), counts, "[DONE]"), "text:Blue | end_turn | 10+16/7"},
	"reasoning, then text":    {sse(piece(`"reasoning_content":"a"`, ""), piece(`"reasoning":"b"`, ""), piece(`"content":"c"`, ""), piece(``, "stop"), counts, "[DONE]"), "thinking:ab | text:c | end_turn | 10+16/7"},
	"both in one chunk":       {sse(piece(`"reasoning_content":"b.","content":"Hi"`, ""), piece(``, "stop"), counts, "[DONE]"), "thinking:b. | text:Hi | end_turn | 10+16/7"},
	"thinking after a tool":   {sse(piece(`"reasoning":"a"`, ""), tool(0, "c", "f", "{}"), piece(`"reasoning":"b"`, ""), piece(`"content":"d"`, ""), piece(``, "tool_calls"), counts, "[DONE]"), "thinking:a | c:f:{} | thinking:b | text:d | tool_use | 10+16/7"},
	"whole call in one delta": {sse(tool(0, "call_a", "add", `{\"x\":1}`), piece(``, "tool_calls"), counts, "[DONE]"), `call_a:add:{"x":1} | tool_use | 10+16/7`},
	"call in fragments":       {sse(tool(0, "call_a", "w", `{\"c`), tool(0, "", "", `ity\":`), tool(0, "", "", `\"Oslo\"}`), piece(``, "tool_calls"), counts, "[DONE]"), `call_a:w:{"city":"Oslo"} | tool_use | 10+16/7`},
	"arguments split inside an escape": {
		sse(tool(0, "c", "f", ""), tool(0, "", "", `{\"a\":\"\\`), tool(0, "", "", `u00`), tool(0, "", "", `e9\"`), tool(0, "", "", `}`), piece(``, "tool_calls"), counts, "[DONE]"),
		`c:f:{"a":"\u00e9"} | tool_use | 10+16/7`,
	},
	"index gap":         {sse(tool(0, "a", "f", "{}"), tool(2, "b", "g", "{}"), piece(``, "tool_calls"), counts, "[DONE]"), "a:f:{} | b:g:{} | tool_use | 10+16/7"},
	"interleaved calls": {sse(tool(0, "a", "f", `{\"x\"`), tool(1, "b", "g", `{\"y\"`), tool(0, "", "", `:1}`), tool(1, "", "", `:2}`), piece(``, "tool_calls"), counts, "[DONE]"), `a:f:{"x":1} | b:g:{"y":2} | tool_use | 10+16/7`},
	"no arguments":      {sse(tool(0, "a", "f", ""), tool(1, "b", "g", "{}"), piece(``, "tool_calls"), counts, "[DONE]"), "a:f:{} | b:g:{} | tool_use | 10+16/7"},
	"text before a call, finish stop": {
		sse(piece(`"content":"Let me check"`, ""), tool(0, "a", "f", "{}"), piece(``, "stop"), counts, "[DONE]"),
		"text:Let me check | a:f:{} | tool_use | 10+16/7",
	},
	"text with an empty list of calls": {sse(piece(`"content":"a","tool_calls":[]`, ""), piece(``, "stop"), counts, "[DONE]"), "text:a | end_turn | 10+16/7"},
	"no usage":                         {sse(piece(`"content":"12345678"`, ""), piece(``, "stop"), "[DONE]"), "text:12345678 | end_turn | 0+0/2"},
	"length":                           {sse(piece(`"content":"a"`, ""), piece(``, "length"), counts, "[DONE]"), "text:a | max_tokens | 10+16/7"},
	"length within a call":             {sse(tool(0, "a", "f", `{\"x`), piece(``, "length"), counts, "[DONE]"), "a:f:{} | max_tokens | 10+16/7"},
	"filter":                           {sse(piece(`"content":"a"`, ""), piece(``, "content_filter"), counts, "[DONE]"), "text:a | refusal | 10+16/7"},
	"stop sequence":                    {sse(piece(`"content":"a"`, ""), strings.Replace(piece(``, "stop"), `"stop_reason":null`, `"stop_reason":"END"`, 1), counts, "[DONE]"), "text:a | stop_sequence | =END | 10+16/7"},
	"stop by a token":                  {sse(piece(`"content":"a"`, ""), strings.Replace(piece(``, "stop"), `"stop_reason":null`, `"stop_reason":151645`, 1), counts, "[DONE]"), "text:a | end_turn | 10+16/7"},
	"error in the stream":              {sse(piece(`"content":"a"`, ""), piece(`"content":"b"`, ""), `{"error":{"message":"boom","code":500}}`), "text:ab | error api_error"},
	"cut in an event":                  {sse(piece(`"content":"a"`, "")) + `data: {"id":"x","cho`, "text:a | error api_error"},
	"cut before the end":               {sse(piece(`"content":"a"`, ""), "[DONE]"), "text:a | error api_error"},
	"call that is no JSON, not cut":    {sse(tool(0, "a", "f", `{x: 1}`), piece(``, "tool_calls"), counts, "[DONE]"), "a:f:{} | error api_error"},
	"emoji and half of a surrogate":    {sse(piece(`"content":"🐦\ud83d"`, ""), piece(``, "stop"), counts, "[DONE]"), "text:🐦\ufffd | end_turn | 10+16/7"},
}

func TestAnswersOfAnOpenAIServer(t *testing.T) {
	t.Parallel()
	for name, c := range vllm {
		for _, reader := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader,
		} {
			m := received(t, &llm.Request{}, llm.Check(openai.DecodeChatStream(reader(strings.NewReader(c.in)), openai.DecodeOptions{})))
			if got := seen(m); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", name, got, c.want)
			}
		}
	}
}

func TestAnswersOfOllama(t *testing.T) {
	t.Parallel()
	line := func(message string) string {
		return `{"model":"m","message":{"role":"assistant",` + message + `},"done":false}` + "\n"
	}
	done := func(reason string) string {
		return `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"` + reason + `","prompt_eval_count":26,"eval_count":7}` + "\n"
	}
	for name, c := range map[string]struct{ in, want string }{
		"text":     {line(`"content":"Bl"`) + line(`"content":"ue"`) + done("stop"), "text:Blue | end_turn | 26+0/7"},
		"thinking": {line(`"thinking":"t","content":""`) + line(`"content":"a"`) + done("stop"), "thinking:t | text:a | end_turn | 26+0/7"},
		"parallel calls": {
			line(`"content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"f","arguments":{"k":1}}}]`) +
				line(`"content":"","tool_calls":[{"id":"b","function":{"index":0,"name":"g","arguments":{}}}]`) + done("stop"),
			`a:f:{"k":1} | b:g:{} | tool_use | 26+0/7`,
		},
		"length": {line(`"content":"a"`) + done("length"), "text:a | max_tokens | 26+0/7"},
		"error":  {line(`"content":"a"`) + `{"error":"boom"}` + "\n", "text:a | error api_error"},
	} {
		m := received(t, &llm.Request{}, llm.Check(ollama.DecodeChatStream(strings.NewReader(c.in), ollama.DecodeOptions{})))
		if got := seen(m); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestThinkingThatWasNotAskedForIsKeptOut(t *testing.T) {
	t.Parallel()
	in := sse(piece(`"reasoning":"t"`, ""), piece(`"content":"a"`, ""), piece(``, "stop"), counts, "[DONE]")
	r, _ := decode(t, with(``))
	o := openai.CallOptions{}
	if got := seen(received(t, r, openai.DecodeChatStream(strings.NewReader(in), o.Decode(r)))); got != "text:a | end_turn | 10+16/7" {
		t.Errorf("not asked: %s", got)
	}
	r, _ = decode(t, with(`"thinking":{"type":"adaptive"}`))
	if got := seen(received(t, r, openai.DecodeChatStream(strings.NewReader(in), o.Decode(r)))); got != "thinking:t | text:a | end_turn | 10+16/7" {
		t.Errorf("asked: %s", got)
	}
	r, _ = decode(t, with(`"thinking":{"type":"adaptive","display":"omitted"}`))
	m := received(t, r, openai.DecodeChatStream(strings.NewReader(in), o.Decode(r)))
	if got := seen(m); got != "thinking: | text:a | end_turn | 10+16/7" || m.Content[0].Signature != signature {
		t.Errorf("omitted: %s, signature %q", got, m.Content[0].Signature)
	}
}

func TestASecondCallIsDroppedIfOneWasAskedFor(t *testing.T) {
	t.Parallel()
	r, _ := decode(t, with(`"tools":[`+f+`],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`))
	in := sse(tool(0, "a", "f", "{}"), tool(1, "b", "f", "{}"), piece(``, "tool_calls"), counts, "[DONE]")
	if got := seen(received(t, r, openai.DecodeChatStream(strings.NewReader(in), openai.CallOptions{}.Decode(r)))); got != "a:f:{} | tool_use | 10+16/7" {
		t.Errorf("got %s", got)
	}
}

func FuzzStream(f *testing.F) {
	for _, c := range vllm {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		// Whatever a server sends, the client gets a stream that obeys the grammar.
		received(t, &llm.Request{}, openai.DecodeChatStream(strings.NewReader(string(in)), openai.DecodeOptions{}))
	})
}
