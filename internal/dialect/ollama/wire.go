package ollama

import "encoding/json"

// wireRequest is the body of /api/chat.
type wireRequest struct {
	Model       string          `json:"model"`
	Messages    []wireMessage   `json:"messages"`
	Stream      bool            `json:"stream"`
	Tools       []wireTool      `json:"tools,omitempty"`
	Format      json.RawMessage `json:"format,omitempty"`
	Think       json.RawMessage `json:"think,omitempty"`
	Options     wireOptions     `json:"options"`
	KeepAlive   string          `json:"keep_alive,omitempty"`
	Truncate    bool            `json:"truncate"`
	Shift       bool            `json:"shift"`
	Logprobs    bool            `json:"logprobs,omitempty"`
	TopLogprobs *int            `json:"top_logprobs,omitempty"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     [][]byte   `json:"images,omitempty"` // base64 on the wire, without data URI
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type wireCall struct {
	ID       string       `json:"id,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

type wireTool struct {
	Type     string          `json:"type"`
	Function wireDeclaration `json:"function"`
}

type wireDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type wireOptions struct {
	NumCtx           int      `json:"num_ctx,omitempty"`
	NumPredict       *int     `json:"num_predict,omitempty"`
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"top_p,omitempty"`
	TopK             *int     `json:"top_k,omitempty"`
	MinP             *float64 `json:"min_p,omitempty"`
	TypicalP         *float64 `json:"typical_p,omitempty"`
	RepeatPenalty    *float64 `json:"repeat_penalty,omitempty"`
	RepeatLastN      *int     `json:"repeat_last_n,omitempty"`
	PresencePenalty  *float64 `json:"presence_penalty,omitempty"`
	FrequencyPenalty *float64 `json:"frequency_penalty,omitempty"`
	Seed             *int64   `json:"seed,omitempty"`
	Stop             []string `json:"stop,omitempty"`
}
