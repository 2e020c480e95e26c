package openai

import (
	"encoding/json"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// format reads response_format and the names that vLLM and Ollama have for the same thing. response_format wins.
func (d *decoder) format() {
	formats := []struct {
		field  string
		format llm.Format
	}{
		{"response_format", d.responseFormat(d.f.Take("response_format"))},
		{"structured_outputs", d.structuredOutputs()},
		{"guided_json", d.guided()},
		{"format", d.ollamaFormat(d.f.Take("format"))},
	}
	for _, c := range formats {
		switch {
		case c.format.Kind == llm.FormatText:
		case d.req.Format.Kind == llm.FormatText:
			d.req.Format = c.format
		default:
			d.semantic(c.field, "dropped")
		}
	}
}

func (d *decoder) responseFormat(raw json.RawMessage) llm.Format {
	f := dialect.ReadFields(raw, "response_format")
	defer func() { d.f.Adopt(f.Err()) }()
	if raw == nil {
		return llm.Format{}
	}
	switch f.String("type") {
	case "text":
		return llm.Format{}
	case "json_object":
		return llm.Format{Kind: llm.FormatJSON}
	case "json_schema":
		s := f.Object("json_schema")
		format := llm.Format{Kind: llm.FormatSchema, Name: s.String("name"), Strict: s.Bool("strict"), Schema: s.Take("schema")}
		if dialect.Kind(format.Schema) != '{' {
			s.Fail("schema", "must be a JSON schema object")
		}
		f.Adopt(s.Err())
		return format
	default:
		f.Fail("type", "must be text, json_object or json_schema")
		return llm.Format{}
	}
}

// structuredOutputs reads vLLM's object of constraints.
func (d *decoder) structuredOutputs() llm.Format {
	f := d.f.Object("structured_outputs")
	format := constraint(f, "")
	d.f.Adopt(f.Err())
	return format
}

// guided reads the names that vLLM had for its constraints before 0.12; newer versions ignore them in silence.
func (d *decoder) guided() llm.Format {
	for _, name := range []string{"guided_decoding_backend", "guided_whitespace_pattern"} {
		if d.f.Take(name) != nil {
			d.note(name, "dropped")
		}
	}
	return constraint(d.f, "guided_")
}

// constraint takes the one constraint of f whose names begin with prefix; two of them are an error.
func constraint(f *dialect.Fields, prefix string) llm.Format {
	var found []llm.Format
	if raw := f.Take(prefix + "json"); raw != nil {
		if text, ok := dialect.Unquote(raw); ok && json.Valid([]byte(text)) {
			raw = json.RawMessage(text)
		}
		if dialect.Kind(raw) != '{' {
			f.Fail(prefix+"json", "must be a JSON schema object")
		}
		found = append(found, llm.Format{Kind: llm.FormatSchema, Schema: raw})
	}
	if text := f.String(prefix + "regex"); text != "" {
		found = append(found, llm.Format{Kind: llm.FormatRegex, Text: text})
	}
	if text := f.String(prefix + "grammar"); text != "" {
		found = append(found, llm.Format{Kind: llm.FormatGrammar, Text: text})
	}
	if raw := f.Take(prefix + "choice"); raw != nil {
		format := llm.Format{Kind: llm.FormatChoice}
		for i, item := range dialect.Elements(raw) {
			s, ok := dialect.Unquote(item)
			if !ok {
				f.Fail(dialect.At(prefix+"choice", i), "must be a string")
			}
			format.Choices = append(format.Choices, s)
		}
		if len(format.Choices) == 0 {
			f.Fail(prefix+"choice", "must be a list of strings")
		}
		found = append(found, format)
	}
	if on := f.Bool(prefix + "json_object"); on != nil && *on {
		found = append(found, llm.Format{Kind: llm.FormatJSON})
	}
	switch len(found) {
	case 0:
		return llm.Format{}
	case 1:
		return found[0]
	default:
		f.Fail("", "only one of json, regex, choice and grammar may be given")
		return llm.Format{}
	}
}

func (d *decoder) ollamaFormat(raw json.RawMessage) llm.Format {
	if word, ok := dialect.Unquote(raw); ok {
		switch word {
		case "json":
			return llm.Format{Kind: llm.FormatJSON}
		case "":
			return llm.Format{}
		}
	}
	if dialect.Kind(raw) == '{' {
		return llm.Format{Kind: llm.FormatSchema, Schema: raw}
	}
	if raw != nil {
		d.f.Fail("format", "must be json or a JSON schema object")
	}
	return llm.Format{}
}
