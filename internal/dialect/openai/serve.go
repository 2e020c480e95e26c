package openai

import (
	"encoding/json"
	"io"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Limits on a chat request.
const (
	maxMessages  = 10_000
	maxTools     = 128
	maxModelName = 256
	maxTokens    = 1 << 30
)

// Chat is the codec of POST /v1/chat/completions. The zero value is ready and safe for concurrent use.
type Chat struct{}

var _ dialect.Codec = Chat{}

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param. A body with input in
// place of messages is one of the Responses API, which some clients send to this path; it is answered as a chat.
func (Chat) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	return decode(body, func(d *decoder) {
		if d.f.Has("input") && !d.f.Has("messages") {
			d.items()
		} else {
			d.chat()
		}
	})
}

func decode(body []byte, read func(*decoder)) (*llm.Request, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	d := decoder{
		f:   f,
		req: &llm.Request{Origin: llm.DialectOpenAI},
	}
	read(&d)
	if err := d.f.Err(); err != nil {
		return nil, nil, err
	}
	return d.req, d.notes, nil
}

// NewEncoder returns the encoder of one answer.
func (Chat) NewEncoder(w io.Writer, reply dialect.Reply) dialect.Encoder { return newEncoder(w, reply) }

// decoder fills one request. Its parts read the fields they know; what is left is unknown.
type decoder struct {
	f     *dialect.Fields
	req   *llm.Request
	notes []llm.Note
}

func (d *decoder) chat() {
	d.model()
	d.messages()
	d.limits()
	d.sampling()
	d.tools()
	d.format()
	d.thinking()
	d.stream()
	d.client()
	d.runnerOptions()
	d.extras()
}

// items reads a body of the Responses API. What a chat calls by another name is read under that as well.
func (d *decoder) items() {
	r := responsesDecoder{decoder: d}
	r.model()
	r.limits()
	bound := d.req.MaxTokens
	r.state()
	r.prompt()
	r.options()
	d.req.MaxTokens = first(d.req.MaxTokens, bound)
	r.extras()
}

func (d *decoder) note(field, what string) {
	d.notes = append(d.notes, llm.Note{Field: field, What: what})
}

// semantic notes a loss that may change what the answer means.
func (d *decoder) semantic(field, what string) {
	d.notes = append(d.notes, llm.Note{Field: field, What: what, Semantic: true})
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
	old := f.Int("max_tokens", 1, maxTokens)
	r.MaxTokens = first(f.Int("max_completion_tokens", 1, maxTokens), old)
	if r.N = f.Int("n", 1, 128); r.N != nil && *r.N == 1 {
		r.N = nil
	}
	r.Stop = d.stop("stop", f.Take("stop"))
}

func (d *decoder) stop(field string, raw json.RawMessage) []string {
	if raw == nil {
		return nil
	}
	if s, ok := dialect.Unquote(raw); ok {
		if s == "" {
			d.note(field, "dropped")
			return nil
		}
		return []string{s}
	}
	if dialect.Kind(raw) != '[' {
		d.f.Fail(field, "must be a string or a list of strings")
		return nil
	}
	var stops []string
	for i, item := range dialect.Elements(raw) {
		s, ok := dialect.Unquote(item)
		switch {
		case !ok:
			d.f.Fail(dialect.At(field, i), "must be a string")
		case s == "":
			d.note(dialect.At(field, i), "dropped") // an empty stop sequence would match at once; servers refuse it
		default:
			stops = append(stops, s)
		}
	}
	return stops
}

func (d *decoder) stream() {
	if on := d.f.Bool("stream"); on != nil {
		d.req.Stream = *on
	}
	o := d.f.Object("stream_options")
	usage := o.Bool("include_usage")
	d.f.Adopt(o.Err())
	d.req.IncludeUsage = d.req.Stream && usage != nil && *usage
}

// client reads what says something about the caller and nothing about the answer.
func (d *decoder) client() {
	d.req.EndUser = d.f.String("safety_identifier")
	if user := d.f.String("user"); d.req.EndUser == "" {
		d.req.EndUser = user
	}
	d.req.CacheKey = d.f.String("prompt_cache_key")
	for _, silent := range []string{"metadata", "store", "service_tier", "prompt_cache_retention", "prompt_cache_options"} {
		d.f.Take(silent)
	}
}

// extras sorts what is left: sampling controls of common servers pass to a backend of this dialect; output that we
// cannot give is refused; everything else is dropped and noted, because clients add fields weekly and backends would
// ignore them in silence or, worse, obey them.
func (d *decoder) extras() {
	for _, item := range dialect.Elements(d.f.Take("modalities")) {
		if kind, _ := dialect.Unquote(item); kind != "text" {
			d.f.Adopt(&llm.Error{Code: llm.CodeUnsupported, Param: "modalities", Message: "only text can be generated here"})
		}
	}
	for _, name := range d.f.Rest() {
		switch {
		case passes[name]:
			d.extra(name, d.f.Take(name))
		case name == "web_search_options" || name == "documents" || name == "chat_template":
			d.semantic(name, "dropped")
		default:
			d.note(dialect.NoteName(name), "dropped")
		}
	}
}

func (d *decoder) extra(name string, value json.RawMessage) {
	if d.req.Extra == nil {
		d.req.Extra = map[string]json.RawMessage{}
	}
	d.req.Extra[name] = value
}

// passes lists the extra fields that only steer sampling or stopping and are safe to hand to a backend as they are.
// Fields that change server work or rendering (chat_template, kv_transfer_params, mm_processor_kwargs, vllm_xargs,
// priority, cache_salt) are not among them: the gateway owns those.
var passes = set(
	"length_penalty", "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output",
	"allowed_token_ids", "bad_words", "truncate_prompt_tokens", "add_generation_prompt", "continue_final_message",
	"mirostat", "mirostat_tau", "mirostat_eta", "top_a", "tfs", "dynatemp_range", "dynatemp_exponent",
	"xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
	"dry_sequence_breakers",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}
