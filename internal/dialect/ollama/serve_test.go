package ollama_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/ollama/ollamatest"
	"mindrouter/internal/llm"
)

func TestDecodeChatRequest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, want, notes, err string }{
		"it streams unless told not to": {body: `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, want: "stream user(hi)"},
		"whole":                         {body: `{"model":"m","stream":false,"messages":[{"role":"USER","content":"hi"}]}`, want: "whole user(hi)"},
		"null is absent":                {body: `{"model":"m","stream":null,"think":null,"messages":[{"role":"user","content":"hi"}]}`, want: "stream user(hi)"},
		"the old name of model":         {body: `{"name":"m","messages":[{"role":"user","content":"hi"}]}`, want: "stream user(hi)"},
		"results find their calls": {
			body: `{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{"a":1}}}]},{"role":"tool","tool_name":"g","content":"2"},{"role":"tool","content":"1"}]}`,
			want: "stream assistant(call_1:f{} call_2:g{\"a\":1}) tool(call_2=2) tool(call_1=1)",
		},
		"thinking of earlier turns":  {body: `{"model":"m","messages":[{"role":"assistant","thinking":"t","content":"a"}]}`, want: "stream assistant(thinking:t a)"},
		"an unknown role is a user":  {body: `{"model":"m","messages":[{"role":"robot","content":"hi"}]}`, want: "stream user(hi)", notes: "messages[0].role=user"},
		"what loads is not a user's": {body: `{"model":"m","keep_alive":"5m","options":{"num_ctx":9,"num_gpu":1,"mirostat":1},"messages":[{"role":"user","content":"hi"}]}`, want: "stream user(hi)", notes: "options.num_ctx=dropped options.num_gpu=dropped options.mirostat=dropped keep_alive=dropped"},
		"no messages":                {body: `{"model":"m"}`, want: "whole"},
		"no model":                   {body: `{"messages":[]}`, err: "model"},
		"messages are no list":       {body: `{"model":"m","messages":{}}`, err: "messages"},
		"no role":                    {body: `{"model":"m","messages":[{"content":"x"}]}`, err: "messages[0].role"},
		"a call without a name":      {body: `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}`, err: "messages[0].tool_calls[0].function.name"},
		"a wrong option":             {body: `{"model":"m","options":{"top_k":"x"},"messages":[]}`, err: "options.top_k"},
		"a wrong stop":               {body: `{"model":"m","options":{"stop":["a",1]},"messages":[]}`, err: "options.stop[1]"},
		"a wrong think":              {body: `{"model":"m","think":"ultra","messages":[]}`, err: "think"},
		"a picture that is none":     {body: `{"model":"m","messages":[{"role":"user","images":["aGk="]}]}`, err: "messages[0].images[0]"},
		"a tool without a name":      {body: `{"model":"m","tools":[{"function":{}}],"messages":[]}`, err: "tools[0].function.name"},
		"rendering only":             {body: `{"model":"m","_debug_render_only":true,"messages":[]}`, err: "_debug_render_only"},
	} {
		r, notes, err := ollama.Chat{}.DecodeChat([]byte(tt.body))
		if tt.err != "" {
			if e := llm.AsError(err); e == nil || e.Param != tt.err {
				t.Errorf("%s: %v, want an error of %s", name, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var told []string
		for _, n := range notes {
			told = append(told, n.String())
		}
		if got := outline(r); got != tt.want || strings.Join(told, " ") != tt.notes {
			t.Errorf("%s: %s, notes %v; want %s, %s", name, got, told, tt.want, tt.notes)
		}
	}
}

func outline(r *llm.Request) string {
	parts := []string{"whole"}
	if r.Stream {
		parts[0] = "stream"
	}
	for _, m := range r.Messages {
		var blocks []string
		for _, b := range m.Blocks {
			switch {
			case b.ToolCall != nil:
				blocks = append(blocks, b.ToolCall.ID+":"+b.ToolCall.Name+string(b.ToolCall.Arguments))
			case b.ToolResult != nil:
				blocks = append(blocks, b.ToolResult.CallID+"="+b.ToolResult.Content[0].Text)
			case b.Kind == llm.BlockThinking:
				blocks = append(blocks, "thinking:"+b.Text)
			default:
				blocks = append(blocks, b.Text)
			}
		}
		parts = append(parts, fmt.Sprintf("%s(%s)", m.Role, strings.Join(blocks, " ")))
	}
	return strings.Join(parts, " ")
}

func TestEncoderRefusesArgumentsThatAreNoObject(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		var out bytes.Buffer
		enc := ollama.Chat{}.NewEncoder(&out, dialect.Reply{Model: "m", Created: time.Now(), Request: &llm.Request{Stream: stream, Messages: make([]llm.Message, 1)}})
		resp := &llm.Response{Choices: []llm.Choice{{StopReason: llm.StopToolUse, Blocks: []llm.Block{{
			Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "c", Name: "f", Arguments: []byte(`[1`)},
		}}}}}
		if !stream {
			if err := enc.EncodeResponse(resp); llm.CodeOf(err) != llm.CodeUpstream || out.Len() > 0 {
				t.Errorf("whole: %v, wrote %s", err, out.String())
			}
			continue
		}
		for ev, err := range llm.Events(resp) {
			if err != nil || enc.Encode(ev) != nil {
				break
			}
		}
		_ = enc.Close() // it has ended with the error already
		if got, err := ollamatest.CheckStream(out.Bytes()); err != nil || got.Error == "" {
			t.Errorf("streamed: %+v, %v in %s", got, err, out.String())
		}
	}
}

func FuzzDecodeClient(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"user","content":"hi","images":["aGk="]}],"options":{"stop":"x"}}`)
	f.Add(`{"model":"m","prompt":"p","suffix":"s","input":["a"],"keep_alive":0}`)
	f.Add(`{"name":"m","raw":true,"system":"s","context":[1]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for name, decode := range map[string]func([]byte) error{
			"chat":       func(b []byte) error { _, _, err := ollama.Chat{}.DecodeChat(b); return err },
			"generate":   func(b []byte) error { _, _, err := ollama.Generate{}.DecodeChat(b); return err },
			"embed":      func(b []byte) error { _, _, err := ollama.DecodeEmbed(b); return err },
			"embeddings": func(b []byte) error { _, _, err := ollama.DecodeEmbeddings(b); return err },
			"show":       func(b []byte) error { _, err := ollama.DecodeShowRequest(b); return err },
		} {
			if err := decode([]byte(body)); err != nil && (llm.AsError(err) == nil || llm.AsError(err).Message == "") {
				t.Errorf("%s: %v is no error for a client", name, err)
			}
		}
	})
}
