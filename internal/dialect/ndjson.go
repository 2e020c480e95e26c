package dialect

import (
	"bytes"
	"io"
)

// LineReader reads newline-delimited JSON. Blank lines are skipped and a last line without terminator counts. Not
// safe for concurrent use.
type LineReader struct{ lines lineReader }

// NewLineReader returns a reader of r. It reads ahead, so r must not be used otherwise.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{lines: newLineReader(r, false)}
}

// Next returns the next line without white space around it, valid until the next call. The error is io.EOF at the end
// and wraps [ErrFrameTooLong] above the limit.
func (r *LineReader) Next() ([]byte, error) {
	for {
		line, _, err := r.lines.next()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// AppendLine appends one line of JSON to dst.
func AppendLine(dst, line []byte) []byte {
	dst = append(dst, line...)
	return append(dst, '\n')
}
