package openai_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/dialect/openai/openaitest"
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

// piece is a chunk of choice 0 with the given delta and, if it is not empty, finish reason.
func piece(delta, finish string) string {
	if finish == "" {
		return `{"id":"x","object":"chat.completion.chunk","created":7,"model":"up","choices":[{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":null}]}`
	}
	return `{"id":"x","object":"chat.completion.chunk","created":7,"model":"up","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":"` + finish + `","stop_reason":null}]}`
}

const counts = `{"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":26,"completion_tokens":7,"total_tokens":33}}`

// answer collects a stream, checked against the grammar, and prints it with its error.
func answer(r io.Reader, o openai.DecodeOptions) string {
	resp, err := llm.Collect(llm.Check(openai.DecodeChatStream(r, o)))
	var parts []string
	for _, c := range resp.Choices {
		s := shownBlocks(c.Blocks)
		if c.StopReason != "" {
			s += " " + string(c.StopReason)
		}
		if c.StopSequence != "" {
			s += "=" + c.StopSequence
		}
		if c.Logprobs != nil {
			s += fmt.Sprintf(" %s", c.Logprobs)
		}
		parts = append(parts, strings.TrimSpace(s))
	}
	u := resp.Usage
	if u != (llm.Usage{}) {
		s := fmt.Sprintf("%d/%d", u.Input, u.Output)
		if u.CachedInput > 0 || u.Reasoning > 0 {
			s += fmt.Sprintf("(%d,%d)", u.CachedInput, u.Reasoning)
		}
		if u.Estimated {
			s += "~"
		}
		parts = append(parts, s)
	}
	if err != nil {
		parts = append(parts, "error "+string(llm.CodeOf(err)))
	}
	return strings.Join(parts, " | ")
}

// streams are answers as backends give them, and what they mean.
var streams = map[string]struct {
	in, want string
	o        openai.DecodeOptions
}{
	"text": {
		in:   sse(piece(`"role":"assistant","content":""`, ""), piece(`"content":"Bl"`, ""), piece(`"content":"ue"`, ""), piece(``, "stop"), counts, "[DONE]"),
		want: "text:Blue end | 26/7",
	},
	"thinking, new key": {
		in:   sse(piece(`"role":"assistant"`, ""), piece(`"reasoning":"Let"`, ""), piece(`"reasoning":" me"`, ""), piece(`"content":"Hi"`, ""), piece(``, "stop"), counts, "[DONE]"),
		want: "thinking:Let me text:Hi end | 26/7",
	},
	"thinking, old key": {
		in:   sse(piece(`"reasoning_content":"a","content":null`, ""), piece(`"content":"b","reasoning_content":null`, "stop"), counts, "[DONE]"),
		want: "thinking:a text:b end | 26/7",
	},
	"both reasoning keys are one thought": {
		in:   sse(piece(`"reasoning":"a","reasoning_content":"a"`, ""), piece(`"content":"b"`, "stop"), counts, "[DONE]"),
		want: "thinking:a text:b end | 26/7",
	},
	"thinking and text in one chunk": {
		in:   sse(piece(`"reasoning_content":"a"`, ""), piece(`"content":"Hi","reasoning_content":"b."`, ""), piece(``, "stop"), counts, "[DONE]"),
		want: "thinking:ab. text:Hi end | 26/7",
	},
	"a whole call in one delta": {
		in:   sse(piece(`"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"add","arguments":"{\"x\":1}"}}]`, ""), piece(``, "tool_calls"), counts, "[DONE]"),
		want: `add({"x":1})#call_a tool_use | 26/7`,
	},
	"later fragments have no id": {
		in: sse(piece(`"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"w","arguments":"{\"c"}}]`, ""),
			piece(`"tool_calls":[{"index":0,"function":{"arguments":"ity\":"}}]`, ""),
			piece(`"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]`, ""), piece(``, "tool_calls"), counts, "[DONE]"),
		want: `w({"city":"Oslo"})#call_a tool_use | 26/7`,
	},
	"split inside an escape": {
		in: sse(piece(`"tool_calls":[{"index":0,"id":"a","function":{"name":"w","arguments":"{\"c\":\"\\u00"}}]`, ""),
			piece(`"tool_calls":[{"index":0,"function":{"arguments":"e9\"}"}}]`, "tool_calls"), counts, "[DONE]"),
		want: `w({"c":"\u00e9"})#a tool_use | 26/7`,
	},
	"index gap": {
		in: sse(piece(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":2,"id":"b","function":{"name":"g","arguments":"{}"}}]`, ""),
			piece(``, "tool_calls"), counts, "[DONE]"),
		want: `f({})#a g({})#b tool_use | 26/7`,
	},
	"interleaved calls": {
		in: sse(piece(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"p\":"}}]`, ""),
			piece(`"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"q\":"}}]`, ""),
			piece(`"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]`, ""), piece(`"tool_calls":[{"index":1,"function":{"arguments":"2}"}}]`, ""),
			piece(``, "tool_calls"), counts, "[DONE]"),
		want: `f({"p":1})#a g({"q":2})#b tool_use | 26/7`,
	},
	"missing index": {
		in: sse(piece(`"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"p\":"}}]`, ""), piece(`"tool_calls":[{"function":{"arguments":"1}"}}]`, ""),
			piece(`"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}}]`, "tool_calls"), counts, "[DONE]"),
		want: `f({"p":1})#a g({})#b tool_use | 26/7`,
	},
	"an empty list of calls is none": {
		in:   sse(piece(`"content":"a","tool_calls":[]`, ""), piece(`"content":"b","tool_calls":[]`, "stop"), counts, "[DONE]"),
		want: "text:ab end | 26/7",
	},
	"text, then a call that finishes with stop": {
		in:   sse(piece(`"content":"Let me check"`, ""), piece(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`, ""), piece(``, "stop"), counts, "[DONE]"),
		want: "text:Let me check f()#a tool_use | 26/7",
	},
	"legacy function_call": {
		in:   sse(piece(`"function_call":{"name":"f","arguments":""}`, ""), piece(`"function_call":{"arguments":"{}"}`, ""), piece(``, "function_call"), counts, "[DONE]"),
		want: "", // the id is ours: see below
	},
	"the old form beside the new one": {
		in:   sse(piece(`"function_call":{"name":"f","arguments":"{\"p\":"},"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"p\":"}}]`, ""), piece(`"function_call":{"name":"f","arguments":"1}"},"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}]`, "tool_calls"), counts, "[DONE]"),
		want: `f({"p":1})#a tool_use | 26/7`,
	},
	"finish chunk with a delta": {
		in: sse(piece(`"content":"a"`, "stop"), counts, "[DONE]"), want: "text:a end | 26/7",
	},
	"content in parts": {
		in: sse(piece(`"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "stop"), counts, "[DONE]"), want: "text:ab end | 26/7",
	},
	"refusal": {
		in: sse(piece(`"refusal":"I cannot"`, ""), piece(``, "stop"), counts, "[DONE]"), want: "refusal:I cannot end | 26/7",
	},
	"content filter": {
		in: sse(piece(`"content":"a"`, "content_filter"), counts, "[DONE]"), want: "text:a refusal | 26/7",
	},
	"length": {
		in: sse(piece(`"content":"a"`, "length"), counts, "[DONE]"), want: "text:a max_tokens | 26/7",
	},
	"length within the context": {
		in: sse(piece(`"content":"a"`, "length"), counts, "[DONE]"), want: "text:a max_tokens | 26/7", o: openai.DecodeOptions{ContextLength: 34},
	},
	"length by a full context": {
		in: sse(piece(`"content":"a"`, "length"), counts, "[DONE]"), want: "text:a context_full | 26/7", o: openai.DecodeOptions{ContextLength: 33},
	},
	"length without usage": {
		in: sse(piece(`"content":"abcd"`, "length"), "[DONE]"), want: "text:abcd max_tokens | 12/1~", o: openai.DecodeOptions{ContextLength: 33, InputTokens: 12},
	},
	"matched stop sequence": {
		in:   sse(strings.Replace(piece(`"content":"a"`, "stop"), `"stop_reason":null`, `"stop_reason":"END"`, 1), counts, "[DONE]"),
		want: "text:a stop=END | 26/7",
	},
	"stop token": {
		in:   sse(strings.Replace(piece(`"content":"a"`, "stop"), `"stop_reason":null`, `"stop_reason":151645`, 1), counts, "[DONE]"),
		want: "text:a end | 26/7",
	},
	"usage in every chunk": {
		in: sse(strings.Replace(piece(`"content":"a"`, ""), `"choices"`, `"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10},"choices"`, 1),
			strings.Replace(piece(`"content":"b"`, "stop"), `"choices"`, `"usage":{"prompt_tokens":9,"completion_tokens":2},"choices"`, 1), "[DONE]"),
		want: "text:ab end | 9/2",
	},
	"usage with details": {
		in:   sse(piece(`"content":"a"`, "stop"), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}}`, "[DONE]"),
		want: "text:a end | 9/5(4,3)",
	},
	"explicit zero usage is zero": {
		in: sse(piece(`"content":"a"`, "stop"), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}}`, "[DONE]"), want: "text:a end | 9/0",
	},
	"no usage at all": {
		in: sse(piece(`"content":"abcdefgh"`, "stop"), "[DONE]"), want: "text:abcdefgh end | 5/2~", o: openai.DecodeOptions{InputTokens: 5},
	},
	"usage null": {
		in: sse(strings.Replace(piece(`"content":"a"`, ""), `"choices"`, `"usage":null,"choices"`, 1), piece(``, "stop"), counts, "[DONE]"), want: "text:a end | 26/7",
	},
	"error null": {
		in: sse(strings.Replace(piece(`"content":"a"`, "stop"), `"choices"`, `"error":null,"choices"`, 1), counts, "[DONE]"), want: "text:a end | 26/7",
	},
	"DONE is missing": {
		in: sse(piece(`"content":"a"`, "stop"), counts), want: "text:a end | 26/7",
	},
	"no final blank line": {
		in: strings.TrimSuffix(sse(piece(`"content":"a"`, "stop"), counts), "\n\n"), want: "text:a end | 26/7",
	},
	"keep-alive comments": {
		in: ": ping\n\n" + sse(piece(`"content":"a"`, "")) + ": ping\n\n" + sse(piece(``, "stop"), counts, "[DONE]"), want: "text:a end | 26/7",
	},
	"CRLF": {
		in: strings.ReplaceAll(sse(piece(`"content":"a"`, "stop"), counts, "[DONE]"), "\n", "\r\n"), want: "text:a end | 26/7",
	},
	"data without space": {
		in: strings.ReplaceAll(sse(piece(`"content":"a"`, "stop"), counts, "[DONE] "), "data: ", "data:"), want: "text:a end | 26/7",
	},
	"one object over two data lines": {
		in: strings.ReplaceAll(sse(piece(`"content":"a"`, "stop"), counts, "[DONE]"), `"choices":`, "\ndata: \"choices\":"), want: "text:a end | 26/7",
	},
	"runes of several bytes": {
		in:   sse(piece(`"content":"\u4f60\u597d"`, ""), piece("\"content\":\"\u4f60\u597d\U0001f600\"", ""), piece(`"content":"\ud83d\ude00"`, "stop"), counts, "[DONE]"),
		want: "text:\u4f60\u597d\u4f60\u597d\U0001f600\U0001f600 end | 26/7",
	},
	"two choices, interleaved": {
		in: sse(`{"id":"x","choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}`,
			`{"id":"x","choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}]}`,
			`{"id":"x","choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"length"}]}`, counts, "[DONE]"),
		want: "text:aA end | text:bB max_tokens | 26/7",
	},
	"logprobs": {
		in:   sse(`{"id":"x","choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[]}]}}]}`, piece(``, "stop"), counts, "[DONE]"),
		want: `text:a end [[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[]}]] | 26/7`,
	},
	"a whole body instead of a stream": {
		in:   `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","reasoning":"t","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":26,"completion_tokens":7,"total_tokens":33}}`,
		want: "thinking:t text:Hi f({})#a tool_use | 26/7",
	},
	"a whole body without choices": {
		in: `{"id":"x","object":"chat.completion","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1}}`, want: "1/0 | error upstream",
	},
	"error with 200": {
		in: sse(`{"error":{"message":"bad temperature","type":"BadRequestError","param":null,"code":400}}`, "[DONE]"), want: "error invalid_request",
	},
	"error with 200 as a whole body": {
		in: `{"error":{"message":"bad temperature","type":"BadRequestError","param":null,"code":400}}`, want: "error invalid_request",
	},
	"context too long with 200": {
		in: sse(`{"error":{"message":"This model's maximum context length is 10 tokens.","code":400}}`), want: "error context_too_long",
	},
	"error in the middle": {
		in: sse(piece(`"content":"a"`, ""), piece(`"content":"b"`, ""), `{"error":{"message":"boom","code":500}}`, "[DONE]"), want: "text:ab | error upstream",
	},
	"flat error in the middle": {
		in: sse(piece(`"content":"a"`, ""), `{"object":"error","message":"boom","type":"InternalServerError","param":null,"code":500}`), want: "text:a | error upstream",
	},
	"error string in the middle": {
		in: sse(piece(`"content":"a"`, ""), `{"error":"boom"}`), want: "text:a | error upstream",
	},
	"detail in the middle": {
		in: sse(piece(`"content":"a"`, ""), `{"detail":"boom"}`), want: "text:a | error upstream",
	},
	"abort": {
		in: sse(piece(`"content":"a"`, ""), piece(``, "abort"), counts, "[DONE]"), want: "text:a | error upstream",
	},
	"end without finish reason": {
		in: sse(piece(`"content":"a"`, "")), want: "text:a | error upstream",
	},
	"DONE without finish reason": {
		in: sse(piece(`"content":"a"`, ""), counts, "[DONE]"), want: "text:a | 26/7 | error upstream",
	},
	"only one of two choices finishes": {
		in: sse(`{"id":"x","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"},{"index":1,"delta":{"content":"b"}}]}`, "[DONE]"), want: "text:a end | text:b | error upstream",
	},
	"half an event at the end": {
		in: sse(piece(`"content":"a"`, "")) + `data: {"id":"x","cho`, want: "text:a | error upstream",
	},
	"not JSON": {
		in: sse(piece(`"content":"a"`, ""), "oops"), want: "text:a | error upstream",
	},
	"an object that says nothing": {
		in: sse(`{"hello":"world"}`), want: "error upstream",
	},
	"a page": {
		in: "<html>login</html>", want: "error upstream",
	},
	"nothing": {
		in: "", want: "error upstream",
	},
	"a wild choice index": {
		in: sse(`{"id":"x","choices":[{"index":1000000000,"delta":{"content":"a"}}]}`), want: "error upstream",
	},
	"thinking only, promoted": {
		in: sse(piece(`"reasoning":"the answer"`, ""), piece(``, "stop"), counts, "[DONE]"), want: "text:the answer end | 26/7",
		o: openai.DecodeOptions{SequencerOptions: dialect.SequencerOptions{HideThinking: true, PromoteThinking: true}},
	},
	"think tags": {
		in: sse(piece(`"content":"<thi"`, ""), piece(`"content":"nk>x</think>y"`, ""), piece(``, "stop"), counts, "[DONE]"), want: "thinking:x text:y end | 26/7",
		o: openai.DecodeOptions{SequencerOptions: dialect.SequencerOptions{ThinkTags: true}},
	},
}

func TestDecodeChatStream(t *testing.T) {
	t.Parallel()
	for name, c := range streams {
		if c.want == "" {
			continue
		}
		if got := answer(strings.NewReader(c.in), c.o); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestDecodeChatStreamIsTheSameForEverySplit(t *testing.T) {
	t.Parallel()
	for name, c := range streams {
		if c.want == "" {
			continue
		}
		for at := 1; at < len(c.in); at++ {
			r := io.MultiReader(strings.NewReader(c.in[:at]), strings.NewReader(c.in[at:]))
			if got := answer(r, c.o); got != c.want {
				t.Fatalf("%s, split at byte %d:\n got %s\nwant %s", name, at, got, c.want)
			}
		}
		if got := answer(iotest.OneByteReader(strings.NewReader(c.in)), c.o); got != c.want {
			t.Errorf("%s, byte by byte:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestDecodeChatStreamCutAnywhereIsNeverSuccess(t *testing.T) {
	t.Parallel()
	whole := sse(piece(`"content":"a"`, ""), piece(`"content":"b"`, ""))
	for at := range len(whole) + 1 {
		for kind, end := range map[string]io.Reader{"EOF": strings.NewReader(""), "reset": iotest.ErrReader(errors.New("reset"))} {
			stream := openai.DecodeChatStream(io.MultiReader(strings.NewReader(whole[:at]), end), openai.DecodeOptions{})
			if _, err := llm.Collect(stream); llm.CodeOf(err) != llm.CodeUpstream {
				t.Errorf("%s after %d bytes: %v, want an upstream error", kind, at, err)
			}
		}
	}
}

func TestDecodeChatStreamLongDelta(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	in := sse(piece(`"content":"`+long+`"`, "stop"), counts, "[DONE]")
	for ev, err := range openai.DecodeChatStream(strings.NewReader(in), openai.DecodeOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(ev.Text) > dialect.MaxDelta {
			t.Fatalf("a delta of %d bytes", len(ev.Text))
		}
	}
	tooLong := io.MultiReader(strings.NewReader(`data: {"choices":[{"delta":{"content":"`), io.LimitReader(xs{}, 40<<20))
	if _, err := llm.Collect(openai.DecodeChatStream(tooLong, openai.DecodeOptions{})); llm.CodeOf(err) != llm.CodeUpstream {
		t.Errorf("a line of 40 MiB: %v", err)
	}
}

// xs is an endless run of the letter x.
type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestDecodeChatStreamStopsWithItsConsumer(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, sse(piece(`"content":"a"`, ""))) }()
	for ev, err := range openai.DecodeChatStream(r, openai.DecodeOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == llm.EventDelta {
			break // would hang if the decoder read on
		}
	}
}

// encode plays a stream to a client and returns the bytes.
func encode(t testing.TB, req *llm.Request, field string, stream llm.Stream) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := openai.Chat{}.NewEncoder(&out, dialect.Reply{
		RequestID: "0192-aa", Model: "alias", Created: time.Unix(7, 0), Request: req, ReasoningField: field,
	})
	for ev, err := range stream {
		if err == nil {
			err = enc.Encode(ev)
		}
		if err != nil {
			if err := enc.EncodeError(llm.AsError(err)); err != nil {
				t.Fatal(err)
			}
			return out.Bytes()
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestStreamToClientObeysTheProtocolAndEqualsTheWholeAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range streams {
		for _, usage := range []bool{false, true} {
			req := &llm.Request{Stream: true, IncludeUsage: usage}
			raw := encode(t, req, "", llm.Check(openai.DecodeChatStream(strings.NewReader(c.in), c.o)))
			seen, err := openaitest.CheckStream(raw, openaitest.Options{IncludeUsage: usage})
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, raw)
				continue
			}
			resp, err := llm.Collect(openai.DecodeChatStream(strings.NewReader(c.in), c.o))
			if (err != nil) != (seen.Error != nil) {
				t.Errorf("%s: decoder says %v, client sees %+v", name, err, seen.Error)
			}
			if err != nil {
				continue
			}
			whole := wholeAnswer(t, resp)
			for i, got := range seen.Choices {
				want := whole.Choices[i]
				if got.Content != want.Message.text() || got.Reasoning != want.Message.Reasoning || got.Refusal != want.Message.refusal() ||
					got.Finish != want.Finish || len(got.Calls) != len(want.Message.Calls) {
					t.Errorf("%s: stream %+v, whole %+v", name, got, want)
				}
				for n, call := range got.Calls {
					w := want.Message.Calls[n]
					if call.Arguments != w.Function.Arguments || call.Name != w.Function.Name {
						t.Errorf("%s: call %d is %+v in the stream, %+v in the whole answer", name, n, call, w)
					}
				}
			}
		}
	}
}

func BenchmarkStreamThrough(b *testing.B) {
	payloads := []string{piece(`"role":"assistant","content":""`, "")}
	for range 64 {
		payloads = append(payloads, piece(`"content":" token"`, ""))
	}
	in := sse(append(payloads, piece(``, "stop"), counts, "[DONE]")...)
	req := &llm.Request{Stream: true, IncludeUsage: true}
	b.ReportAllocs()
	for b.Loop() {
		encode(b, req, "", openai.DecodeChatStream(strings.NewReader(in), openai.DecodeOptions{}))
	}
}

func FuzzDecodeChatStream(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.in), uint8(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		if _, err := llm.Collect(llm.Check(openai.DecodeChatStream(bytes.NewReader(in), openai.DecodeOptions{}))); errors.Is(err, llm.ErrGrammar) {
			t.Fatalf("%q: %v", in, err)
		} else if err != nil && llm.AsError(err) == nil {
			t.Fatalf("%q: %v is not classified", in, err)
		}
		raw := encode(t, &llm.Request{Stream: true}, "", openai.DecodeChatStream(bytes.NewReader(in), openai.DecodeOptions{}))
		if _, err := openaitest.CheckStream(raw, openaitest.Options{}); err != nil && !strings.Contains(err.Error(), "are not JSON") {
			t.Fatalf("%q: %v\n%s", in, err, raw)
		}
	})
}
