package openai

import (
	"encoding/json"
	"fmt"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// earlier is the place of the items of earlier responses.
const earlier = "previous_response_id"

// input reads the conversation: the items of earlier responses, then the request's own.
func (d *responsesDecoder) input(t *toolbox) {
	own := d.f.Take("input")
	c := conversation{
		d: d, tools: t, open: map[string][]pendingCall{}, ids: map[string]bool{},
		items: map[string]json.RawMessage{}, named: map[string]bool{},
	}
	for i, item := range d.previous {
		c.know(item)
		if err := c.add(earlier, i, item); err != nil {
			d.f.Adopt(llm.Errorf(llm.CodeInternal, "The previous response cannot be read.").With(err))
			return
		}
	}
	d.ownInput(&c, own)
	before := len(d.req.Messages)
	c.finish()
	if d.f.Err() == nil && len(d.req.Messages) == before {
		d.f.Fail("input", "must not be empty")
	}
}

func (d *responsesDecoder) ownInput(c *conversation, raw json.RawMessage) {
	if d.req.Echo["store"] != nil {
		d.echo("input", raw)
	}
	if text, ok := dialect.Unquote(raw); ok {
		var blocks []llm.Block
		if text != "" {
			blocks = append(blocks, llm.TextBlock(text))
		}
		c.say(llm.Message{Role: llm.RoleUser, Blocks: blocks})
		return
	}
	switch {
	case raw == nil:
		d.f.Fail("input", "is required")
		return
	case dialect.Kind(raw) != '[':
		d.f.Fail("input", "must be a string or a list of items")
		return
	}
	for i, item := range dialect.Elements(raw) {
		if len(d.previous)+i >= maxMessages {
			d.f.Fail("input", "has more than %d entries", maxMessages)
			return
		}
		if err := c.add(dialect.At("input", i), i, item); err != nil {
			d.f.Adopt(dialect.Under(dialect.At("input", i), err))
			return
		}
	}
}

// conversation puts items together to messages. Items are finer than messages: one turn of the assistant is reasoning,
// text and calls, each an item of its own, and results may come later than something else.
type conversation struct {
	d        *responsesDecoder
	tools    *toolbox
	turns    []*turn
	thinking []llm.Block                // waits for the turn of the assistant that it led to
	open     map[string][]pendingCall   // calls without result by the id that the client sent
	ids      map[string]bool            // of all calls, as they go to the backend
	items    map[string]json.RawMessage // of earlier responses by id
	named    map[string]bool            // ids in references so far
}

// turn is a message and the results of the calls in it, which follow it wherever they stand in the input.
type turn struct {
	msg     llm.Message
	results []llm.Message
	open    int // calls without result
}

type pendingCall struct {
	call llm.ToolCall
	turn *turn
}

// know remembers an item of an earlier response for references to it.
func (c *conversation) know(item json.RawMessage) {
	for key, value := range dialect.Members(item) {
		if string(key) == "id" {
			if id, _ := dialect.Unquote(value); id != "" {
				c.items[id] = item
			}
		}
	}
}

// finish appends the messages to the request. Reasoning that led to nothing is left out: it is an answer cut short.
func (c *conversation) finish() {
	for _, t := range c.turns {
		c.d.req.Messages = append(c.d.req.Messages, t.msg)
		c.d.req.Messages = append(c.d.req.Messages, t.results...)
	}
}

// add takes the next item, at the given place of the input.
func (c *conversation) add(place string, index int, raw json.RawMessage) *llm.Error {
	if dialect.Kind(raw) != '{' {
		return llm.Invalid("", "must be an object")
	}
	m := map[string]json.RawMessage{}
	for key, value := range dialect.Members(raw) {
		if !dialect.Null(value) {
			m[string(key)] = value
		}
	}
	kind, _ := dialect.Unquote(m["type"])
	switch {
	case kind == "message", kind == "" && m["role"] != nil:
		return c.message(place, m)
	case kind == "" && m["id"] != nil, kind == "item_reference":
		return c.reference(place, index, m)
	case kind == "":
		return llm.Invalid("type", "is required")
	}
	switch kind {
	case "function_call", "custom_tool_call":
		return c.call(index, kind, m)
	case "function_call_output", "custom_tool_call_output":
		return c.result(kind, m)
	case "reasoning":
		c.reason(m)
	case "additional_tools", "tool_search_output":
		c.tools.list(place+".tools", m["tools"])
	case "compaction":
		c.d.once(llm.Note{Field: "input.compaction", What: "dropped", Semantic: true}) // sealed by another service
	default:
		c.d.once(llm.Note{Field: dialect.NoteName("input." + kind), What: "dropped"})
	}
	return nil
}

// once notes something that may occur many times in a history.
func (d *responsesDecoder) once(n llm.Note) {
	for _, other := range d.notes {
		if other == n {
			return
		}
	}
	d.notes = append(d.notes, n)
}

func (c *conversation) last() *turn {
	if len(c.turns) == 0 {
		return nil
	}
	return c.turns[len(c.turns)-1]
}

// say begins a turn.
func (c *conversation) say(msg llm.Message) *turn {
	c.thinking = nil
	t := &turn{msg: msg}
	c.turns = append(c.turns, t)
	return t
}

// assist adds blocks to the assistant's turn: to the last one if join says so, else to a new one, which begins with the
// reasoning that led to it.
func (c *conversation) assist(join bool, blocks ...llm.Block) *turn {
	blocks = append(c.thinking, blocks...)
	c.thinking = nil
	if t := c.last(); join && t != nil && t.msg.Role == llm.RoleAssistant {
		t.msg.Blocks = append(t.msg.Blocks, blocks...)
		return t
	}
	return c.say(llm.Message{Role: llm.RoleAssistant, Blocks: blocks})
}

// message reads what somebody said. What the assistant says between a call and its result belongs to the turn of the
// call.
func (c *conversation) message(place string, m map[string]json.RawMessage) *llm.Error {
	role, _ := dialect.Unquote(m["role"])
	if role == "" {
		return llm.Invalid("role", "is required")
	}
	if m["content"] == nil {
		return llm.Invalid("content", "is required")
	}
	blocks, err := itemContent("content", m["content"])
	if err != nil {
		return err
	}
	msg := llm.Message{Role: llm.Role(role), Blocks: blocks}
	switch msg.Role {
	case llm.RoleAssistant:
		if len(blocks) > 0 {
			t := c.last()
			c.assist(t != nil && t.open > 0, blocks...)
		}
		return nil
	case llm.RoleSystem, llm.RoleDeveloper, llm.RoleUser:
	default:
		c.d.note(place+".role", "user")
		msg.Role = llm.RoleUser
	}
	if len(blocks) > 0 {
		c.say(msg)
	}
	return nil
}

// reference puts the item in place that another one names. Each can be named once: a short input must not unfold to a
// long one.
func (c *conversation) reference(place string, index int, m map[string]json.RawMessage) *llm.Error {
	id, _ := dialect.Unquote(m["id"])
	switch {
	case id == "":
		return llm.Invalid("id", "is required")
	case c.named[id] && place == earlier:
		return nil
	case c.named[id]:
		return llm.Invalid("id", "names an item for the second time")
	}
	c.named[id] = true
	item := c.items[id]
	if item == nil && c.d.codec.Item != nil {
		var err error
		if item, err = c.d.codec.Item(id); err != nil {
			return foreign("id", err)
		}
	}
	if item == nil {
		return llm.Invalid("id", "names an item that is not kept here; send the item itself")
	}
	return c.add(place, index, item)
}

// call reads a call of the assistant. An id that is missing or was used before is replaced by one that depends only on
// the place, so that the same history always gives the same prompt.
func (c *conversation) call(index int, kind string, m map[string]json.RawMessage) *llm.Error {
	var p toolPlace
	p.name, _ = dialect.Unquote(m["name"])
	p.namespace, _ = dialect.Unquote(m["namespace"])
	if p.name == "" {
		return llm.Invalid("name", "is required")
	}
	sent, _ := dialect.Unquote(m["call_id"])
	if sent == "" {
		sent, _ = dialect.Unquote(m["id"])
	}
	call := llm.ToolCall{ID: sent, Name: c.tools.function(p)}
	if kind == "custom_tool_call" {
		input, ok := dialect.Unquote(m["input"])
		if !ok {
			return llm.Invalid("input", "must be a string")
		}
		call.Arguments = wrapInput(input)
	} else if text, ok := dialect.Unquote(m["arguments"]); ok {
		if text != "" {
			call.Arguments = json.RawMessage(text)
		}
	} else {
		call.Arguments = m["arguments"] // some clients send the object itself
	}
	if call.ID == "" || c.ids[call.ID] {
		call.ID = fmt.Sprintf("call_%012x%012x", len(c.turns), index)
	}
	c.ids[call.ID] = true
	last := c.last()
	t := c.assist(last != nil && len(last.results) == 0, llm.Block{Kind: llm.BlockToolCall, ToolCall: &call})
	t.open++
	c.open[sent] = append(c.open[sent], pendingCall{call: call, turn: t})
	return nil
}

// result reads the result of a call. One without a call is told to the model as what it is.
func (c *conversation) result(kind string, m map[string]json.RawMessage) *llm.Error {
	id, _ := dialect.Unquote(m["call_id"])
	if id == "" {
		return llm.Invalid("call_id", "is required")
	}
	var blocks []llm.Block
	switch dialect.Kind(m["output"]) {
	case 0:
	case '"', '[':
		var err *llm.Error
		if blocks, err = itemContent("output", m["output"]); err != nil {
			return err
		}
	default: // some clients send JSON as it is
		blocks = []llm.Block{llm.TextBlock(string(m["output"]))}
	}
	waiting := c.open[id]
	if len(waiting) == 0 {
		c.d.once(llm.Note{Field: "input." + kind, What: "orphan"})
		text := llm.TextBlock("tool result (" + id + "): ")
		if len(blocks) > 0 && blocks[0].Kind == llm.BlockText {
			text.Text += blocks[0].Text
			blocks = blocks[1:]
		}
		c.say(llm.Message{Role: llm.RoleUser, Blocks: append([]llm.Block{text}, blocks...)})
		return nil
	}
	p := waiting[0]
	c.open[id] = waiting[1:]
	p.turn.open--
	p.turn.results = append(p.turn.results, llm.Message{Role: llm.RoleTool, Blocks: []llm.Block{{
		Kind: llm.BlockToolResult, ToolResult: &llm.ToolResult{CallID: p.call.ID, Name: p.call.Name, Content: blocks},
	}}})
	return nil
}
