// Package openaitest checks what clients of the OpenAI protocol receive. It reads bytes on its own, strictly, and
// shares no code with the encoder: what a lenient client library forgives is an error here.
package openaitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Options say what the client asked for.
type Options struct {
	IncludeUsage bool
}

// Answer is what a client puts together from a stream.
type Answer struct {
	ID      string
	Choices []Choice
	Usage   *Usage
	Error   *Error // set if the stream ended with an error
}

// Choice is one of the answers.
type Choice struct {
	Content, Reasoning, Refusal string
	Calls                       []Call
	Finish                      string
	Logprobs                    int // tokens that came with log probabilities
}

// Call is a tool call.
type Call struct{ ID, Name, Arguments string }

// Usage is the usage of the last chunk.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// Error is the body of an error.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type chunk struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created *int64   `json:"created"`
	Model   string   `json:"model"`
	Choices []option `json:"choices"`
	Usage   *Usage   `json:"usage"`
}

type option struct {
	Index    *int                       `json:"index"`
	Delta    map[string]json.RawMessage `json:"delta"`
	Finish   *string                    `json:"finish_reason"`
	Logprobs *struct {
		Content []json.RawMessage `json:"content"`
	} `json:"logprobs"`
}

// CheckStream checks a whole stream: its framing; one id, time and model; the role first and once per choice; tool
// calls numbered densely, one after the other, each beginning with id, type and name; the finish reason exactly once
// per choice and tool_calls exactly if there are some; usage only if asked for, once, last, with no choices; and an end
// that is either [DONE] or an error. It returns what a client would see.
func CheckStream(raw []byte, o Options) (*Answer, error) {
	frames, err := split(raw)
	if err != nil {
		return nil, err
	}
	c := checker{o: o, answer: &Answer{}}
	for i, frame := range frames {
		if c.ended {
			return c.answer, fmt.Errorf("frame %d after the end: %q", i, frame)
		}
		if err := c.frame(frame); err != nil {
			return c.answer, fmt.Errorf("frame %d: %w: %q", i, err, frame)
		}
	}
	if !c.ended {
		return c.answer, fmt.Errorf("the stream ends with neither [DONE] nor an error")
	}
	return c.answer, nil
}

func split(raw []byte) ([]string, error) {
	switch {
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("the stream is not UTF-8")
	case bytes.ContainsRune(raw, '\r'):
		return nil, fmt.Errorf("the stream has a carriage return")
	case !bytes.HasSuffix(raw, []byte("\n\n")):
		return nil, fmt.Errorf("the stream does not end with a blank line")
	}
	var data []string
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
		if strings.HasPrefix(frame, ":") && !strings.Contains(frame, "\n") {
			continue
		}
		payload, ok := strings.CutPrefix(frame, "data: ")
		if !ok || strings.Contains(payload, "\n") {
			return nil, fmt.Errorf("a frame is not one line of data: %q", frame)
		}
		data = append(data, payload)
	}
	return data, nil
}

type checker struct {
	o      Options
	answer *Answer
	first  *chunk
	begun  []bool
	ended  bool
}

func (c *checker) frame(payload string) error {
	if payload == "[DONE]" {
		c.ended = true
		return c.complete()
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(payload), &keys); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	if raw, ok := keys["error"]; ok {
		return c.fail(raw, len(keys))
	}
	var ch chunk
	if err := json.Unmarshal([]byte(payload), &ch); err != nil {
		return fmt.Errorf("not a chunk: %w", err)
	}
	if err := c.head(&ch, keys); err != nil {
		return err
	}
	if ch.Usage != nil {
		return c.usage(&ch)
	}
	if c.answer.Usage != nil {
		return fmt.Errorf("a chunk follows the usage")
	}
	if len(ch.Choices) == 0 {
		return fmt.Errorf("no choice and no usage")
	}
	for _, opt := range ch.Choices {
		if err := c.choice(opt); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) fail(raw json.RawMessage, keys int) error {
	c.ended = true
	if keys != 1 {
		return fmt.Errorf("the error shares its object with other members")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || len(members) != 4 {
		return fmt.Errorf("the error is not an object of message, type, param and code")
	}
	c.answer.Error = &Error{}
	if err := json.Unmarshal(raw, c.answer.Error); err != nil {
		return fmt.Errorf("wrong type in the error: %w", err)
	}
	if c.answer.Error.Message == "" || c.answer.Error.Type == "" {
		return fmt.Errorf("the error says nothing")
	}
	return nil
}

func (c *checker) head(ch *chunk, keys map[string]json.RawMessage) error {
	if ch.Object != "chat.completion.chunk" || ch.Created == nil || !strings.HasPrefix(ch.ID, "chatcmpl-") || len(ch.ID) <= len("chatcmpl-") {
		return fmt.Errorf("wrong id, object or time")
	}
	if _, ok := keys["usage"]; ok && !c.o.IncludeUsage {
		return fmt.Errorf("usage was not asked for")
	}
	if c.first == nil {
		c.first, c.answer.ID = ch, ch.ID
		return nil
	}
	if ch.ID != c.first.ID || *ch.Created != *c.first.Created || ch.Model != c.first.Model {
		return fmt.Errorf("id, time or model changes")
	}
	return nil
}

func (c *checker) usage(ch *chunk) error {
	if ch.Choices == nil || len(ch.Choices) != 0 {
		return fmt.Errorf("usage needs an empty list of choices")
	}
	if c.answer.Usage != nil {
		return fmt.Errorf("usage comes twice")
	}
	for i, choice := range c.answer.Choices {
		if choice.Finish == "" {
			return fmt.Errorf("usage before the end of choice %d", i)
		}
	}
	if ch.Usage.Total != ch.Usage.Prompt+ch.Usage.Completion {
		return fmt.Errorf("total is not the sum")
	}
	c.answer.Usage = ch.Usage
	return nil
}

func (c *checker) complete() error {
	if len(c.answer.Choices) == 0 {
		return fmt.Errorf("[DONE] without any choice")
	}
	for i, choice := range c.answer.Choices {
		if choice.Finish == "" {
			return fmt.Errorf("[DONE] while choice %d has not finished", i)
		}
	}
	if c.o.IncludeUsage && c.answer.Usage == nil {
		return fmt.Errorf("[DONE] without usage")
	}
	return nil
}

func (c *checker) choice(opt option) error {
	if opt.Index == nil || *opt.Index < 0 || opt.Delta == nil {
		return fmt.Errorf("choice without index or delta")
	}
	for len(c.answer.Choices) <= *opt.Index {
		c.answer.Choices = append(c.answer.Choices, Choice{})
		c.begun = append(c.begun, false)
	}
	ch := &c.answer.Choices[*opt.Index]
	if ch.Finish != "" {
		return fmt.Errorf("choice %d goes on after its finish reason", *opt.Index)
	}
	_, role := opt.Delta["role"]
	if role == c.begun[*opt.Index] {
		return fmt.Errorf("the role of choice %d must come first and once", *opt.Index)
	}
	c.begun[*opt.Index] = true
	if err := ch.delta(opt.Delta); err != nil {
		return err
	}
	if opt.Logprobs != nil {
		ch.Logprobs += len(opt.Logprobs.Content)
	}
	if opt.Finish != nil {
		ch.Finish = *opt.Finish
		return ch.finish()
	}
	return nil
}

func (ch *Choice) finish() error {
	switch ch.Finish {
	case "tool_calls":
		if len(ch.Calls) == 0 {
			return fmt.Errorf("finish reason tool_calls without a call")
		}
	case "stop":
		if len(ch.Calls) > 0 {
			return fmt.Errorf("finish reason stop with tool calls")
		}
	case "length", "content_filter", "function_call":
	default:
		return fmt.Errorf("unknown finish reason")
	}
	for _, call := range ch.Calls {
		if ch.Finish != "length" && !json.Valid([]byte(call.Arguments)) {
			return fmt.Errorf("arguments of %s are not JSON: %q", call.Name, call.Arguments)
		}
	}
	return nil
}

func (ch *Choice) delta(delta map[string]json.RawMessage) error {
	for key, raw := range delta {
		var s string
		if key != "tool_calls" && key != "function_call" {
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("%s is not a string", key)
			}
		}
		switch key {
		case "role":
			if s != "assistant" {
				return fmt.Errorf("role %q", s)
			}
		case "content":
			ch.Content += s
		case "reasoning_content":
			ch.Reasoning += s
		case "reasoning":
			if _, both := delta["reasoning_content"]; !both {
				ch.Reasoning += s
			}
		case "refusal":
			ch.Refusal += s
		case "tool_calls":
			if err := ch.tools(raw); err != nil {
				return err
			}
		case "function_call":
		default:
			return fmt.Errorf("unknown member %s of delta", key)
		}
	}
	return nil
}

func (ch *Choice) tools(raw json.RawMessage) error {
	var fragments []struct {
		Index    *int    `json:"index"`
		ID       *string `json:"id"`
		Type     *string `json:"type"`
		Function struct {
			Name      *string `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &fragments); err != nil || len(fragments) == 0 {
		return fmt.Errorf("tool_calls is not a list of fragments")
	}
	for _, f := range fragments {
		if f.Index == nil || f.Function.Arguments == nil {
			return fmt.Errorf("a fragment lacks index or arguments")
		}
		if *f.Index == len(ch.Calls) {
			if f.ID == nil || *f.ID == "" || f.Type == nil || *f.Type != "function" || f.Function.Name == nil || *f.Function.Name == "" {
				return fmt.Errorf("call %d begins without id, type or name", *f.Index)
			}
			for _, call := range ch.Calls {
				if call.ID == *f.ID {
					return fmt.Errorf("id %q is used twice", *f.ID)
				}
			}
			ch.Calls = append(ch.Calls, Call{ID: *f.ID, Name: *f.Function.Name})
		} else if *f.Index != len(ch.Calls)-1 || f.ID != nil || f.Function.Name != nil {
			return fmt.Errorf("fragment of call %d while call %d is open", *f.Index, len(ch.Calls)-1)
		}
		ch.Calls[*f.Index].Arguments += *f.Function.Arguments
	}
	return nil
}
