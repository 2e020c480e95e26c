package ollama

import (
	"encoding/json"
	"fmt"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func (c *call) messages() ([]wireMessage, error) {
	if err := checkArguments(c.r.Messages); err != nil {
		return nil, err
	}
	m := c.o.Model
	m.DeveloperRole = "" // the server's templates know system only
	msgs, notes := dialect.Arrange(c.r.Messages, m)
	c.notes = append(c.notes, notes...)
	thinkingFrom := dialect.AfterLastUser(msgs)
	if dialect.Profile(m) == llm.ProfileAlways {
		thinkingFrom = 0
	}
	out := make([]wireMessage, 0, len(msgs))
	for i, msg := range msgs {
		if msg.Role == llm.RoleTool {
			for _, b := range msg.Blocks {
				if b.Kind != llm.BlockToolResult || b.ToolResult == nil {
					continue
				}
				w, err := result(b.ToolResult)
				if err != nil {
					return nil, err
				}
				out = append(out, w)
			}
			continue
		}
		w, err := speaker(msg)
		if err != nil {
			return nil, err
		}
		if i < thinkingFrom {
			w.Thinking = ""
		}
		out = append(out, w)
	}
	return out, nil
}

// checkArguments refuses a history whose tool calls do not have an object as arguments: the protocol has no room for
// anything else, and an empty object in its place would be a lie. The place is told as the client counts.
func checkArguments(msgs []llm.Message) error {
	for i, msg := range msgs {
		n := 0
		for _, b := range msg.Blocks {
			if b.Kind != llm.BlockToolCall || b.ToolCall == nil {
				continue
			}
			args := b.ToolCall.Arguments
			if len(args) > 0 && (!json.Valid(args) || dialect.Kind(args) != '{') {
				return llm.Invalid(fmt.Sprintf("messages[%d].tool_calls[%d].function.arguments", i, n), "must be a JSON object")
			}
			n++
		}
	}
	return nil
}

func speaker(msg llm.Message) (wireMessage, error) {
	w := wireMessage{Role: string(msg.Role)}
	sep := ""
	if msg.Role == llm.RoleSystem {
		sep = "\n\n"
	}
	var texts []string
	for _, b := range msg.Blocks {
		switch b.Kind {
		case llm.BlockThinking:
			w.Thinking += b.Text
		case llm.BlockToolCall:
			call := b.ToolCall
			args := call.Arguments
			if len(args) == 0 {
				args = json.RawMessage("{}")
			}
			w.ToolCalls = append(w.ToolCalls, wireCall{ID: call.ID, Function: wireFunction{
				Index: len(w.ToolCalls), Name: call.Name, Arguments: args,
			}})
		default:
			text, image, err := content(b)
			if err != nil {
				return w, err
			}
			if image != nil {
				w.Images = append(w.Images, image)
			} else {
				texts = append(texts, text)
			}
		}
	}
	w.Content = strings.Join(texts, sep)
	return w, nil
}

// result translates a tool result. Templates find the tool by its name, so both name and id are sent.
func result(r *llm.ToolResult) (wireMessage, error) {
	w := wireMessage{Role: "tool", ToolName: r.Name, ToolCallID: r.CallID}
	var texts []string
	for _, b := range r.Content {
		text, image, err := content(b)
		if err != nil {
			return w, err
		}
		if image != nil {
			w.Images = append(w.Images, image)
		} else {
			texts = append(texts, text)
		}
	}
	w.Content = strings.Join(texts, "\n")
	if r.IsError {
		w.Content = "Error: " + w.Content
	}
	return w, nil
}

// content translates what is neither thinking nor a call: text, or an image as bytes.
func content(b llm.Block) (text string, image []byte, err error) {
	switch b.Kind {
	case llm.BlockText, llm.BlockRefusal:
		return b.Text, nil, nil
	case llm.BlockImage:
		if len(b.Media.Data) == 0 {
			return "", nil, paramError(dialect.RemoteMedia())
		}
		return "", b.Media.Data, nil
	case llm.BlockDocument:
		text, err := dialect.DocumentText(b.Media)
		if err != nil {
			return "", nil, paramError(err)
		}
		return text, nil, nil
	default:
		return "", nil, paramError(llm.Errorf(llm.CodeUnsupported, "the model's server does not take %s", b.Kind))
	}
}

func paramError(err *llm.Error) error {
	e := *err
	e.Param = "messages"
	return &e
}
