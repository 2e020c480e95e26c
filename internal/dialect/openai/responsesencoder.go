package openai

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// responsesEncoder writes one response. A stream begins with response.created and response.in_progress, which wait for
// the first part of the answer, so that a refusal before it has its true status. Every block becomes an item; items do
// not overlap. The stream ends with the whole response, which is completed, incomplete or failed; that waits for Close,
// because usage may come after the stop reason. Events are numbered without gaps.
//
// Events are appended by hand: this runs once per token.
type responsesEncoder struct {
	w     io.Writer
	reply dialect.Reply
	codec Responses
	buf   []byte

	id       string // of the request, without dashes
	echo     responseEcho
	streamed bool
	summary  bool // reasoning is wanted as its summary, too
	sealed   bool // reasoning is wanted in encrypted form, too

	sequence int
	begun    bool
	ended    bool
	stop     *llm.Event
	usage    *llm.Usage

	open    *outputItem
	parts   bool   // the open item has begun its content
	index   int    // of the open item, or of the next one
	output  []byte // finished items, separated by commas
	items   []int  // where each of them ends in output
	refused bool
}

func newResponsesEncoder(w io.Writer, reply dialect.Reply, codec Responses) *responsesEncoder {
	e := &responsesEncoder{w: w, reply: reply, codec: codec, id: strings.ReplaceAll(reply.RequestID, "-", "")}
	if r := reply.Request; r != nil {
		e.streamed = r.Stream
		e.summary = r.Echo["reasoning.summary"] != nil
		e.sealed = r.Echo["reasoning.encrypted_content"] != nil
		e.echo = r.Echo
	}
	return e
}

func (e *responsesEncoder) ContentType() string {
	if e.streamed {
		return "text/event-stream"
	}
	return "application/json"
}

func (e *responsesEncoder) Encode(ev llm.Event) error {
	if e.ended {
		return errEnded
	}
	if ev.Usage != nil {
		u := *ev.Usage
		e.usage = &u
	}
	if !ev.Semantic() || ev.Choice != 0 || e.stop != nil {
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
		e.stop = &ev
	}
	return e.flush()
}

// begin appends what a stream begins with, once.
func (e *responsesEncoder) begin() {
	if e.begun {
		return
	}
	e.begun = true
	for _, name := range []string{"response.created", "response.in_progress"} {
		e.event(name)
		e.buf = append(e.buf, `,"response":`...)
		e.buf = e.appendResponse(e.buf, ending{status: inProgress}, nil)
		e.close()
	}
}

// event begins an event, up to the inside of its data.
func (e *responsesEncoder) event(name string) {
	e.buf = append(e.buf, "event: "...)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, "\ndata: {\"type\":\""...)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, `","sequence_number":`...)
	e.buf = strconv.AppendInt(e.buf, int64(e.sequence), 10)
	e.sequence++
}

// itemEvent begins an event within the open item. Place is the key of the index of the part, which is always 0; empty
// where there are no parts.
func (e *responsesEncoder) itemEvent(name, place string) {
	e.event(name)
	e.buf = append(e.buf, `,"item_id":"`...)
	e.buf = append(e.buf, e.open.id...)
	e.buf = append(e.buf, `","output_index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(e.index), 10)
	if place != "" {
		e.buf = append(e.buf, `,"`...)
		e.buf = append(e.buf, place...)
		e.buf = append(e.buf, `":0`...)
	}
}

func (e *responsesEncoder) text(key, text string) {
	e.buf = append(e.buf, `,"`...)
	e.buf = append(e.buf, key...)
	e.buf = append(e.buf, `":`...)
	e.buf = dialect.AppendString(e.buf, text)
}

// close ends an event.
func (e *responsesEncoder) close() { e.buf = append(e.buf, "}\n\n"...) }

const (
	contentIndex = "content_index"
	summaryIndex = "summary_index"
)

func (e *responsesEncoder) blockStart(ev llm.Event) {
	if e.open = e.newItem(ev.Block, ev.ToolCall); e.open == nil {
		return
	}
	e.parts = false
	e.itemState("response.output_item.added", inProgress)
	if ev.Block == llm.BlockText || ev.Block == llm.BlockRefusal {
		e.beginParts()
	}
}

// itemState appends an event with the item itself.
func (e *responsesEncoder) itemState(name, status string) {
	e.event(name)
	e.buf = append(e.buf, `,"output_index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(e.index), 10)
	e.buf = append(e.buf, `,"item":`...)
	e.buf = e.appendItem(e.buf, e.open, status)
	e.close()
}

// beginParts appends the beginning of the content of the open item. Reasoning without text has none.
func (e *responsesEncoder) beginParts() {
	if e.parts {
		return
	}
	e.parts = true
	e.part("response.content_part.added", contentIndex, partType(e.open.block), "", nil)
	if e.mirrored() {
		e.part("response.reasoning_summary_part.added", summaryIndex, "summary_text", "", nil)
	}
}

// mirrored reports whether the open item says the same twice: as reasoning and as its summary.
func (e *responsesEncoder) mirrored() bool { return e.summary && e.open.block == llm.BlockThinking }

func (e *responsesEncoder) part(name, place, kind, text string, logprobs json.RawMessage) {
	e.itemEvent(name, place)
	e.buf = append(e.buf, `,"part":`...)
	e.buf = appendPart(e.buf, kind, text, logprobs)
	e.close()
}

func (e *responsesEncoder) delta(ev llm.Event) {
	if e.open == nil || ev.Block != e.open.block {
		return
	}
	text := e.open.add(ev.Text, ev.Logprobs)
	if text != "" || (ev.Logprobs != nil && ev.Block == llm.BlockText) {
		e.piece(text, ev.Logprobs)
	}
}

// piece appends the deltas for the next text of the open item.
func (e *responsesEncoder) piece(text string, logprobs json.RawMessage) {
	switch {
	case e.open.custom:
		e.itemEvent("response.custom_tool_call_input.delta", "")
		e.text("delta", text)
	case e.open.block == llm.BlockToolCall:
		e.itemEvent("response.function_call_arguments.delta", "")
		e.text("delta", text)
	case e.open.block == llm.BlockThinking:
		e.beginParts()
		e.itemEvent("response.reasoning_text.delta", contentIndex)
		e.text("delta", text)
		if e.summary {
			e.close()
			e.itemEvent("response.reasoning_summary_text.delta", summaryIndex)
			e.text("delta", text)
		}
	case e.open.block == llm.BlockRefusal:
		e.itemEvent("response.refusal.delta", contentIndex)
		e.text("delta", text)
	default:
		e.itemEvent("response.output_text.delta", contentIndex)
		e.text("delta", text)
		e.buf = append(e.buf, `,"logprobs":`...)
		e.buf = appendArray(e.buf, logprobs)
	}
	e.close()
}

func (e *responsesEncoder) blockStop(ev llm.Event) {
	it := e.open
	if it == nil || ev.Block != it.block {
		return
	}
	if rest := it.end(); rest != "" {
		e.piece(rest, nil)
	}
	e.endParts()
	e.finish(it)
	e.itemState("response.output_item.done", it.status())
	e.open = nil
	e.index++
}

// finish adds a finished item to the output.
func (e *responsesEncoder) finish(it *outputItem) {
	if it.block == llm.BlockThinking && e.sealed && len(it.text) > 0 {
		it.sealed = e.codec.seal(e.reply.Model, string(it.text))
	}
	e.refused = e.refused || it.block == llm.BlockRefusal
	if len(e.output) > 0 {
		e.output = append(e.output, ',')
	}
	e.output = e.appendItem(e.output, it, it.status())
	e.items = append(e.items, len(e.output))
}

// endParts appends what the open item has said as a whole.
func (e *responsesEncoder) endParts() {
	it := e.open
	text := string(it.text)
	switch {
	case it.custom:
		e.itemEvent("response.custom_tool_call_input.done", "")
		e.text("input", text)
		e.close()
		return
	case it.block == llm.BlockToolCall:
		e.itemEvent("response.function_call_arguments.done", "")
		e.text("name", it.name)
		e.text("arguments", text)
		e.close()
		return
	case !e.parts:
		return
	case it.block == llm.BlockThinking:
		e.itemEvent("response.reasoning_text.done", contentIndex)
		e.text("text", text)
	case it.block == llm.BlockRefusal:
		e.itemEvent("response.refusal.done", contentIndex)
		e.text("refusal", text)
	default:
		e.itemEvent("response.output_text.done", contentIndex)
		e.text("text", text)
		e.buf = append(e.buf, `,"logprobs":`...)
		e.buf = appendArray(e.buf, it.logprobs)
	}
	e.close()
	e.part("response.content_part.done", contentIndex, partType(it.block), text, it.logprobs)
	if e.mirrored() {
		e.itemEvent("response.reasoning_summary_text.done", summaryIndex)
		e.text("text", text)
		e.close()
		e.part("response.reasoning_summary_part.done", summaryIndex, "summary_text", text, nil)
	}
}

// EncodeError ends a stream as failed. What was finished before stays in its output.
func (e *responsesEncoder) EncodeError(err *llm.Error) error {
	if e.ended {
		return errEnded
	}
	end := ending{status: "failed", failure: err}
	_ = e.keep(end) // the client learns of a failure anyway
	return e.last(end)
}

func (e *responsesEncoder) KeepAlive() error {
	if e.ended || !e.streamed {
		return nil
	}
	e.buf = append(e.buf[:0], ": ka\n\n"...)
	return e.flush()
}

// Close ends a complete stream. One that has not stopped, or that could not be kept as the client wants, is failed.
func (e *responsesEncoder) Close() error {
	switch {
	case e.ended:
		return errEnded
	case !e.begun:
		return e.EncodeError(llm.Errorf(llm.CodeUpstream, "the model server sent no answer"))
	case e.stop == nil:
		return e.EncodeError(llm.Errorf(llm.CodeUpstream, "the model server ended the answer early"))
	}
	end := e.endingOf(e.stop.StopReason)
	if err := e.keep(end); err != nil {
		end = ending{status: "failed", failure: foreign("", err)}
	}
	return e.last(end)
}

// last writes the event that ends a stream.
func (e *responsesEncoder) last(end ending) error {
	e.ended = true
	e.buf = e.buf[:0]
	e.begin()
	e.event("response." + end.status)
	e.buf = append(e.buf, `,"response":`...)
	e.buf = e.appendResponse(e.buf, end, e.usage)
	e.close()
	return e.flush()
}

// EncodeResponse writes a whole answer. It says the same as the stream of the same events. If it cannot be kept as the
// client wants, that is an *llm.Error, and nothing is written then.
func (e *responsesEncoder) EncodeResponse(resp *llm.Response) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	if len(resp.Choices) == 0 {
		return llm.Errorf(llm.CodeUpstream, "the model server sent no answer")
	}
	c := &resp.Choices[0]
	var logprobs json.RawMessage
	for _, more := range c.Logprobs {
		logprobs = dialect.JoinArrays(logprobs, more)
	}
	for _, b := range c.Blocks {
		it := e.newItem(b.Kind, b.ToolCall)
		if it == nil {
			continue
		}
		text := b.Text
		if b.ToolCall != nil {
			text = string(b.ToolCall.Arguments)
		}
		it.add(text, logprobs)
		if b.Kind == llm.BlockText {
			logprobs = nil
		}
		it.end()
		e.finish(it)
		e.index++
	}
	e.usage = &resp.Usage
	end := e.endingOf(c.StopReason)
	if err := e.keep(end); err != nil {
		return foreign("", err)
	}
	e.buf = append(e.appendResponse(e.buf[:0], end, e.usage), '\n')
	return e.flush()
}

func (e *responsesEncoder) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := e.w.Write(e.buf)
	return err
}
