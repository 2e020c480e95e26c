package openai

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// maxDocuments is the largest number of texts in one request for an order or for scores.
const maxDocuments = 2048

// RankReply is what the form of an answer depends on beside the scores.
type RankReply struct {
	RequestID string
	Model     string // as the client asked for it
	Created   time.Time
	TopN      int  // at most so many documents; 0 means all
	Documents bool // repeat the texts
}

// DecodeRerank decodes the body of POST /v1/rerank, in the form of Jina, Cohere and vLLM. Errors are *llm.Error with the
// field at fault.
func DecodeRerank(body []byte) (*llm.RankRequest, RankReply, []llm.Note, error) {
	var reply RankReply
	r, notes, err := decodeRank(body, func(f *dialect.Fields, r *llm.RankRequest) {
		r.Queries = []string{f.String("query")}
		if r.Queries[0] == "" {
			f.Fail("query", "is required")
		}
		r.Texts = rankTexts(f, "documents")
		if n := f.Int("top_n", 0, maxTokens); n != nil {
			reply.TopN = *n
		}
		reply.Documents = true
		if on := f.Bool("return_documents"); on != nil {
			reply.Documents = *on
		}
	})
	return r, reply, notes, err
}

// DecodeScore decodes the body of POST /v1/score, vLLM's form. Errors are *llm.Error with the field at fault.
func DecodeScore(body []byte) (*llm.RankRequest, []llm.Note, error) {
	return decodeRank(body, func(f *dialect.Fields, r *llm.RankRequest) {
		r.Scored = true
		one, two := "text_1", "text_2"
		if !f.Has(one) && f.Has("queries") {
			one, two = "queries", "documents"
		}
		r.Queries, r.Texts = rankTexts(f, one), rankTexts(f, two)
		if len(r.Queries) > 1 && len(r.Queries) != len(r.Texts) {
			f.Fail(two, "must have as many entries as %s, which has %d", one, len(r.Queries))
		}
	})
}

func decodeRank(body []byte, read func(*dialect.Fields, *llm.RankRequest)) (*llm.RankRequest, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	r := &llm.RankRequest{Origin: llm.DialectOpenAI, Model: f.String("model")}
	if r.Model == "" {
		f.Fail("model", "is required")
	}
	read(f, r)
	f.String("user")
	var notes []llm.Note
	for _, name := range f.Rest() {
		notes = append(notes, llm.Note{Field: dialect.NoteName(name), What: "dropped"})
	}
	if err := f.Err(); err != nil {
		return nil, nil, err
	}
	return r, notes, nil
}

// rankTexts reads a text, or a list of texts or of objects with a text.
func rankTexts(f *dialect.Fields, name string) []string {
	raw := f.Take(name)
	if s, ok := dialect.Unquote(raw); ok {
		return []string{s}
	}
	if dialect.Kind(raw) != '[' {
		f.Fail(name, "must be a list of texts")
		return nil
	}
	var out []string
	for i, item := range dialect.Elements(raw) {
		if i == maxDocuments {
			f.Fail(name, "has more than %d entries", maxDocuments)
			return nil
		}
		text, ok := dialect.Unquote(item)
		for key, value := range dialect.Members(item) {
			if string(key) == "text" {
				text, ok = dialect.Unquote(value)
			}
		}
		if !ok {
			f.Fail(dialect.At(name, i), "must be a text, or an object with one")
			return nil
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		f.Fail(name, "must not be empty")
	}
	return out
}

// EncodeRerank encodes an order of documents, best first. Equal scores keep the client's order.
func EncodeRerank(resp *llm.RankResponse, r *llm.RankRequest, o RankReply) []byte {
	order := make([]int, len(resp.Scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case resp.Scores[a] > resp.Scores[b]:
			return -1
		case resp.Scores[a] < resp.Scores[b]:
			return 1
		default:
			return 0
		}
	})
	if o.TopN > 0 && o.TopN < len(order) {
		order = order[:o.TopN]
	}
	b := appendRankHead(`{"id":"rerank-`, o)
	b = append(b, `,"usage":{"total_tokens":`...)
	b = strconv.AppendInt(b, int64(resp.Usage.Total()), 10)
	b = append(b, `},"results":[`...)
	for n, i := range order {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"relevance_score":`...)
		b = strconv.AppendFloat(b, resp.Scores[i], 'g', -1, 64)
		if o.Documents {
			b = append(b, `,"document":{"text":`...)
			b = dialect.AppendString(b, r.Texts[i])
			b = append(b, '}')
		}
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

// EncodeScore encodes scores in the order of the texts.
func EncodeScore(resp *llm.RankResponse, o RankReply) []byte {
	b := appendRankHead(`{"id":"score-`, o)
	b = append(b, `,"object":"list","created":`...)
	b = strconv.AppendInt(b, o.Created.Unix(), 10)
	b = append(b, `,"data":[`...)
	for i, score := range resp.Scores {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"object":"score","score":`...)
		b = strconv.AppendFloat(b, score, 'g', -1, 64)
		b = append(b, '}')
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, resp.Usage)
	return append(b, "}\n"...)
}

func appendRankHead(prefix string, o RankReply) []byte {
	b := append([]byte(prefix), strings.ReplaceAll(o.RequestID, "-", "")...)
	b = append(b, `","model":`...)
	return dialect.AppendString(b, o.Model)
}

// EncodeRankCall encodes r for a backend and returns the path that it is for.
func EncodeRankCall(r *llm.RankRequest, o CallOptions) (path string, body []byte, err error) {
	if r.Scored {
		body, err = marshal(struct {
			Model string   `json:"model"`
			One   []string `json:"text_1"`
			Two   []string `json:"text_2"`
		}{o.Model.Name, r.Queries, r.Texts}, nil)
		return "/v1/score", body, err
	}
	body, err = marshal(struct {
		Model     string   `json:"model"`
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
	}{o.Model.Name, r.Queries[0], r.Texts}, nil)
	return "/v1/rerank", body, err
}

// DecodeRankReply reads a backend's answer about n texts and brings the scores into their order. Errors are *llm.Error.
func DecodeRankReply(body []byte, n int) (*llm.RankResponse, error) {
	if !json.Valid(body) {
		return nil, dialect.UpstreamFault("the model server sent something that is not JSON", errors.New(sample(body)))
	}
	if e, ok := dialect.ParseUpstreamError(body); ok {
		return nil, e.Classify(0)
	}
	resp := &llm.RankResponse{Scores: make([]float64, n)}
	seen := make([]bool, n)
	for key, value := range dialect.Members(body) {
		switch string(key) {
		case "results", "data":
			for i, item := range dialect.Elements(value) {
				index, score := readScore(i, item)
				if index < 0 || index >= n || seen[index] || math.IsNaN(score) {
					return nil, dialect.UpstreamFault("the model server sent unusable scores", errors.New(sample(item)))
				}
				seen[index], resp.Scores[index] = true, score
			}
		case "model":
			resp.Model, _ = dialect.Unquote(value)
		case "usage":
			resp.Usage = rankUsage(value)
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return nil, dialect.UpstreamFault("the model server left out a score", errors.New("index "+strconv.Itoa(i)))
	}
	return resp, nil
}

func readScore(i int, raw json.RawMessage) (index int, score float64) {
	index, score = i, math.NaN()
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "index":
			if n, ok := dialect.Int(value); ok {
				index = int(n)
			}
		case "relevance_score", "score":
			if x, ok := dialect.Float(value); ok {
				score = x
			}
		}
	}
	return index, score
}

// rankUsage reads counts, of which some servers give the total alone.
func rankUsage(raw json.RawMessage) llm.Usage {
	u, _ := readUsage(raw)
	if u.Input > 0 {
		return u
	}
	for key, value := range dialect.Members(raw) {
		if n, ok := dialect.Int(value); ok && string(key) == "total_tokens" {
			u.Input = int(max(n, 0))
		}
	}
	return u
}
