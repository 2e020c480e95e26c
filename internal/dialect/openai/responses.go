package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Responses is the codec of POST /v1/responses. The zero value is ready and keeps no state: a client then sends the
// whole conversation with every request. The functions, where given, belong to one caller; they are called by the
// goroutine that decodes or encodes.
type Responses struct {
	// Seal encrypts reasoning, so that a client can carry it to its next request without reading or changing it, and
	// Open undoes that; it reports false for what this service did not seal. The key should differ by tenant. Without
	// Seal a client that asks for encrypted reasoning gets none.
	Seal func(plain []byte) (sealed string, ok bool)
	Open func(sealed string) (plain []byte, ok bool)

	// Previous returns the items of the conversation up to and including the response id, its output last; they come
	// before the request's own. An id that is not there, or not the caller's, is an error of llm.CodeNotFound. Nil says
	// that no response is kept.
	Previous func(id string) ([]json.RawMessage, error)
	// Item returns the item id that an item_reference names. It is asked only about items that neither Previous nor the
	// request has.
	Item func(id string) (json.RawMessage, error)
	// Keep takes a response that has ended, if the client wants it stored, before the client is told the end. If it
	// fails, the client is told a failure in place of the end. Nil says that no response is kept.
	Keep func(Record) error
}

var _ dialect.Codec = Responses{}

// Record is what a store has to know of one response.
type Record struct {
	ID       string            // of the response
	Previous string            // id of the response that it continues, or empty
	Input    []json.RawMessage // the request's own items, each with an id and a type
	Output   []json.RawMessage // the items of the answer
	Response json.RawMessage   // the whole object, as it is told to clients
	Failed   bool              // it ended with an error; nothing can continue it
}

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param.
func (c Responses) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	return decode(body, func(d *decoder) {
		r := responsesDecoder{decoder: d, codec: c}
		r.model()
		r.state()
		r.prompt()
		r.options()
		r.extras()
	})
}

// DecodeInputTokens decodes the body of POST /v1/responses/input_tokens, whose prompt is to be counted and not
// answered. Every error is an *llm.Error with the field at fault in Param.
func (c Responses) DecodeInputTokens(body []byte) (*llm.Request, []llm.Note, error) {
	c.Keep = nil
	return decode(body, func(d *decoder) {
		r := responsesDecoder{decoder: d, codec: c}
		r.model()
		r.state()
		r.prompt()
		for _, name := range []string{"personality", "truncation"} {
			r.f.Take(name)
		}
		r.options()
		r.extras()
		r.req.Stream = false
	})
}

// EncodeInputTokens returns the reply to a count of a prompt.
func EncodeInputTokens(tokens int) []byte {
	b := []byte(`{"object":"response.input_tokens","input_tokens":`)
	return append(strconv.AppendInt(b, int64(tokens), 10), "}\n"...)
}

// NewEncoder returns the encoder of one answer.
func (c Responses) NewEncoder(w io.Writer, reply dialect.Reply) dialect.Encoder {
	return newResponsesEncoder(w, reply, c)
}

// WriteError implements dialect.Codec.
func (Responses) WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	WriteError(w, err, requestID)
}

// continues reports whether the field names something that a request continues. Clients know by a code of its own that
// it is gone.
func continues(field string) bool {
	return field == "previous_response_id" || field == "conversation"
}

// responsesDecoder fills one request of the Responses API.
type responsesDecoder struct {
	*decoder
	codec    Responses
	previous []json.RawMessage
}

// echo keeps a field for the encoder. Absent ones are left out.
func (d *responsesDecoder) echo(name string, value json.RawMessage) {
	if value == nil {
		return
	}
	if d.req.Echo == nil {
		d.req.Echo = map[string]json.RawMessage{}
	}
	d.req.Echo[name] = value
}

// state reads what ties the request to earlier or later ones.
func (d *responsesDecoder) state() {
	store := d.f.Bool("store")
	if d.codec.Keep != nil && (store == nil || *store) {
		d.echo("store", json.RawMessage("true"))
	}
	d.continued()
	if d.f.Take("conversation") != nil {
		d.f.Adopt(&llm.Error{
			Code: llm.CodeNotFound, Param: "conversation",
			Message: "The conversation was not found; conversations are not kept here. Send the whole input instead.",
		})
	}
	if on := d.f.Bool("background"); on != nil && *on {
		d.unsupported("background", "responses in the background are not supported")
	}
	if d.f.Take("prompt") != nil {
		d.unsupported("prompt", "stored prompts are not supported; send instructions and input")
	}
}

func (d *responsesDecoder) continued() {
	id := d.f.String("previous_response_id")
	if id == "" {
		return
	}
	if d.codec.Previous == nil {
		d.f.Adopt(&llm.Error{
			Code: llm.CodeNotFound, Param: "previous_response_id",
			Message: "The previous response was not found; responses are not kept here. Send the whole input instead.",
		})
		return
	}
	var err error
	if d.previous, err = d.codec.Previous(id); err != nil {
		d.f.Adopt(foreign("previous_response_id", err))
		return
	}
	d.echo("previous_response_id", dialect.Quote(id))
}

// foreign returns the error of a hook as one that can be told to the client.
func foreign(param string, err error) *llm.Error {
	e := llm.AsError(err)
	if e == nil {
		return llm.Errorf(llm.CodeInternal, "Something went wrong on our side.").With(err)
	}
	if e.Param == "" {
		e = e.With(e.Err)
		e.Param = param
	}
	return e
}

func (d *responsesDecoder) unsupported(param, message string) {
	d.f.Adopt(&llm.Error{Code: llm.CodeUnsupported, Param: param, Message: message})
}

// prompt reads what makes up the prompt, which is all that can be counted before an answer.
func (d *responsesDecoder) prompt() {
	if text := d.f.String("instructions"); text != "" {
		d.echo("instructions", dialect.Quote(text))
		d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{llm.TextBlock(text)}})
	}
	t := &toolbox{d: d}
	t.list("tools", d.f.Take("tools"))
	d.input(t)
	d.req.ParallelTools = d.f.Bool("parallel_tool_calls")
	t.choice(d.f.Take("tool_choice"))
	d.echo("tools", t.kept())
	d.text()
	d.reasoning()
}

// options reads everything that is not in the prompt.
func (d *responsesDecoder) options() {
	r, f := d.req, d.f
	r.MaxTokens = f.Int("max_output_tokens", 1, maxTokens)
	d.metadata()
	d.truncation()
	d.sampling()
	d.echoNumber("temperature", r.Sampling.Temperature)
	d.echoNumber("top_p", r.Sampling.TopP)
	d.include()
	d.stream()
	d.client()
	if r.CacheKey != "" {
		d.echo("prompt_cache_key", dialect.Quote(r.CacheKey))
	}
	if r.EndUser != "" {
		d.echo("safety_identifier", dialect.Quote(r.EndUser))
	}
	for _, silent := range []string{"client_metadata", "max_tool_calls"} {
		f.Take(silent)
	}
	d.echoCount("max_output_tokens", r.MaxTokens)
	d.echoCount("top_logprobs", r.TopLogprobs)
}

func (d *responsesDecoder) echoNumber(name string, x *float64) {
	if x != nil {
		d.echo(name, strconv.AppendFloat(nil, *x, 'g', -1, 64))
	}
}

func (d *responsesDecoder) echoCount(name string, n *int) {
	if n != nil {
		d.echo(name, strconv.AppendInt(nil, int64(*n), 10))
	}
}

// include reads which parts of the answer the client wants in addition. Parts that do not exist here are not missed.
func (d *responsesDecoder) include() {
	raw := d.f.Take("include")
	if raw != nil && dialect.Kind(raw) != '[' {
		d.f.Fail("include", "must be a list of strings")
		return
	}
	on := true
	for i, item := range dialect.Elements(raw) {
		word, ok := dialect.Unquote(item)
		switch {
		case !ok:
			d.f.Fail(dialect.At("include", i), "must be a string")
		case word == "message.output_text.logprobs":
			d.req.Logprobs = &on
		case word == "reasoning.encrypted_content":
			d.echo(word, json.RawMessage("true"))
		}
	}
	if n := d.req.TopLogprobs; n != nil && *n == 0 && d.req.Logprobs == nil {
		d.req.TopLogprobs = nil // the default of this protocol, not a wish for probabilities
	}
}

func (d *responsesDecoder) metadata() {
	raw := d.f.Take("metadata")
	if raw == nil {
		return
	}
	if dialect.Kind(raw) != '{' {
		d.f.Fail("metadata", "must be an object")
		return
	}
	d.echo("metadata", raw)
}

func (d *responsesDecoder) truncation() {
	switch d.f.String("truncation") {
	case "", "disabled":
	case "auto":
		d.note("truncation", "dropped")
	default:
		d.f.Fail("truncation", "must be auto or disabled")
	}
}

// reasoning reads what the client asks of the model's reasoning. A summary is wanted in any form or not at all: there is
// only the reasoning itself.
func (d *responsesDecoder) reasoning() {
	o := d.f.Object("reasoning")
	if raw := o.Take("effort"); raw != nil {
		d.effort("reasoning.effort", raw)
		d.echo("reasoning.effort", raw)
	}
	old := o.Take("generate_summary")
	summary := o.Take("summary")
	if summary == nil {
		summary = old
	}
	if summary != nil {
		switch word, _ := dialect.Unquote(summary); word {
		case "auto", "concise", "detailed":
			d.echo("reasoning.summary", summary)
		case "none":
		default:
			o.Fail("summary", "must be auto, concise or detailed")
		}
	}
	d.f.Adopt(o.Err())
	for _, name := range o.Rest() {
		d.note(dialect.NoteName("reasoning."+name), "dropped")
	}
	d.templateArguments(d.f.Take("chat_template_kwargs"))
}

// text reads the form of the answer. How wordy it is, is up to the model.
func (d *responsesDecoder) text() {
	o := d.f.Object("text")
	switch verbosity := o.String("verbosity"); verbosity {
	case "":
	case "low", "medium", "high":
		d.echo("text.verbosity", dialect.Quote(verbosity))
		if verbosity != "medium" {
			d.note("text.verbosity", "dropped")
		}
	default:
		o.Fail("verbosity", "must be low, medium or high")
	}
	if raw := o.Take("format"); raw != nil {
		d.req.Format = textFormat(o, raw)
		d.echo("text.format", raw)
	}
	for _, name := range o.Rest() {
		d.note(dialect.NoteName("text."+name), "dropped")
	}
	d.f.Adopt(o.Err())
}

func textFormat(o *dialect.Fields, raw json.RawMessage) llm.Format {
	f := dialect.ReadFields(raw, o.Path("format"))
	defer func() { o.Adopt(f.Err()) }()
	switch f.String("type") {
	case "text":
		return llm.Format{}
	case "json_object":
		return llm.Format{Kind: llm.FormatJSON}
	case "json_schema":
		format := llm.Format{Kind: llm.FormatSchema, Name: f.String("name"), Strict: f.Bool("strict"), Schema: f.Take("schema")}
		if dialect.Kind(format.Schema) != '{' {
			f.Fail("schema", "must be a JSON schema object")
		}
		return format
	default:
		f.Fail("type", "must be text, json_object or json_schema")
		return llm.Format{}
	}
}
