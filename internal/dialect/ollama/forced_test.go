package ollama_test

import (
	"strings"
	"testing"

	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/llm"
)

func said(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(`{"model":"m","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant",` + p + `},"done":false}` + "\n")
	}
	return b.String()
}

func TestAForcedCallIsMadeOfText(t *testing.T) {
	t.Parallel()
	end := func(reason string) string {
		return `{"model":"m","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"` + reason + `","prompt_eval_count":3,"eval_count":4}` + "\n"
	}
	for name, tt := range map[string]struct {
		body, text, call, arguments string
		stop                        llm.StopReason
	}{
		"a call in pieces":     {said(`"content":"{\"name\":\"f\","`, `"content":"\"arguments\":{\"n\":1e2}}"`) + end("stop"), "", "f", `{"n":1e2}`, llm.StopToolUse},
		"cut in the middle":    {said(`"content":"{\"name\":\"f\",\"argu"`) + end("length"), `{"name":"f","argu`, "", "", llm.StopMaxTokens},
		"the model's own form": {said(`"content":"","tool_calls":[{"function":{"name":"g","arguments":{}}}]`) + end("stop"), "", "g", `{}`, llm.StopToolUse},
		"prose all the same":   {said(`"content":"I would rather not."`) + end("stop"), "I would rather not.", "", "", llm.StopEnd},
	} {
		resp, err := llm.Collect(ollama.DecodeChatStream(strings.NewReader(tt.body), ollama.DecodeOptions{Forced: true}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := resp.Choices[0]
		if c.Text() != tt.text || c.StopReason != tt.stop {
			t.Errorf("%s: said %q, stop %s; want %q, %s", name, c.Text(), c.StopReason, tt.text, tt.stop)
		}
		calls := c.ToolCalls()
		if (tt.call == "") != (len(calls) == 0) || (len(calls) > 0 && (calls[0].Name != tt.call || string(calls[0].Arguments) != tt.arguments || calls[0].ID == "")) {
			t.Errorf("%s: calls %+v, want %s(%s)", name, calls, tt.call, tt.arguments)
		}
	}
}
