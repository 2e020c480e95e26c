package simbackend

import (
	"encoding/json"
	"net/http"
)

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(x *exchange) {
	var body struct {
		Model      string        `json:"model"`
		Input      promptList    `json:"input"`
		Messages   []chatMessage `json:"messages"`
		Encoding   string        `json:"encoding_format"`
		Dimensions *int          `json:"dimensions"`
	}
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.refuse(badBody(err))
		return
	}
	m := s.model(body.Model)
	inputs := body.Input.resolve(s.vocab)
	if len(body.Messages) > 0 {
		chat := chatBody{Messages: body.Messages}
		if m != nil {
			j, no := chat.job(m, true)
			if no != nil {
				x.refuse(no)
				return
			}
			inputs = []string{j.prompt()}
		}
	}
	dims := 0
	if body.Dimensions != nil {
		dims = *body.Dimensions
	}
	var no *refusal
	switch {
	case m == nil:
		no = noModel(body.Model)
	case !m.Can(CapEmbedding):
		no = refuse(http.StatusBadRequest, "The model does not support Embeddings API")
	case len(inputs) == 0:
		no = refuse(http.StatusBadRequest, "input must not be empty")
	case body.Encoding != "" && body.Encoding != "float" && body.Encoding != "base64":
		no = refuse(http.StatusBadRequest, "encoding_format must be float or base64, not %q", body.Encoding)
	case body.Dimensions != nil && (dims < 1 || dims > s.cfg.EmbeddingDims):
		no = refuse(http.StatusBadRequest, "dimensions must be between 1 and %d", s.cfg.EmbeddingDims)
	}
	var j *job
	if no == nil {
		j, no = textJob(m, inputs)
	}
	if no != nil {
		x.refuse(no)
		return
	}
	s.hold(x, j, func(u usage) error {
		data := []object{}
		for i, text := range inputs {
			v := shorten(vector(s.cfg.Seed, text, s.cfg.EmbeddingDims), dims)
			one := object{"object": "embedding", "index": i, "embedding": v}
			if body.Encoding == "base64" {
				one["embedding"] = base64Floats(v)
			}
			data = append(data, one)
		}
		return x.reply(200, object{
			"id": "embd-" + s.newID(), "object": "list", "created": s.born.Unix(), "model": m.Name, "data": data,
			"usage": s.usageOf(u),
		})
	})
}

// textJob is a job that only reads. Each text has to fit the context on its own.
func textJob(m *Model, texts []string) (*job, *refusal) {
	j := &job{model: m, demand: demand{model: m.Name}}
	for _, text := range texts {
		n := countTokens(text)
		if n > m.Context {
			return nil, tooLong(m, n)
		}
		j.tokens += n
	}
	return j, nil
}
