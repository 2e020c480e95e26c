package ollama

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// encoder writes one answer to a client: lines of JSON, or one object. Tool calls come whole, because the protocol has no
// fragments of arguments; the last line carries the reason and the counts.
type encoder struct {
	w     io.Writer
	reply dialect.Reply
	plain bool // /api/generate: text under response instead of message

	buf     []byte
	usage   llm.Usage
	first   time.Time // of the answer
	stopped bool
	reason  llm.StopReason
	call    *llm.ToolCall // open
	args    []byte
	calls   int
	ended   bool
}

// errEnded is returned by an encoder that is used after its end.
var errEnded = errors.New("ollama: stream has already ended")

func (e *encoder) streamed() bool { return e.reply.Request != nil && e.reply.Request.Stream }

// ContentType implements dialect.Encoder.
func (e *encoder) ContentType() string {
	if e.streamed() {
		return "application/x-ndjson"
	}
	return "application/json; charset=utf-8"
}

// Encode implements dialect.Encoder.
func (e *encoder) Encode(ev llm.Event) error {
	if e.ended {
		return errEnded
	}
	if ev.Usage != nil {
		e.usage = *ev.Usage
	}
	if ev.Choice > 0 || !ev.Semantic() {
		return nil
	}
	if e.first.IsZero() {
		e.first = time.Now()
	}
	switch ev.Kind {
	case llm.EventBlockStart:
		if ev.Block == llm.BlockToolCall && ev.ToolCall != nil {
			call := *ev.ToolCall
			e.call, e.args = &call, e.args[:0]
		}
	case llm.EventDelta:
		return e.delta(ev)
	case llm.EventBlockStop:
		if ev.Block == llm.BlockToolCall && e.call != nil {
			return e.toolCall()
		}
	case llm.EventStop:
		e.stopped, e.reason = true, ev.StopReason
	}
	return nil
}

func (e *encoder) delta(ev llm.Event) error {
	switch {
	case ev.Block == llm.BlockToolCall:
		e.args = append(e.args, ev.Text...)
		return nil
	case ev.Text == "" && ev.Logprobs == nil:
		return nil
	case ev.Block == llm.BlockThinking:
		return e.line("", ev.Text, nil, ev.Logprobs)
	default: // a refusal is text: the protocol has no other place
		return e.line(ev.Text, "", nil, ev.Logprobs)
	}
}

func (e *encoder) toolCall() error {
	call := *e.call
	call.Arguments = append(json.RawMessage(nil), e.args...)
	e.call = nil
	if e.plain {
		return nil
	}
	text, err := appendCall(nil, e.calls, call)
	if err != nil {
		return e.EncodeError(llm.AsError(err))
	}
	e.calls++
	return e.line("", "", text, nil)
}

// appendCall appends a call with its arguments as an object.
func appendCall(dst []byte, index int, call llm.ToolCall) ([]byte, error) {
	args := call.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if !json.Valid(args) || dialect.Kind(args) != '{' {
		return nil, dialect.UpstreamFault("the model called a tool with arguments that are not a JSON object", errors.New(call.Name))
	}
	dst = append(dst, `{"id":`...)
	dst = dialect.AppendString(dst, call.ID)
	dst = append(dst, `,"function":{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"name":`...)
	dst = dialect.AppendString(dst, call.Name)
	dst = append(dst, `,"arguments":`...)
	dst = append(dst, args...)
	return append(dst, "}}"...), nil
}

// line writes a line of an unfinished answer.
func (e *encoder) line(text, thinking string, calls, logprobs []byte) error {
	e.buf = e.appendHead(e.buf[:0])
	e.buf = e.appendSaid(e.buf, text, thinking, calls)
	if logprobs != nil {
		e.buf = append(e.buf, `,"logprobs":`...)
		e.buf = append(e.buf, logprobs...)
	}
	e.buf = append(e.buf, `,"done":false}`+"\n"...)
	return e.flush()
}

func (e *encoder) appendHead(dst []byte) []byte {
	dst = append(dst, `{"model":`...)
	dst = dialect.AppendString(dst, e.reply.Model)
	dst = append(dst, `,"created_at":"`...)
	dst = time.Now().UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func (e *encoder) appendSaid(dst []byte, text, thinking string, calls []byte) []byte {
	if e.plain {
		dst = append(dst, `,"response":`...)
		dst = dialect.AppendString(dst, text)
	} else {
		dst = append(dst, `,"message":{"role":"assistant","content":`...)
		dst = dialect.AppendString(dst, text)
	}
	if thinking != "" {
		dst = append(dst, `,"thinking":`...)
		dst = dialect.AppendString(dst, thinking)
	}
	if e.plain {
		return dst
	}
	if calls != nil {
		dst = append(dst, `,"tool_calls":[`...)
		dst = append(dst, calls...)
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendEnd appends the members of a finished answer. Times are nanoseconds; the server's own load is not known.
func (e *encoder) appendEnd(dst []byte, reason string) []byte {
	now := time.Now()
	if e.first.IsZero() {
		e.first = now
	}
	dst = append(dst, `,"done":true,"done_reason":"`...)
	dst = append(dst, reason...)
	dst = append(dst, '"')
	number := func(key string, n int64) {
		if n > 0 { // as the original leaves out what is zero
			dst = append(dst, key...)
			dst = strconv.AppendInt(dst, n, 10)
		}
	}
	if reason == "stop" || reason == "length" {
		number(`,"total_duration":`, int64(now.Sub(e.reply.Created)))
		number(`,"prompt_eval_count":`, int64(e.usage.Input))
		number(`,"eval_count":`, int64(e.usage.Output))
		if e.streamed() { // of a whole answer it is not known when it began
			number(`,"prompt_eval_duration":`, int64(e.first.Sub(e.reply.Created)))
			number(`,"eval_duration":`, int64(now.Sub(e.first)))
		} else {
			number(`,"eval_duration":`, int64(now.Sub(e.reply.Created)))
		}
	}
	return append(dst, "}\n"...)
}

func (e *encoder) doneReason(r llm.StopReason) string {
	if req := e.reply.Request; req != nil && len(req.Messages) == 0 && req.Raw == nil {
		if req.Extra[unload] != nil {
			return "unload"
		}
		return "load"
	}
	if r == llm.StopMaxTokens || r == llm.StopContextFull {
		return "length"
	}
	return "stop"
}

// EncodeResponse implements dialect.Encoder. An *llm.Error means that nothing was written.
func (e *encoder) EncodeResponse(resp *llm.Response) error {
	if e.ended {
		return errEnded
	}
	e.ended, e.usage = true, resp.Usage
	if len(resp.Choices) == 0 {
		return llm.Errorf(llm.CodeUpstream, "the model server sent no answer")
	}
	c := resp.Choices[0]
	var text, thinking string
	for _, b := range c.Blocks {
		switch b.Kind {
		case llm.BlockText, llm.BlockRefusal:
			text += b.Text
		case llm.BlockThinking:
			thinking += b.Text
		}
	}
	var calls []byte
	for i, call := range c.ToolCalls() {
		if i > 0 {
			calls = append(calls, ',')
		}
		var err error
		if calls, err = appendCall(calls, i, call); err != nil {
			return err
		}
	}
	b := e.appendHead(e.buf[:0])
	b = e.appendSaid(b, text, thinking, calls)
	if len(c.Logprobs) > 0 {
		b = append(b, `,"logprobs":[`...)
		n := 0
		for _, part := range c.Logprobs {
			for _, token := range dialect.Elements(part) {
				if n++; n > 1 {
					b = append(b, ',')
				}
				b = append(b, token...)
			}
		}
		b = append(b, ']')
	}
	e.buf = e.appendEnd(b, e.doneReason(c.StopReason))
	return e.flush()
}

// EncodeError implements dialect.Encoder.
func (e *encoder) EncodeError(err *llm.Error) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	e.buf = appendError(e.buf[:0], err)
	e.buf = append(e.buf, '\n')
	return e.flush()
}

// KeepAlive writes an empty piece of an answer: the protocol has no other sign of life, and clients fail on an empty line.
func (e *encoder) KeepAlive() error {
	if e.ended || !e.streamed() {
		return nil
	}
	return e.line("", "", nil, nil)
}

// Close ends a complete stream. One that did not stop ends with an error instead.
func (e *encoder) Close() error {
	if e.ended {
		return errEnded
	}
	if !e.stopped {
		return e.EncodeError(llm.Errorf(llm.CodeUpstream, "the model server ended the answer early"))
	}
	e.ended = true
	e.buf = e.appendHead(e.buf[:0])
	e.buf = e.appendSaid(e.buf, "", "", nil)
	e.buf = e.appendEnd(e.buf, e.doneReason(e.reason))
	return e.flush()
}

func (e *encoder) flush() error {
	_, err := e.w.Write(e.buf)
	return err
}
