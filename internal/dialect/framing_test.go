package dialect_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"mindrouter/internal/dialect"
)

// events reads a whole stream and prints each event as name|data.
func events(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	sse := dialect.NewSSEReader(r)
	for {
		ev, err := sse.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if ev.Comment {
			out = append(out, "comment")
			continue
		}
		out = append(out, ev.Name+"|"+string(ev.Data))
	}
}

// splitAt returns a reader that delivers s in two reads.
func splitAt(s string, at int) io.Reader {
	return io.MultiReader(strings.NewReader(s[:at]), strings.NewReader(s[at:]))
}

func TestSSEReader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"two events":              {"data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		"CRLF":                    {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		"CR":                      {"data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		"mixed line ends":         {"data: a\r\n\ndata: b\r\r\n", []string{"|a", "|b"}},
		"no space after colon":    {"data:a\n\n", []string{"|a"}},
		"only one space is cut":   {"data:  a\n\n", []string{"| a"}},
		"no colon":                {"data\n\n", []string{"|"}},
		"several data lines":      {"data: {\ndata: }\n\n", []string{"|{\n}"}},
		"event name":              {"event: ping\ndata: {}\n\ndata: x\n\n", []string{"ping|{}", "|x"}},
		"event without data":      {"event: ping\n\ndata: x\n\n", []string{"|x"}},
		"comment":                 {": ka\n\ndata: x\n\n", []string{"comment", "|x"}},
		"comment inside an event": {"data: x\n: ka\n\n", []string{"|x"}},
		"id and retry":            {"id: 1\nretry: 5\ndata: x\n\n", []string{"|x"}},
		"byte order mark":         {"\ufeffdata: x\n\n", []string{"|x"}},
		"no final blank line":     {"data: a\n\ndata: b\n", []string{"|a", "|b"}},
		"no final line end":       {"data: a\n\ndata: b", []string{"|a", "|b"}},
		"many blank lines":        {"\n\n\ndata: a\n\n\n\n", []string{"|a"}},
		"runes":                   {"data: \u4f60\u597d\U0001f600\n\n", []string{"|\u4f60\u597d\U0001f600"}},
		"nothing":                 {"", nil},
	} {
		for at := range len(c.in) + 1 {
			if got := events(t, splitAt(c.in, at)); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s, split at byte %d: %q, want %q", name, at, got, c.want)
			}
		}
		if got := events(t, iotest.OneByteReader(strings.NewReader(c.in))); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s, byte by byte: %q, want %q", name, got, c.want)
		}
	}
}

func TestSSEReaderDeliversAnEventBeforeTheNextByteArrives(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "data: x"+end) }()
		ev, err := dialect.NewSSEReader(r).Next() // would block for ever if it wanted more
		if err != nil || string(ev.Data) != "x" {
			t.Errorf("after %q: %q, %v", end, ev.Data, err)
		}
		_ = r.Close()
	}
}

func TestSSEReaderTakesLongLinesUpToTheLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	got := events(t, strings.NewReader("data: "+long+"\n\ndata: y\n\n"))
	if len(got) != 2 || got[0] != "|"+long || got[1] != "|y" {
		t.Errorf("a line of 3 MiB: %d events", len(got))
	}
	endless := io.MultiReader(strings.NewReader("data: "), &endless{})
	if _, err := dialect.NewSSEReader(endless).Next(); !errors.Is(err, dialect.ErrFrameTooLong) {
		t.Errorf("an endless line: %v, want ErrFrameTooLong", err)
	}
	lines := strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 40))
	if _, err := dialect.NewSSEReader(lines).Next(); !errors.Is(err, dialect.ErrFrameTooLong) {
		t.Errorf("an endless event: %v, want ErrFrameTooLong", err)
	}
}

// endless never ends and never breaks a line.
type endless struct{}

func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestSSEReaderDropsAHalfEventBeforeAnError(t *testing.T) {
	t.Parallel()
	boom := errors.New("reset")
	r := dialect.NewSSEReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(boom)))
	if ev, err := r.Next(); err != nil || string(ev.Data) != "a" {
		t.Fatalf("first event: %q, %v", ev.Data, err)
	}
	if _, err := r.Next(); !errors.Is(err, boom) {
		t.Errorf("after the reset: %v, want the reader's error", err)
	}
}

func TestSSEPeekTellsAStreamFromABody(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]byte{
		"{\"a\":1}": '{', "\ufeff \n{}": '{', "data: x\n\n": 'd', ": ka\n\n": ':',
	} {
		r := dialect.NewSSEReader(iotest.OneByteReader(strings.NewReader(in)))
		if got, err := r.Peek(); err != nil || got != want {
			t.Errorf("Peek of %q = %q, %v, want %q", in, got, err, want)
		}
		if rest, err := r.Rest(); err != nil || !strings.Contains(in, string(rest)) || len(rest) < len(in)-4 {
			t.Errorf("Rest of %q = %q, %v", in, rest, err)
		}
	}
	if _, err := dialect.NewSSEReader(strings.NewReader(" \n")).Peek(); !errors.Is(err, io.EOF) {
		t.Errorf("Peek of nothing: %v, want io.EOF", err)
	}
}

func TestSSEWriterIsReadBack(t *testing.T) {
	t.Parallel()
	b := dialect.AppendSSE(nil, "ping", []byte(`{"a":1}`))
	b = dialect.AppendSSE(b, "", []byte(`x`))
	if want := "event: ping\ndata: {\"a\":1}\n\ndata: x\n\n"; string(b) != want {
		t.Errorf("AppendSSE = %q, want %q", b, want)
	}
	if got := events(t, bytes.NewReader(b)); fmt.Sprint(got) != `[ping|{"a":1} |x]` {
		t.Errorf("read back: %q", got)
	}
}

func TestLineReader(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"{}\n{\"a\":\n":       {"{}", "{\"a\":"},
		"{}\r\n\r\n{}":        {"{}", "{}"},
		"\n\n  {} \n":         {"{}"},
		"\ufeff{}\n":          {"{}"},
		"{\"a\":\"\u4f60\"}":  {"{\"a\":\"\u4f60\"}"},
		"{\"a\":\r1}\n":       {"{\"a\":\r1}"},
		"":                    nil,
		"{\"error\":\"x\"}\n": {"{\"error\":\"x\"}"},
	} {
		for at := range len(in) + 1 {
			r := dialect.NewLineReader(splitAt(in, at))
			var got []string
			for {
				line, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(line))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q split at byte %d: %q, want %q", in, at, got, want)
			}
		}
	}
	if _, err := dialect.NewLineReader(&endless{}).Next(); !errors.Is(err, dialect.ErrFrameTooLong) {
		t.Errorf("an endless line: %v, want ErrFrameTooLong", err)
	}
}

func FuzzSSEReader(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\nevent: x\rdata:b\n\n: c\n"), uint8(3))
	f.Add([]byte("\xef\xbb\xbfdata\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		whole := events(t, bytes.NewReader(in))
		chunked := events(t, &stepReader{in, int(step%16) + 1})
		if fmt.Sprint(whole) != fmt.Sprint(chunked) {
			t.Errorf("%q: whole %q, in steps of %d %q", in, whole, step%16+1, chunked)
		}
	})
}

// stepReader delivers its bytes a few at a time.
type stepReader struct {
	rest []byte
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(r.step, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}
