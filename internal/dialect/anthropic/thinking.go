package anthropic

import (
	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// minBudget is the least budget of thinking, in tokens, that the protocol knows.
const minBudget = 1024

// thinking reads what the client asks of the model's reasoning. Clients that do not mention it expect none.
func (d *decoder) thinking() {
	t := &d.req.Thinking
	raw := d.f.Take("thinking")
	if raw == nil {
		t.Mode = llm.ThinkingOff
		return
	}
	o := dialect.ReadFields(raw, "thinking")
	switch o.String("type") {
	case "enabled":
		t.Mode = llm.ThinkingOn
		t.Budget = o.Int("budget_tokens", minBudget, maxTokens)
	case "adaptive":
		t.Mode = llm.ThinkingAdaptive
	case "between_tools":
		t.Mode = llm.ThinkingBetweenTools
	case "disabled":
		t.Mode = llm.ThinkingOff
	default:
		o.Fail("type", "must be enabled, adaptive, between_tools or disabled")
	}
	switch display := o.String("display"); display {
	case "", "summarized", "full": // there is no summary of a local model's thinking: it is shown as it is
	case "omitted":
		t.Omitted = true
	default:
		d.note("thinking.display", "dropped", "")
	}
	d.f.Adopt(o.Err())
}

// budget checks the budget of thinking against the bound of the answer, which contains it.
func (d *decoder) budget() {
	budget, bound := d.req.Thinking.Budget, d.req.MaxTokens
	if budget != nil && bound != nil && *bound > 0 && *budget >= *bound {
		d.f.Fail("thinking.budget_tokens", "must be less than max_tokens")
	}
}

// output reads output_config, and output_format, which the schema was called while it was new.
func (d *decoder) output() {
	o := d.f.Object("output_config")
	switch effort := o.String("effort"); effort {
	case "":
	case "minimal", "low", "medium", "high", "xhigh", "max":
		d.req.Thinking.Effort = llm.Effort(effort)
	default:
		o.Fail("effort", "must be low, medium, high, xhigh or max")
	}
	format := readFormat(o, "format")
	for _, name := range o.Rest() {
		d.note(dialect.NoteName("output_config."+name), "dropped", "")
	}
	d.f.Adopt(o.Err())
	old := readFormat(d.f, "output_format")
	switch {
	case format.Kind == llm.FormatText:
		format = old
	case old.Kind != llm.FormatText:
		d.note("output_format", "dropped", "")
	}
	d.req.Format = format
}

func readFormat(f *dialect.Fields, name string) llm.Format {
	if !f.Has(name) {
		return llm.Format{}
	}
	o := f.Object(name)
	defer func() { f.Adopt(o.Err()) }()
	if o.String("type") != "json_schema" {
		o.Fail("type", "must be json_schema")
	}
	schema := o.Take("schema")
	if dialect.Kind(schema) != '{' {
		o.Fail("schema", "must be a JSON schema object")
	}
	return llm.Format{Kind: llm.FormatSchema, Name: o.String("name"), Schema: schema}
}
