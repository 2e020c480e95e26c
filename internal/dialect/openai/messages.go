package openai

import (
	"encoding/json"
	"fmt"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func (d *decoder) messages() {
	raw := d.f.Take("messages")
	switch {
	case raw == nil:
		d.f.Fail("messages", "is required")
		return
	case dialect.Kind(raw) != '[':
		d.f.Fail("messages", "must be a list")
		return
	}
	h := history{d: d}
	for i, item := range dialect.Elements(raw) {
		if i == maxMessages {
			d.f.Fail("messages", "has more than %d entries", maxMessages)
			return
		}
		msg, err := h.message(i, item)
		if err != nil {
			d.f.Adopt(dialect.Under(dialect.At("messages", i), err))
			return
		}
		d.req.Messages = append(d.req.Messages, msg)
	}
	if len(d.req.Messages) == 0 {
		d.f.Fail("messages", "must not be empty")
	}
}

// wireMessage holds the members of a message that mean something.
type wireMessage struct {
	role, content, name, refusal                  json.RawMessage
	toolCalls, toolCallID, functionCall           json.RawMessage
	reasoning, reasoningContent, reasoningDetails json.RawMessage
}

func readMessage(raw json.RawMessage) (m wireMessage) {
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "role":
			m.role = value
		case "content":
			m.content = value
		case "name":
			m.name = value
		case "refusal":
			m.refusal = value
		case "tool_calls":
			m.toolCalls = value
		case "tool_call_id":
			m.toolCallID = value
		case "function_call":
			m.functionCall = value
		case "reasoning":
			m.reasoning = value
		case "reasoning_content":
			m.reasoningContent = value
		case "reasoning_details":
			m.reasoningDetails = value
		}
	}
	return m
}

// history decodes messages in order and remembers the tool calls, which later results refer to.
type history struct {
	d     *decoder
	calls []llm.ToolCall
	open  []int // indexes of calls without result
	ids   map[string]bool
}

func (h *history) message(i int, raw json.RawMessage) (llm.Message, *llm.Error) {
	if dialect.Kind(raw) != '{' {
		return llm.Message{}, llm.Invalid("", "must be an object")
	}
	w := readMessage(raw)
	role, ok := dialect.Unquote(w.role)
	if !ok || role == "" {
		return llm.Message{}, llm.Invalid("role", "is required")
	}
	msg := llm.Message{Role: llm.Role(role)}
	if !dialect.Null(w.name) {
		if msg.Name, ok = dialect.Unquote(w.name); !ok {
			return msg, llm.Invalid("name", "must be a string")
		}
	}
	var err *llm.Error
	switch msg.Role {
	case llm.RoleSystem, llm.RoleDeveloper, llm.RoleUser:
		if dialect.Null(w.content) {
			return msg, llm.Invalid("content", "is required")
		}
		msg.Blocks, err = content(w.content)
	case llm.RoleAssistant:
		err = h.assistant(i, w, &msg)
	case llm.RoleTool:
		err = h.tool(w, &msg)
	case "function":
		err = h.function(w, &msg)
	default:
		h.d.note(dialect.At("messages", i)+".role", "user")
		msg.Role = llm.RoleUser
		msg.Blocks, err = content(w.content)
	}
	return msg, err
}

func (h *history) assistant(i int, w wireMessage, msg *llm.Message) *llm.Error {
	if text := reasoningText(w); text != "" {
		msg.Blocks = append(msg.Blocks, llm.Block{Kind: llm.BlockThinking, Text: text})
	}
	blocks, err := content(w.content)
	if err != nil {
		return err
	}
	msg.Blocks = append(msg.Blocks, blocks...)
	if refusal, ok := dialect.Unquote(w.refusal); ok && refusal != "" {
		msg.Blocks = append(msg.Blocks, llm.Block{Kind: llm.BlockRefusal, Text: refusal})
	}
	if !dialect.Null(w.toolCalls) {
		if dialect.Kind(w.toolCalls) != '[' {
			return llm.Invalid("tool_calls", "must be a list")
		}
		for n, item := range dialect.Elements(w.toolCalls) {
			call, err := readCall(item)
			if err != nil {
				return dialect.Under(dialect.At("tool_calls", n), err)
			}
			h.call(i, n, call, msg)
		}
	}
	if dialect.Kind(w.functionCall) == '{' {
		call, err := readFunction(w.functionCall)
		if err != nil {
			return dialect.Under("function_call", err)
		}
		h.call(i, 0, call, msg)
	}
	if dialect.Null(w.content) && len(msg.Blocks) == 0 {
		h.d.note(dialect.At("messages", i)+".content", "empty")
	}
	return nil
}

// call adds a tool call to msg. An id that is empty or was used before is replaced by one that depends only on the
// place, so that the same history always gives the same prompt.
func (h *history) call(message, n int, call llm.ToolCall, msg *llm.Message) {
	if call.ID == "" || h.ids[call.ID] {
		call.ID = fmt.Sprintf("call_%012x%012x", message, n)
	}
	if h.ids == nil {
		h.ids = map[string]bool{}
	}
	h.ids[call.ID] = true
	h.open = append(h.open, len(h.calls))
	h.calls = append(h.calls, call)
	msg.Blocks = append(msg.Blocks, llm.Block{Kind: llm.BlockToolCall, ToolCall: &call})
}

func (h *history) tool(w wireMessage, msg *llm.Message) *llm.Error {
	blocks, err := content(w.content)
	if err != nil {
		return err
	}
	id, _ := dialect.Unquote(w.toolCallID)
	result := &llm.ToolResult{CallID: id, Name: msg.Name, Content: blocks}
	if !h.resolve(result) && id == "" {
		return llm.Invalid("tool_call_id", "is required")
	}
	msg.Name = ""
	msg.Blocks = []llm.Block{{Kind: llm.BlockToolResult, ToolResult: result}}
	return nil
}

// function reads the result of a legacy function call, which belongs to the last open call of that name.
func (h *history) function(w wireMessage, msg *llm.Message) *llm.Error {
	blocks, err := content(w.content)
	if err != nil {
		return err
	}
	if msg.Name == "" {
		return llm.Invalid("name", "is required")
	}
	result := &llm.ToolResult{Name: msg.Name, Content: blocks}
	if !h.resolve(result) {
		return llm.Invalid("name", "no function call of this name precedes")
	}
	msg.Role, msg.Name = llm.RoleTool, ""
	msg.Blocks = []llm.Block{{Kind: llm.BlockToolResult, ToolResult: result}}
	return nil
}

// resolve finds the call that r answers: by id, else the first open one, of r's name if it has one. It completes id
// and name and reports whether a call was found.
func (h *history) resolve(r *llm.ToolResult) bool {
	for n, i := range h.open {
		call := h.calls[i]
		match := call.ID == r.CallID
		if r.CallID == "" {
			match = r.Name == "" || call.Name == r.Name
		}
		if match {
			r.CallID, r.Name = call.ID, call.Name
			h.open = append(h.open[:n:n], h.open[n+1:]...)
			return true
		}
	}
	return false
}

// readCall reads an element of tool_calls. Arguments keep their bytes; some clients send an object, not a string.
func readCall(raw json.RawMessage) (llm.ToolCall, *llm.Error) {
	var id, function, custom json.RawMessage
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "id":
			id = value
		case "function":
			function = value
		case "custom":
			custom = value
		}
	}
	if dialect.Kind(custom) == '{' {
		return llm.ToolCall{}, &llm.Error{Code: llm.CodeUnsupported, Param: "custom", Message: "custom tools are not supported here; declare a function"}
	}
	if dialect.Kind(function) != '{' {
		return llm.ToolCall{}, llm.Invalid("function", "is required")
	}
	call, err := readFunction(function)
	if err != nil {
		return call, dialect.Under("function", err)
	}
	call.ID, _ = dialect.Unquote(id)
	return call, nil
}

func readFunction(raw json.RawMessage) (llm.ToolCall, *llm.Error) {
	var call llm.ToolCall
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "name":
			call.Name, _ = dialect.Unquote(value)
		case "arguments":
			if s, ok := dialect.Unquote(value); ok {
				call.Arguments = nil
				if s != "" {
					call.Arguments = json.RawMessage(s)
				}
			} else if !dialect.Null(value) {
				call.Arguments = value
			}
		}
	}
	if call.Name == "" {
		return call, llm.Invalid("name", "is required")
	}
	return call, nil
}

// reasoningText returns the thinking of an assistant message in any of the three forms that clients use.
func reasoningText(w wireMessage) string {
	for _, raw := range []json.RawMessage{w.reasoningContent, w.reasoning} {
		if s, ok := dialect.Unquote(raw); ok && s != "" {
			return s
		}
	}
	var text string
	for _, item := range dialect.Elements(w.reasoningDetails) {
		for key, value := range dialect.Members(item) {
			if string(key) == "text" || string(key) == "summary" {
				s, _ := dialect.Unquote(value)
				text += s
			}
		}
	}
	return text
}
