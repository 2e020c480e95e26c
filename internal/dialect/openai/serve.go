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

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param.
func (Chat) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	body = dialect.TrimBOM(body)
	if err := dialect.Validate(body); err != nil {
		return nil, nil, llm.Invalid("", "%s", err)
	}
	if dialect.Kind(body) != '{' {
		return nil, nil, llm.Invalid("", "the body must be a JSON object")
	}
	d := decoder{
		f:   dialect.ReadFields(body, ""),
		req: &llm.Request{Origin: llm.DialectOpenAI},
	}
	d.decode()
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

func (d *decoder) decode() {
	d.model()
	d.messages()
	d.limits()
	d.sampling()
	d.tools()
	d.format()
	d.thinking()
	d.stream()
	d.client()
	d.extras()
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
	if r.MaxTokens = f.Int("max_completion_tokens", 1, maxTokens); r.MaxTokens == nil {
		r.MaxTokens = old
	}
	if r.N = f.Int("n", 1, 128); r.N != nil && *r.N == 1 {
		r.N = nil
	}
	r.Stop = d.stop(f.Take("stop"))
}

func (d *decoder) stop(raw json.RawMessage) []string {
	if raw == nil {
		return nil
	}
	if s, ok := dialect.Unquote(raw); ok {
		if s == "" {
			d.note("stop", "dropped")
			return nil
		}
		return []string{s}
	}
	if dialect.Kind(raw) != '[' {
		d.f.Fail("stop", "must be a string or a list of strings")
		return nil
	}
	var stops []string
	for i, item := range dialect.Elements(raw) {
		s, ok := dialect.Unquote(item)
		switch {
		case !ok:
			d.f.Fail(at("stop", i), "must be a string")
		case s == "":
			d.note(at("stop", i), "dropped") // an empty stop sequence would match at once; servers refuse it
		default:
			stops = append(stops, s)
		}
	}
	return stops
}

func (d *decoder) sampling() {
	s, f := &d.req.Sampling, d.f
	s.Temperature = f.Float("temperature")
	s.TopP = f.Float("top_p")
	s.TopK = f.Int("top_k", -1, 1<<30)
	s.MinP = f.Float("min_p")
	s.TypicalP = f.Float("typical_p")
	s.RepeatPenalty = f.Float("repetition_penalty")
	if alias := f.Float("repeat_penalty"); s.RepeatPenalty == nil {
		s.RepeatPenalty = alias
	}
	s.RepeatLastN = f.Int("repeat_last_n", -1, 1<<30)
	s.PresencePenalty = f.Float("presence_penalty")
	s.FrequencyPenalty = f.Float("frequency_penalty")
	s.Seed = f.Int64("seed")
	s.MinTokens = f.Int("min_tokens", 0, maxTokens)
	s.IgnoreEOS = f.Bool("ignore_eos")
	s.LogitBias = d.logitBias(f.Take("logit_bias"))
	s.StopTokenIDs = d.tokenIDs("stop_token_ids", f.Take("stop_token_ids"))
	d.req.Logprobs = f.Bool("logprobs")
	d.req.TopLogprobs = f.Int("top_logprobs", 0, 20)
}

func (d *decoder) logitBias(raw json.RawMessage) map[string]float64 {
	if raw == nil {
		return nil
	}
	if dialect.Kind(raw) != '{' {
		d.f.Fail("logit_bias", "must be an object")
		return nil
	}
	bias := map[string]float64{}
	for token, value := range dialect.Members(raw) {
		x, ok := dialect.Float(value)
		if !ok {
			d.f.Fail("logit_bias."+string(token), "must be a number")
		}
		bias[string(token)] = x
	}
	if len(bias) == 0 {
		return nil
	}
	return bias
}

func (d *decoder) tokenIDs(name string, raw json.RawMessage) []int {
	if raw == nil {
		return nil
	}
	if dialect.Kind(raw) != '[' {
		d.f.Fail(name, "must be a list of token ids")
		return nil
	}
	var ids []int
	for i, item := range dialect.Elements(raw) {
		n, ok := dialect.Int(item)
		if !ok {
			d.f.Fail(at(name, i), "must be a whole number")
		}
		ids = append(ids, int(n))
	}
	return ids
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
			d.note(noteName(name), "dropped")
		}
	}
}

func (d *decoder) extra(name string, value json.RawMessage) {
	if d.req.Extra == nil {
		d.req.Extra = map[string]json.RawMessage{}
	}
	d.req.Extra[name] = value
}

// noteName keeps a client's own field name out of headers if it could not stand in one.
func noteName(name string) string {
	if len(name) > 64 {
		return "unknown_field"
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || c == ',' || c == '=' {
			return "unknown_field"
		}
	}
	return name
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
