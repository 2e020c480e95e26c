package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// The functions below walk JSON without building Go values for what nobody looks at: bodies hold megabytes of images,
// and a stream has thousands of chunks. They expect valid JSON (see [Validate]); on anything else they stop early, but
// never panic.

// MaxDepth is how deep a client's JSON may nest.
const MaxDepth = 64

// Validate checks that body is one JSON value that nests at most [MaxDepth] deep. The error text is for the client: it
// names the place.
func Validate(body []byte) error {
	if !json.Valid(body) {
		return syntaxError(body)
	}
	if at := tooDeep(body); at >= 0 {
		return fmt.Errorf("the body nests deeper than %d levels at byte %d", MaxDepth, at)
	}
	return nil
}

func syntaxError(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return fmt.Errorf("the body is empty; a JSON object is needed")
	}
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, &raw); !errors.As(err, &syntax) {
		return fmt.Errorf("the body is not valid JSON")
	}
	at := int(min(max(syntax.Offset, 1), int64(len(body)))) - 1
	line := 1 + bytes.Count(body[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(body[:at], '\n')
	return fmt.Errorf("the body is not valid JSON: %s at byte %d (line %d, column %d)", syntax.Error(), at, line, column)
}

func tooDeep(body []byte) int {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = skipString(body, i) - 1
		case '{', '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// Members yields the members of a JSON object in order. Keys are unquoted and share raw's memory; a key that occurs
// twice is yielded twice. For anything but an object it yields nothing.
func Members(raw json.RawMessage) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		i := skipSpace(raw, 0)
		if i >= len(raw) || raw[i] != '{' {
			return
		}
		i = skipSpace(raw, i+1)
		for i < len(raw) && raw[i] == '"' {
			keyEnd := skipString(raw, i)
			key := raw[i:keyEnd]
			i = skipSpace(raw, keyEnd)
			if i >= len(raw) || raw[i] != ':' {
				return
			}
			start := skipSpace(raw, i+1)
			i = skipValue(raw, start)
			if !yield(unquoteKey(key), raw[start:i:i]) {
				return
			}
			if i = skipSpace(raw, i); i >= len(raw) || raw[i] != ',' {
				return
			}
			i = skipSpace(raw, i+1)
		}
	}
}

// Elements yields the elements of a JSON array with their indexes. For anything but an array it yields nothing.
func Elements(raw json.RawMessage) iter.Seq2[int, json.RawMessage] {
	return func(yield func(int, json.RawMessage) bool) {
		i := skipSpace(raw, 0)
		if i >= len(raw) || raw[i] != '[' {
			return
		}
		i = skipSpace(raw, i+1)
		if i >= len(raw) || raw[i] == ']' {
			return
		}
		for n := 0; ; n++ {
			start := i
			i = skipValue(raw, start)
			if i == start || !yield(n, raw[start:i:i]) {
				return
			}
			if i = skipSpace(raw, i); i >= len(raw) || raw[i] != ',' {
				return
			}
			i = skipSpace(raw, i+1)
		}
	}
}

// Kind returns the first byte of a JSON value: one of { [ " t f n - or a digit; 0 if there is none.
func Kind(raw json.RawMessage) byte {
	if i := skipSpace(raw, 0); i < len(raw) {
		return raw[i]
	}
	return 0
}

// Null reports whether raw is absent or null.
func Null(raw json.RawMessage) bool {
	k := Kind(raw)
	return k == 0 || k == 'n'
}

// Unquote returns the text of a JSON string, and false for anything else.
func Unquote(raw json.RawMessage) (string, bool) {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '"' {
		return "", false
	}
	end := skipString(raw, i)
	inner := raw[i+1 : max(end-1, i+1)]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var s string
	err := json.Unmarshal(raw[i:end], &s)
	return s, err == nil
}

// Bool returns the value of a JSON boolean, and false, false for anything else.
func Bool(raw json.RawMessage) (value, ok bool) {
	switch Kind(raw) {
	case 't':
		return true, true
	case 'f':
		return false, true
	default:
		return false, false
	}
}

// Int returns the value of a JSON number that is a whole number, also if written as 16.0 or 1e3. Digits are kept up to
// the range of int64.
func Int(raw json.RawMessage) (int64, bool) {
	digits := string(bytes.TrimSpace(raw))
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, true
	}
	f, ok := Float(raw)
	if !ok || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Float returns the value of a JSON number.
func Float(raw json.RawMessage) (float64, bool) {
	if k := Kind(raw); k != '-' && (k < '0' || k > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	return f, err == nil
}

func unquoteKey(quoted []byte) []byte {
	inner := quoted[1:max(len(quoted)-1, 1)]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return inner
	}
	s, _ := Unquote(quoted)
	return []byte(s)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// skipString returns the index after the string that starts at b[i].
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return len(b)
		}
		escapes := 0
		for j := i + q - 1; j >= i && b[j] == '\\'; j-- {
			escapes++
		}
		i += q + 1
		if escapes%2 == 0 {
			return i
		}
	}
	return len(b)
}

// skipValue returns the index after the value that starts at b[i].
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(b) && !delimits(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// delimits reports whether c ends a number or a literal.
func delimits(c byte) bool {
	switch c {
	case ',', ':', ']', '}', '[', '{', '"', ' ', '\t', '\r', '\n':
		return true
	default:
		return false
	}
}
