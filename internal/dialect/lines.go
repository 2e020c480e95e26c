package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the largest line or event that a reader accepts, in bytes. Model servers send whole images and tool
// arguments on one line, so the bound is far above what a line usually has; it only stops a runaway peer.
const MaxFrame = 32 << 20

// ErrFrameTooLong is wrapped by readers when a line or event exceeds [MaxFrame].
var ErrFrameTooLong = errors.New("frame exceeds the limit")

const (
	initialBuffer = 4 << 10
	keepBuffer    = 1 << 20 // a buffer that grew beyond this is given back after use
)

// lineReader cuts a byte stream into lines without waiting for the byte after a terminator: a line that ends in CR is
// handed out at once, and a LF that follows it is skipped later.
type lineReader struct {
	r          io.Reader
	buf        []byte
	start, end int // unread bytes are buf[start:end]
	scanned    int // bytes after start that are known to hold no terminator
	loneCR     bool
	skipLF     bool
	first      bool // the byte order mark was looked for
	err        error
}

func newLineReader(r io.Reader, loneCR bool) lineReader {
	return lineReader{r: r, buf: make([]byte, initialBuffer), loneCR: loneCR}
}

// next returns the next line without its terminator and whether it had one. The slice is valid until the next call.
// The error is io.EOF only when nothing is left.
func (l *lineReader) next() (line []byte, terminated bool, err error) {
	for {
		if l.end > l.start && l.skipLF {
			if l.buf[l.start] == '\n' {
				l.start++
			}
			l.skipLF = false
		}
		if i := l.terminator(); i > MaxFrame { // one read may have brought much
			return nil, false, fmt.Errorf("line of %d bytes: %w", i, ErrFrameTooLong)
		} else if i >= 0 {
			line = l.buf[l.start : l.start+i]
			l.skipLF = l.buf[l.start+i] == '\r'
			l.start += i + 1
			l.scanned = 0
			return line, true, nil
		}
		l.scanned = l.end - l.start
		if l.scanned > MaxFrame {
			return nil, false, fmt.Errorf("line of more than %d bytes: %w", MaxFrame, ErrFrameTooLong)
		}
		if l.err != nil {
			if errors.Is(l.err, io.EOF) && l.end > l.start {
				line = l.buf[l.start:l.end]
				l.start, l.scanned = l.end, 0
				return line, false, nil
			}
			return nil, false, l.err
		}
		l.fill()
	}
}

// terminator returns the offset from start of the next line terminator, or -1.
func (l *lineReader) terminator() int {
	rest := l.buf[l.start+min(l.scanned, l.end-l.start) : l.end]
	off := l.end - l.start - len(rest)
	lf := bytes.IndexByte(rest, '\n')
	if l.loneCR {
		head := rest
		if lf >= 0 {
			head = rest[:lf]
		}
		if cr := bytes.IndexByte(head, '\r'); cr >= 0 {
			return off + cr
		}
	}
	if lf < 0 {
		return -1
	}
	return off + lf
}

// fill reads once, making room first. A reader that returns no bytes and no error is asked again by the caller's loop.
func (l *lineReader) fill() {
	switch {
	case l.start == l.end:
		l.start, l.end = 0, 0
		if cap(l.buf) > keepBuffer {
			l.buf = make([]byte, initialBuffer)
		}
	case l.end == len(l.buf) && l.start > 0:
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	}
	if l.end == len(l.buf) {
		grown := make([]byte, 2*len(l.buf))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	l.err = err
	if !l.first && l.end-l.start >= len(byteOrderMark) {
		l.first = true
		if bytes.HasPrefix(l.buf[l.start:l.end], byteOrderMark) {
			l.start += len(byteOrderMark)
			l.scanned = 0
		}
	}
}

// peek returns the first byte that is neither white space nor part of a byte order mark, without consuming it.
func (l *lineReader) peek() (byte, error) {
	for {
		for _, c := range bytes.TrimPrefix(l.buf[l.start:l.end], byteOrderMark) {
			switch c {
			case ' ', '\t', '\r', '\n', byteOrderMark[0], byteOrderMark[1]:
			default:
				return c, nil
			}
		}
		if l.err != nil {
			return 0, l.err
		}
		if l.end-l.start > MaxFrame {
			return 0, fmt.Errorf("white space of more than %d bytes: %w", MaxFrame, ErrFrameTooLong)
		}
		l.fill()
	}
}

// rest reads everything that is left, at most MaxFrame bytes.
func (l *lineReader) rest() ([]byte, error) {
	head := l.buf[l.start:l.end]
	l.start = l.end
	if l.err != nil && !errors.Is(l.err, io.EOF) {
		return nil, l.err
	}
	tail, err := io.ReadAll(io.LimitReader(l.r, MaxFrame+1))
	if err != nil {
		return nil, err
	}
	all := append(bytes.Clone(head), tail...)
	if len(all) > MaxFrame {
		return nil, fmt.Errorf("body of more than %d bytes: %w", MaxFrame, ErrFrameTooLong)
	}
	return TrimBOM(all), nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// TrimBOM returns b without a leading UTF-8 byte order mark.
func TrimBOM(b []byte) []byte { return bytes.TrimPrefix(b, byteOrderMark) }
