package openai

import (
	"encoding/json"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// thinking reads every name that clients of this path use for the control of reasoning. A later reader overrides an
// earlier one: arguments of the chat template are closest to the model and win.
func (d *decoder) thinking() {
	t := &d.req.Thinking
	if raw := d.f.Take("reasoning_effort"); raw != nil {
		d.effort("reasoning_effort", raw)
	}
	d.reasoningObject()
	if raw := d.f.Take("think"); raw != nil {
		d.switchOrEffort("think", raw)
	}
	d.thinkingObject(d.f.Take("thinking"))
	d.onOff(d.f.Bool("enable_thinking"))
	if budget := d.f.Int("thinking_token_budget", 0, maxTokens); budget != nil {
		t.Budget = budget
	}
	if show := d.f.Bool("include_reasoning"); show != nil && !*show {
		t.Hidden = true
	}
	d.templateArguments(d.f.Take("chat_template_kwargs"))
}

func (d *decoder) onOff(on *bool) {
	switch {
	case on == nil:
	case *on:
		d.req.Thinking.Mode = llm.ThinkingOn
	default:
		d.req.Thinking.Mode = llm.ThinkingOff
	}
}

func (d *decoder) effort(field string, raw json.RawMessage) {
	t := &d.req.Thinking
	word, _ := dialect.Unquote(raw)
	switch word {
	case "none":
		t.Mode = llm.ThinkingOff
	case "minimal", "low", "medium", "high", "xhigh", "max":
		t.Mode, t.Effort = llm.ThinkingOn, llm.Effort(word)
	case "ultra": // some clients know a step above the top
		t.Mode, t.Effort = llm.ThinkingOn, llm.EffortMax
	default:
		d.f.Fail(field, "must be none, minimal, low, medium, high, xhigh or max")
	}
}

func (d *decoder) switchOrEffort(field string, raw json.RawMessage) {
	if on, ok := dialect.Bool(raw); ok {
		d.onOff(&on)
		return
	}
	d.effort(field, raw)
}

// reasoningObject reads {effort, enabled, exclude, max_tokens}, the form of the Responses API and of OpenRouter.
func (d *decoder) reasoningObject() {
	o := d.f.Object("reasoning")
	if raw := o.Take("effort"); raw != nil {
		d.effort("reasoning.effort", raw)
	}
	d.onOff(o.Bool("enabled"))
	if hide := o.Bool("exclude"); hide != nil && *hide {
		d.req.Thinking.Hidden = true
	}
	if budget := o.Int("max_tokens", 0, maxTokens); budget != nil {
		d.req.Thinking.Mode, d.req.Thinking.Budget = llm.ThinkingOn, budget
	}
	d.f.Adopt(o.Err())
}

// thinkingObject reads Anthropic's form, or a plain switch.
func (d *decoder) thinkingObject(raw json.RawMessage) {
	if on, ok := dialect.Bool(raw); ok {
		d.onOff(&on)
		return
	}
	o := dialect.ReadFields(raw, "thinking")
	switch kind := o.String("type"); kind {
	case "":
	case "enabled":
		d.req.Thinking.Mode = llm.ThinkingOn
		d.req.Thinking.Budget = o.Int("budget_tokens", 0, maxTokens)
	case "adaptive":
		d.req.Thinking.Mode = llm.ThinkingAdaptive
	case "disabled":
		d.req.Thinking.Mode = llm.ThinkingOff
	default:
		o.Fail("type", "must be enabled, adaptive or disabled")
	}
	d.f.Adopt(o.Err())
}

// templateArguments takes the switches out of chat_template_kwargs; the rest goes to a backend of this dialect.
func (d *decoder) templateArguments(raw json.RawMessage) {
	o := dialect.ReadFields(raw, "chat_template_kwargs")
	for _, name := range []string{"thinking", "enable_thinking"} {
		d.onOff(o.Bool(name))
	}
	d.f.Adopt(o.Err())
	rest := o.Rest()
	if len(rest) == 0 {
		return
	}
	kept := []byte{'{'}
	for i, name := range rest {
		if i > 0 {
			kept = append(kept, ',')
		}
		kept = dialect.AppendString(kept, name)
		kept = append(kept, ':')
		kept = append(kept, o.Take(name)...)
	}
	d.extra("chat_template_kwargs", append(kept, '}'))
}
