package ollama

import (
	"strconv"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// maxInputs is the largest batch of texts for embeddings.
const maxInputs = 2048

// DecodeEmbed decodes the body of POST /api/embed. Errors are *llm.Error with the field at fault.
func DecodeEmbed(body []byte) (*llm.EmbedRequest, []llm.Note, error) {
	return decodeEmbed(body, func(f *dialect.Fields, r *llm.EmbedRequest) {
		raw := f.Take("input")
		if s, ok := dialect.Unquote(raw); ok {
			r.Inputs = []llm.EmbedInput{{Text: s}}
			return
		}
		if dialect.Kind(raw) != '[' {
			f.Fail("input", "must be a string or a list of strings")
		}
		for i, item := range dialect.Elements(raw) {
			s, ok := dialect.Unquote(item)
			switch {
			case i >= maxInputs:
				f.Fail("input", "has more than %d entries", maxInputs)
				return
			case !ok:
				f.Fail(dialect.At("input", i), "must be a string")
				return
			}
			r.Inputs = append(r.Inputs, llm.EmbedInput{Text: s})
		}
		r.Dimensions = f.Int("dimensions", 1, 1<<20)
	})
}

// DecodeEmbeddings decodes the body of POST /api/embeddings, the older form with one text.
func DecodeEmbeddings(body []byte) (*llm.EmbedRequest, []llm.Note, error) {
	return decodeEmbed(body, func(f *dialect.Fields, r *llm.EmbedRequest) {
		r.Inputs = []llm.EmbedInput{{Text: f.String("prompt")}}
	})
}

func decodeEmbed(body []byte, inputs func(*dialect.Fields, *llm.EmbedRequest)) (*llm.EmbedRequest, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	r := &llm.EmbedRequest{Origin: llm.DialectOllama, Model: f.String("model")}
	if r.Model == "" {
		f.Fail("model", "is required")
	}
	inputs(f, r)
	if len(r.Inputs) == 0 {
		f.Fail("input", "must not be empty")
	}
	cut := true // the protocol's default
	if on := f.Bool("truncate"); on != nil {
		cut = *on
	}
	r.Truncate = &cut
	var notes []llm.Note
	for _, name := range f.Rest() { // options and keep_alive among them
		notes = append(notes, llm.Note{Field: dialect.NoteName(name), What: "dropped"})
	}
	if err := f.Err(); err != nil {
		return nil, nil, err
	}
	return r, notes, nil
}

// EncodeEmbed encodes an answer for a client of /api/embed. The model is named as the client asked for it.
func EncodeEmbed(resp *llm.EmbedResponse, r *llm.EmbedRequest, took time.Duration) []byte {
	b := append([]byte(`{"model":`), dialect.Quote(r.Model)...)
	b = append(b, `,"embeddings":[`...)
	for i, v := range resp.Vectors {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendVector(b, v)
	}
	b = append(b, `],"total_duration":`...)
	b = strconv.AppendInt(b, max(1, int64(took)), 10)
	b = append(b, `,"load_duration":1,"prompt_eval_count":`...)
	b = strconv.AppendInt(b, int64(resp.Usage.Input), 10)
	return append(b, "}\n"...)
}

// EncodeEmbeddings encodes an answer for a client of /api/embeddings.
func EncodeEmbeddings(resp *llm.EmbedResponse) []byte {
	b := []byte(`{"embedding":`)
	if len(resp.Vectors) > 0 {
		b = appendVector(b, resp.Vectors[0])
	} else {
		b = append(b, "[]"...)
	}
	return append(b, "}\n"...)
}

func appendVector(dst []byte, v []float32) []byte {
	dst = append(dst, '[')
	for i, x := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(x), 'g', -1, 32)
	}
	return append(dst, ']')
}
