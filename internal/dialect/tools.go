package dialect

import (
	"bytes"
	"encoding/json"
	"slices"

	"mindrouter/internal/llm"
)

// OfferedTools returns the tools of r that the model may see: all, or the allowed ones.
func OfferedTools(r *llm.Request) []llm.Tool {
	if len(r.ToolChoice.Allowed) == 0 {
		return r.Tools
	}
	return slices.DeleteFunc(slices.Clone(r.Tools), func(t llm.Tool) bool {
		return !slices.Contains(r.ToolChoice.Allowed, t.Name)
	})
}

var noArguments = json.RawMessage(`{"type":"object","properties":{}}`)

// ToolSchema returns the schema of a tool as model servers need it: present, and with a type. Its other bytes are kept.
func ToolSchema(schema json.RawMessage) json.RawMessage {
	if Kind(schema) != '{' {
		return noArguments
	}
	empty := true
	for key := range Members(schema) {
		if string(key) == "type" {
			return schema
		}
		empty = false
	}
	if empty {
		return noArguments
	}
	brace := bytes.IndexByte(schema, '{')
	out := append([]byte(`{"type":"object",`), schema[brace+1:]...)
	return out
}
