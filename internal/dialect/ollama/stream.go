package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// DecodeOptions say what a decoder must know about the request that the answer belongs to.
type DecodeOptions struct {
	dialect.SequencerOptions
	Version     string // of the server
	NumCtx      int    // lets a full context be told from a reached bound; 0 if unknown
	InputTokens int    // our own count of the prompt, for servers that report none or a wrong one
	Forced      bool   // the text is a call in the form of callSchema
}

// Decode returns the options of decoding the answer to r.
func (o CallOptions) Decode(r *llm.Request) DecodeOptions {
	return DecodeOptions{
		SequencerOptions: dialect.SequencerFor(r, o.Model),
		Version:          o.Version,
		NumCtx:           o.NumCtx,
		InputTokens:      o.InputTokens,
		Forced:           forced(r),
	}
}

// DecodeChatStream decodes the body of a successful answer of /api/chat, streamed or whole. The stream obeys
// llm.Check. It ends with an *llm.Error if the server reports one in the body, breaks the protocol, or stops before
// its last line; silence is never taken for success. The caller closes r.
func DecodeChatStream(r io.Reader, o DecodeOptions) llm.Stream {
	return func(yield func(llm.Event, error) bool) {
		d := decoder{o: o, seq: dialect.NewSequencer(o.SequencerOptions, yield)}
		lines := dialect.NewLineReader(r)
		for {
			line, err := lines.Next()
			switch {
			case errors.Is(err, io.EOF):
				d.seq.Fail(dialect.UpstreamFault("the model server ended the answer early", errors.New("no line with done")))
				return
			case err != nil:
				d.seq.Fail(dialect.ReadFault(err))
				return
			case !d.line(line):
				return
			}
		}
	}
}

type decoder struct {
	o     DecodeOptions
	seq   *dialect.Sequencer
	bytes int             // of text so far, for an estimate
	held  strings.Builder // text that may be a forced call
	calls int
}

// wireLine is the outline of a line. Its members share the reader's buffer and are valid until the next read.
type wireLine struct {
	message, response, logprobs json.RawMessage
	done                        bool
	reason                      string
	input, output               int
	known, failed               bool
}

func readLine(data []byte) (l wireLine) {
	for key, value := range dialect.Members(data) {
		switch string(key) {
		case "message":
			l.message, l.known = value, true
		case "response": // an answer to a plain prompt
			l.response, l.known = value, true
		case "logprobs":
			l.logprobs = value
		case "done":
			l.done, _ = dialect.Bool(value)
			l.known = true
		case "done_reason":
			l.reason, _ = dialect.Unquote(value)
		case "prompt_eval_count":
			l.input = count(value)
		case "eval_count":
			l.output = count(value)
		case "error":
			l.failed = !dialect.Null(value)
		}
	}
	return l
}

func count(raw json.RawMessage) int {
	n, _ := dialect.Int(raw)
	return int(max(n, 0))
}

// line decodes one line and reports whether another is wanted.
func (d *decoder) line(data []byte) bool {
	if !json.Valid(data) || data[0] != '{' {
		return d.seq.Fail(dialect.UpstreamFault("the model server sent something that is not JSON", errors.New(sample(data))))
	}
	l := readLine(data)
	if l.failed || !l.known {
		e, ok := dialect.ParseUpstreamError(data)
		if !ok {
			return d.seq.Fail(dialect.UpstreamFault("the model server sent an unknown answer", errors.New(sample(data))))
		}
		return d.seq.Fail(e.Classify(0))
	}
	if !d.seq.Start(nil) || !d.message(l.message, l.logprobs) {
		return false
	}
	if text, ok := dialect.Unquote(l.response); ok {
		d.bytes += len(text)
		if !d.seq.Text(0, llm.BlockText, text, nil) {
			return false
		}
	}
	if !l.done {
		return true
	}
	d.end(l)
	return false
}

func (d *decoder) message(raw, logprobs json.RawMessage) bool {
	var thinking, text string
	var tools json.RawMessage
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "content":
			text, _ = dialect.Unquote(value)
		case "thinking":
			thinking, _ = dialect.Unquote(value)
		case "tool_calls":
			tools = value
		}
	}
	d.bytes += len(thinking) + len(text)
	if dialect.Kind(logprobs) == '[' {
		logprobs = bytes.Clone(logprobs)
	} else {
		logprobs = nil
	}
	if thinking != "" {
		if !d.seq.Text(0, llm.BlockThinking, thinking, logprobs) {
			return false
		}
		logprobs = nil
	}
	if d.o.Forced {
		d.held.WriteString(text)
	} else if !d.seq.Text(0, llm.BlockText, text, logprobs) {
		return false
	}
	for _, item := range dialect.Elements(tools) {
		if !d.tool(item) {
			return false
		}
	}
	return true
}

// tool decodes a call, which always comes whole; the index that the server gives it may be 0 for every call.
func (d *decoder) tool(raw json.RawMessage) bool {
	f := dialect.ToolFragment{Whole: true}
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "id":
			f.ID, _ = dialect.Unquote(value)
		case "function":
			for k, v := range dialect.Members(value) {
				switch string(k) {
				case "name":
					f.Name, _ = dialect.Unquote(v)
				case "arguments":
					text, ok := dialect.Unquote(v)
					if !ok && !dialect.Null(v) {
						text = string(v)
					}
					f.Arguments = text
				}
			}
		}
	}
	d.bytes += len(f.Arguments)
	d.calls++
	return d.seq.Tool(0, f)
}

// end takes the last line.
func (d *decoder) end(l wireLine) {
	u := d.usage(l)
	var reason llm.StopReason
	switch l.reason {
	case "stop":
		reason = llm.StopEnd
	case "length":
		reason = llm.StopMaxTokens
		if d.o.NumCtx > 0 && !u.Estimated && u.Total() >= d.o.NumCtx {
			reason = llm.StopContextFull
		}
	case "":
		d.seq.Fail(dialect.UpstreamFault("the model server broke off the answer", errors.New("done without a reason")))
		return
	default: // load and unload answer a request without messages, which is never sent
		d.seq.Fail(dialect.UpstreamFault("the model server sent no answer", errors.New("done_reason "+l.reason)))
		return
	}
	if !d.release() {
		return
	}
	if d.seq.Finish(0, reason, "") {
		d.seq.Usage(u)
	}
}

// release hands on what was held back: as the call that was demanded, or as text if the model got no further.
func (d *decoder) release() bool {
	text := d.held.String()
	if text == "" {
		return true
	}
	if f, ok := readForced(text); ok && d.calls == 0 {
		return d.seq.Tool(0, f)
	}
	return d.seq.Text(0, llm.BlockText, text, nil)
}

// usage reads the counts. A count of zero is left out on the wire, so no count of the prompt means that it is not
// known: a prompt is never empty.
func (d *decoder) usage(l wireLine) llm.Usage {
	u := llm.Usage{Input: l.input, Output: l.output}
	if u.Input == 0 || countsNewOnly(d.o.Version) {
		u.Input, u.Estimated = max(d.o.InputTokens, u.Input), true
	}
	if u.Output == 0 && d.bytes > 0 {
		u.Output, u.Estimated = dialect.EstimateTokens(d.bytes), true
	}
	return u
}

// countsNewOnly reports whether a version of the server counts only the part of the prompt that was not cached, which
// 0.30 does.
func countsNewOnly(version string) bool {
	v, ok := dialect.ParseVersion(version)
	return ok && !v.Before(0, 30, 0) && v.Before(0, 31, 0)
}

// DecodeError classifies the answer of a backend that did not succeed.
func DecodeError(status int, h http.Header, body []byte) *llm.Error {
	return dialect.DecodeError(status, h, body)
}

// sample returns the beginning of data for a log.
func sample(data []byte) string { return string(data[:min(len(data), 200)]) }
