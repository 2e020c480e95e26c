package simbackend

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// document is a text, alone or as {"text": ...}.
type document string

func (d *document) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*string)(d)) == nil {
		return nil
	}
	var object struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	*d = document(object.Text)
	return nil
}

// rerank answers POST /v1/rerank: the documents, the most similar to the query first.
func (s *Server) rerank(x *exchange) {
	var body struct {
		Model     string     `json:"model"`
		Query     string     `json:"query"`
		Documents []document `json:"documents"`
		TopN      int        `json:"top_n"`
	}
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.refuse(badBody(err))
		return
	}
	texts := []string{body.Query}
	for _, d := range body.Documents {
		texts = append(texts, string(d))
	}
	j, no := s.rankJob(body.Model, texts)
	if no == nil && len(body.Documents) == 0 {
		no = refuse(http.StatusBadRequest, "documents must not be empty")
	}
	if no != nil {
		x.refuse(no)
		return
	}
	s.hold(x, j, func(u usage) error {
		type result struct {
			Index    int     `json:"index"`
			Document object  `json:"document"`
			Score    float64 `json:"relevance_score"`
		}
		results := []result{}
		for i, d := range body.Documents {
			results = append(results, result{i, object{"text": d}, s.score01(body.Query, string(d))})
		}
		slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.Score, a.Score) })
		if body.TopN > 0 && body.TopN < len(results) {
			results = results[:body.TopN]
		}
		return x.reply(200, object{
			"id": "rerank-" + s.newID(), "model": j.model.Name, "results": results,
			"usage": object{"total_tokens": u.prompt},
		})
	})
}

// score answers POST /v1/score: one similarity for each pair, 1:1, 1:N or N:N.
func (s *Server) score(x *exchange) {
	var body struct {
		Model string     `json:"model"`
		Text1 promptList `json:"text_1"`
		Text2 promptList `json:"text_2"`
	}
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.refuse(badBody(err))
		return
	}
	left, right := body.Text1.texts, body.Text2.texts
	var j *job
	no := refuse(http.StatusBadRequest, "Input lengths must be either 1:1, 1:N or N:N")
	if len(left) > 0 && len(right) > 0 && (len(left) == 1 || len(left) == len(right)) {
		j, no = s.rankJob(body.Model, append(slices.Clone(left), right...))
	}
	if no != nil {
		x.refuse(no)
		return
	}
	s.hold(x, j, func(u usage) error {
		data := []object{}
		for i, text := range right {
			data = append(data, object{"index": i, "object": "score", "score": s.score01(left[i%len(left)], text)})
		}
		return x.reply(200, object{
			"id": "score-" + s.newID(), "object": "list", "created": time.Now().Unix(), "model": j.model.Name,
			"data": data, "usage": s.usageOf(u),
		})
	})
}

func (s *Server) rankJob(model string, texts []string) (*job, *refusal) {
	m := s.model(model)
	switch {
	case m == nil:
		return nil, noModel(model)
	case !m.Can(CapRerank) && !m.Can(CapEmbedding):
		return nil, refuse(http.StatusBadRequest, "The model does not support Score API")
	}
	return textJob(m, texts)
}

// score01 is the similarity of two texts, 0 to 1.
func (s *Server) score01(a, b string) float64 {
	return similarity(vector(s.cfg.Seed, a, s.cfg.EmbeddingDims), vector(s.cfg.Seed, b, s.cfg.EmbeddingDims))
}
