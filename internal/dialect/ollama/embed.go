package ollama

import (
	"encoding/json"
	"errors"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

type wireEmbed struct {
	Model      string       `json:"model"`
	Input      []string     `json:"input"`
	Truncate   bool         `json:"truncate"`
	Dimensions *int         `json:"dimensions,omitempty"`
	KeepAlive  string       `json:"keep_alive,omitempty"`
	Options    embedOptions `json:"options"`
}

type embedOptions struct {
	NumCtx int `json:"num_ctx,omitempty"`
}

// EncodeEmbedCall encodes r for /api/embed. An input that does not fit is an error unless r asks for truncation.
func EncodeEmbedCall(r *llm.EmbedRequest, o CallOptions) ([]byte, error) {
	w := wireEmbed{
		Model:      o.Model.Name,
		Truncate:   r.Truncate != nil && *r.Truncate,
		Dimensions: r.Dimensions,
		KeepAlive:  o.KeepAlive,
		Options:    embedOptions{NumCtx: o.NumCtx},
	}
	for i, in := range r.Inputs {
		if in.Text == "" && in.Tokens == nil { // the server would answer with no vector, which shifts the others
			return nil, llm.Invalid("input["+strconv.Itoa(i)+"]", "must not be empty")
		}
		if in.Tokens != nil {
			return nil, &llm.Error{Code: llm.CodeUnsupported, Param: "input", Message: "the model's server takes text, not token ids"}
		}
		w.Input = append(w.Input, in.Text)
	}
	return marshal(w)
}

// DecodeEmbedReply reads the answer of /api/embed to n inputs. Errors are *llm.Error.
func DecodeEmbedReply(body []byte, n int) (*llm.EmbedResponse, error) {
	if !json.Valid(body) {
		return nil, dialect.UpstreamFault("the model server sent something that is not JSON", errors.New(sample(body)))
	}
	resp := &llm.EmbedResponse{}
	for key, value := range dialect.Members(body) {
		switch string(key) {
		case "error":
			e, _ := dialect.ParseUpstreamError(body)
			return nil, e.Classify(0)
		case "model":
			resp.Model, _ = dialect.Unquote(value)
		case "prompt_eval_count":
			resp.Usage.Input = count(value)
		case "embeddings":
			for _, item := range dialect.Elements(value) {
				v, err := dialect.Vector(item)
				if err != nil {
					return nil, dialect.UpstreamFault("the model server sent unusable vectors", err)
				}
				resp.Vectors = append(resp.Vectors, v)
			}
		}
	}
	if err := dialect.CheckVectors(resp.Vectors, n); err != nil {
		return nil, err
	}
	return resp, nil
}
