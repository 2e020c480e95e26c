package openai

import (
	"encoding/json"
	"fmt"
	"maps"

	"mindrouter/internal/llm"
)

// wireCompletion is the body of a completion request to a backend: that of a chat with a prompt instead of messages.
type wireCompletion struct {
	wireRequest
	Messages any             `json:"messages,omitempty"` // hides that of the chat
	Prompt   json.RawMessage `json:"prompt"`
	Suffix   string          `json:"suffix,omitempty"`
	Echo     bool            `json:"echo,omitempty"`
}

// EncodeCompletion encodes a request with a plain prompt for /v1/completions of a backend, always as a stream with usage.
// Errors are *llm.Error and blame the request. r is not changed.
func EncodeCompletion(r *llm.Request, o CallOptions) ([]byte, []llm.Note, error) {
	if r.Raw.Suffix != "" && o.Engine == EngineVLLM {
		return nil, nil, &llm.Error{Code: llm.CodeUnsupported, Param: "suffix", Message: "the model's server does not fill in before a suffix"}
	}
	c := call{r: r, o: o, q: quirksOf(o.Engine, o.Version), extra: map[string]json.RawMessage{}}
	if r.Origin == llm.DialectOpenAI {
		maps.Copy(c.extra, r.Extra)
	}
	chat := *r
	chat.Messages, chat.Thinking = nil, llm.Thinking{}
	c.r = &chat
	w, err := c.encode()
	if err != nil {
		return nil, nil, err
	}
	out := wireCompletion{wireRequest: *w, Suffix: r.Raw.Suffix, Echo: r.Raw.Echo}
	var prompts []any
	for _, p := range r.Raw.Prompts() {
		if p.Tokens != nil {
			prompts = append(prompts, p.Tokens)
		} else {
			prompts = append(prompts, p.Text)
		}
	}
	var prompt any = prompts
	if len(prompts) == 1 {
		prompt = prompts[0]
	}
	if out.Prompt, err = marshal(prompt, nil); err != nil {
		return nil, nil, fmt.Errorf("encode prompt: %w", err)
	}
	body, err := marshal(out, c.extra)
	if err != nil {
		return nil, nil, fmt.Errorf("encode completion request: %w", err)
	}
	return body, c.notes, nil
}
