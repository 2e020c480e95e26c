package ollama

import (
	"encoding/json"
	"io"
	"net/http"
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

// Chat is the codec of POST /api/chat. The zero value is ready and safe for concurrent use.
type Chat struct{}

// Generate is the codec of POST /api/generate. The zero value is ready and safe for concurrent use.
type Generate struct{}

var (
	_ dialect.Codec = Chat{}
	_ dialect.Codec = Generate{}
)

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param. A request without
// messages asks to load the model; see [Local].
func (Chat) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	return decodeRequest(body, (*requestDecoder).chat)
}

// NewEncoder returns the encoder of one answer.
func (Chat) NewEncoder(w io.Writer, reply dialect.Reply) dialect.Encoder {
	return &encoder{w: w, reply: reply}
}

// WriteError implements dialect.Codec.
func (Chat) WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	WriteError(w, err, requestID)
}

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param. A request without a
// prompt asks to load the model; see [Local].
func (Generate) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	return decodeRequest(body, (*requestDecoder).generate)
}

// NewEncoder returns the encoder of one answer.
func (Generate) NewEncoder(w io.Writer, reply dialect.Reply) dialect.Encoder {
	return &encoder{w: w, reply: reply, plain: true}
}

// WriteError implements dialect.Codec.
func (Generate) WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	WriteError(w, err, requestID)
}

// Local returns the answer to a request that needs no model, and false for every other: one without messages or prompt
// only loads or unloads, and models that others use are not the caller's to move.
func Local(r *llm.Request) (*llm.Response, bool) {
	if len(r.Messages) > 0 || r.Raw != nil {
		return nil, false
	}
	return &llm.Response{Choices: []llm.Choice{{StopReason: llm.StopEnd}}}, true
}

// unload marks a request that asks to unload the model.
const unload = "keep_alive"

func decodeRequest(body []byte, read func(*requestDecoder)) (*llm.Request, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	d := requestDecoder{f: f, req: &llm.Request{Origin: llm.DialectOllama, Stream: true}}
	read(&d)
	if err := d.f.Err(); err != nil {
		return nil, nil, err
	}
	return d.req, d.notes, nil
}

// requestDecoder fills one request. Its parts read the fields they know; what is left is unknown.
type requestDecoder struct {
	f     *dialect.Fields
	req   *llm.Request
	notes []llm.Note
}

func (d *requestDecoder) note(field, what string) {
	n := llm.Note{Field: field, What: what}
	if !slices.Contains(d.notes, n) {
		d.notes = append(d.notes, n)
	}
}

func (d *requestDecoder) unsupported(field, text string) {
	d.f.Adopt(&llm.Error{Code: llm.CodeUnsupported, Param: field, Message: text})
}

func (d *requestDecoder) chat() {
	d.model()
	d.messages()
	d.tools()
	d.common()
	if len(d.req.Messages) == 0 {
		d.req.Stream = false // loading answers with one object
	}
}

func (d *requestDecoder) generate() {
	d.model()
	d.prompt()
	d.common()
	if len(d.req.Messages) == 0 && d.req.Raw == nil {
		d.req.Stream = false
	}
}

func (d *requestDecoder) model() {
	name := d.f.String("model")
	if old := d.f.String("name"); name == "" { // before the field was renamed
		name = old
	}
	d.req.Model = name
	switch {
	case name == "":
		d.f.Fail("model", "is required")
	case len(name) > maxModelName:
		d.f.Fail("model", "is longer than %d bytes", maxModelName)
	}
}

// prompt reads what /api/generate has instead of messages. A plain prompt goes through the model's chat template as a
// turn of the user; a raw one, or one with a suffix, does not.
func (d *requestDecoder) prompt() {
	prompt, suffix, system := d.f.String("prompt"), d.f.String("suffix"), d.f.String("system")
	images := d.images("images", d.f.Take("images"))
	raw := d.f.Bool("raw")
	for _, name := range []string{"template", "context"} {
		if value := d.f.Take(name); value != nil && !empty(value) {
			d.unsupported(name, "is not supported here; send the conversation to /api/chat")
		}
	}
	switch {
	case raw != nil && *raw && (system != "" || suffix != ""):
		d.f.Fail("raw", "cannot be used together with system or suffix")
	case prompt == "" && suffix == "" && images == nil:
		return
	case raw != nil && *raw, suffix != "":
		if images != nil {
			d.unsupported("images", "a raw prompt has no images")
		}
		d.req.Raw = &llm.RawPrompt{Text: prompt, Suffix: suffix}
		return
	}
	if system != "" {
		d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{llm.TextBlock(system)}})
	}
	d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.RoleUser, Blocks: append([]llm.Block{llm.TextBlock(prompt)}, images...)})
}

// empty reports whether a value says nothing.
func empty(raw json.RawMessage) bool {
	switch string(raw) {
	case `""`, "[]", "null":
		return true
	default:
		return false
	}
}

// common reads what both endpoints share.
func (d *requestDecoder) common() {
	f, r := d.f, d.req
	if on := f.Bool("stream"); on != nil {
		r.Stream = *on
	}
	d.format()
	d.think()
	d.options()
	if on := f.Bool("logprobs"); on != nil && *on {
		r.Logprobs = on
	}
	if n := f.Int("top_logprobs", 0, 20); n != nil && *n > 0 {
		r.TopLogprobs = n
	}
	if only := f.Bool("_debug_render_only"); only != nil && *only {
		d.unsupported("_debug_render_only", "is not offered here")
	}
	if raw := f.Take("keep_alive"); raw != nil {
		if n, ok := dialect.Int(raw); ok && n == 0 || string(raw) == `"0"` || string(raw) == `"0s"` {
			r.Extra = map[string]json.RawMessage{unload: raw}
		}
		d.note("keep_alive", "dropped") // models are shared: how long they stay is not the caller's to say
	}
	for _, name := range []string{"truncate", "shift"} { // a prompt that does not fit is always an error here
		if on := f.Bool(name); on != nil && *on {
			d.note(name, "dropped")
		}
	}
	for _, name := range f.Rest() {
		d.note(dialect.NoteName(name), "dropped")
	}
}

func (d *requestDecoder) format() {
	raw := d.f.Take("format")
	switch dialect.Kind(raw) {
	case 0:
	case '{':
		d.req.Format = llm.Format{Kind: llm.FormatSchema, Schema: raw}
	case '"':
		switch s, _ := dialect.Unquote(raw); s {
		case "":
		case "json":
			d.req.Format.Kind = llm.FormatJSON
		default:
			d.f.Fail("format", `must be "json" or a JSON schema`)
		}
	default:
		d.f.Fail("format", `must be "json" or a JSON schema`)
	}
}

func (d *requestDecoder) think() {
	raw, t := d.f.Take("think"), &d.req.Thinking
	if raw == nil {
		return
	}
	if on, ok := dialect.Bool(raw); ok {
		t.Mode = llm.ThinkingOff
		if on {
			t.Mode = llm.ThinkingOn
		}
		return
	}
	switch word, _ := dialect.Unquote(raw); word {
	case "low", "medium", "high", "max":
		t.Mode, t.Effort = llm.ThinkingOn, llm.Effort(word)
	default:
		d.f.Fail("think", "must be true, false, low, medium, high or max")
	}
}

// loadOptions change how a model is loaded. A different value would load it anew for everybody.
var loadOptions = []string{
	"num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock", "num_thread", "draft_num_predict", "low_vram", "f16_kv",
	"vocab_only", "numa", "num_keep",
}

func (d *requestDecoder) options() {
	o := d.f.Object("options")
	d.req.Sampling = llm.Sampling{
		Temperature:      o.Float("temperature"),
		TopP:             o.Float("top_p"),
		TopK:             o.Int("top_k", -1, 1<<30),
		MinP:             o.Float("min_p"),
		TypicalP:         o.Float("typical_p"),
		RepeatPenalty:    o.Float("repeat_penalty"),
		RepeatLastN:      o.Int("repeat_last_n", -1, 1<<30),
		PresencePenalty:  o.Float("presence_penalty"),
		FrequencyPenalty: o.Float("frequency_penalty"),
		Seed:             o.Int64("seed"),
	}
	if n := o.Int("num_predict", -2, maxTokens); n != nil && *n > 0 { // -1 and -2 mean no bound
		d.req.MaxTokens = n
	}
	d.stop(o)
	if o.Take("num_ctx") != nil {
		d.note("options.num_ctx", "dropped") // fixed by the model
	}
	for _, name := range loadOptions {
		if o.Take(name) != nil {
			d.note("options."+name, "dropped")
		}
	}
	for _, name := range o.Rest() {
		d.note(dialect.NoteName("options."+name), "dropped")
	}
	d.f.Adopt(o.Err())
}

func (d *requestDecoder) stop(o *dialect.Fields) {
	raw := o.Take("stop")
	if s, ok := dialect.Unquote(raw); ok {
		if s != "" {
			d.req.Stop = []string{s}
		}
		return
	}
	if raw != nil && dialect.Kind(raw) != '[' {
		o.Fail("stop", "must be a list of strings")
		return
	}
	for i, item := range dialect.Elements(raw) {
		switch s, ok := dialect.Unquote(item); {
		case !ok:
			o.Fail(dialect.At("stop", i), "must be a string")
		case s != "":
			d.req.Stop = append(d.req.Stop, s)
		}
	}
}
