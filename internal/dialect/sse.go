package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// SSEEvent is one server-sent event, or a comment.
type SSEEvent struct {
	Name string // the event field; empty if there was none
	// Data holds the data lines, joined by a line feed. It is valid until the next call of Next.
	Data    []byte
	Comment bool // a comment line, which servers use as a sign of life; Data is empty
}

// SSEReader reads server-sent events as servers really send them: lines may end in LF, CRLF or CR, the space after a
// colon may be missing, data may take several lines, a byte order mark may come first and the last blank line may be
// absent. An event may be cut between any two reads. Not safe for concurrent use.
type SSEReader struct {
	lines lineReader
	name  string
	data  []byte
	seen  bool // the pending event has a data field
}

// NewSSEReader returns a reader of r. It reads ahead, so r must not be used otherwise.
func NewSSEReader(r io.Reader) *SSEReader {
	return &SSEReader{lines: newLineReader(r, true)}
}

// Peek returns the first byte of the stream that is not white space, without consuming it. It serves to tell an event
// stream from a JSON body.
func (r *SSEReader) Peek() (byte, error) { return r.lines.peek() }

// Rest reads everything that is left, at most [MaxFrame] bytes, as it is.
func (r *SSEReader) Rest() ([]byte, error) { return r.lines.rest() }

// Next returns the next event that has data, or a comment. The error is io.EOF at the end of the stream, after the
// last event even if no blank line follows it; it wraps [ErrFrameTooLong] above the limit; otherwise it is the
// reader's error, and a half event before it is dropped.
func (r *SSEReader) Next() (SSEEvent, error) {
	if cap(r.data) > keepBuffer {
		r.data = nil
	}
	r.name, r.data, r.seen = "", r.data[:0], false
	for {
		line, _, err := r.lines.next()
		if errors.Is(err, io.EOF) && r.seen {
			return SSEEvent{Name: r.name, Data: r.data}, nil
		}
		if err != nil {
			return SSEEvent{}, err
		}
		if len(line) == 0 {
			if r.seen {
				return SSEEvent{Name: r.name, Data: r.data}, nil
			}
			r.name = "" // an event without data is not dispatched
			continue
		}
		if line[0] == ':' {
			if !r.seen && r.name == "" {
				return SSEEvent{Comment: true}, nil
			}
			continue // inside an event it means nothing
		}
		if err := r.field(line); err != nil {
			return SSEEvent{}, err
		}
	}
}

func (r *SSEReader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if r.seen {
			r.data = append(r.data, '\n')
		}
		if len(r.data)+len(value) > MaxFrame {
			return fmt.Errorf("event of more than %d bytes: %w", MaxFrame, ErrFrameTooLong)
		}
		r.data = append(r.data, value...)
		r.seen = true
	case "event":
		r.name = string(value)
	}
	return nil // id, retry and unknown fields mean nothing here
}

// AppendSSE appends an event with one line of data to dst. Data must not contain line breaks, which JSON on one line
// does not; name may be empty.
func AppendSSE(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}
