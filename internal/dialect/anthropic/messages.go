package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// billingHeader begins a line that Claude Code puts in front of its system prompt. It holds a hash that changes with
// every request and would make every prompt a new one to the prefix cache.
const billingHeader = "x-anthropic-billing-header"

// system reads the system prompt, a string or a list of text blocks, which becomes the first message.
func (d *decoder) system() {
	raw := d.f.Take("system")
	if raw == nil {
		return
	}
	text, err := systemText(raw)
	if err != nil {
		d.f.Adopt(dialect.Under("system", err))
		return
	}
	if text != "" {
		d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{llm.TextBlock(text)}})
	}
}

// systemText joins the texts of a system prompt to one, so that it renders the same whether or not further system
// messages follow later.
func systemText(raw json.RawMessage) (string, *llm.Error) {
	if s, ok := dialect.Unquote(raw); ok {
		return withoutBilling(s), nil
	}
	if dialect.Kind(raw) != '[' {
		return "", llm.Invalid("", "must be a string or a list of text blocks")
	}
	var texts []string
	for i, item := range dialect.Elements(raw) {
		b := readBlock(item)
		if kind := b.kind(); kind != "text" {
			return "", dialect.Under(dialect.At("", i), llm.Invalid("type", "must be text"))
		}
		s, err := b.text()
		if err != nil {
			return "", dialect.Under(dialect.At("", i), err)
		}
		if s = withoutBilling(s); s != "" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n\n"), nil
}

func withoutBilling(s string) string {
	if !strings.HasPrefix(s, billingHeader) {
		return s
	}
	_, rest, _ := strings.Cut(s, "\n")
	return rest
}

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
	h := history{d: d, open: map[string][]llm.ToolCall{}, ids: map[string]bool{}}
	before := len(d.req.Messages)
	n := 0
	for i, item := range dialect.Elements(raw) {
		if i == maxMessages {
			d.f.Fail("messages", "has more than %d entries", maxMessages)
			return
		}
		if err := h.message(i, item); err != nil {
			d.f.Adopt(dialect.Under(dialect.At("messages", i), err))
			return
		}
		n++
	}
	switch {
	case n == 0:
		d.f.Fail("messages", "must not be empty")
	case len(d.req.Messages) == before: // nothing but empty turns
		d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.RoleUser})
	}
}

// history decodes messages in order and remembers the tool calls, which later results refer to.
type history struct {
	d    *decoder
	open map[string][]llm.ToolCall // calls without result by the id that the client sent
	ids  map[string]bool           // of all calls, as they go to the backend
}

// turn is what one message holds: what is said, and the results of tools.
type turn struct {
	role    llm.Role
	index   int // of the message
	calls   int // tool calls so far
	blocks  []llm.Block
	results []llm.Block
}

// message decodes a message. Results of tools come before whatever else a turn says, because they must follow the call.
// Empty turns, which templates choke on, are left out.
func (h *history) message(i int, raw json.RawMessage) *llm.Error {
	if dialect.Kind(raw) != '{' {
		return llm.Invalid("", "must be an object")
	}
	var role, content json.RawMessage
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "role":
			role = value
		case "content":
			content = value
		}
	}
	name, ok := dialect.Unquote(role)
	if !ok || name == "" {
		return llm.Invalid("role", "is required")
	}
	t := turn{role: llm.Role(name), index: i}
	switch t.role {
	case llm.RoleUser, llm.RoleAssistant:
	case llm.RoleSystem, llm.RoleDeveloper:
		t.role = llm.RoleSystem
	default:
		h.d.note(dialect.At("messages", i)+".role", "user", "")
		t.role = llm.RoleUser
	}
	if dialect.Null(content) {
		return llm.Invalid("content", "is required")
	}
	if t.role == llm.RoleSystem {
		text, err := systemText(content)
		if err != nil {
			return dialect.Under("content", err)
		}
		if text != "" {
			t.blocks = append(t.blocks, llm.TextBlock(text))
		}
	} else if err := h.content(&t, content); err != nil {
		return err
	}
	h.add(llm.RoleTool, t.results)
	h.add(t.role, t.blocks)
	return nil
}

func (h *history) add(role llm.Role, blocks []llm.Block) {
	if len(blocks) > 0 {
		h.d.req.Messages = append(h.d.req.Messages, llm.Message{Role: role, Blocks: blocks})
	}
}

// content decodes the content of a user or assistant turn.
func (h *history) content(t *turn, raw json.RawMessage) *llm.Error {
	if s, ok := dialect.Unquote(raw); ok {
		if s != "" {
			t.blocks = append(t.blocks, llm.TextBlock(s))
		}
		return nil
	}
	if dialect.Kind(raw) != '[' {
		return llm.Invalid("content", "must be a string or a list of blocks")
	}
	for i, item := range dialect.Elements(raw) {
		if err := h.block(t, item); err != nil {
			return dialect.Under(dialect.At("content", i), err)
		}
	}
	return nil
}

func (h *history) block(t *turn, raw json.RawMessage) *llm.Error {
	b := readBlock(raw)
	kind := b.kind()
	if owner := owners[kind]; owner != "" && owner != t.role {
		return llm.Invalid("type", "content of type %s cannot stand in a turn of the %s", kind, t.role)
	}
	switch kind {
	case "thinking":
		text, _ := dialect.Unquote(b.members["thinking"])
		signature, _ := dialect.Unquote(b.members["signature"])
		if text != "" { // an omitted text cannot be given back
			t.blocks = append(t.blocks, llm.Block{Kind: llm.BlockThinking, Text: text, Signature: signature})
		}
	case "redacted_thinking": // sealed by another service
	case "tool_use":
		return h.call(t, b)
	case "tool_result":
		return h.result(t, b)
	default:
		if serverSide(kind) { // of a tool that ran at another service
			h.d.note(kind, "dropped", "")
			return nil
		}
		blocks, err := h.d.said(b)
		t.blocks = append(t.blocks, blocks...)
		return err
	}
	return nil
}

// owners says in whose turn a block may stand, where it may not stand in both.
var owners = map[string]llm.Role{
	"image": llm.RoleUser, "document": llm.RoleUser, "tool_result": llm.RoleUser,
	"thinking": llm.RoleAssistant, "redacted_thinking": llm.RoleAssistant, "tool_use": llm.RoleAssistant,
}

// serverSide reports whether a block belongs to a tool that the service itself runs, which is none here.
func serverSide(kind string) bool {
	switch kind {
	case "server_tool_use", "mcp_tool_use", "container_upload", "compaction":
		return true
	default:
		return kind != "tool_result" && strings.HasSuffix(kind, "_tool_result")
	}
}

// call reads a tool call. Its arguments keep their bytes: numbers keep their digits. An id that is empty or was used
// before is replaced by one that depends only on the place, so that the same history always gives the same prompt.
func (h *history) call(t *turn, b block) *llm.Error {
	var call llm.ToolCall
	if call.Name, _ = dialect.Unquote(b.members["name"]); call.Name == "" {
		return llm.Invalid("name", "is required")
	}
	if input := b.members["input"]; !dialect.Null(input) {
		if dialect.Kind(input) != '{' {
			return llm.Invalid("input", "must be an object")
		}
		call.Arguments = input
	}
	sent, _ := dialect.Unquote(b.members["id"])
	call.ID = sent
	if call.ID == "" || h.ids[call.ID] {
		call.ID = fmt.Sprintf("call_%012x%012x", t.index, t.calls)
	}
	t.calls++
	h.ids[call.ID] = true
	h.open[sent] = append(h.open[sent], call)
	t.blocks = append(t.blocks, llm.Block{Kind: llm.BlockToolCall, ToolCall: &call})
	return nil
}

// result reads the result of a tool and finds the call that it answers.
func (h *history) result(t *turn, b block) *llm.Error {
	id, _ := dialect.Unquote(b.members["tool_use_id"])
	r := &llm.ToolResult{CallID: id}
	switch calls := h.open[id]; {
	case len(calls) > 0:
		r.CallID, r.Name = calls[0].ID, calls[0].Name
		h.open[id] = calls[1:]
	case id == "":
		return llm.Invalid("tool_use_id", "is required")
	default:
		h.d.note("tool_result", "orphan", "")
	}
	r.IsError, _ = dialect.Bool(b.members["is_error"])
	var err *llm.Error
	if r.Content, err = h.d.resultContent(b.members["content"]); err != nil {
		return dialect.Under("content", err)
	}
	t.results = append(t.results, llm.Block{Kind: llm.BlockToolResult, ToolResult: r})
	return nil
}
