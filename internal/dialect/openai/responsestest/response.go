package responsestest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Response is the response object as a client reads it.
type Response struct {
	ID         string  `json:"id"`
	Object     string  `json:"object"`
	CreatedAt  int64   `json:"created_at"`
	Status     string  `json:"status"`
	Model      string  `json:"model"`
	Output     []Item  `json:"output"`
	Usage      *Usage  `json:"usage"`
	Error      *Error  `json:"error"`
	Incomplete *Reason `json:"incomplete_details"`

	// Raw is the object itself.
	Raw json.RawMessage `json:"-"`
	// KeepAlives and Events count the comments and the events of the stream.
	KeepAlives int `json:"-"`
	Events     int `json:"-"`
	// Types are the types of the events in order, with runs of the same type told once.
	Types []string `json:"-"`
}

// Reason says why a response is incomplete.
type Reason struct {
	Reason string `json:"reason"`
}

// Item is an item of the output.
type Item struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Status    string  `json:"status"`
	Role      string  `json:"role"`
	Content   []Part  `json:"content"`
	Summary   []Part  `json:"summary"`
	Encrypted *string `json:"encrypted_content"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	Arguments string  `json:"arguments"`
	Input     string  `json:"input"`
}

// Part is a part of the content of an item.
type Part struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Refusal     string            `json:"refusal"`
	Annotations []json.RawMessage `json:"annotations"`
	Logprobs    []json.RawMessage `json:"logprobs"`
}

func (p Part) said() string { return p.Text + p.Refusal }

// Usage counts tokens. Input includes what was cached, Output what was reasoned.
type Usage struct {
	Input   int `json:"input_tokens"`
	Output  int `json:"output_tokens"`
	Total   int `json:"total_tokens"`
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails *struct {
		Reasoning *int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// Error is why a response failed.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// required are the fields that a response has in every state.
var required = []string{
	"id", "object", "status", "created_at", "error", "incomplete_details", "output", "instructions", "parallel_tool_calls",
	"tool_choice", "tools", "model", "temperature", "top_p", "metadata", "text", "reasoning", "truncation", "usage", "store",
	"previous_response_id", "max_output_tokens",
}

// Read reads a response object and checks it: every required field, a status that agrees with the other fields, items
// that are whole, and counts that add up.
func Read(raw []byte) (*Response, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("no response: %w", err)
	}
	for _, name := range required {
		if fields[name] == nil {
			return nil, fmt.Errorf("the response has no %s", name)
		}
	}
	for _, name := range []string{"parallel_tool_calls", "tool_choice", "tools", "metadata", "text", "reasoning", "truncation"} {
		if string(fields[name]) == "null" {
			return nil, fmt.Errorf("%s is null", name)
		}
	}
	r := &Response{Raw: bytes.TrimSpace(raw)}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("no response: %w", err)
	}
	if !strings.HasPrefix(r.ID, "resp_") || len(r.ID) <= len("resp_") || r.Object != "response" || r.Model == "" {
		return nil, errors.New("wrong id, object or model")
	}
	if err := r.state(); err != nil {
		return nil, err
	}
	var items struct {
		Output []json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(raw, &items); err != nil || items.Output == nil {
		return nil, errors.New("the output is not a list")
	}
	for i, item := range items.Output {
		if _, err := readItem(item); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return r, nil
}

func (r *Response) state() error {
	if (r.Status == "failed") != (r.Error != nil) {
		return errors.New("an error must be there exactly if the response failed")
	}
	if r.Error != nil && (r.Error.Code == "" || r.Error.Message == "") {
		return errors.New("the error says nothing")
	}
	if (r.Status == "incomplete") != (r.Incomplete != nil) {
		return errors.New("a reason must be there exactly if the response is incomplete")
	}
	if r.Incomplete != nil && r.Incomplete.Reason != "max_output_tokens" && r.Incomplete.Reason != "content_filter" {
		return errors.New("unknown reason")
	}
	switch r.Status {
	case "completed", "incomplete", "failed", "in_progress":
	default:
		return errors.New("unknown status")
	}
	u := r.Usage
	if u == nil {
		return nil
	}
	if u.Details == nil || u.Details.Cached == nil || u.OutputDetails == nil || u.OutputDetails.Reasoning == nil {
		return errors.New("the usage has no details")
	}
	if u.Total != u.Input+u.Output || *u.Details.Cached > u.Input || *u.OutputDetails.Reasoning > u.Output {
		return errors.New("the usage does not add up")
	}
	return nil
}

var prefixes = map[string]string{"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_"}

func readItem(raw json.RawMessage) (Item, error) {
	var it Item
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &it); err != nil {
		return it, fmt.Errorf("no item: %w", err)
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return it, fmt.Errorf("no item: %w", err)
	}
	prefix, ok := prefixes[it.Type]
	if !ok {
		return it, fmt.Errorf("unknown type %q of item", it.Type)
	}
	if !strings.HasPrefix(it.ID, prefix) || len(it.ID) <= len(prefix) {
		return it, fmt.Errorf("an item of type %s has the id %q", it.Type, it.ID)
	}
	var needed []string
	switch it.Type {
	case "message":
		needed = []string{"content"}
		if it.Role != "assistant" {
			return it, errors.New("a message is not the assistant's")
		}
	case "reasoning":
		needed = []string{"summary"}
	case "function_call":
		needed = []string{"arguments"}
	case "custom_tool_call":
		needed = []string{"input"}
	}
	for _, name := range needed {
		if fields[name] == nil || string(fields[name]) == "null" {
			return it, fmt.Errorf("an item of type %s has no %s", it.Type, name)
		}
	}
	if strings.HasSuffix(it.Type, "_call") && (it.CallID == "" || it.Name == "") {
		return it, errors.New("a call has no call_id or name")
	}
	for _, p := range slices.Concat(it.Content, it.Summary) {
		if err := checkPart(it.Type, p); err != nil {
			return it, err
		}
	}
	return it, nil
}

func checkPart(item string, p Part) error {
	owner := map[string]string{
		"output_text": "message", "refusal": "message", "reasoning_text": "reasoning", "summary_text": "reasoning",
	}[p.Type]
	if owner != item {
		return fmt.Errorf("a part of type %q in an item of type %s", p.Type, item)
	}
	if p.Type == "output_text" && (p.Annotations == nil || p.Logprobs == nil) {
		return errors.New("a text has no list of annotations or logprobs")
	}
	return nil
}
