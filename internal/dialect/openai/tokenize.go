package openai

import (
	"encoding/json"
	"errors"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// EncodeTokenize encodes the request that makes vLLM's /tokenize render and count the prompt of r.
func EncodeTokenize(r *llm.Request, o CallOptions) ([]byte, error) {
	encode := EncodeChat
	if r.Raw != nil {
		encode = EncodeCompletion
	}
	chat, _, err := encode(r, o)
	if err != nil {
		return nil, err
	}
	body := []byte{'{'}
	for key, value := range dialect.Members(chat) {
		switch string(key) {
		case "model", "prompt", "messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs":
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

// DecodeTokenizeRequest decodes the body of POST /v1/tokenize, vLLM's form: a prompt, or the messages and tools of a chat.
// Errors are *llm.Error with the field at fault.
func DecodeTokenizeRequest(body []byte) (*llm.Request, []llm.Note, error) {
	return decode(body, func(d *decoder) {
		d.model()
		if d.f.Has("messages") {
			d.messages()
			d.tools()
		} else {
			d.prompt()
		}
		for _, name := range []string{"add_special_tokens", "add_generation_prompt", "continue_final_message", "return_token_strs"} {
			d.f.Take(name)
		}
		d.extras()
	})
}

// EncodeTokenized encodes the count of a prompt. The tokens themselves are not told: not every server tells them.
func EncodeTokenized(count, contextLength int) []byte {
	b := strconv.AppendInt([]byte(`{"count":`), int64(count), 10)
	b = append(b, `,"max_model_len":`...)
	b = strconv.AppendInt(b, int64(contextLength), 10)
	return append(b, `,"tokens":null,"token_strs":null}`+"\n"...)
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
