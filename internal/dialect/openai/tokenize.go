package openai

import (
	"encoding/json"
	"errors"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// EncodeTokenize encodes the request that makes vLLM's /tokenize render and count the prompt of r.
func EncodeTokenize(r *llm.Request, o CallOptions) ([]byte, error) {
	chat, _, err := EncodeChat(r, o)
	if err != nil {
		return nil, err
	}
	body := []byte{'{'}
	for key, value := range dialect.Members(chat) {
		switch string(key) {
		case "model", "messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs":
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = dialect.AppendString(body, string(key))
			body = append(body, ':')
			body = append(body, value...)
		}
	}
	return append(body, '}'), nil
}

// DecodeTokenize reads the count of a prompt, and the context length if the server tells it. The list of tokens, which
// may be large, is skipped.
func DecodeTokenize(body []byte) (count, contextLength int, err error) {
	found := false
	if json.Valid(body) {
		for key, value := range dialect.Members(body) {
			n, ok := dialect.Int(value)
			switch string(key) {
			case "count":
				count, found = int(n), ok
			case "max_model_len":
				contextLength = int(n)
			}
		}
	}
	if !found {
		return 0, 0, errors.New("no count in the answer")
	}
	return count, contextLength, nil
}
