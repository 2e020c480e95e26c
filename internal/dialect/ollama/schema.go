package ollama

import (
	"bytes"
	"encoding/json"
	"strings"

	"mindrouter/internal/dialect"
)

// Limits on the inlining of references. A schema may refer to itself.
const (
	maxInlineDepth = 8
	maxInlineBytes = 256 << 10
)

// inlineReferences replaces $ref by what it refers to, because the server keeps only a few keywords of a tool's schema
// and $ref is not among them. It reports whether anything changed. A reference that leads nowhere, leads to itself or
// would make the schema too large is left.
func inlineReferences(schema json.RawMessage) (json.RawMessage, bool) {
	if !bytes.Contains(schema, []byte(`"$ref"`)) {
		return schema, false
	}
	in := inliner{root: schema}
	out := in.value(nil, schema, 0)
	if !in.changed || in.overflow {
		return schema, false
	}
	return out, true
}

type inliner struct {
	root     json.RawMessage
	changed  bool
	overflow bool
}

func (in *inliner) value(dst, raw json.RawMessage, depth int) json.RawMessage {
	if len(dst) > maxInlineBytes {
		in.overflow = true
		return dst
	}
	switch dialect.Kind(raw) {
	case '{':
		return in.object(dst, raw, depth)
	case '[':
		dst = append(dst, '[')
		for i, item := range dialect.Elements(raw) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = in.value(dst, item, depth)
		}
		return append(dst, ']')
	default:
		return append(dst, raw...)
	}
}

func (in *inliner) object(dst, raw json.RawMessage, depth int) json.RawMessage {
	for key, value := range dialect.Members(raw) {
		if string(key) != "$ref" {
			continue
		}
		ref, _ := dialect.Unquote(value)
		if target := in.resolve(ref); target != nil && depth < maxInlineDepth {
			in.changed = true
			return in.value(dst, target, depth+1)
		}
	}
	dst = append(dst, '{')
	first := true
	for key, value := range dialect.Members(raw) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = dialect.AppendString(dst, string(key))
		dst = append(dst, ':')
		if string(key) == "$defs" || string(key) == "definitions" {
			dst = append(dst, value...) // nothing refers to them any more, or they must stay as they are
			continue
		}
		dst = in.value(dst, value, depth)
	}
	return append(dst, '}')
}

// resolve follows a local JSON pointer.
func (in *inliner) resolve(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	raw := in.root
	for step := range strings.SplitSeq(path, "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var found json.RawMessage
		for key, value := range dialect.Members(raw) {
			if string(key) == step {
				found = value
			}
		}
		if found == nil {
			return nil
		}
		raw = found
	}
	return raw
}
