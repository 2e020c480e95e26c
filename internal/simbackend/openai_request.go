package simbackend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// chatBody is the body of a chat request as vLLM and its like read it. Fields that are not here are ignored.
type chatBody struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
	sampling
	Tools              *[]chatTool     `json:"tools"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	Parallel           *bool           `json:"parallel_tool_calls"`
	ResponseFormat     *responseFormat `json:"response_format"`
	Structured         *structured     `json:"structured_outputs"`
	ReasoningEffort    string          `json:"reasoning_effort"`
	TemplateArgs       map[string]any  `json:"chat_template_kwargs"`
	IncludeReasoning   *bool           `json:"include_reasoning"`
	Logprobs           bool            `json:"logprobs"`
	TopLogprobs        int             `json:"top_logprobs"`
	PromptLogprobs     *int            `json:"prompt_logprobs"`
	ContinueFinal      bool            `json:"continue_final_message"`
	AddGeneration      *bool           `json:"add_generation_prompt"`
	MaxCompletion      *int            `json:"max_completion_tokens"`
	ReturnTokenStrings bool            `json:"return_token_strs"` // of /tokenize
}

// sampling is what chat and plain completion requests have in common.
type sampling struct {
	N             *int           `json:"n"`
	MaxTokens     *int           `json:"max_tokens"`
	MinTokens     int            `json:"min_tokens"`
	IgnoreEOS     bool           `json:"ignore_eos"`
	Stop          stopList       `json:"stop"`
	IncludeStop   bool           `json:"include_stop_str_in_output"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
	CacheSalt     string         `json:"cache_salt"`
	Priority      int            `json:"priority"`
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type structured struct {
	JSON       json.RawMessage `json:"json"`
	JSONObject bool            `json:"json_object"`
	Choice     []string        `json:"choice"`
	Regex      string          `json:"regex"`
	Grammar    string          `json:"grammar"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type chatMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Name             string          `json:"name"`
	Reasoning        string          `json:"reasoning"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolCalls        []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type chatPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
}

// stopList is "stop": null, one string or several.
type stopList []string

func (s *stopList) UnmarshalJSON(data []byte) error {
	var one string
	if string(data) == "null" {
		return nil
	}
	if json.Unmarshal(data, &one) == nil {
		*s = stopList{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// decodeChat reads the body of a chat request, or of a /tokenize request with messages.
func (s *Server) decodeChat(x *exchange) (*chatBody, *refusal) {
	var b chatBody
	if err := json.Unmarshal(x.body, &b); err != nil {
		return nil, badBody(err)
	}
	return &b, nil
}

func badBody(err error) *refusal {
	return refuse(http.StatusBadRequest, "1 validation error in the request body: %s", err)
}

// job translates the request. newReasoning says which of the two names of reasoning in the history the server reads.
func (b *chatBody) job(m *Model, newReasoning bool) (*job, *refusal) {
	j := b.sampling.job(m)
	if b.MaxCompletion != nil {
		j.maxTokens = *b.MaxCompletion
	}
	j.parallel = b.Parallel == nil || *b.Parallel
	j.think = b.thinks()
	for i, msg := range b.Messages {
		t, err := msg.turn(newReasoning)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "messages[%d]: %s", i, err)
		}
		if len(t.images) > 0 && !m.Can(CapVision) {
			return nil, refuse(http.StatusBadRequest, "%s is not a multimodal model", m.Name)
		}
		j.turns = append(j.turns, t)
	}
	if b.Tools != nil {
		for _, t := range *b.Tools {
			j.tools = append(j.tools, tool{
				name: t.Function.Name, schema: t.Function.Parameters, text: string(mustJSON(t)),
			})
		}
	}
	if err := b.readToolChoice(j); err != nil {
		return nil, refuse(http.StatusBadRequest, "%s", err)
	}
	if err := b.readFormat(j); err != nil {
		return nil, refuse(http.StatusBadRequest, "%s", err)
	}
	j.measure(m.Context)
	return j, nil
}

func (s *sampling) job(m *Model) *job {
	j := &job{
		model: m, n: 1, minTokens: s.MinTokens, ignoreEOS: s.IgnoreEOS, stops: s.Stop, includeStop: s.IncludeStop,
		cacheSalt: s.CacheSalt, demand: demand{model: m.Name},
	}
	if s.N != nil {
		j.n = *s.N
	}
	if s.MaxTokens != nil {
		j.maxTokens = *s.MaxTokens
	}
	return j
}

// thinks reports whether the request leaves thinking on, which it is by default.
func (b *chatBody) thinks() bool {
	for _, name := range []string{"enable_thinking", "thinking"} {
		if on, ok := b.TemplateArgs[name].(bool); ok {
			return on
		}
	}
	return b.ReasoningEffort != "none"
}

// showsThinking reports whether reasoning belongs into the reply.
func (b *chatBody) showsThinking() bool { return b.IncludeReasoning == nil || *b.IncludeReasoning }

func (m *chatMessage) turn(newReasoning bool) (turn, error) {
	t := turn{role: m.Role, callID: m.ToolCallID, toolName: m.Name, thinking: m.ReasoningContent}
	if newReasoning {
		t.thinking = m.Reasoning
	}
	for _, c := range m.ToolCalls {
		t.calls = append(t.calls, call{id: c.ID, name: c.Function.Name, args: c.Function.Arguments})
	}
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return t, nil
	}
	if json.Unmarshal(m.Content, &t.text) == nil {
		return t, nil
	}
	var parts []chatPart
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return turn{}, fmt.Errorf("content is neither a string nor a list of parts: %w", err)
	}
	for _, p := range parts {
		if err := t.addPart(p); err != nil {
			return turn{}, err
		}
	}
	return t, nil
}

func (t *turn) addPart(p chatPart) error {
	switch p.Type {
	case "text":
		if t.text != "" {
			t.text += "\n"
		}
		t.text += p.Text
	case "refusal":
		t.text += p.Refusal
	case "image_url":
		var url string
		if json.Unmarshal(p.ImageURL, &url) != nil {
			var object struct {
				URL string `json:"url"`
			}
			if err := json.Unmarshal(p.ImageURL, &object); err != nil {
				return fmt.Errorf("image_url: %w", err)
			}
			url = object.URL
		}
		img, err := parsePictureURL(url)
		if err != nil {
			return fmt.Errorf("failed to load image: %w", err)
		}
		t.images = append(t.images, img)
	case "input_audio", "audio_url", "video_url", "file":
		return fmt.Errorf("the model does not accept %s", p.Type)
	default:
		return fmt.Errorf("unknown part type: %s", p.Type)
	}
	return nil
}

func (b *chatBody) readToolChoice(j *job) error {
	var word string
	switch {
	case len(b.ToolChoice) == 0, string(b.ToolChoice) == "null":
	case json.Unmarshal(b.ToolChoice, &word) == nil:
		modes := map[string]toolMode{"auto": toolAuto, "none": toolNone, "required": toolRequired}
		mode, ok := modes[word]
		if !ok {
			return fmt.Errorf("invalid value for `tool_choice`: %s! Only named tools, \"none\", \"auto\" or "+
				"\"required\" are supported", word)
		}
		j.choice = mode
	default:
		var named struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if err := json.Unmarshal(b.ToolChoice, &named); err != nil || named.Function.Name == "" {
			return fmt.Errorf("incorrectly formatted `tool_choice`")
		}
		j.choice, j.only = toolNamed, named.Function.Name
		if !slices.ContainsFunc(j.tools, func(t tool) bool { return t.name == j.only }) {
			return fmt.Errorf("the tool specified in `tool_choice` does not match any of the specified `tools`")
		}
	}
	return nil
}

// readFormat applies structured_outputs, which response_format overrides.
func (b *chatBody) readFormat(j *job) error {
	if o := b.Structured; o != nil {
		switch {
		case len(o.JSON) > 0 && string(o.JSON) != "null":
			j.format = format{kind: formatSchema, schema: unquoted(o.JSON)}
		case o.JSONObject:
			j.format.kind = formatObject
		case len(o.Choice) > 0:
			j.format = format{kind: formatChoice, choice: o.Choice}
		}
	}
	if r := b.ResponseFormat; r != nil {
		switch r.Type {
		case "text", "":
			j.format = format{}
		case "json_object":
			j.format = format{kind: formatObject}
		case "json_schema":
			if r.JSONSchema == nil {
				return fmt.Errorf("response_format of type json_schema needs json_schema")
			}
			j.format = format{kind: formatSchema, schema: r.JSONSchema.Schema}
		default:
			return fmt.Errorf("unknown response_format type: %s", r.Type)
		}
	}
	if j.format.kind == formatSchema {
		_, err := parseSchema(j.format.schema)
		return err
	}
	return nil
}

// unquoted returns the JSON text that may itself be wrapped in a JSON string.
func unquoted(data json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return json.RawMessage(text)
	}
	return data
}

// model finds a served model.
func (s *Server) model(name string) *Model {
	for i := range s.cfg.Models {
		if s.cfg.Models[i].Name == name {
			return &s.cfg.Models[i]
		}
	}
	return nil
}
