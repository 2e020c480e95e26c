// Package anthropictest checks what clients of the Anthropic protocol receive. It reads bytes on its own, strictly, and
// shares no code with the encoder: what a lenient client library forgives is an error here.
package anthropictest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Message is what a client puts together from a stream, or reads as a whole answer.
type Message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []Block `json:"content"`
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        Usage   `json:"usage"`

	Started Usage  `json:"-"` // usage of message_start
	Pings   int    `json:"-"`
	Error   *Error `json:"-"` // set if the stream ended with an error
}

// Block is a block of content.
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// Usage counts tokens. Input leaves out what was read from the cache.
type Usage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	Output        int `json:"output_tokens"`
}

// Error is the body of an error.
type Error struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// CheckStream checks a whole stream: its framing, with a name on every event that agrees with the type in its data; one
// message_start, first; blocks numbered densely, one after the other; deltas of the kind of the open block; exactly one
// signature at the end of each thinking block; an object as the input of each tool call, unless the answer was cut; one
// message_delta after the last block, whose reason fits the blocks and whose usage does not shrink; and an end that is
// either message_stop or an error. It returns what a client would see.
func CheckStream(raw []byte) (*Message, error) {
	frames, err := split(raw)
	if err != nil {
		return nil, err
	}
	c := checker{m: &Message{}}
	for i, f := range frames {
		if c.ended {
			return c.m, fmt.Errorf("event %d after the end: %s", i, f.name)
		}
		if err := c.add(f); err != nil {
			return c.m, fmt.Errorf("event %d (%s): %w: %s", i, f.name, err, f.data)
		}
	}
	if !c.ended {
		return c.m, errors.New("the stream ends with neither message_stop nor an error")
	}
	return c.m, nil
}

type frame struct{ name, data string }

func split(raw []byte) ([]frame, error) {
	switch {
	case !utf8.Valid(raw):
		return nil, errors.New("the stream is not UTF-8")
	case bytes.ContainsRune(raw, '\r'):
		return nil, errors.New("the stream has a carriage return")
	case !bytes.HasSuffix(raw, []byte("\n\n")):
		return nil, errors.New("the stream does not end with a blank line")
	}
	var frames []frame
	for text := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
		head, rest, _ := strings.Cut(text, "\n")
		name, named := strings.CutPrefix(head, "event: ")
		data, ok := strings.CutPrefix(rest, "data: ")
		if !named || !ok || strings.Contains(data, "\n") {
			return nil, fmt.Errorf("an event is not a name and one line of data: %q", text)
		}
		frames = append(frames, frame{name, data})
	}
	return frames, nil
}

type event struct {
	Type    string   `json:"type"`
	Message *Message `json:"message"`
	Index   *int     `json:"index"`
	Block   *struct {
		Block
		Input json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta map[string]json.RawMessage `json:"delta"`
	Usage *struct {
		Input  *int `json:"input_tokens"`
		Output *int `json:"output_tokens"`
		Usage
	} `json:"usage"`
	Error *Error `json:"error"`
}

type checker struct {
	m         *Message
	begun     bool
	open      bool
	delivered bool // message_delta was seen
	ended     bool
	input     strings.Builder // of the open tool call
	broken    []string        // tool calls whose input is not an object
}

func (c *checker) add(f frame) error {
	var ev event
	if err := json.Unmarshal([]byte(f.data), &ev); err != nil {
		return fmt.Errorf("not an event: %w", err)
	}
	if ev.Type != f.name {
		return fmt.Errorf("the data has the type %q", ev.Type)
	}
	if f.name == "error" {
		return c.fail(ev.Error)
	}
	if f.name == "message_start" {
		return c.start(ev.Message)
	}
	if !c.begun {
		return errors.New("precedes message_start")
	}
	if f.name == "ping" {
		c.m.Pings++
		return nil
	}
	if c.delivered != (f.name == "message_stop") {
		return errors.New("message_delta comes once, after the blocks and before message_stop")
	}
	switch f.name {
	case "content_block_start":
		return c.blockStart(ev)
	case "content_block_delta":
		return c.blockDelta(ev)
	case "content_block_stop":
		return c.blockStop(ev)
	case "message_delta":
		return c.delta(ev)
	case "message_stop":
		c.ended = true
		return nil
	default:
		return errors.New("unknown event")
	}
}

func (c *checker) fail(e *Error) error {
	c.ended = true
	if e == nil || e.Type == "" || e.Message == "" {
		return errors.New("the error says nothing")
	}
	c.m.Error = e
	return nil
}

func (c *checker) start(m *Message) error {
	switch {
	case c.begun:
		return errors.New("message_start comes twice")
	case m == nil || !strings.HasPrefix(m.ID, "msg_") || len(m.ID) <= len("msg_"):
		return errors.New("no message with an id")
	case m.Type != "message" || m.Role != "assistant" || m.Model == "":
		return errors.New("wrong type, role or model")
	case m.Content == nil || len(m.Content) != 0:
		return errors.New("content must be an empty list")
	case m.StopReason != "" || m.StopSequence != nil:
		return errors.New("it has stopped already")
	}
	c.begun = true
	*c.m = *m
	c.m.Started = m.Usage
	return nil
}

func (c *checker) blockStart(ev event) error {
	switch {
	case c.open:
		return errors.New("a block is still open")
	case ev.Index == nil || *ev.Index != len(c.m.Content):
		return fmt.Errorf("the index must be %d", len(c.m.Content))
	case ev.Block == nil:
		return errors.New("no block")
	}
	b := ev.Block.Block
	switch b.Type {
	case "text", "thinking":
		if b.Text != "" || b.Thinking != "" || b.Signature != "" {
			return errors.New("the block begins with content")
		}
	case "tool_use":
		if b.ID == "" || b.Name == "" || string(ev.Block.Input) != "{}" {
			return errors.New("a tool call begins without id or name, or its input is not {}")
		}
		for _, other := range c.m.Content {
			if other.ID == b.ID {
				return fmt.Errorf("id %q is used twice", b.ID)
			}
		}
	default:
		return fmt.Errorf("unknown type %q of block", b.Type)
	}
	c.open = true
	c.input.Reset()
	c.m.Content = append(c.m.Content, b)
	return nil
}

// current returns the open block if the event is about it.
func (c *checker) current(ev event) (*Block, error) {
	if !c.open || ev.Index == nil || *ev.Index != len(c.m.Content)-1 {
		return nil, errors.New("it is not about the open block")
	}
	return &c.m.Content[len(c.m.Content)-1], nil
}

// deltas says which key a delta has and to which block it belongs.
var deltas = map[string]struct{ key, block string }{
	"text_delta":       {"text", "text"},
	"thinking_delta":   {"thinking", "thinking"},
	"signature_delta":  {"signature", "thinking"},
	"input_json_delta": {"partial_json", "tool_use"},
}

func (c *checker) blockDelta(ev event) error {
	b, err := c.current(ev)
	if err != nil {
		return err
	}
	var kind, text string
	if err := json.Unmarshal(ev.Delta["type"], &kind); err != nil {
		return errors.New("the delta has no type")
	}
	d, ok := deltas[kind]
	if !ok || d.block != b.Type {
		return fmt.Errorf("%s in a block of type %s", kind, b.Type)
	}
	if err := json.Unmarshal(ev.Delta[d.key], &text); err != nil || len(ev.Delta) != 2 {
		return fmt.Errorf("the delta is not of type and %s", d.key)
	}
	if b.Signature != "" {
		return errors.New("a thinking block goes on after its signature")
	}
	switch kind {
	case "text_delta":
		b.Text += text
	case "thinking_delta":
		b.Thinking += text
	case "signature_delta":
		b.Signature += text
	case "input_json_delta":
		c.input.WriteString(text)
	}
	if text == "" {
		return errors.New("the delta is empty")
	}
	return nil
}

func (c *checker) blockStop(ev event) error {
	b, err := c.current(ev)
	if err != nil {
		return err
	}
	c.open = false
	switch b.Type {
	case "thinking":
		if b.Signature == "" {
			return errors.New("a thinking block ends without signature")
		}
	case "tool_use":
		b.Input = json.RawMessage("{}")
		if c.input.Len() > 0 {
			b.Input = json.RawMessage(c.input.String())
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(b.Input, &object) != nil || object == nil {
			c.broken = append(c.broken, c.input.String())
			b.Input = json.RawMessage("{}") // as the client libraries do
		}
	}
	return nil
}

func (c *checker) delta(ev event) error {
	if c.open {
		return errors.New("a block is still open")
	}
	c.delivered = true
	var sequence *string
	if json.Unmarshal(ev.Delta["stop_reason"], &c.m.StopReason) != nil || c.m.StopReason == "" {
		return errors.New("no stop reason")
	}
	if json.Unmarshal(ev.Delta["stop_sequence"], &sequence) != nil {
		return errors.New("stop_sequence must be a string or null")
	}
	c.m.StopSequence = sequence
	if (c.m.StopReason == "stop_sequence") != (sequence != nil) {
		return errors.New("stop_sequence must be there exactly for the reason stop_sequence")
	}
	if err := c.reason(); err != nil {
		return err
	}
	if ev.Usage == nil || ev.Usage.Output == nil || ev.Usage.Input == nil {
		return errors.New("no usage")
	}
	c.m.Usage = ev.Usage.Usage
	c.m.Usage.Input, c.m.Usage.Output = *ev.Usage.Input, *ev.Usage.Output
	if c.m.Usage.Output < c.m.Started.Output {
		return errors.New("the usage shrinks")
	}
	return nil
}

// reason checks that the stop reason fits the content.
func (c *checker) reason() error {
	calls := false
	for _, b := range c.m.Content {
		calls = calls || b.Type == "tool_use"
	}
	switch c.m.StopReason {
	case "max_tokens", "model_context_window_exceeded":
		return nil // a tool call may be cut
	case "tool_use":
		if !calls {
			return errors.New("stop reason tool_use without a call")
		}
	case "end_turn", "stop_sequence":
		if calls {
			return errors.New("tool calls end with another reason than tool_use")
		}
	case "refusal":
	default:
		return errors.New("unknown stop reason")
	}
	if len(c.broken) > 0 {
		return fmt.Errorf("the input of a tool call is not an object: %q", c.broken[0])
	}
	return nil
}
