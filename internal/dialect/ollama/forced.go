package ollama

import (
	"encoding/json"
	"slices"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// The protocol cannot say that the model must call a tool. So the answer is constrained to the form of a call, which the
// decoder turns into one; a model whose own form of calls gets through all the same has called as well.

// forced reports whether r demands a call.
func forced(r *llm.Request) bool {
	return (r.ToolChoice.Mode == llm.ToolRequired || r.ToolChoice.Mode == llm.ToolNamed) && len(callable(r)) > 0
}

// callable lists the tools that r lets the model call.
func callable(r *llm.Request) []llm.Tool {
	tools := dialect.OfferedTools(r)
	if r.ToolChoice.Mode != llm.ToolNamed {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t llm.Tool) bool { return t.Name != r.ToolChoice.Name })
}

// callSchema is the JSON Schema of a call of one of the tools.
func callSchema(tools []llm.Tool) json.RawMessage {
	var forms []byte
	for i, t := range tools {
		if i > 0 {
			forms = append(forms, ',')
		}
		arguments, _ := inlineReferences(dialect.ToolSchema(t.Schema))
		forms = append(forms, `{"type":"object","properties":{"name":{"type":"string","enum":[`...)
		forms = dialect.AppendString(forms, t.Name)
		forms = append(forms, `]},"arguments":`...)
		forms = append(forms, arguments...)
		forms = append(forms, `},"required":["name","arguments"]}`...)
	}
	if len(tools) == 1 {
		return forms
	}
	return slices.Concat(json.RawMessage(`{"anyOf":[`), forms, json.RawMessage("]}"))
}

// readForced reads what the model wrote under [callSchema]; false if it is no whole call.
func readForced(text string) (f dialect.ToolFragment, ok bool) {
	raw := json.RawMessage(text)
	if !json.Valid(raw) {
		return f, false
	}
	f.Whole = true
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "name":
			f.Name, _ = dialect.Unquote(value)
		case "arguments":
			f.Arguments = string(value)
		}
	}
	return f, f.Name != "" && f.Arguments != ""
}
