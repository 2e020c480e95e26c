package ollama

import (
	"encoding/json"
	"fmt"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func (d *requestDecoder) messages() {
	raw := d.f.Take("messages")
	if raw != nil && dialect.Kind(raw) != '[' {
		d.f.Fail("messages", "must be a list")
		return
	}
	h := turns{d: d}
	for i, item := range dialect.Elements(raw) {
		if i == maxMessages {
			d.f.Fail("messages", "has more than %d entries", maxMessages)
			return
		}
		if err := h.add(i, item); err != nil {
			d.f.Adopt(dialect.Under(dialect.At("messages", i), err))
			return
		}
	}
}

// turns decodes messages in order. Results of tools name the tool and often nothing else; they answer the calls of the
// turn before in their order.
type turns struct {
	d    *requestDecoder
	open []llm.ToolCall // without result yet
	n    int            // calls so far, for ids where the client sends none
}

func (h *turns) add(i int, raw json.RawMessage) *llm.Error {
	if dialect.Kind(raw) != '{' {
		return llm.Invalid("", "must be an object")
	}
	f := dialect.ReadFields(raw, "")
	role := strings.ToLower(f.String("role"))
	text, thinking := f.String("content"), f.String("thinking")
	images := h.d.images(dialect.At("messages", i)+".images", f.Take("images"))
	calls, err := h.calls(f.Take("tool_calls"))
	if err != nil {
		return err
	}
	toolName, callID := f.String("tool_name"), f.String("tool_call_id")
	if old := f.String("name"); toolName == "" {
		toolName = old
	}
	if err := llm.AsError(f.Err()); err != nil {
		return err
	}
	msg := llm.Message{Role: llm.Role(role)}
	switch msg.Role {
	case "":
		return llm.Invalid("role", "is required")
	case llm.RoleTool:
		result := h.result(toolName, callID)
		result.Content = append([]llm.Block{llm.TextBlock(text)}, images...)
		msg.Blocks = []llm.Block{{Kind: llm.BlockToolResult, ToolResult: result}}
	case llm.RoleAssistant:
		if thinking != "" {
			msg.Blocks = append(msg.Blocks, llm.Block{Kind: llm.BlockThinking, Text: thinking})
		}
		if text != "" || (len(calls) == 0 && thinking == "") {
			msg.Blocks = append(msg.Blocks, llm.TextBlock(text))
		}
		for _, c := range calls {
			msg.Blocks = append(msg.Blocks, llm.Block{Kind: llm.BlockToolCall, ToolCall: &c})
		}
		h.open = calls
	case llm.RoleSystem, llm.RoleDeveloper, llm.RoleUser:
		msg.Blocks = append([]llm.Block{llm.TextBlock(text)}, images...)
	default:
		h.d.note(dialect.At("messages", i)+".role", "user")
		msg.Role = llm.RoleUser
		msg.Blocks = append([]llm.Block{llm.TextBlock(text)}, images...)
	}
	h.d.req.Messages = append(h.d.req.Messages, msg)
	return nil
}

// result finds the call that a result answers: by its id, else the first open one of that tool, else the first open one.
func (h *turns) result(name, id string) *llm.ToolResult {
	found := -1
	for i, c := range h.open {
		if id != "" && c.ID == id {
			found = i
			break
		}
		if id == "" && found < 0 && (name == "" || c.Name == name) {
			found = i
		}
	}
	if found < 0 {
		return &llm.ToolResult{CallID: id, Name: name}
	}
	c := h.open[found]
	h.open = append(h.open[:found:found], h.open[found+1:]...)
	return &llm.ToolResult{CallID: c.ID, Name: c.Name}
}

func (h *turns) calls(raw json.RawMessage) ([]llm.ToolCall, *llm.Error) {
	if raw != nil && dialect.Kind(raw) != '[' {
		return nil, llm.Invalid("tool_calls", "must be a list")
	}
	var out []llm.ToolCall
	for i, item := range dialect.Elements(raw) {
		path := dialect.At("tool_calls", i)
		o := dialect.ReadFields(item, "")
		c := llm.ToolCall{ID: o.String("id")}
		fn := o.Object("function")
		c.Name = fn.String("name")
		c.Arguments = fn.Take("arguments")
		if s, ok := dialect.Unquote(c.Arguments); ok { // some clients send the text of the object
			c.Arguments = json.RawMessage(s)
		}
		if c.Arguments == nil {
			c.Arguments = json.RawMessage("{}")
		}
		o.Adopt(fn.Err())
		if c.Name == "" {
			o.Fail("function.name", "is required")
		}
		if err := llm.AsError(o.Err()); err != nil {
			return nil, dialect.Under(path, err)
		}
		if h.n++; c.ID == "" {
			c.ID = fmt.Sprintf("call_%d", h.n)
		}
		out = append(out, c)
	}
	return out, nil
}

// images reads pictures, in base64 without a data URI.
func (d *requestDecoder) images(path string, raw json.RawMessage) []llm.Block {
	if raw != nil && dialect.Kind(raw) != '[' {
		d.f.Adopt(llm.Invalid(path, "must be a list"))
		return nil
	}
	var out []llm.Block
	for i, item := range dialect.Elements(raw) {
		s, _ := dialect.Unquote(item)
		_, data, err := dialect.DataOrBase64(s)
		var media *llm.Media
		if err == nil {
			media, err = dialect.ImageData(data)
		}
		if err != nil {
			d.f.Adopt(dialect.Under(dialect.At(path, i), err))
			return nil
		}
		out = append(out, llm.Block{Kind: llm.BlockImage, Media: media})
	}
	return out
}

func (d *requestDecoder) tools() {
	raw := d.f.Take("tools")
	if raw != nil && dialect.Kind(raw) != '[' {
		d.f.Fail("tools", "must be a list")
		return
	}
	for i, item := range dialect.Elements(raw) {
		if i == maxTools {
			d.f.Fail("tools", "has more than %d entries", maxTools)
			return
		}
		o := dialect.ReadFields(item, dialect.At("tools", i))
		fn := o.Object("function")
		t := llm.Tool{Name: fn.String("name"), Description: fn.String("description"), Schema: fn.Take("parameters")}
		if t.Name == "" {
			fn.Fail("name", "is required")
		}
		if t.Schema != nil && dialect.Kind(t.Schema) != '{' {
			fn.Fail("parameters", "must be a JSON schema object")
		}
		o.Adopt(fn.Err())
		d.f.Adopt(o.Err())
		d.req.Tools = append(d.req.Tools, t)
	}
}
