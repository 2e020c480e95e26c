package dialect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// facts are what no translation may lose or change: what was said, called and declared, and the sampling, apart from how
// it is cut into messages.
func facts(r *llm.Request) map[string]string {
	var said, calls, results, tools []string
	var blocks func(list []llm.Block, into *[]string)
	blocks = func(list []llm.Block, into *[]string) {
		for _, b := range list {
			switch {
			case b.ToolCall != nil:
				calls = append(calls, b.ToolCall.Name+compact(b.ToolCall.Arguments))
			case b.ToolResult != nil:
				var text []string
				blocks(b.ToolResult.Content, &text)
				results = append(results, squeeze(strings.Join(text, "")))
			case b.Kind == llm.BlockText || b.Kind == llm.BlockRefusal:
				*into = append(*into, b.Text)
			}
		}
	}
	for _, m := range r.Messages {
		blocks(m.Blocks, &said)
	}
	if r.ToolChoice.Mode != llm.ToolNone {
		for _, t := range r.Tools {
			tools = append(tools, t.Name+"|"+t.Description)
		}
	}
	slices.Sort(tools)
	s := r.Sampling
	out := map[string]string{
		"said": squeeze(strings.Join(said, "")), "calls": fmt.Sprint(calls), "results": fmt.Sprint(results), "tools": fmt.Sprint(tools),
		"temperature": given(s.Temperature), "top_p": given(s.TopP), "seed": given(s.Seed), "max_tokens": given(r.MaxTokens), "stop": fmt.Sprintf("%q", r.Stop),
	}
	return out
}

func given[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// squeeze leaves out white space, which joins and parts texts differently in each protocol.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

func compact(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	if _, ok := v.(map[string]any); !ok { // a protocol that wants an object wraps it
		return "?"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// plain reports whether a request holds only what every protocol has a place for: no orphans, no broken arguments.
func plain(r *llm.Request) bool {
	open := map[string]bool{}
	for i, m := range r.Messages {
		if len(m.Blocks) == 0 || (m.Role != llm.RoleUser && m.Role != llm.RoleAssistant && m.Role != llm.RoleTool && (m.Role != llm.RoleSystem || i > 0)) {
			return false
		}
		for _, b := range m.Blocks {
			switch {
			case b.ToolCall != nil:
				if compact(b.ToolCall.Arguments) == "?" || !json.Valid(b.ToolCall.Arguments) {
					return false
				}
				open[b.ToolCall.ID] = true
			case b.ToolResult != nil:
				if !open[b.ToolResult.CallID] || b.ToolResult.IsError {
					return false
				}
				delete(open, b.ToolResult.CallID)
			case b.Media != nil:
				return false
			}
		}
	}
	if r.MaxTokens != nil && *r.MaxTokens == 0 { // wants no answer
		return false
	}
	if len(r.Messages) == 0 || len(open) > 0 || r.N != nil || r.ToolChoice.Mode == llm.ToolRequired || r.ToolChoice.Mode == llm.ToolNamed || len(r.ToolChoice.Allowed) > 0 {
		return false
	}
	for _, t := range r.Tools {
		if strings.TrimSpace(t.Name) == "" {
			return false
		}
	}
	return true
}

// FuzzTranslate decodes a client's request in each protocol, encodes it for each kind of backend and reads that back: the
// facts are the same.
func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","max_tokens":5,"temperature":0,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","max_tokens":5,"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]}`,
		`{"model":"m","max_tokens":9,"system":"s","stop_sequences":["END"],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"x":[1,2]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"},{"type":"text","text":"and?"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
		`{"model":"m","stream":false,"options":{"temperature":0.5,"seed":7,"num_predict":3,"stop":["x"]},"messages":[{"role":"user","content":"é🟦"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"k":"v"}}}]},{"role":"tool","tool_name":"f","content":"r"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, client := range []struct {
			name   string
			decode func([]byte) (*llm.Request, []llm.Note, error)
		}{
			{"openai", openai.Chat{}.DecodeChat}, {"anthropic", anthropic.Messages{}.DecodeChat}, {"ollama", ollama.Chat{}.DecodeChat},
		} {
			r, _, err := client.decode([]byte(body))
			if err != nil || !plain(r) {
				continue
			}
			want := facts(r)
			m := llm.Model{Name: "m"}
			toOpenAI, _, err := openai.EncodeChat(r, openai.CallOptions{Model: m, Engine: openai.EngineVLLM})
			if err == nil {
				back, _, err := openai.Chat{}.DecodeChat(toOpenAI)
				compare(t, client.name+" to OpenAI", want, back, err, toOpenAI)
			}
			toOllama, _, err := ollama.EncodeChat(r, ollama.CallOptions{Model: m})
			if err == nil {
				back, _, err := ollama.Chat{}.DecodeChat(toOllama)
				compare(t, client.name+" to Ollama", want, back, err, toOllama)
			}
		}
	})
}

func compare(t *testing.T, what string, want map[string]string, back *llm.Request, err error, body []byte) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: what we send is not accepted by our own decoder: %v in %s", what, err, body)
	}
	got := facts(back)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, was %q in %s", what, name, got[name], value, body)
		}
	}
}
