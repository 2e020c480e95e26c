package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// encoder writes one message. A stream begins with message_start, which waits for the first part of the answer or the
// first sign of life, so that a refusal before it has its true status. Blocks are numbered densely. What ends the
// message waits for Close: usage may come after the stop reason, and message_delta, which has the totals, comes once.
//
// Events are appended by hand: this runs once per token.
type encoder struct {
	w     io.Writer
	reply dialect.Reply
	sign  signer
	buf   []byte

	streamed bool
	omit     bool // thinking is wanted without its text
	begun    bool
	stopped  bool
	ended    bool

	usage    *llm.Usage
	produced int // bytes of the answer so far
	end      outcome
	stop     llm.Event

	index int // of the open block, or of the next one
	open  llm.BlockKind
	text  []byte // of the open block, if it is thinking or a tool call
}

func newEncoder(w io.Writer, reply dialect.Reply, sign func([]byte) [32]byte) *encoder {
	e := &encoder{w: w, reply: reply, sign: signer{model: reply.Model, digest: sign}}
	if r := reply.Request; r != nil {
		e.streamed, e.omit = r.Stream, r.Thinking.Omitted
		e.end.stops = r.Stop
	}
	return e
}

func (e *encoder) ContentType() string {
	if e.streamed {
		return "text/event-stream"
	}
	return "application/json"
}

func (e *encoder) Encode(ev llm.Event) error {
	if e.ended {
		return errEnded
	}
	if ev.Usage != nil {
		u := *ev.Usage
		e.usage = &u
	}
	if !ev.Semantic() || ev.Choice != 0 || e.stopped {
		return nil
	}
	e.buf = e.buf[:0]
	e.begin()
	switch ev.Kind {
	case llm.EventBlockStart:
		e.blockStart(ev)
	case llm.EventDelta:
		e.delta(ev)
	case llm.EventBlockStop:
		e.blockStop(ev)
	case llm.EventStop:
		e.stopped, e.stop = true, ev
	}
	return e.flush()
}

// begin appends message_start, once. Its count of the prompt is the backend's if that is known by now, else a guess.
func (e *encoder) begin() {
	if e.begun {
		return
	}
	e.begun = true
	u := llm.Usage{}
	if e.usage != nil {
		u = *e.usage
	} else {
		u.Input = estimateInput(e.reply.Request)
	}
	e.event("message_start")
	e.buf = append(e.buf, `,"message":`...)
	e.buf = e.appendHead(e.buf)
	e.buf = append(e.buf, `,"content":[],`...)
	e.buf = appendStop(e.buf, "", "")
	e.buf = append(e.buf, `,"container":null,"diagnostics":null,"usage":`...)
	e.buf = appendUsage(e.buf, u)
	e.buf = append(e.buf, '}')
	e.close()
}

// event begins an event, up to the inside of its data.
func (e *encoder) event(name string) {
	e.buf = append(e.buf, "event: "...)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, "\ndata: {\"type\":\""...)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, '"')
}

// blockEvent begins an event of the open block.
func (e *encoder) blockEvent(name string) {
	e.event(name)
	e.buf = append(e.buf, `,"index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(e.index), 10)
}

// close ends an event.
func (e *encoder) close() { e.buf = append(e.buf, "}\n\n"...) }

func (e *encoder) blockStart(ev llm.Event) {
	var content []byte
	switch {
	case ev.Block == llm.BlockText || ev.Block == llm.BlockRefusal:
		content = []byte(`{"type":"text","text":"","citations":null}`)
	case ev.Block == llm.BlockThinking:
		content = []byte(`{"type":"thinking","thinking":"","signature":""}`)
	case ev.Block == llm.BlockToolCall && ev.ToolCall != nil:
		content = appendCall(nil, ev.ToolCall, json.RawMessage("{}"))
	default:
		return // the protocol has no such block
	}
	e.open, e.text = ev.Block, e.text[:0]
	e.blockEvent("content_block_start")
	e.buf = append(e.buf, `,"content_block":`...)
	e.buf = append(e.buf, content...)
	e.close()
}

func (e *encoder) delta(ev llm.Event) {
	text := ev.Text
	e.produced += len(text)
	if ev.Block != e.open || text == "" {
		return
	}
	kind, key := "text_delta", "text"
	switch e.open {
	case llm.BlockThinking:
		e.text = append(e.text, text...)
		if e.omit {
			return
		}
		kind, key = "thinking_delta", "thinking"
	case llm.BlockToolCall:
		if len(e.text) == 0 { // white space alone is no input; clients begin with {} of their own
			text = trimLeft(text)
		}
		if text == "" {
			return
		}
		e.text = append(e.text, text...)
		kind, key = "input_json_delta", "partial_json"
	}
	e.blockDelta(kind, key, text)
}

func (e *encoder) blockDelta(kind, key, text string) {
	e.blockEvent("content_block_delta")
	e.buf = append(e.buf, `,"delta":{"type":"`...)
	e.buf = append(e.buf, kind...)
	e.buf = append(e.buf, `","`...)
	e.buf = append(e.buf, key...)
	e.buf = append(e.buf, `":`...)
	e.buf = dialect.AppendString(e.buf, text)
	e.buf = append(e.buf, '}')
	e.close()
}

func (e *encoder) blockStop(ev llm.Event) {
	if ev.Block != e.open {
		return
	}
	e.end.add(e.open, e.text)
	if e.open == llm.BlockThinking {
		e.blockDelta("signature_delta", "signature", e.sign.of(ev.Signature, e.text))
	}
	e.blockEvent("content_block_stop")
	e.close()
	e.open = ""
	e.index++
}

func (e *encoder) EncodeError(err *llm.Error) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	e.buf = dialect.AppendSSE(e.buf[:0], "error", appendError(nil, err, e.reply.RequestID))
	return e.flush()
}

// KeepAlive writes a ping. No ping may come before message_start, so that is written first; its count of the prompt is
// then a guess, which message_delta corrects.
func (e *encoder) KeepAlive() error {
	if e.ended || !e.streamed {
		return nil
	}
	e.buf = e.buf[:0]
	e.begin()
	e.event("ping")
	e.close()
	return e.flush()
}

// Close ends a complete stream. One that has not stopped, or whose tool call no client could run, ends with an error.
func (e *encoder) Close() error {
	switch {
	case e.ended:
		return errEnded
	case !e.begun:
		return e.EncodeError(noAnswer())
	case !e.stopped:
		return e.EncodeError(llm.Errorf(llm.CodeUpstream, "the model server ended the answer early"))
	}
	reason, sequence, err := e.end.of(e.stop.StopReason, e.stop.StopSequence)
	if err != nil {
		return e.EncodeError(err)
	}
	e.ended = true
	e.buf = e.buf[:0]
	e.event("message_delta")
	e.buf = append(e.buf, `,"delta":{`...)
	e.buf = appendStop(e.buf, reason, sequence)
	e.buf = append(e.buf, `},"usage":`...)
	e.buf = appendUsage(e.buf, e.totals())
	e.close()
	e.event("message_stop")
	e.close()
	return e.flush()
}

// totals returns the usage of the answer: the backend's, or our estimate where it told none.
func (e *encoder) totals() llm.Usage {
	if e.usage != nil {
		return *e.usage
	}
	return llm.Usage{Input: estimateInput(e.reply.Request), Output: dialect.EstimateTokens(e.produced), Estimated: true}
}

func (e *encoder) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := e.w.Write(e.buf)
	return err
}

// errEnded is returned by an encoder that is used after its end.
var errEnded = errors.New("anthropic: stream has already ended")

func noAnswer() *llm.Error { return llm.Errorf(llm.CodeUpstream, "the model server sent no answer") }

func trimLeft(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\n' || s[0] == '\t' || s[0] == '\r') {
		s = s[1:]
	}
	return s
}

// outcome gathers what the end of an answer depends on beyond the stop reason.
type outcome struct {
	stops   []string // the request's stop sequences
	calls   bool
	refused bool
	broken  bool // a tool call whose input is not an object
}

// add takes notice of a finished block; args are the arguments of a tool call.
func (o *outcome) add(kind llm.BlockKind, args []byte) {
	switch kind {
	case llm.BlockToolCall:
		o.calls = true
		o.broken = o.broken || !isInput(args)
	case llm.BlockRefusal:
		o.refused = true
	}
}

// isInput reports whether args can be the input of a tool call: an object, or nothing.
func isInput(args []byte) bool {
	args = bytes.TrimSpace(args)
	return len(args) == 0 || (args[0] == '{' && json.Valid(args))
}

// of returns stop_reason and stop_sequence. A tool call that is not an object is an error, because clients would take
// it for a call without arguments, unless the answer was cut, which tells them as much.
func (o *outcome) of(r llm.StopReason, sequence string) (reason, matched string, err *llm.Error) {
	switch r {
	case llm.StopMaxTokens:
		return "max_tokens", "", nil
	case llm.StopContextFull:
		return "model_context_window_exceeded", "", nil
	}
	if o.broken {
		return "", "", llm.Errorf(llm.CodeUpstream, "the model wrote a tool call whose input is not a JSON object")
	}
	switch {
	case r == llm.StopRefusal || (o.refused && !o.calls):
		return "refusal", "", nil
	case o.calls:
		return "tool_use", "", nil
	case r == llm.StopSequence:
		if sequence == "" && len(o.stops) == 1 {
			sequence = o.stops[0]
		}
		if sequence != "" {
			return "stop_sequence", sequence, nil
		}
	}
	return "end_turn", "", nil
}
