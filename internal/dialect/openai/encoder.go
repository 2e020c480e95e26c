package openai

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// encoder writes one chat answer. A stream has one id; its first chunk of a choice carries the role, tool calls are
// numbered densely, the finish reason comes once per choice, usage last and only if it was asked for, and it ends with
// either [DONE] or an error, never both.
//
// Chunks are appended by hand: this runs once per token.
type encoder struct {
	w       io.Writer
	reply   dialect.Reply
	head    []byte // every chunk up to the choices
	buf     []byte
	choices []choiceState
	usage   *llm.Usage
	ended   bool

	legacy           bool // answer with function_call
	streamed         bool
	includeUsage     bool
	reasoningContent bool
	reasoning        bool
}

type choiceState struct {
	begun    bool
	finished bool
	tools    int  // tool calls so far
	args     bool // the open call has arguments
	refused  bool
}

func newEncoder(w io.Writer, reply dialect.Reply) *encoder {
	e := &encoder{w: w, reply: reply}
	if r := reply.Request; r != nil {
		e.legacy, e.streamed, e.includeUsage = r.LegacyFunctions, r.Stream, r.IncludeUsage
	}
	e.reasoning = reply.ReasoningField == "reasoning" || reply.ReasoningField == "both"
	e.reasoningContent = reply.ReasoningField != "reasoning"
	e.head = append(e.head, "data: "...)
	e.head = e.appendHead(e.head, "chat.completion.chunk")
	return e
}

// appendHead appends the members that every chunk and every whole answer begins with.
func (e *encoder) appendHead(dst []byte, object string) []byte {
	dst = append(dst, `{"id":"chatcmpl-`...)
	dst = append(dst, strings.ReplaceAll(e.reply.RequestID, "-", "")...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, e.reply.Created.Unix(), 10)
	dst = append(dst, `,"model":`...)
	return dialect.AppendString(dst, e.reply.Model)
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
	if !ev.Semantic() {
		return nil
	}
	e.buf = e.buf[:0]
	c := e.choice(ev.Choice)
	if !c.begun {
		c.begun = true
		e.open(ev.Choice)
		e.buf = append(e.buf, `"role":"assistant","content":""`...)
		e.close(nil, "")
	}
	switch ev.Kind {
	case llm.EventBlockStart:
		e.blockStart(c, ev)
	case llm.EventDelta:
		e.delta(c, ev)
	case llm.EventBlockStop:
		if ev.Block == llm.BlockToolCall && !c.args {
			e.arguments(c, ev, "{}")
		}
	case llm.EventStop:
		c.finished = true
		e.open(ev.Choice)
		e.close(nil, finishReason(ev.StopReason, c.tools > 0, c.refused, e.legacy))
	}
	return e.flush()
}

func (e *encoder) choice(i int) *choiceState {
	for len(e.choices) <= i {
		e.choices = append(e.choices, choiceState{})
	}
	return &e.choices[i]
}

// open begins a chunk of choice i, up to the inside of its delta.
func (e *encoder) open(i int) {
	e.buf = append(e.buf, e.head...)
	e.buf = append(e.buf, `,"choices":[{"index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(i), 10)
	e.buf = append(e.buf, `,"delta":{`...)
}

// close ends the chunk.
func (e *encoder) close(logprobs []byte, finish string) {
	e.buf = append(e.buf, '}')
	if logprobs != nil {
		e.buf = append(e.buf, `,"logprobs":{"content":`...)
		e.buf = append(e.buf, logprobs...)
		e.buf = append(e.buf, `,"refusal":null}`...)
	}
	e.buf = append(e.buf, `,"finish_reason":`...)
	e.buf = appendStringOrNull(e.buf, finish)
	e.buf = append(e.buf, "}]}\n\n"...)
}

func (e *encoder) blockStart(c *choiceState, ev llm.Event) {
	if ev.Block != llm.BlockToolCall || ev.ToolCall == nil {
		return
	}
	c.tools++
	c.args = false
	if e.legacy && c.tools > 1 {
		return // the legacy form has room for one call
	}
	e.open(ev.Choice)
	if e.legacy {
		e.buf = append(e.buf, `"function_call":{"name":`...)
		e.buf = dialect.AppendString(e.buf, ev.ToolCall.Name)
		e.buf = append(e.buf, `,"arguments":""}`...)
	} else {
		e.buf = append(e.buf, `"tool_calls":[{"index":`...)
		e.buf = strconv.AppendInt(e.buf, int64(c.tools-1), 10)
		e.buf = append(e.buf, `,"id":`...)
		e.buf = dialect.AppendString(e.buf, ev.ToolCall.ID)
		e.buf = append(e.buf, `,"type":"function","function":{"name":`...)
		e.buf = dialect.AppendString(e.buf, ev.ToolCall.Name)
		e.buf = append(e.buf, `,"arguments":""}}]`...)
	}
	e.close(nil, "")
}

func (e *encoder) delta(c *choiceState, ev llm.Event) {
	if ev.Text == "" && ev.Logprobs == nil {
		return
	}
	if ev.Block == llm.BlockToolCall && ev.Text != "" {
		e.arguments(c, ev, ev.Text)
		return
	}
	e.open(ev.Choice)
	switch {
	case ev.Text == "":
	case ev.Block == llm.BlockThinking:
		e.buf = e.appendThinking(e.buf, ev.Text)
	case ev.Block == llm.BlockRefusal:
		c.refused = true
		e.buf = append(e.buf, `"refusal":`...)
		e.buf = dialect.AppendString(e.buf, ev.Text)
	default:
		e.buf = append(e.buf, `"content":`...)
		e.buf = dialect.AppendString(e.buf, ev.Text)
	}
	e.close(ev.Logprobs, "")
}

func (e *encoder) arguments(c *choiceState, ev llm.Event, text string) {
	c.args = true
	if e.legacy && c.tools > 1 {
		return
	}
	e.open(ev.Choice)
	if e.legacy {
		e.buf = append(e.buf, `"function_call":{"arguments":`...)
		e.buf = dialect.AppendString(e.buf, text)
		e.buf = append(e.buf, '}')
	} else {
		e.buf = append(e.buf, `"tool_calls":[{"index":`...)
		e.buf = strconv.AppendInt(e.buf, int64(c.tools-1), 10)
		e.buf = append(e.buf, `,"function":{"arguments":`...)
		e.buf = dialect.AppendString(e.buf, text)
		e.buf = append(e.buf, "}}]"...)
	}
	e.close(ev.Logprobs, "")
}

// appendThinking appends thinking under the key or keys that the caller's setting asks for.
func (e *encoder) appendThinking(dst []byte, text string) []byte {
	if e.reasoningContent {
		dst = append(dst, `"reasoning_content":`...)
		dst = dialect.AppendString(dst, text)
	}
	if e.reasoningContent && e.reasoning {
		dst = append(dst, ',')
	}
	if e.reasoning {
		dst = append(dst, `"reasoning":`...)
		dst = dialect.AppendString(dst, text)
	}
	return dst
}

func (e *encoder) EncodeError(err *llm.Error) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	e.buf = append(e.buf[:0], "data: "...)
	e.buf = appendError(e.buf, err)
	e.buf = append(e.buf, "\n\n"...)
	return e.flush()
}

func (e *encoder) KeepAlive() error {
	if e.ended || !e.streamed {
		return nil
	}
	e.buf = append(e.buf[:0], ": ka\n\n"...)
	return e.flush()
}

// Close ends a complete stream. A stream with a choice that did not finish ends with an error instead.
func (e *encoder) Close() error {
	if e.ended {
		return errEnded
	}
	for i := range e.choices {
		if !e.choices[i].finished {
			return e.EncodeError(llm.Errorf(llm.CodeUpstream, "the model server ended the answer early"))
		}
	}
	if len(e.choices) == 0 {
		return e.EncodeError(llm.Errorf(llm.CodeUpstream, "the model server sent no answer"))
	}
	e.ended = true
	e.buf = e.buf[:0]
	if e.includeUsage && e.usage != nil {
		e.buf = append(e.buf, e.head...)
		e.buf = append(e.buf, `,"choices":[],"usage":`...)
		e.buf = appendUsage(e.buf, *e.usage)
		e.buf = append(e.buf, "}\n\n"...)
	}
	e.buf = append(e.buf, "data: [DONE]\n\n"...)
	return e.flush()
}

func (e *encoder) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := e.w.Write(e.buf)
	return err
}

// errEnded is returned by an encoder that is used after its end.
var errEnded = errors.New("openai: stream has already ended")

// finishReason maps a stop reason. A refusal that the model worded itself ends like any answer.
func finishReason(r llm.StopReason, tools, refused, legacy bool) string {
	switch r {
	case llm.StopToolUse:
		switch {
		case !tools:
			return "stop"
		case legacy:
			return "function_call"
		default:
			return "tool_calls"
		}
	case llm.StopMaxTokens, llm.StopContextFull:
		return "length"
	case llm.StopRefusal:
		if !refused {
			return "content_filter"
		}
	}
	return "stop"
}

func appendUsage(dst []byte, u llm.Usage) []byte {
	number := func(key string, n int) {
		dst = append(dst, key...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	number(`{"prompt_tokens":`, u.Input)
	number(`,"completion_tokens":`, u.Output)
	number(`,"total_tokens":`, u.Total())
	if u.CachedInput > 0 {
		number(`,"prompt_tokens_details":{"cached_tokens":`, u.CachedInput)
		dst = append(dst, '}')
	}
	if u.Reasoning > 0 {
		number(`,"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
