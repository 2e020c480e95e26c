package anthropic

import (
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// DecodeCount decodes the body of POST /v1/messages/count_tokens: a request without bound, whose prompt is to be
// counted and not answered. Every error is an *llm.Error with the field at fault in Param.
func DecodeCount(body []byte) (*llm.Request, []llm.Note, error) {
	return decode(body, func(d *decoder) {
		d.prompt()
		for _, name := range []string{"max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences"} {
			d.f.Take(name) // sent by clients that count the request they are about to make
		}
		d.extras()
	})
}

// EncodeCount returns the reply to a count.
func EncodeCount(tokens int) []byte {
	return append(strconv.AppendInt([]byte(`{"input_tokens":`), int64(tokens), 10), "}\n"...)
}

// Local returns the answer to a request that needs no model, and false for every other: max_tokens 0 only warms a
// prompt cache, and the caches here warm themselves.
func Local(r *llm.Request) (*llm.Response, bool) {
	if r.MaxTokens == nil || *r.MaxTokens != 0 {
		return nil, false
	}
	return &llm.Response{Choices: []llm.Choice{{StopReason: llm.StopMaxTokens}}}, true
}

// mediaTokens stands for a picture whose cost depends on a model that is not known yet.
const mediaTokens = 1000

// estimateInput guesses the tokens of r's prompt. It fills message_start while no backend has counted; message_delta
// then has the backend's own figure.
func estimateInput(r *llm.Request) int {
	if r == nil {
		return 0
	}
	n, media := 0, 0
	var walk func(blocks []llm.Block)
	walk = func(blocks []llm.Block) {
		for _, b := range blocks {
			n += len(b.Text)
			switch {
			case b.ToolCall != nil:
				n += len(b.ToolCall.Name) + len(b.ToolCall.Arguments)
			case b.ToolResult != nil:
				walk(b.ToolResult.Content)
			case b.Kind == llm.BlockDocument && b.Media != nil:
				n += len(b.Media.Data)
			case b.Media != nil:
				media++
			}
		}
	}
	for _, m := range r.Messages {
		walk(m.Blocks)
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return dialect.EstimateTokens(n) + media*mediaTokens
}
