package ollama_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/llm"
)

// say is a line with the given members of its message.
func say(message string) string {
	return `{"model":"m","created_at":"2026-11-29T00:00:00.1Z","message":{"role":"assistant",` + message + `},"done":false}` + "\n"
}

func done(reason, counts string) string {
	return `{"model":"m","created_at":"2026-11-29T00:00:00.2Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"` + reason + `","total_duration":5` + counts + `}` + "\n"
}

const counted = `,"prompt_eval_count":26,"eval_count":7`

var generated = regexp.MustCompile(`call_[0-9a-f]{24}`)

func answer(r io.Reader, o ollama.DecodeOptions) string {
	resp, err := llm.Collect(llm.Check(ollama.DecodeChatStream(r, o)))
	var parts []string
	for _, c := range resp.Choices {
		var s []string
		for _, b := range c.Blocks {
			if b.ToolCall != nil {
				s = append(s, fmt.Sprintf("%s(%s)#%s", b.ToolCall.Name, b.ToolCall.Arguments, b.ToolCall.ID))
			} else {
				s = append(s, fmt.Sprintf("%s:%s", b.Kind, b.Text))
			}
		}
		s = append(s, string(c.StopReason))
		if c.Logprobs != nil {
			s = append(s, fmt.Sprintf("%s", c.Logprobs))
		}
		parts = append(parts, strings.TrimSpace(strings.Join(s, " ")))
	}
	if u := resp.Usage; u != (llm.Usage{}) {
		s := fmt.Sprintf("%d/%d", u.Input, u.Output)
		if u.Estimated {
			s += "~"
		}
		parts = append(parts, s)
	}
	if err != nil {
		parts = append(parts, "error "+string(llm.CodeOf(err)))
	}
	return generated.ReplaceAllString(strings.Join(parts, " | "), "generated")
}

var streams = map[string]struct {
	in, want string
	o        ollama.DecodeOptions
}{
	"text":     {in: say(`"content":"Bl"`) + say(`"content":"ue"`) + done("stop", counted), want: "text:Blue end | 26/7"},
	"thinking": {in: say(`"content":"","thinking":"Let"`) + say(`"content":"","thinking":" me"`) + say(`"content":"Hi"`) + done("stop", counted), want: "thinking:Let me text:Hi end | 26/7"},
	"both":     {in: say(`"content":"Hi","thinking":"t"`) + done("stop", counted), want: "thinking:t text:Hi end | 26/7"},
	"hidden thinking": {
		in: say(`"content":"","thinking":"t"`) + say(`"content":"Hi"`) + done("stop", counted), want: "text:Hi end | 26/7",
		o: ollama.DecodeOptions{SequencerOptions: dialect.SequencerOptions{HideThinking: true}},
	},
	"parallel calls that all have index 0": {
		in: say(`"content":"","tool_calls":[{"id":"call_ab12cd34","function":{"index":0,"name":"a","arguments":{"k":1.0}}}]`) +
			say(`"content":"","tool_calls":[{"id":"call_ef56gh78","function":{"index":0,"name":"b","arguments":{}}}]`) + done("stop", counted),
		want: `a({"k":1.0})#call_ab12cd34 b({})#call_ef56gh78 tool_use | 26/7`,
	},
	"calls without ids": {
		in:   say(`"content":"","tool_calls":[{"function":{"name":"a","arguments":{}}},{"function":{"name":"a","arguments":{}}}]`) + done("stop", counted),
		want: `a({})#generated a({})#generated tool_use | 26/7`,
	},
	"digits of arguments": {
		in:   say(`"content":"","tool_calls":[{"id":"x","function":{"name":"a","arguments":{"id":12345678901234567890,"x":1.0}}}]`) + done("stop", counted),
		want: `a({"id":12345678901234567890,"x":1.0})#x tool_use | 26/7`,
	},
	"text before a call": {
		in: say(`"content":"Let me"`) + say(`"content":"","tool_calls":[{"id":"x","function":{"name":"a","arguments":{}}}]`) + done("stop", counted), want: `text:Let me a({})#x tool_use | 26/7`,
	},
	"one call at a time": {
		in: say(`"content":"","tool_calls":[{"id":"x","function":{"name":"a","arguments":{}}},{"id":"y","function":{"name":"b","arguments":{}}}]`) + done("stop", counted), want: `a({})#x tool_use | 26/7`,
		o: ollama.DecodeOptions{SequencerOptions: dialect.SequencerOptions{OneToolCall: true}},
	},
	"length stays length": {
		in: say(`"content":"","tool_calls":[{"id":"x","function":{"name":"a","arguments":{}}}]`) + done("length", counted), want: `a({})#x max_tokens | 26/7`,
	},
	"full context": {in: say(`"content":"a"`) + done("length", counted), want: "text:a context_full | 26/7", o: ollama.DecodeOptions{NumCtx: 33}},
	"answer without text": {
		in: done("stop", `,"prompt_eval_count":26`), want: "end | 26/0",
	},
	"no count of the prompt": {
		in: say(`"content":"a"`) + done("stop", `,"eval_count":7`), want: "text:a end | 12/7~", o: ollama.DecodeOptions{InputTokens: 12},
	},
	"no counts": {
		in: say(`"content":"abcdefgh"`) + done("stop", ""), want: "text:abcdefgh end | 12/2~", o: ollama.DecodeOptions{InputTokens: 12},
	},
	"a version that counts only what was not cached": {
		in: say(`"content":"a"`) + done("stop", `,"prompt_eval_count":1,"eval_count":7`), want: "text:a end | 12/7~", o: ollama.DecodeOptions{InputTokens: 12, Version: "0.30.4"},
	},
	"logprobs": {
		in:   strings.Replace(say(`"content":"a"`), `"done"`, `"logprobs":[{"token":"a","logprob":-0.10}],"done"`, 1) + done("stop", counted),
		want: `text:a end [[{"token":"a","logprob":-0.10}]] | 26/7`,
	},
	"one whole body": {
		in:   `{"model":"m","message":{"role":"assistant","content":"Hi","thinking":"t"},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":7}`,
		want: "thinking:t text:Hi end | 26/7",
	},
	"CRLF and blank lines": {in: "\r\n" + strings.ReplaceAll(say(`"content":"a"`)+done("stop", counted), "\n", "\r\n\n"), want: "text:a end | 26/7"},
	"runes":                {in: say("\"content\":\"\u4f60\u597d\U0001f600\"") + done("stop", counted), want: "text:\u4f60\u597d\U0001f600 end | 26/7"},
	"error line":           {in: say(`"content":"a"`) + `{"error":"boom"}` + "\n", want: "text:a | error upstream"},
	"error with 200":       {in: `{"error":"boom"}`, want: "error upstream"},
	"overflow while answering": {
		in: say(`"content":"a"`) + `{"error":"the input length exceeds the context length"}`, want: "text:a | error context_too_long",
	},
	"end without done":     {in: say(`"content":"a"`), want: "text:a | error upstream"},
	"only done false":      {in: `{"model":"m","message":{"role":"assistant","content":""},"done":false}`, want: "error upstream"},
	"done without reason":  {in: say(`"content":"a"`) + done("", ""), want: "text:a | error upstream"},
	"load":                 {in: done("load", ""), want: "error upstream"},
	"half a line":          {in: say(`"content":"a"`) + `{"model":"m","mess`, want: "text:a | error upstream"},
	"not JSON":             {in: "oops\n", want: "error upstream"},
	"a list":               {in: "[]\n", want: "error upstream"},
	"an unknown object":    {in: `{"hello":1}`, want: "error upstream"},
	"nothing":              {in: "", want: "error upstream"},
	"nothing after done":   {in: done("stop", counted) + say(`"content":"late"`), want: "end | 26/7"},
	"an OpenAI error body": {in: `{"error":{"message":"no","code":400}}`, want: "error invalid_request"},
}

func TestDecodeChatStream(t *testing.T) {
	t.Parallel()
	for name, c := range streams {
		if got := answer(strings.NewReader(c.in), c.o); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
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
	whole := say(`"content":"a"`) + done("stop", counted)
	for at := range len(whole) - 1 { // the last byte is only the line end
		for kind, end := range map[string]io.Reader{"EOF": strings.NewReader(""), "reset": iotest.ErrReader(errors.New("reset"))} {
			_, err := llm.Collect(ollama.DecodeChatStream(io.MultiReader(strings.NewReader(whole[:at]), end), ollama.DecodeOptions{}))
			if llm.CodeOf(err) != llm.CodeUpstream {
				t.Errorf("%s after %d bytes: %v, want an upstream error", kind, at, err)
			}
		}
	}
}

func TestDecodeOptionsFollowTheRequest(t *testing.T) {
	t.Parallel()
	got := ollama.CallOptions{Version: "0.24.0", NumCtx: 8, InputTokens: 3}.Decode(decode(t, with(`"think":false`)))
	want := ollama.DecodeOptions{
		SequencerOptions: dialect.SequencerOptions{HideThinking: true}, Version: "0.24.0", NumCtx: 8, InputTokens: 3,
	}
	if got != want {
		t.Errorf("Decode = %+v, want %+v", got, want)
	}
}

func FuzzDecodeChatStream(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		_, err := llm.Collect(llm.Check(ollama.DecodeChatStream(bytes.NewReader(in), ollama.DecodeOptions{})))
		if errors.Is(err, llm.ErrGrammar) || (err != nil && llm.AsError(err) == nil) {
			t.Fatalf("%q: %v", in, err)
		}
	})
}
