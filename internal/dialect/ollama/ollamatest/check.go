// Package ollamatest checks streams of Ollama's protocol as a strict client would. It shares no code with the encoder.
package ollamatest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Answer is what a client makes of a stream.
type Answer struct {
	Text, Thinking string
	Calls          []Call
	Reason         string
	Input, Output  int
	Error          string // the stream ended with it
}

// Call is a call of a tool.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

type line struct {
	Model     *string `json:"model"`
	CreatedAt *string `json:"created_at"`
	Message   *struct {
		Role      string  `json:"role"`
		Content   *string `json:"content"`
		Thinking  string  `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Index     *int            `json:"index"`
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Response *string `json:"response"`
	Thinking string  `json:"thinking"`
	Done     *bool   `json:"done"`
	Reason   string  `json:"done_reason"`
	Total    int64   `json:"total_duration"`
	Input    int     `json:"prompt_eval_count"`
	Output   int     `json:"eval_count"`
	Error    *string `json:"error"`
}

// CheckStream checks a whole stream: one JSON object per line, none empty, all of one model and of one kind (message or
// response), times that are RFC 3339, whole tool calls with dense indexes and objects as arguments, nothing that was said
// in the last line, and an end that is one line with done and a reason, or one error. It returns what a client would see.
func CheckStream(raw []byte) (*Answer, error) {
	if len(raw) == 0 {
		return nil, errors.New("the stream is empty")
	}
	if raw[len(raw)-1] != '\n' {
		return nil, errors.New("the last line has no end")
	}
	c := checker{}
	for i, text := range bytes.Split(raw[:len(raw)-1], []byte("\n")) {
		if err := c.add(text); err != nil {
			return nil, fmt.Errorf("line %d: %w in %s", i+1, err, text)
		}
	}
	if !c.ended {
		return nil, errors.New("the stream has no end")
	}
	return &c.answer, nil
}

type checker struct {
	answer Answer
	model  string
	kind   string
	ended  bool
	calls  int
}

func (c *checker) add(text []byte) error {
	if c.ended {
		return errors.New("something follows the end")
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if l.Error != nil {
		if *l.Error == "" || l.Done != nil {
			return errors.New("an error must have a text and nothing else")
		}
		c.ended, c.answer.Error = true, *l.Error
		return nil
	}
	if l.Model == nil || l.CreatedAt == nil || l.Done == nil {
		return errors.New("model, created_at or done is missing")
	}
	if _, err := time.Parse(time.RFC3339Nano, *l.CreatedAt); err != nil {
		return err
	}
	if c.model != "" && c.model != *l.Model {
		return fmt.Errorf("the model changes from %q", c.model)
	}
	c.model = *l.Model
	if err := c.said(l); err != nil {
		return err
	}
	if !*l.Done {
		if l.Reason != "" || l.Total != 0 {
			return errors.New("the facts of the end before the end")
		}
		return nil
	}
	c.ended = true
	c.answer.Reason, c.answer.Input, c.answer.Output = l.Reason, l.Input, l.Output
	switch l.Reason {
	case "stop", "length":
		if l.Total <= 0 {
			return errors.New("no total_duration")
		}
	case "load", "unload":
	default:
		return fmt.Errorf("done_reason %q", l.Reason)
	}
	return nil
}

func (c *checker) said(l line) error {
	kind := "message"
	var text, thinking string
	switch {
	case (l.Message == nil) == (l.Response == nil):
		return errors.New("want either message or response")
	case l.Response != nil:
		kind, text, thinking = "response", *l.Response, l.Thinking
	case l.Message.Role != "assistant" || l.Message.Content == nil:
		return errors.New("the message has no role or content")
	default:
		text, thinking = *l.Message.Content, l.Message.Thinking
		for _, call := range l.Message.ToolCalls {
			f := call.Function
			if f.Index == nil || *f.Index != c.calls || f.Name == "" || call.ID == "" || len(f.Arguments) == 0 || f.Arguments[0] != '{' {
				return fmt.Errorf("call %d is not whole", c.calls)
			}
			c.calls++
			c.answer.Calls = append(c.answer.Calls, Call{call.ID, f.Name, f.Arguments})
		}
	}
	if c.kind != "" && c.kind != kind {
		return fmt.Errorf("%s after %s", kind, c.kind)
	}
	c.kind = kind
	if *l.Done && (text != "" || thinking != "") {
		return errors.New("the last line says something")
	}
	c.answer.Text += text
	c.answer.Thinking += thinking
	return nil
}
