package simbackend

import "net/http"

type ollamaEmbedBody struct {
	Model      string        `json:"model"`
	Input      any           `json:"input"`
	Prompt     string        `json:"prompt"` // of the old path
	Truncate   *bool         `json:"truncate"`
	Dimensions int           `json:"dimensions"`
	Options    ollamaOptions `json:"options"`
	KeepAlive  *keepAlive    `json:"keep_alive"`
}

// ollamaEmbed answers POST /api/embed.
func (s *Server) ollamaEmbed(x *exchange) {
	var b ollamaEmbedBody
	if no := ollamaDecode(x, &b); no != nil {
		x.refuse(no)
		return
	}
	texts, ok := b.inputs()
	if !ok {
		x.refuse(refuse(http.StatusBadRequest, "invalid input type"))
		return
	}
	j, no := s.ollamaReadJob(&b, texts)
	if no != nil {
		x.refuse(no)
		return
	}
	s.hold(x, j, func(u usage) error {
		vectors := [][]float32{}
		for _, text := range texts {
			vectors = append(vectors, shorten(vector(s.cfg.Seed, text, s.cfg.EmbeddingDims), b.Dimensions))
		}
		out := object{"model": b.Model, "embeddings": vectors}
		for name, v := range map[string]int64{
			"total_duration": int64(u.total), "load_duration": int64(u.load), "prompt_eval_count": int64(u.prompt),
		} {
			if v > 0 {
				out[name] = v
			}
		}
		return x.reply(200, out)
	})
}

// ollamaEmbeddings answers POST /api/embeddings, the old path: one text, a vector that is not of length 1.
func (s *Server) ollamaEmbeddings(x *exchange) {
	var b ollamaEmbedBody
	if no := ollamaDecode(x, &b); no != nil {
		x.refuse(no)
		return
	}
	texts := []string{}
	if b.Prompt != "" {
		texts = append(texts, b.Prompt)
	}
	j, no := s.ollamaReadJob(&b, texts)
	if no != nil {
		x.refuse(no)
		return
	}
	s.hold(x, j, func(usage) error {
		values := []float64{}
		for _, text := range texts {
			for _, v := range vector(s.cfg.Seed, text, s.cfg.EmbeddingDims) {
				const length = 3
				values = append(values, length*float64(v))
			}
		}
		return x.reply(200, object{"embedding": values})
	})
}

// inputs returns the texts; an empty text alone is none.
func (b *ollamaEmbedBody) inputs() ([]string, bool) {
	switch v := b.Input.(type) {
	case nil:
		return nil, true
	case string:
		if v == "" {
			return nil, true
		}
		return []string{v}, true
	case []any:
		var texts []string
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, false
			}
			texts = append(texts, text)
		}
		return texts, true
	}
	return nil, false
}

// ollamaReadJob is the job of an embedding request. Texts that are too long are cut unless that is forbidden.
func (s *Server) ollamaReadJob(b *ollamaEmbedBody, texts []string) (*job, *refusal) {
	m := s.ollamaModel(b.Model)
	if m == nil {
		return nil, ollamaMissing(b.Model)
	}
	if !m.Can(CapEmbedding) {
		return nil, refuse(http.StatusBadRequest, "this model does not support embeddings")
	}
	numCtx := s.numCtx(m, b.Options.NumCtx)
	j := &job{model: m, demand: demand{model: m.Name, numCtx: numCtx, keepAlive: b.KeepAlive.pointer()}}
	for _, text := range texts {
		n := countTokens(text)
		if n > numCtx && b.Truncate != nil && !*b.Truncate {
			return nil, refuse(http.StatusBadRequest, "the input length exceeds the context length")
		}
		j.tokens += min(n, numCtx)
	}
	return j, nil
}
