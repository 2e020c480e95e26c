package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// defaultCompletion is the bound of an answer that the protocol of completions implies, in tokens.
const defaultCompletion = 16

// endOfText is the prompt of a request without one.
const endOfText = "<|endoftext|>"

// Completions is the codec of POST /v1/completions: a prompt as it is, without a chat template. The zero value is ready
// and safe for concurrent use.
type Completions struct{}

var _ dialect.Codec = Completions{}

// DecodeChat decodes a request body. Every error is an *llm.Error with the field at fault in Param.
func (Completions) DecodeChat(body []byte) (*llm.Request, []llm.Note, error) {
	return decode(body, (*decoder).completion)
}

// WriteError implements dialect.Codec.
func (Completions) WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	WriteError(w, err, requestID)
}

// NewEncoder returns the encoder of one answer.
func (Completions) NewEncoder(w io.Writer, reply dialect.Reply) dialect.Encoder {
	e := &completionEncoder{encoder: *newEncoder(w, reply)}
	e.head = append([]byte("data: "), e.appendHead(nil)...)
	return e
}

func (d *decoder) completion() {
	d.model()
	d.prompt()
	d.limits()
	if d.req.MaxTokens == nil {
		bound := defaultCompletion
		d.req.MaxTokens = &bound
	}
	if raw := d.f.Take("logprobs"); raw != nil && !dialect.Null(raw) {
		d.note("logprobs", "dropped")
	}
	if n := d.f.Int("best_of", 0, 20); n != nil && *n > 1 {
		d.semantic("best_of", "dropped")
	}
	d.sampling()
	d.format()
	d.stream()
	d.client()
	d.runnerOptions()
	d.extras()
}

// prompt reads the four forms of a prompt: a text, a list of texts, a list of tokens, a list of such lists.
func (d *decoder) prompt() {
	raw := d.f.Take("prompt")
	d.req.Raw = &llm.RawPrompt{Suffix: d.f.String("suffix")}
	if echo := d.f.Bool("echo"); echo != nil {
		d.req.Raw.Echo = *echo
	}
	if first := dialect.Kind(element(raw)); first != '"' && first != '[' {
		d.one("prompt", raw, d.req.Raw)
		return
	}
	for i, item := range dialect.Elements(raw) {
		switch {
		case i == maxPrompts:
			d.f.Fail("prompt", "has more than %d entries", maxPrompts)
			return
		case i == 0:
			d.one(dialect.At("prompt", i), item, d.req.Raw)
		default:
			var p llm.RawPrompt
			d.one(dialect.At("prompt", i), item, &p)
			d.req.Raw.More = append(d.req.Raw.More, p)
		}
	}
}

// maxPrompts bounds the prompts of one request.
const maxPrompts = 64

// one reads a single prompt: a text or a list of tokens.
func (d *decoder) one(field string, raw json.RawMessage, p *llm.RawPrompt) {
	switch dialect.Kind(raw) {
	case 0, 'n':
		p.Text = endOfText
	case '"':
		if p.Text, _ = dialect.Unquote(raw); p.Text == "" {
			d.f.Fail(field, "must not be empty")
		}
	case '[':
		if p.Tokens = d.tokenIDs(field, raw); len(p.Tokens) == 0 {
			d.f.Fail(field, "must not be empty")
		}
	default:
		d.f.Fail(field, "must be a string or a list of tokens")
	}
}

// element is the first element of an array; nil if there is none.
func element(raw json.RawMessage) json.RawMessage {
	for _, item := range dialect.Elements(raw) {
		return item
	}
	return nil
}

// completionEncoder writes one answer to a plain prompt.
type completionEncoder struct {
	encoder
}

func (e *completionEncoder) appendHead(dst []byte) []byte {
	dst = append(dst, `{"id":"cmpl-`...)
	dst = append(dst, strings.ReplaceAll(e.reply.RequestID, "-", "")...)
	dst = append(dst, `","object":"text_completion","created":`...)
	dst = strconv.AppendInt(dst, e.reply.Created.Unix(), 10)
	dst = append(dst, `,"model":`...)
	return dialect.AppendString(dst, e.reply.Model)
}

// Encode writes the text of an event and the end of a choice. Nothing else can occur in an answer to a plain prompt.
func (e *completionEncoder) Encode(ev llm.Event) error {
	if e.ended {
		return errEnded
	}
	if ev.Usage != nil {
		u := *ev.Usage
		e.usage = &u
	}
	c := e.choice(ev.Choice)
	switch {
	case ev.Kind == llm.EventDelta && ev.Block == llm.BlockText && ev.Text != "":
		return e.piece(ev.Choice, ev.Text, "")
	case ev.Kind == llm.EventStop:
		c.finished = true
		return e.piece(ev.Choice, "", finishReason(ev.StopReason, false, false, false))
	default:
		return nil
	}
}

func (e *completionEncoder) piece(index int, text, finish string) error {
	e.buf = append(e.buf[:0], e.head...)
	e.buf = append(e.buf, `,"choices":[`...)
	e.buf = appendPiece(e.buf, index, text, finish)
	e.buf = append(e.buf, "]}\n\n"...)
	return e.flush()
}

func appendPiece(dst []byte, index int, text, finish string) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"text":`...)
	dst = dialect.AppendString(dst, text)
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	dst = appendStringOrNull(dst, finish)
	return append(dst, '}')
}

// EncodeResponse writes a whole answer.
func (e *completionEncoder) EncodeResponse(resp *llm.Response) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	b := e.appendHead(e.buf[:0])
	b = append(b, `,"choices":[`...)
	for i := range resp.Choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPiece(b, i, resp.Choices[i].Text(), finishReason(resp.Choices[i].StopReason, false, false, false))
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, resp.Usage)
	b = append(b, "}\n"...)
	e.buf = b
	return e.flush()
}
