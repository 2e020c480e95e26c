package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// maxInputs is the largest batch of texts for embeddings.
const maxInputs = 2048

// DecodeEmbed decodes the body of POST /v1/embeddings. Errors are *llm.Error with the field at fault.
func DecodeEmbed(body []byte) (*llm.EmbedRequest, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	r := &llm.EmbedRequest{Origin: llm.DialectOpenAI, Model: f.String("model")}
	if r.Model == "" {
		f.Fail("model", "is required")
	}
	readInputs(f, r)
	switch f.String("encoding_format") {
	case "", "float":
	case "base64":
		r.Base64 = true
	default:
		f.Fail("encoding_format", "must be float or base64")
	}
	r.Dimensions = f.Int("dimensions", 1, 1<<20)
	r.EndUser = f.String("user")
	if n := f.Int("truncate_prompt_tokens", -1, maxTokens); n != nil {
		cut := true
		r.Truncate = &cut
		if *n > 0 {
			r.Extra = map[string]json.RawMessage{"truncate_prompt_tokens": strconv.AppendInt(nil, int64(*n), 10)}
		}
	}
	var notes []llm.Note
	for _, name := range f.Rest() {
		notes = append(notes, llm.Note{Field: dialect.NoteName(name), What: "dropped"})
	}
	if err := f.Err(); err != nil {
		return nil, nil, err
	}
	return r, notes, nil
}

func readInputs(f *dialect.Fields, r *llm.EmbedRequest) {
	raw := f.Take("input")
	if s, ok := dialect.Unquote(raw); ok {
		r.Inputs = []llm.EmbedInput{{Text: s}}
		return
	}
	if dialect.Kind(raw) != '[' {
		f.Fail("input", "must be a string, a list of strings, or token ids")
		return
	}
	var tokens []int // of a single input
	for i, item := range dialect.Elements(raw) {
		if i >= maxInputs && tokens == nil {
			f.Fail("input", "has more than %d entries", maxInputs)
			return
		}
		switch dialect.Kind(item) {
		case '"':
			s, _ := dialect.Unquote(item)
			r.Inputs = append(r.Inputs, llm.EmbedInput{Text: s})
		case '[':
			r.Inputs = append(r.Inputs, llm.EmbedInput{Tokens: readTokens(f, dialect.At("input", i), item)})
		default:
			n, ok := dialect.Int(item)
			if !ok || n < 0 {
				f.Fail(dialect.At("input", i), "must be a string or token ids")
				return
			}
			tokens = append(tokens, int(n))
		}
	}
	switch {
	case tokens != nil && r.Inputs != nil:
		f.Fail("input", "mixes token ids with other inputs")
	case tokens != nil:
		r.Inputs = []llm.EmbedInput{{Tokens: tokens}}
	case r.Inputs == nil:
		f.Fail("input", "must not be empty")
	}
}

func readTokens(f *dialect.Fields, path string, raw json.RawMessage) []int {
	tokens := []int{}
	for i, item := range dialect.Elements(raw) {
		n, ok := dialect.Int(item)
		if !ok || n < 0 {
			f.Fail(dialect.At(path, i), "must be a token id")
			return tokens
		}
		tokens = append(tokens, int(n))
	}
	if len(tokens) == 0 {
		f.Fail(path, "must not be empty")
	}
	return tokens
}

// EncodeEmbed encodes an answer for a client of /v1/embeddings. The model is named as the client asked for it.
func EncodeEmbed(resp *llm.EmbedResponse, r *llm.EmbedRequest) ([]byte, error) {
	b := []byte(`{"object":"list","data":[`)
	for i, v := range resp.Vectors {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		var err error
		if b, err = appendVector(b, v, r.Base64); err != nil {
			return nil, err
		}
		b = append(b, '}')
	}
	b = append(b, `],"model":`...)
	b = dialect.AppendString(b, r.Model)
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(resp.Usage.Input), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(resp.Usage.Total()), 10)
	return append(b, "}}\n"...), nil
}

func appendVector(b []byte, v []float32, asBase64 bool) ([]byte, error) {
	if asBase64 {
		raw := make([]byte, 0, 4*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"'), nil
	}
	b = append(b, '[')
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, dialect.UpstreamFault("the model server sent a vector that is not finite", nil)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return append(b, ']'), nil
}

type wireEmbed struct {
	Model          string `json:"model"`
	Input          any    `json:"input"` // []string or [][]int
	EncodingFormat string `json:"encoding_format,omitempty"`
	Dimensions     *int   `json:"dimensions,omitempty"`
	TruncateTokens *int   `json:"truncate_prompt_tokens,omitempty"`
}

// EncodeEmbedCall encodes r for a backend.
func EncodeEmbedCall(r *llm.EmbedRequest, o CallOptions) ([]byte, error) {
	w := wireEmbed{Model: o.Model.Name, Dimensions: r.Dimensions, EncodingFormat: "float"}
	if quirksOf(o.Engine, o.Version).base64 {
		w.EncodingFormat = "base64"
	}
	texts, tokens := make([]string, 0, len(r.Inputs)), make([][]int, 0, len(r.Inputs))
	for _, in := range r.Inputs {
		if in.Tokens != nil {
			tokens = append(tokens, in.Tokens)
		} else {
			texts = append(texts, in.Text)
		}
	}
	switch {
	case len(tokens) == 0:
		w.Input = texts
	case len(texts) == 0:
		w.Input = tokens
	default:
		return nil, llm.Invalid("input", "mixes texts and token ids")
	}
	if r.Truncate != nil && *r.Truncate && o.Engine == EngineVLLM {
		whole := -1
		if n, ok := dialect.Int(r.Extra["truncate_prompt_tokens"]); ok {
			whole = int(n)
		}
		w.TruncateTokens = &whole
	}
	return marshal(w, nil)
}

// DecodeEmbedReply reads a backend's answer to n inputs, numbers or base64, and brings the vectors into the order of
// the inputs. Errors are *llm.Error.
func DecodeEmbedReply(body []byte, n int) (*llm.EmbedResponse, error) {
	if !json.Valid(body) {
		return nil, dialect.UpstreamFault("the model server sent something that is not JSON", errors.New(sample(body)))
	}
	if e, ok := dialect.ParseUpstreamError(body); ok {
		return nil, e.Classify(0)
	}
	resp := &llm.EmbedResponse{Vectors: make([][]float32, n)}
	for key, value := range dialect.Members(body) {
		switch string(key) {
		case "data":
			if err := readVectors(value, resp.Vectors); err != nil {
				return nil, dialect.UpstreamFault("the model server sent unusable vectors", err)
			}
		case "model":
			resp.Model, _ = dialect.Unquote(value)
		case "usage":
			resp.Usage, _ = readUsage(value)
		}
	}
	if err := dialect.CheckVectors(resp.Vectors, n); err != nil {
		return nil, err
	}
	return resp, nil
}

func readVectors(raw json.RawMessage, into [][]float32) error {
	for i, item := range dialect.Elements(raw) {
		index := i
		var embedding json.RawMessage
		for key, value := range dialect.Members(item) {
			switch string(key) {
			case "index":
				if n, ok := dialect.Int(value); ok {
					index = int(n)
				}
			case "embedding":
				embedding = value
			}
		}
		if index < 0 || index >= len(into) {
			return fmt.Errorf("vector %d of %d inputs", index, len(into))
		}
		v, err := readVector(embedding)
		if err != nil {
			return err
		}
		into[index] = v
	}
	return nil
}

func readVector(raw json.RawMessage) ([]float32, error) {
	if s, ok := dialect.Unquote(raw); ok {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(b)%4 != 0 {
			return nil, errors.New("embedding is not base64 of float32")
		}
		v := make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return v, nil
	}
	return dialect.Vector(raw)
}
