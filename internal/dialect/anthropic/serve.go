package anthropic

import (
	"encoding/json"
	"io"
	"slices"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Limits on a request.
const (
	maxMessages  = 10_000
	maxTools     = 128
	maxModelName = 256
	maxTokens    = 1 << 30
)

// Messages is the codec of POST /v1/messages. The zero value is ready; a Messages is safe for concurrent use.
type Messages struct {
	// Sign returns a keyed digest of a thinking block for its signature. The key should differ by tenant. Without it a
	// signature is a plain checksum.
	Sign func(data []byte) [32]byte
}

var _ dialect.Codec = Messages{}

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param.
//
// A request with max_tokens 0 wants no answer; see [Local].
func (Messages) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	return decode(body, (*decoder).message)
}

// NewEncoder returns the encoder of one answer.
func (m Messages) NewEncoder(w io.Writer, reply dialect.Reply) dialect.Encoder {
	return newEncoder(w, reply, m.Sign)
}

func decode(body []byte, read func(*decoder)) (*llm.Request, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	d := decoder{
		f:   f,
		req: &llm.Request{Origin: llm.DialectAnthropic},
	}
	read(&d)
	if err := d.f.Err(); err != nil {
		return nil, nil, err
	}
	return d.req, d.notes, nil
}

// decoder fills one request. Its parts read the fields they know; what is left is unknown.
type decoder struct {
	f     *dialect.Fields
	req   *llm.Request
	notes []llm.Note
}

// message reads the body of /v1/messages.
func (d *decoder) message() {
	d.prompt()
	d.limits()
	d.budget()
	d.extras()
}

// prompt reads what makes up the prompt, which is all that can be counted before an answer.
func (d *decoder) prompt() {
	d.model()
	d.system()
	d.messages()
	d.tools()
	d.thinking()
	d.output()
	d.client()
}

// note tells once that a field was changed or dropped.
func (d *decoder) note(field, what, detail string) {
	n := llm.Note{Field: field, What: what, Detail: detail}
	if !slices.Contains(d.notes, n) {
		d.notes = append(d.notes, n)
	}
}

func (d *decoder) model() {
	d.req.Model = d.f.String("model")
	switch {
	case d.req.Model == "":
		d.f.Fail("model", "is required")
	case len(d.req.Model) > maxModelName:
		d.f.Fail("model", "is longer than %d bytes", maxModelName)
	}
}

func (d *decoder) limits() {
	r, f := d.req, d.f
	if !f.Has("max_tokens") {
		f.Fail("max_tokens", "is required")
	}
	r.MaxTokens = f.Int("max_tokens", 0, maxTokens)
	if on := f.Bool("stream"); on != nil {
		r.Stream = *on
	}
	r.Sampling.Temperature = f.Float("temperature")
	r.Sampling.TopP = f.Float("top_p")
	r.Sampling.TopK = f.Int("top_k", -1, 1<<30)
	d.stop(f.Take("stop_sequences"))
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == llm.RoleAssistant {
		f.Adopt(unsupported("messages", "must end with a user turn; the continuation of a prefilled answer is not supported"))
	}
}

func (d *decoder) stop(raw json.RawMessage) {
	const field = "stop_sequences"
	if raw != nil && dialect.Kind(raw) != '[' {
		d.f.Fail(field, "must be a list of strings")
		return
	}
	for i, item := range dialect.Elements(raw) {
		s, ok := dialect.Unquote(item)
		switch {
		case !ok:
			d.f.Fail(dialect.At(field, i), "must be a string")
		case s == "":
			d.note(dialect.At(field, i), "dropped", "") // an empty stop sequence would match at once; servers refuse it
		default:
			d.req.Stop = append(d.req.Stop, s)
		}
	}
}

// client reads what says something about the caller and nothing about the answer.
func (d *decoder) client() {
	m := d.f.Object("metadata")
	d.req.EndUser = m.String("user_id")
	d.f.Adopt(m.Err())
	for _, silent := range []string{
		"cache_control", "service_tier", "inference_geo", "speed", "diagnostics", "context_management", "fallbacks", "betas",
	} {
		d.f.Take(silent)
	}
}

// extras sorts what is left. There is no server here that runs a client's tools, and saying so is better than failing:
// the rest of the request makes sense without. What is not known at all is kept for a backend that may know it, and
// noted, because today's do not.
func (d *decoder) extras() {
	for _, name := range []string{"mcp_servers", "container"} {
		if raw := d.f.Take(name); raw != nil && !emptyList(raw) {
			d.note(name, "dropped", "")
		}
	}
	for _, name := range d.f.Rest() {
		if d.req.Extra == nil {
			d.req.Extra = map[string]json.RawMessage{}
		}
		d.req.Extra[name] = d.f.Take(name)
		d.note(dialect.NoteName(name), "dropped", "")
	}
}

func emptyList(raw json.RawMessage) bool {
	for range dialect.Elements(raw) {
		return false
	}
	return dialect.Kind(raw) == '['
}
