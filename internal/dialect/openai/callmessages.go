package openai

import (
	"encoding/json"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// messages translates the conversation: one message per tool result, thinking only within the current tool loop, and
// pictures of tool results in a user message after all results of the turn, where templates accept them.
func (c *call) messages() ([]wireOut, error) {
	msgs, notes := dialect.Arrange(c.r.Messages, c.o.Model)
	c.notes = append(c.notes, notes...)
	thinkingFrom := dialect.AfterLastUser(msgs)
	if dialect.Profile(c.o.Model) == llm.ProfileAlways {
		thinkingFrom = 0
	}
	out := make([]wireOut, 0, len(msgs))
	var pictures []wirePart
	for i, msg := range msgs {
		if msg.Role != llm.RoleTool && len(pictures) > 0 {
			out = append(out, wireOut{Role: "user", Content: pictures})
			pictures = nil
		}
		var err *llm.Error
		switch msg.Role {
		case llm.RoleTool:
			out, pictures, err = c.results(out, pictures, msg)
		case llm.RoleAssistant:
			out = append(out, c.assistant(msg, i >= thinkingFrom))
		default:
			var w wireOut
			w, err = c.speaker(msg)
			out = append(out, w)
		}
		if err != nil {
			return nil, dialect.Under("messages", err)
		}
	}
	if len(pictures) > 0 {
		out = append(out, wireOut{Role: "user", Content: pictures})
	}
	return out, nil
}

// speaker translates a system, developer or user message. A single text stays a string: templates and servers exist
// that know nothing else.
func (c *call) speaker(msg llm.Message) (wireOut, *llm.Error) {
	w := wireOut{Role: string(msg.Role), Name: msg.Name}
	if msg.Role != llm.RoleUser {
		w.Content = joinTexts(msg.Blocks, "\n\n")
		return w, nil
	}
	parts, err := c.parts(msg.Blocks)
	if err != nil {
		return w, err
	}
	switch {
	case len(parts) == 0:
		w.Content = ""
	case len(parts) == 1 && parts[0].Type == "text":
		w.Content = parts[0].Text
	default:
		w.Content = parts
	}
	return w, nil
}

func (c *call) assistant(msg llm.Message, think bool) wireOut {
	w := wireOut{Role: "assistant", Name: msg.Name}
	var text, thinking strings.Builder
	for _, b := range msg.Blocks {
		switch b.Kind {
		case llm.BlockText, llm.BlockRefusal:
			text.WriteString(b.Text)
		case llm.BlockThinking:
			thinking.WriteString(b.Text)
		case llm.BlockToolCall:
			w.ToolCalls = append(w.ToolCalls, wireCall{ID: b.ToolCall.ID, Type: "function", Function: wireFunction{
				Name: b.ToolCall.Name, Arguments: c.arguments(b.ToolCall),
			}})
		}
	}
	if text.Len() > 0 || len(w.ToolCalls) == 0 || c.q.textWithCalls {
		w.Content = text.String()
	}
	if think && c.q.reasoningKey == "reasoning" {
		w.Reasoning = thinking.String()
	} else if think {
		w.ReasoningContent = thinking.String()
	}
	return w
}

// arguments returns the arguments of an earlier call. Templates parse them, so broken JSON, which models do write, is
// wrapped rather than lost.
func (c *call) arguments(call *llm.ToolCall) string {
	switch {
	case len(call.Arguments) == 0:
		return "{}"
	case json.Valid(call.Arguments):
		return string(call.Arguments)
	default:
		c.note(llm.Note{Field: "tool_calls.arguments", What: "wrapped"})
		return `{"_raw":` + string(dialect.Quote(string(call.Arguments))) + `}`
	}
}

func (c *call) results(out []wireOut, pictures []wirePart, msg llm.Message) ([]wireOut, []wirePart, *llm.Error) {
	for _, b := range msg.Blocks {
		r := b.ToolResult
		if b.Kind != llm.BlockToolResult || r == nil {
			continue
		}
		text := joinTexts(r.Content, "\n")
		if r.IsError {
			text = "Error: " + text
		}
		out = append(out, wireOut{Role: "tool", ToolCallID: r.CallID, Content: text})
		for _, inner := range r.Content {
			if inner.Kind == llm.BlockText {
				continue
			}
			parts, err := c.parts([]llm.Block{inner})
			if err != nil {
				return out, pictures, err
			}
			pictures = append(pictures, parts...)
		}
	}
	return out, pictures, nil
}

func (c *call) parts(blocks []llm.Block) ([]wirePart, *llm.Error) {
	parts := make([]wirePart, 0, len(blocks))
	for _, b := range blocks {
		switch b.Kind {
		case llm.BlockText, llm.BlockRefusal:
			parts = append(parts, wirePart{Type: "text", Text: b.Text})
		case llm.BlockImage:
			p, err := c.image(b.Media)
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		case llm.BlockAudio:
			format := strings.TrimPrefix(b.Media.Type, "audio/")
			if format == "mpeg" {
				format = "mp3"
			}
			parts = append(parts, wirePart{Type: "input_audio", Audio: &wireAudio{Data: b.Media.Data, Format: format}})
		case llm.BlockDocument:
			text, err := dialect.DocumentText(b.Media)
			if err != nil {
				return nil, err
			}
			parts = append(parts, wirePart{Type: "text", Text: text})
		}
	}
	return parts, nil
}

func (c *call) image(m *llm.Media) (wirePart, *llm.Error) {
	if m.URL != "" { // the gateway fetches, or refuses; no server does
		return wirePart{}, dialect.RemoteMedia()
	}
	return wirePart{Type: "image_url", ImageURL: &wireImage{URL: dialect.DataURI(m), Detail: m.Detail}}, nil
}

func joinTexts(blocks []llm.Block, sep string) string {
	var texts []string
	for _, b := range blocks {
		if b.Kind == llm.BlockText && b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, sep)
}
