package simbackend

import (
	"bytes"
	"encoding/json"
	"time"
)

// object is a JSON object of a reply that is too rare to have a type of its own.
type object = map[string]any

// null is a JSON null in a field that is left out when nil.
var null = json.RawMessage("null")

// chatChunk is one event of a streamed chat completion.
type chatChunk struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Choices []any       `json:"choices"` // vllmChoice or plainChoice
	Usage   *usageWire  `json:"usage,omitempty"`
	Timings *timingWire `json:"timings,omitempty"`
}

// chatCompletion is a whole chat completion. The fields after usage are vLLM's, the last is llama.cpp's.
type chatCompletion struct {
	ID                string          `json:"id"`
	Object            string          `json:"object"`
	Created           int64           `json:"created"`
	Model             string          `json:"model"`
	Choices           []any           `json:"choices"`
	ServiceTier       json.RawMessage `json:"service_tier,omitempty"`
	SystemFingerprint *string         `json:"system_fingerprint"`
	Usage             *usageWire      `json:"usage"`
	PromptLogprobs    json.RawMessage `json:"prompt_logprobs,omitempty"`
	KVTransfer        json.RawMessage `json:"kv_transfer_params,omitempty"`
	Timings           *timingWire     `json:"timings,omitempty"`
}

// plainChoice is a choice without extras. One of Message and Delta is set.
type plainChoice struct {
	Index        int           `json:"index"`
	Message      *chatContent  `json:"message,omitempty"`
	Delta        *chatContent  `json:"delta,omitempty"`
	Logprobs     *logprobsWire `json:"logprobs,omitempty"`
	FinishReason *string       `json:"finish_reason"`
}

// vllmChoice is a choice of vLLM.
type vllmChoice struct {
	Index        int             `json:"index"`
	Message      *chatContent    `json:"message,omitempty"`
	Delta        *chatContent    `json:"delta,omitempty"`
	Logprobs     *logprobsWire   `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
	StopReason   any             `json:"stop_reason,omitempty"`
	TokenIDs     json.RawMessage `json:"token_ids"`
}

// chatContent is a message or a part of one. A nil field is left out; null says null.
type chatContent struct {
	Role             string     `json:"role,omitempty"`
	Content          any        `json:"content,omitempty"`
	Refusal          any        `json:"refusal,omitempty"`
	Annotations      any        `json:"annotations,omitempty"`
	Audio            any        `json:"audio,omitempty"`
	FunctionCall     any        `json:"function_call,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	Reasoning        any        `json:"reasoning,omitempty"`
	ReasoningContent any        `json:"reasoning_content,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id,omitempty"`
	Index    *int         `json:"index,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usageWire struct {
	PromptTokens      int            `json:"prompt_tokens"`
	TotalTokens       int            `json:"total_tokens"`
	CompletionTokens  int            `json:"completion_tokens"`
	PromptDetails     *promptDetails `json:"prompt_tokens_details"`
	CompletionDetails *outputDetails `json:"completion_tokens_details,omitempty"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

type outputDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// timingWire is what llama.cpp adds.
type timingWire struct {
	PromptTokens    int     `json:"prompt_n"`
	PromptMS        float64 `json:"prompt_ms"`
	PredictedTokens int     `json:"predicted_n"`
	PredictedMS     float64 `json:"predicted_ms"`
}

type logprobsWire struct {
	Content []tokenLogprob `json:"content"`
}

type tokenLogprob struct {
	Token   string         `json:"token"`
	Logprob float64        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     []tokenLogprob `json:"top_logprobs,omitempty"`
}

// usageOf is "usage". Cached tokens are told only by a server that has a cache.
func (s *Server) usageOf(u usage) *usageWire {
	out := &usageWire{
		PromptTokens: u.prompt, CompletionTokens: u.completion, TotalTokens: u.prompt + u.completion,
	}
	if s.prefixes != nil {
		out.PromptDetails = &promptDetails{CachedTokens: u.cached}
	}
	if u.thinking > 0 {
		out.CompletionDetails = &outputDetails{ReasoningTokens: u.thinking}
	}
	return out
}

func timingsOf(u usage) *timingWire {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &timingWire{
		PromptTokens: u.prompt - u.cached, PromptMS: ms(u.prefill),
		PredictedTokens: u.completion, PredictedMS: ms(u.decode),
	}
}

// logprobsOf makes up log probabilities: the token that was written is the likely one.
func logprobsOf(tokens []string, top int) *logprobsWire {
	entry := func(text string, p float64) tokenLogprob {
		out := tokenLogprob{Token: text, Logprob: p, Bytes: make([]int, len(text))}
		for i := range len(text) {
			out.Bytes[i] = int(text[i])
		}
		return out
	}
	out := &logprobsWire{Content: []tokenLogprob{}}
	for _, t := range tokens {
		const likely = -0.1
		one := entry(t, likely)
		for i := range top {
			if i == 0 {
				one.Top = append(one.Top, entry(t, likely))
				continue
			}
			one.Top = append(one.Top, entry(" "+fillers[i%len(fillers)], -2-float64(i)))
		}
		out.Content = append(out.Content, one)
	}
	return out
}

// encode returns JSON as the simulated servers write it: without the escapes for HTML that Go adds.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// mustJSON encodes a value that is known to be encodable.
func mustJSON(v any) []byte {
	data, err := encode(v)
	if err != nil {
		panic(err)
	}
	return data
}

// sseDone ends a stream of events.
const sseDone = "data: [DONE]\n\n"

func sseFrame(data []byte) []byte {
	out := make([]byte, 0, len(data)+8)
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}
