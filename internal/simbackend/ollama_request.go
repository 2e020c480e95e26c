package simbackend

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// ollamaBody is the body of /api/chat and /api/generate; each uses its part.
type ollamaBody struct {
	Model     string          `json:"model"`
	Messages  []ollamaMessage `json:"messages"` // chat
	Tools     []chatTool      `json:"tools"`    // chat
	Prompt    string          `json:"prompt"`   // generate, as all to Raw
	Suffix    string          `json:"suffix"`
	System    string          `json:"system"`
	Template  string          `json:"template"`
	Context   []int           `json:"context"`
	Images    []string        `json:"images"`
	Raw       bool            `json:"raw"`
	Format    json.RawMessage `json:"format"`
	Options   ollamaOptions   `json:"options"`
	Stream    *bool           `json:"stream"`
	KeepAlive *keepAlive      `json:"keep_alive"`
	Think     *thinkValue     `json:"think"`
	Truncate  *bool           `json:"truncate"`
	Shift     *bool           `json:"shift"`
}

type ollamaMessage struct {
	Role       string   `json:"role"`
	Content    string   `json:"content"`
	Thinking   string   `json:"thinking"`
	Images     []string `json:"images"`
	ToolName   string   `json:"tool_name"`
	ToolCallID string   `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string                     `json:"name"`
			Arguments map[string]json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// ollamaOptions are the options that are understood. Unknown ones are ignored, wrong types are errors.
type ollamaOptions struct {
	NumCtx     int
	NumPredict *int
	Stop       []string
}

func (o *ollamaOptions) UnmarshalJSON(data []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	kinds := map[string]string{
		"num_ctx": "integer", "num_predict": "integer", "num_keep": "integer", "seed": "integer", "top_k": "integer",
		"repeat_last_n": "integer", "num_batch": "integer", "num_gpu": "integer", "num_thread": "integer",
		"temperature": "float32", "top_p": "float32", "min_p": "float32", "typical_p": "float32",
		"repeat_penalty": "float32", "presence_penalty": "float32", "frequency_penalty": "float32", "stop": "array",
	}
	for name, raw := range values {
		kind, ok := kinds[name]
		if !ok || string(raw) == "null" {
			continue
		}
		var number float64
		var err error
		if kind == "array" {
			err = json.Unmarshal(raw, &o.Stop)
		} else {
			err = json.Unmarshal(raw, &number)
		}
		if err != nil {
			return fmt.Errorf("option %q must be of type %s", name, kind)
		}
		switch n := int(number); name {
		case "num_ctx":
			o.NumCtx = n
		case "num_predict":
			o.NumPredict = &n
		}
	}
	return nil
}

// thinkValue is "think": a boolean or a level.
type thinkValue struct{ on bool }

func (t *thinkValue) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &t.on) == nil {
		return nil
	}
	var level string
	if err := json.Unmarshal(data, &level); err != nil {
		return fmt.Errorf(`think must be a boolean or string ("high", "medium", "low", "max", true, or false)`)
	}
	switch level {
	case "high", "medium", "low", "max":
		t.on = true
		return nil
	}
	return fmt.Errorf("invalid think value: %q (must be \"high\", \"medium\", \"low\", \"max\", true, or false)", level)
}

// streams reports whether the reply is streamed, which it is by default.
func (b *ollamaBody) streams() bool { return b.Stream == nil || *b.Stream }

// ollamaJob checks the request against the model and translates it. what is "chat" or "generate".
func (s *Server) ollamaJob(b *ollamaBody, m *Model, what string) (*job, *refusal) {
	switch {
	case b.Think != nil && b.Think.on && !m.Can(CapThinking):
		return nil, refuse(http.StatusBadRequest, "%q does not support thinking", b.Model)
	case !m.Can(CapChat):
		return nil, refuse(http.StatusBadRequest, "%q does not support %s", b.Model, what)
	case len(b.Tools) > 0 && !m.Can(CapTools):
		return nil, refuse(http.StatusBadRequest, "%s does not support tools", tagged(m.Name))
	case b.Suffix != "" && !m.Can(CapInsert):
		return nil, refuse(http.StatusBadRequest, "%s does not support insert", tagged(m.Name))
	}
	j := &job{
		model: m, n: 1, parallel: true, stops: b.Options.Stop,
		think:  b.Think == nil || b.Think.on,
		demand: demand{model: m.Name, numCtx: s.numCtx(m, b.Options.NumCtx), keepAlive: b.KeepAlive.pointer()},
	}
	if n := b.Options.NumPredict; n != nil && *n > 0 {
		j.maxTokens = *n
	}
	for _, t := range b.Tools {
		j.tools = append(j.tools, tool{name: t.Function.Name, schema: t.Function.Parameters, text: string(mustJSON(t))})
	}
	return j, b.readFormat(j)
}

// numCtx is the context that the model is loaded with.
func (s *Server) numCtx(m *Model, asked int) int {
	if asked <= 0 {
		asked = s.cfg.NumCtx
	}
	return min(max(asked, 4), m.Context)
}

func (b *ollamaBody) readFormat(j *job) *refusal {
	switch text := strings.TrimSpace(string(b.Format)); {
	case text == "" || text == "null" || text == `""`:
	case text == `"json"`:
		j.format.kind = formatObject
	case text[0] == '{':
		j.format = format{kind: formatSchema, schema: b.Format}
		if _, err := parseSchema(b.Format); err != nil {
			return refuse(http.StatusBadRequest, "%s", err)
		}
	default:
		return refuse(http.StatusBadRequest,
			"invalid format: %s; expected \"json\" or a valid JSON Schema object", text)
	}
	return nil
}

func (m *ollamaMessage) turn(model *Model) (turn, *refusal) {
	t := turn{
		role: strings.ToLower(m.Role), text: m.Content, thinking: m.Thinking,
		toolName: m.ToolName, callID: m.ToolCallID,
	}
	for _, c := range m.ToolCalls {
		t.calls = append(t.calls, call{id: c.ID, name: c.Function.Name, args: string(mustJSON(c.Function.Arguments))})
	}
	var no *refusal
	t.images, no = ollamaImages(m.Images, model)
	return t, no
}

func ollamaImages(encoded []string, model *Model) ([]picture, *refusal) {
	var out []picture
	for _, text := range encoded {
		if !model.Can(CapVision) {
			return nil, refuse(http.StatusInternalServerError, "this model is missing data required for image input")
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "%s", err)
		}
		p, err := decodePicture(data, "")
		if err != nil {
			return nil, refuse(http.StatusInternalServerError, "Failed to create new sequence: %s", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// fit makes the prompt fit the context that the model is loaded with: by dropping the oldest turns after a system turn,
// unless the request forbids it. The last turn always stays, and is cut if even it is too long.
func (b *ollamaBody) fit(j *job) *refusal {
	j.measure(j.demand.numCtx)
	if j.room < 1 {
		if b.Truncate != nil && !*b.Truncate {
			return refuse(http.StatusBadRequest, "the input length exceeds the context length")
		}
		for first := 0; j.room < 1 && len(j.turns)-first > 1; {
			if j.turns[first].role == "system" && first == 0 {
				first++
				continue
			}
			j.turns = append(j.turns[:first:first], j.turns[first+1:]...)
			j.measure(j.demand.numCtx)
		}
		if j.room < 1 {
			j.tokens, j.room = j.demand.numCtx-1, 1
		}
	}
	if b.Shift == nil || *b.Shift {
		// The context slides while the answer is written, so its length is no limit.
		j.room = j.model.Context
	}
	return nil
}
