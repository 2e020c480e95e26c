package simbackend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// maxDepth bounds the nesting of generated values, because schemas may refer to themselves.
const maxDepth = 12

// schema is the part of JSON Schema that is understood. What else a schema says is ignored.
type schema struct {
	Ref        string            `json:"$ref"`
	Defs       map[string]schema `json:"$defs"`
	OldDefs    map[string]schema `json:"definitions"`
	Type       typeNames         `json:"type"`
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Properties properties        `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	MinItems   int               `json:"minItems"`
	MinLength  int               `json:"minLength"`
	MaxLength  *int              `json:"maxLength"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
	ExclMin    *float64          `json:"exclusiveMinimum"`
	Format     string            `json:"format"`
	AnyOf      []schema          `json:"anyOf"`
	OneOf      []schema          `json:"oneOf"`
	AllOf      []schema          `json:"allOf"`
}

// typeNames is "type", which may be one name or several.
type typeNames []string

func (t *typeNames) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = typeNames{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// properties keeps the order of the schema, in which models write objects.
type properties struct {
	names   []string
	schemas map[string]schema
}

func (p *properties) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &p.schemas); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return err
		}
		p.names = append(p.names, name.(string))
	}
	return nil
}

// parseSchema reads a schema. true, null and nothing are the schema that allows everything.
func parseSchema(data json.RawMessage) (schema, error) {
	text := strings.TrimSpace(string(data))
	if text == "" || text == "null" || text == "true" {
		return schema{Type: typeNames{"object"}}, nil
	}
	var s schema
	if err := json.Unmarshal(data, &s); err != nil {
		return schema{}, fmt.Errorf("invalid schema: %w", err)
	}
	return s, nil
}

// fill makes a JSON value that conforms to the schema. Every property is present. A schema that cannot be read gives
// an empty object; the dialects refuse such a schema before.
func (w *writer) fill(data json.RawMessage) []byte {
	s, err := parseSchema(data)
	if err != nil {
		return []byte("{}")
	}
	var b bytes.Buffer
	filler{w: w, root: &s, out: &b}.value(s, "", 0)
	return b.Bytes()
}

type filler struct {
	w    *writer
	root *schema
	out  *bytes.Buffer
}

func (f filler) value(s schema, name string, depth int) {
	s = f.resolve(s)
	switch {
	case len(s.Const) > 0:
		f.out.Write(s.Const)
		return
	case len(s.Enum) > 0:
		f.out.Write(s.Enum[f.w.rand.IntN(len(s.Enum))])
		return
	}
	switch s.kind() {
	case "object":
		f.object(s, depth)
	case "array":
		f.array(s, name, depth)
	case "string":
		f.out.Write(mustJSON(f.text(s, name)))
	case "integer":
		fmt.Fprintf(f.out, "%d", int64(f.number(s, true)))
	case "number":
		f.out.Write(mustJSON(f.number(s, false)))
	case "boolean":
		fmt.Fprintf(f.out, "%t", f.w.rand.IntN(2) == 0)
	default:
		f.out.WriteString("null")
	}
}

// resolve follows references and takes the first alternative.
func (f filler) resolve(s schema) schema {
	for range maxDepth {
		switch {
		case s.Ref == "#":
			s = *f.root
		case s.Ref != "":
			name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
			target, ok := f.root.Defs[name]
			if !ok {
				target = f.root.OldDefs[name]
			}
			s = target
		case len(s.AnyOf) > 0:
			s = s.AnyOf[0]
		case len(s.OneOf) > 0:
			s = s.OneOf[0]
		case len(s.AllOf) == 1:
			s = s.AllOf[0]
		default:
			return s
		}
	}
	return schema{Type: typeNames{"null"}}
}

func (s schema) kind() string {
	for _, t := range s.Type {
		if t != "null" || len(s.Type) == 1 {
			return t
		}
	}
	switch {
	case len(s.Properties.names) > 0:
		return "object"
	case s.Items != nil:
		return "array"
	}
	return "string"
}

func (f filler) object(s schema, depth int) {
	f.out.WriteByte('{')
	n := 0
	member := func(name string, s schema) {
		if n++; n > 1 {
			f.out.WriteByte(',')
		}
		f.out.Write(mustJSON(name))
		f.out.WriteByte(':')
		f.value(s, name, depth+1)
	}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	for _, name := range s.Properties.names {
		// Deep inside, only what must be there: a schema that refers to itself ends somewhere.
		if depth < maxDepth/2 || required[name] && depth < maxDepth {
			member(name, s.Properties.schemas[name])
		}
	}
	for _, name := range s.Required {
		if _, ok := s.Properties.schemas[name]; !ok {
			member(name, schema{})
		}
	}
	f.out.WriteByte('}')
}

func (f filler) array(s schema, name string, depth int) {
	f.out.WriteByte('[')
	n := max(s.MinItems, 1)
	if depth >= maxDepth/2 {
		n = s.MinItems
	}
	for i := range n {
		if i > 0 {
			f.out.WriteByte(',')
		}
		item := schema{}
		if s.Items != nil {
			item = *s.Items
		}
		f.value(item, name, depth+1)
	}
	f.out.WriteByte(']')
}

// text makes a string. It has a letter outside ASCII and a quote, which careless code breaks.
func (f filler) text(s schema, name string) string {
	var out string
	switch s.Format {
	case "date":
		out = "2026-01-02"
	case "date-time":
		out = "2026-01-02T03:04:05Z"
	case "time":
		out = "03:04:05Z"
	case "email":
		out = "simulated@example.org"
	case "uri":
		out = "https://example.org/simulated"
	case "uuid":
		out = "00000000-0000-4000-8000-000000000000"
	default:
		if name == "" {
			name = "value"
		}
		out = "simulated \"" + name + "\" caf\u00e9 " + fillers[f.w.rand.IntN(len(fillers))]
	}
	for n := len([]rune(out)); n < s.MinLength; n++ {
		out += "x"
	}
	if r := []rune(out); s.MaxLength != nil && *s.MaxLength >= 0 && len(r) > *s.MaxLength {
		out = string(r[:*s.MaxLength])
	}
	return out
}

func (f filler) number(s schema, whole bool) float64 {
	n := float64(1 + f.w.rand.IntN(100))
	if !whole {
		n += 0.5
	}
	if s.Maximum != nil && n > *s.Maximum {
		n = *s.Maximum
	}
	if s.Minimum != nil && n < *s.Minimum {
		n = *s.Minimum
	}
	if s.ExclMin != nil && n <= *s.ExclMin {
		n = *s.ExclMin + 1
	}
	if whole {
		// Toward the side that a bound allows.
		if s.Minimum != nil && math.Floor(n) < *s.Minimum {
			return math.Ceil(n)
		}
		return math.Floor(n)
	}
	return n
}
