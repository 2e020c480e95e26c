package dialect

import (
	"slices"

	"mindrouter/internal/llm"
)

// ThinkingPlan is what a model is told about its thinking, whatever the backend calls it.
type ThinkingPlan struct {
	Switch *bool      // for models with a switch
	Effort llm.Effort // for models with an effort; empty leaves the default
	Off    bool       // for models with a ladder that includes off
	Budget *int       // tokens, as asked
	Hide   bool       // thinking that arrives all the same is kept out of the answer
	Notes  []llm.Note
}

// efforts is the ladder from least to most.
var efforts = []llm.Effort{llm.EffortMinimal, llm.EffortLow, llm.EffortMedium, llm.EffortHigh, llm.EffortXHigh, llm.EffortMax}

// PlanThinking translates what the client asks of the model's reasoning for model m. The ladder lists the efforts that
// the backend accepts from a model of ProfileLevels, least first; nil means low, medium and high, which are also all
// that a model of ProfileEffort knows. Notes name the field as dialect origin calls it.
func PlanThinking(t llm.Thinking, m llm.Model, origin llm.Dialect, ladder []llm.Effort) ThinkingPlan {
	if ladder == nil {
		ladder = efforts[1:4]
	}
	p := ThinkingPlan{Hide: t.Hidden || t.Mode == llm.ThinkingOff, Budget: t.Budget}
	if t == (llm.Thinking{Hidden: t.Hidden}) {
		return p
	}
	p.request(t, Profile(m), ladder, thinkingField(origin))
	return p
}

// Profile returns the thinking profile of m; if it is not configured it follows from the capabilities.
func Profile(m llm.Model) llm.ThinkingProfile {
	if m.Thinking != "" {
		return m.Thinking
	}
	if m.Can(llm.CapThinking) {
		return llm.ProfileToggle
	}
	return llm.ProfileNone
}

func (p *ThinkingPlan) request(t llm.Thinking, profile llm.ThinkingProfile, ladder []llm.Effort, field string) {
	off := t.Mode == llm.ThinkingOff
	effort := t.Effort
	if effort == llm.EffortUnset && t.Budget != nil {
		effort = effortOfBudget(*t.Budget)
	}
	note := func(what, detail string) {
		p.Notes = append(p.Notes, llm.Note{Field: field, What: what, Detail: detail})
	}
	switch profile {
	case llm.ProfileToggle:
		on := !off
		p.Switch = &on
		if on && t.Effort != llm.EffortUnset {
			note("clamped", "on")
		}
	case llm.ProfileEffort:
		if off {
			effort = llm.EffortLow
		}
		p.Effort = clampEffort(effort, efforts[1:4])
		if off || (t.Effort != llm.EffortUnset && p.Effort != t.Effort) {
			note("clamped", string(p.Effort))
		}
	case llm.ProfileLevels:
		if off {
			p.Off = true
			return
		}
		p.Effort = clampEffort(effort, ladder)
		if t.Effort != llm.EffortUnset && p.Effort != t.Effort {
			note("clamped", string(p.Effort))
		}
	case llm.ProfileAlways:
		if off {
			note("clamped", "hidden")
		} else if t.Effort != llm.EffortUnset {
			note("dropped", "")
		}
	default:
		if !off {
			note("dropped", "")
		}
	}
}

// clampEffort returns the step of ladder that is nearest to e from below, or its lowest.
func clampEffort(e llm.Effort, ladder []llm.Effort) llm.Effort {
	if e == llm.EffortUnset {
		return e
	}
	best := ladder[0]
	for _, step := range ladder {
		if slices.Index(efforts, step) <= slices.Index(efforts, e) {
			best = step
		}
	}
	return best
}

// effortOfBudget says which effort a budget of tokens stands for where a model knows only efforts.
func effortOfBudget(tokens int) llm.Effort {
	switch {
	case tokens <= 2048:
		return llm.EffortLow
	case tokens <= 8192:
		return llm.EffortMedium
	case tokens <= 24576:
		return llm.EffortHigh
	default:
		return llm.EffortMax
	}
}

func thinkingField(origin llm.Dialect) string {
	switch origin {
	case llm.DialectAnthropic:
		return "thinking"
	case llm.DialectOllama:
		return "think"
	default:
		return "reasoning_effort"
	}
}
