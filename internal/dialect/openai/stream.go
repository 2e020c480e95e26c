package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// DecodeOptions say what a decoder must know about the request that the answer belongs to.
type DecodeOptions struct {
	dialect.SequencerOptions
	ContextLength int // tokens; lets a full context be told from a reached bound; 0 if unknown
	InputTokens   int // our own count of the prompt, for servers that report none
}

// Decode returns the options of decoding the answer to r.
func (o CallOptions) Decode(r *llm.Request) DecodeOptions {
	return DecodeOptions{
		SequencerOptions: dialect.SequencerFor(r, o.Model),
		ContextLength:    o.Model.ContextLength,
		InputTokens:      o.InputTokens,
	}
}

// DecodeChatStream decodes the body of a successful answer: server-sent events or, from servers that ignore stream, a
// whole JSON object. The stream obeys llm.Check. It ends with an *llm.Error if the server reports one in the body,
// breaks the protocol, or stops before a finish reason; silence is never taken for success. The caller closes r.
func DecodeChatStream(r io.Reader, o DecodeOptions) llm.Stream {
	return func(yield func(llm.Event, error) bool) {
		d := streamDecoder{o: o, seq: dialect.NewSequencer(o.SequencerOptions, yield)}
		d.run(dialect.NewSSEReader(r))
	}
}

type streamDecoder struct {
	o        DecodeOptions
	seq      *dialect.Sequencer
	measured bool // the server reported usage
	usage    llm.Usage
	bytes    int   // of text so far, for an estimate
	cut      []int // choices that ended by length; why is known when the usage is
}

func (d *streamDecoder) run(events *dialect.SSEReader) {
	first, err := events.Peek()
	if err != nil {
		d.seq.Fail(dialect.ReadFault(err))
		return
	}
	if first == '{' {
		d.whole(events)
		return
	}
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			d.end()
			return
		}
		if err != nil {
			d.seq.Fail(dialect.ReadFault(err))
			return
		}
		if ev.Comment {
			if !d.seq.KeepAlive() {
				return
			}
			continue
		}
		data := bytes.TrimSpace(ev.Data)
		if string(data) == "[DONE]" {
			d.end()
			return
		}
		if len(data) > 0 && !d.chunk(data) {
			return
		}
	}
}

func (d *streamDecoder) whole(events *dialect.SSEReader) {
	body, err := events.Rest()
	if err != nil {
		d.seq.Fail(dialect.ReadFault(err))
		return
	}
	if d.chunk(bytes.TrimSpace(body)) {
		d.end()
	}
}

// end checks that the answer is complete and yields the usage. A server that did not count is counted for.
func (d *streamDecoder) end() {
	if !d.flushCut() {
		return
	}
	if !d.seq.Complete() {
		d.seq.Fail(dialect.UpstreamFault("the model server ended the answer early", errors.New("no finish reason before the end")))
		return
	}
	if !d.measured {
		d.seq.Usage(llm.Usage{Input: d.o.InputTokens, Output: dialect.EstimateTokens(d.bytes), Estimated: true})
	}
}

// wireChunk is the outline of a chunk. Its members share the reader's buffer and are valid until the next read.
type wireChunk struct {
	choices, usage json.RawMessage
	known          bool // it looks like a chunk at all
	failed         bool // it carries an error
}

func readChunk(data []byte) (c wireChunk) {
	for key, value := range dialect.Members(data) {
		switch string(key) {
		case "choices":
			c.choices, c.known = value, true
		case "usage":
			c.usage, c.known = value, true
		case "id":
			c.known = true
		case "error", "detail":
			c.failed = c.failed || !dialect.Null(value)
		case "object":
			c.failed = c.failed || string(value) == `"error"`
		}
	}
	return c
}

// chunk decodes one event, or a whole answer, which has the same members but for message instead of delta.
func (d *streamDecoder) chunk(data []byte) bool {
	if !json.Valid(data) || data[0] != '{' {
		return d.seq.Fail(dialect.UpstreamFault("the model server sent something that is not JSON", errors.New(sample(data))))
	}
	c := readChunk(data)
	if c.failed || !c.known {
		return d.fail(data)
	}
	counts, counted := readUsage(c.usage)
	var start *llm.Usage
	if counted {
		d.measured, d.usage = true, counts
		start = &counts
	}
	if !d.seq.Start(start) {
		return false
	}
	for _, item := range dialect.Elements(c.choices) {
		if !d.choice(item) {
			return false
		}
	}
	if counted {
		return d.flushCut() && d.seq.Usage(counts)
	}
	return true
}

// fail ends the stream with the error that the server put into it.
func (d *streamDecoder) fail(data []byte) bool {
	e, ok := dialect.ParseUpstreamError(data)
	if !ok {
		return d.seq.Fail(dialect.UpstreamFault("the model server sent an unknown answer", errors.New(sample(data))))
	}
	return d.seq.Fail(e.Classify(0))
}

// maxChoices bounds the index of a choice; a wild number must not make us allocate.
const maxChoices = 128

func (d *streamDecoder) choice(raw json.RawMessage) bool {
	var delta, text, finish, stop, logprobs json.RawMessage
	index := 0
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "index":
			if n, ok := dialect.Int(value); ok {
				index = int(n)
			}
		case "delta", "message":
			delta = value
		case "text": // an answer to a plain prompt
			text = value
		case "finish_reason":
			finish = value
		case "stop_reason":
			stop = value
		case "logprobs":
			logprobs = value
		}
	}
	if index < 0 || index >= maxChoices {
		return d.seq.Fail(dialect.UpstreamFault("the model server numbered an answer wrongly", errors.New(sample(raw))))
	}
	if s, ok := dialect.Unquote(text); ok {
		d.bytes += len(s)
		if !d.seq.Text(index, llm.BlockText, s, nil) {
			return false
		}
	}
	if delta != nil && !d.delta(index, delta, tokenLogprobs(logprobs)) {
		return false
	}
	reason, _ := dialect.Unquote(finish)
	if reason == "" {
		return true
	}
	return d.finish(index, reason, stop)
}

func (d *streamDecoder) finish(index int, reason string, stop json.RawMessage) bool {
	switch reason {
	case "abort", "error", "cancelled":
		return d.seq.Fail(dialect.UpstreamFault("the model server broke off the answer", errors.New("finish reason "+reason)))
	case "length", "max_tokens", "model_length":
		if d.o.ContextLength > 0 && !d.seq.Finished(index) {
			d.cut = append(d.cut, index)
			return true
		}
		return d.seq.Finish(index, llm.StopMaxTokens, "")
	case "tool_calls", "function_call":
		return d.seq.Finish(index, llm.StopToolUse, "")
	case "content_filter":
		return d.seq.Finish(index, llm.StopRefusal, "")
	}
	if s, ok := dialect.Unquote(stop); ok && s != "" { // a number is the id of a stop token: the model's own end
		return d.seq.Finish(index, llm.StopSequence, s)
	}
	return d.seq.Finish(index, llm.StopEnd, "")
}

// flushCut finishes the choices that ended by length.
func (d *streamDecoder) flushCut() bool {
	reason := llm.StopMaxTokens
	if d.measured && d.seq.Choices() == 1 && d.usage.Total() >= d.o.ContextLength {
		reason = llm.StopContextFull
	}
	for _, index := range d.cut {
		if !d.seq.Finish(index, reason, "") {
			return false
		}
	}
	d.cut = nil
	return true
}

// sample returns the beginning of data for a log.
func sample(data []byte) string { return string(data[:min(len(data), 200)]) }
