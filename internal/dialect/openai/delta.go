package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// delta decodes a piece of an answer. Thinking goes before text, because servers put both into one delta where the one
// ends and the other begins.
func (d *streamDecoder) delta(index int, raw, logprobs json.RawMessage) bool {
	var w struct{ content, reasoning, reasoningContent, refusal, tools, function json.RawMessage }
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "content":
			w.content = value
		case "reasoning":
			w.reasoning = value
		case "reasoning_content":
			w.reasoningContent = value
		case "refusal":
			w.refusal = value
		case "tool_calls":
			w.tools = value
		case "function_call":
			w.function = value
		}
	}
	thinking, _ := dialect.Unquote(w.reasoningContent)
	if thinking == "" { // both keys say the same where both are sent
		thinking, _ = dialect.Unquote(w.reasoning)
	}
	refusal, _ := dialect.Unquote(w.refusal)
	for _, part := range [...]struct {
		kind llm.BlockKind
		text string
	}{{llm.BlockThinking, thinking}, {llm.BlockText, contentText(w.content)}, {llm.BlockRefusal, refusal}} {
		if part.text == "" {
			continue
		}
		d.bytes += len(part.text)
		if !d.seq.Text(index, part.kind, part.text, logprobs) {
			return false
		}
		logprobs = nil
	}
	for _, item := range dialect.Elements(w.tools) {
		if !d.tool(index, item) {
			return false
		}
	}
	if dialect.Kind(w.function) == '{' && dialect.Kind(w.tools) != '[' { // the form before tools; some servers send both
		f := dialect.ToolFragment{}
		d.function(&f, w.function)
		if !d.seq.Tool(index, f) {
			return false
		}
	}
	return logprobs == nil || d.seq.Text(index, llm.BlockText, "", logprobs)
}

func (d *streamDecoder) tool(index int, raw json.RawMessage) bool {
	f := dialect.ToolFragment{Index: -1}
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "index":
			if n, ok := dialect.Int(value); ok {
				f.Index = int(n)
			}
		case "id":
			f.ID, _ = dialect.Unquote(value)
		case "function":
			d.function(&f, value)
		}
	}
	return d.seq.Tool(index, f)
}

func (d *streamDecoder) function(f *dialect.ToolFragment, raw json.RawMessage) {
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "name":
			f.Name, _ = dialect.Unquote(value)
		case "arguments":
			text, ok := dialect.Unquote(value)
			if !ok && !dialect.Null(value) {
				text = string(value) // some servers send an object
			}
			f.Arguments = text
			d.bytes += len(text)
		}
	}
}

// readUsage reads a usage object; false if there is none.
func readUsage(raw json.RawMessage) (llm.Usage, bool) {
	var u llm.Usage
	var counted bool
	var total int
	for key, value := range dialect.Members(raw) {
		n, ok := dialect.Int(value)
		switch string(key) {
		case "prompt_tokens":
			u.Input, counted = int(n), ok
		case "completion_tokens":
			u.Output = int(n)
		case "total_tokens":
			total = int(n)
		case "prompt_tokens_details":
			u.CachedInput = member(value, "cached_tokens")
		case "completion_tokens_details":
			u.Reasoning = member(value, "reasoning_tokens")
		}
	}
	if !counted && total > 0 { // embeddings and scores of some servers
		u.Input, counted = total-u.Output, true
	}
	return u, counted
}

// member returns the whole number that raw, an object, has under name; 0 if there is none.
func member(raw json.RawMessage, name string) int {
	for key, value := range dialect.Members(raw) {
		if string(key) == name {
			n, _ := dialect.Int(value)
			return int(n)
		}
	}
	return 0
}

// contentText returns the text of a content: a string, or a list of text parts, as some servers stream it.
func contentText(raw json.RawMessage) string {
	if s, ok := dialect.Unquote(raw); ok {
		return s
	}
	var text strings.Builder
	for _, item := range dialect.Elements(raw) {
		for key, value := range dialect.Members(item) {
			if string(key) == "text" {
				s, _ := dialect.Unquote(value)
				text.WriteString(s)
			}
		}
	}
	return text.String()
}

// tokenLogprobs returns a copy of the token list of a logprobs object, or nil.
func tokenLogprobs(raw json.RawMessage) json.RawMessage {
	for key, value := range dialect.Members(raw) {
		if string(key) == "content" && dialect.Kind(value) == '[' {
			return bytes.Clone(value)
		}
	}
	return nil
}
