package openai

import "encoding/json"

// The types below are the body of a chat request to a backend. Numbers and schemas that came from a client stay raw.

type wireRequest struct {
	Model         string             `json:"model"`
	Messages      []wireOut          `json:"messages"`
	Stream        bool               `json:"stream"`
	StreamOptions *wireStreamOptions `json:"stream_options,omitempty"`

	MaxTokens        *int               `json:"max_tokens,omitempty"`
	Temperature      *float64           `json:"temperature,omitempty"`
	TopP             *float64           `json:"top_p,omitempty"`
	TopK             *int               `json:"top_k,omitempty"`
	MinP             *float64           `json:"min_p,omitempty"`
	TypicalP         *float64           `json:"typical_p,omitempty"`
	RepeatLastN      *int               `json:"repeat_last_n,omitempty"`
	PresencePenalty  *float64           `json:"presence_penalty,omitempty"`
	FrequencyPenalty *float64           `json:"frequency_penalty,omitempty"`
	Seed             *int64             `json:"seed,omitempty"`
	Stop             []string           `json:"stop,omitempty"`
	StopTokenIDs     []int              `json:"stop_token_ids,omitempty"`
	MinTokens        *int               `json:"min_tokens,omitempty"`
	IgnoreEOS        *bool              `json:"ignore_eos,omitempty"`
	LogitBias        map[string]float64 `json:"logit_bias,omitempty"`
	N                *int               `json:"n,omitempty"`
	Logprobs         *bool              `json:"logprobs,omitempty"`
	TopLogprobs      *int               `json:"top_logprobs,omitempty"`

	Tools             []wireTool      `json:"tools,omitempty"`
	ToolChoice        json.RawMessage `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
	ResponseFormat    *wireFormat     `json:"response_format,omitempty"`

	ReasoningEffort string `json:"reasoning_effort,omitempty"`
	ThinkingBudget  *int   `json:"thinking_token_budget,omitempty"`
	CacheSalt       string `json:"cache_salt,omitempty"`
}

type wireStreamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats,omitempty"`
}

// wireOut is a message. Content is a string, a []wirePart or nil, and always present.
type wireOut struct {
	Role             string     `json:"role"`
	Name             string     `json:"name,omitempty"`
	Content          any        `json:"content"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []wireCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
}

type wirePart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *wireImage `json:"image_url,omitempty"`
	Audio    *wireAudio `json:"input_audio,omitempty"`
}

type wireImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type wireAudio struct {
	Data   []byte `json:"data"` // base64 on the wire
	Format string `json:"format"`
}

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireTool struct {
	Type     string          `json:"type"`
	Function wireDeclaration `json:"function"`
}

type wireDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

type wireFormat struct {
	Type       string      `json:"type"`
	JSONSchema *wireSchema `json:"json_schema,omitempty"`
}

type wireSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict *bool           `json:"strict,omitempty"`
}
