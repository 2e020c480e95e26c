package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"

	"mindrouter/internal/dialect"
)

// inputKey is the one argument of a function that stands for a tool which takes free text.
const inputKey = "input"

// wrapInput returns the arguments of a call of a tool that takes free text.
func wrapInput(input string) json.RawMessage {
	b := append([]byte(`{"`+inputKey+`":`), dialect.Quote(input)...)
	return append(b, '}')
}

// inputReader unwraps the free text of a custom tool from the arguments of a function call while they arrive: of
// {"input":"..."} it hands out the decoded string. Escapes may be cut anywhere. Models err, so it is lenient: arguments
// that are no object are the input themselves, an escape that JSON does not have stays as it is, and an object with a
// single string under another key is taken for that string, though only at the end.
//
// The zero value is ready.
type inputReader struct {
	raw    []byte // everything so far, until the value of input is found or cannot be
	state  readState
	depth  int // of the value that is skipped
	quoted bool
	escape []byte // an unfinished escape
	high   rune   // a surrogate that waits for its other half
	found  bool
}

type readState int

const (
	readStart   readState = iota // before the object
	readKey                      // before or inside a key, or behind a value
	readColon                    // behind a key
	readValue                    // before a value
	readSkip                     // inside the value of another key
	readText                     // inside the value of input
	readOther                    // inside a value of input that is no string
	readEnd                      // behind the value of input
	readLiteral                  // the arguments are the input
)

// write takes the next bytes of the arguments and returns the input in them.
func (r *inputReader) write(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		switch r.state {
		case readText:
			i = r.text(s, i, &out)
		case readLiteral:
			out = append(out, s[i:]...)
			return string(out)
		case readEnd:
			return string(out)
		default:
			r.raw = append(r.raw, s[i])
			r.structure(s[i], &out)
		}
	}
	return string(out)
}

// structure follows the object up to the value of input. The key is what raw holds since its opening quote.
func (r *inputReader) structure(c byte, out *[]byte) {
	space := c == ' ' || c == '\n' || c == '\t' || c == '\r'
	switch r.state {
	case readStart:
		switch {
		case space:
		case c == '{':
			r.state = readKey
		case c == '"': // the text without an object around it
			r.raw, r.state, r.found = nil, readText, true
		default:
			r.state, r.found = readLiteral, true
			*out = append(*out, r.raw...)
			r.raw = nil
		}
	case readKey:
		if r.inString(c) && !r.quoted {
			r.state = readColon
		}
	case readColon:
		if c == ':' {
			r.state = readValue
		}
	case readValue:
		r.value(c, space)
	case readSkip, readOther:
		r.skip(c)
	}
}

func (r *inputReader) value(c byte, space bool) {
	mine := r.key() == inputKey
	switch {
	case space:
		return
	case mine && c == '"':
		r.raw, r.state, r.found = nil, readText, true
		return
	case mine:
		r.raw = []byte{c}
		r.state = readOther
	default:
		r.state = readSkip
	}
	r.depth = 0
	r.skip(c)
}

// skip follows a value until it ends.
func (r *inputReader) skip(c byte) {
	if r.inString(c) {
		return
	}
	switch c {
	case '{', '[':
		r.depth++
		return
	case '}', ']':
		r.depth--
	}
	if r.depth < 0 || (r.depth == 0 && c == ',') {
		if r.state == readOther {
			r.raw = r.raw[:len(r.raw)-1]
			r.state = readEnd
			return
		}
		r.state = readKey
	}
}

// inString follows quotes; it reports whether c belongs to a string.
func (r *inputReader) inString(c byte) bool {
	switch {
	case !r.quoted:
		r.quoted = c == '"'
		return r.quoted
	case len(r.escape) > 0:
		r.escape = r.escape[:0]
	case c == '\\':
		r.escape = append(r.escape, c)
	case c == '"':
		r.quoted = false
	}
	return true
}

// key returns the last key in raw.
func (r *inputReader) key() string {
	b := bytes.TrimRight(r.raw[:bytes.LastIndexByte(r.raw, ':')], " \t\r\n")
	if len(b) == 0 || b[len(b)-1] != '"' {
		return ""
	}
	begin := bytes.LastIndexByte(b[:len(b)-1], '"')
	if begin < 0 {
		return ""
	}
	s, _ := dialect.Unquote(b[begin:])
	return s
}

// text decodes the string of input from s[i] on and returns the index of the last byte that it used.
func (r *inputReader) text(s string, i int, out *[]byte) int {
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case len(r.escape) > 0:
			r.escape = append(r.escape, c)
			if r.unescape(out); r.state != readText {
				return i
			}
		case c == '\\':
			r.escape = append(r.escape, c)
		case c == '"':
			r.lone(out)
			r.state = readEnd
			return i
		default:
			r.lone(out)
			*out = append(*out, c)
		}
	}
	return i
}

// unescape hands out the escape if it is complete.
func (r *inputReader) unescape(out *[]byte) {
	e := r.escape
	if e[1] == 'u' && len(e) < 6 {
		if c := e[len(e)-1]; len(e) > 2 && !isHex(c) {
			r.literal(out)
		}
		return
	}
	r.escape = e[:0]
	if e[1] == 'u' {
		var u rune
		for _, c := range e[2:] {
			u = u<<4 | rune(hexValue(c))
		}
		r.unit(u, out)
		return
	}
	r.lone(out)
	switch e[1] {
	case '"', '\\', '/':
		*out = append(*out, e[1])
	case 'n':
		*out = append(*out, '\n')
	case 't':
		*out = append(*out, '\t')
	case 'r':
		*out = append(*out, '\r')
	case 'b':
		*out = append(*out, '\b')
	case 'f':
		*out = append(*out, '\f')
	default:
		*out = append(*out, e...)
	}
}

// literal hands out an escape that is none.
func (r *inputReader) literal(out *[]byte) {
	r.lone(out)
	e := r.escape
	r.escape = nil
	if c := e[len(e)-1]; c == '"' { // the string ends within it
		*out = append(*out, e[:len(e)-1]...)
		r.state = readEnd
		return
	}
	*out = append(*out, e...)
}

// unit takes a UTF-16 unit; the halves of a pair come one after the other.
func (r *inputReader) unit(u rune, out *[]byte) {
	if r.high != 0 && u >= 0xdc00 && u < 0xe000 {
		*out = utf8.AppendRune(*out, utf16.DecodeRune(r.high, u))
		r.high = 0
		return
	}
	r.lone(out)
	if u >= 0xd800 && u < 0xdc00 {
		r.high = u
		return
	}
	*out = utf8.AppendRune(*out, u) // half a pair becomes U+FFFD
}

// lone hands out a first half whose second did not come.
func (r *inputReader) lone(out *[]byte) {
	if r.high != 0 {
		*out = utf8.AppendRune(*out, utf8.RuneError)
		r.high = 0
	}
}

// close returns what is left of the input, and whether it is whole.
func (r *inputReader) close() (rest string, whole bool) {
	switch {
	case r.state == readText:
		var out []byte
		r.lone(&out)
		return string(out), false
	case r.state == readEnd && len(r.raw) > 0: // a value that is no string
		value := bytes.TrimSpace(r.raw)
		if dialect.Null(value) {
			return "", true
		}
		return string(value), json.Valid(value)
	case r.found:
		return "", true
	}
	return r.misplaced()
}

// misplaced returns the input of an object that has no such key: its only string, or the object.
func (r *inputReader) misplaced() (rest string, whole bool) {
	raw := bytes.TrimSpace(r.raw)
	if len(raw) == 0 {
		return "", true
	}
	if !json.Valid(raw) {
		return string(raw), false
	}
	n := 0
	for _, value := range dialect.Members(raw) {
		n++
		rest, whole = dialect.Unquote(value)
	}
	switch {
	case n == 0:
		return "", true
	case n == 1 && whole:
		return rest, true
	default:
		return string(raw), true
	}
}

func isHex(c byte) bool {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}
