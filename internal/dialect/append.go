package dialect

import (
	"encoding/json"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string to dst. Invalid UTF-8 becomes U+FFFD; nothing is escaped for HTML.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage { return AppendString(make([]byte, 0, len(s)+2), s) }

// JoinArrays returns one JSON array with the elements of a and b; either may be nil.
func JoinArrays(a, b json.RawMessage) json.RawMessage {
	if emptyArray(a) {
		return b
	}
	if emptyArray(b) {
		return a
	}
	ai, bi := len(a)-1, skipSpace(b, 0)
	for ai > 0 && a[ai] != ']' {
		ai--
	}
	out := make(json.RawMessage, 0, ai+len(b)+1)
	out = append(out, a[:ai]...)
	out = append(out, ',')
	return append(out, b[bi+1:]...)
}

func emptyArray(a json.RawMessage) bool {
	i := skipSpace(a, 0)
	if i >= len(a) || a[i] != '[' {
		return true
	}
	i = skipSpace(a, i+1)
	return i >= len(a) || a[i] == ']'
}
