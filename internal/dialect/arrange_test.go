package dialect_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// conversation reads "user A|system S|...", one turn per field.
func conversation(s string) []llm.Message {
	var msgs []llm.Message
	for _, turn := range strings.Split(s, "|") {
		role, text, _ := strings.Cut(turn, " ")
		msgs = append(msgs, llm.Message{Role: llm.Role(role), Blocks: []llm.Block{llm.TextBlock(text)}})
	}
	return msgs
}

func written(msgs []llm.Message) string {
	var turns []string
	for _, m := range msgs {
		turns = append(turns, fmt.Sprintf("%s %s", m.Role, m.Text()))
	}
	return strings.NewReplacer("<system-reminder>\n", "<", "\n</system-reminder>", ">").Replace(strings.Join(turns, "|"))
}

func TestArrange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, late, developer, want string }{
		"nothing to do":               {"system S|user A", "", "", "system S|user A"},
		"developer becomes system":    {"developer D|user A", "", "", "system D|user A"},
		"developer is kept":           {"developer D|user A", "", "developer", "developer D|user A"},
		"leading ones merge":          {"system S|developer D|user A", "", "", "system S\n\nD|user A"},
		"leading ones of two kinds":   {"system S|developer D|user A", "", "developer", "system S|developer D|user A"},
		"late after a user":           {"user A|system S", "", "", "user A\n\n<S>"},
		"late before a user":          {"user A|assistant B|system S|user C", "", "", "user A|assistant B|user <S>\n\nC"},
		"late between tool and model": {"user A|tool R|system S|assistant B", "", "", "user A|tool R|user <S>|assistant B"},
		"late and wrapped already":    {"user A|system <system-reminder>\nS\n</system-reminder>\n", "", "", "user A\n\n<S>"},
		"late at the end":             {"user A|assistant B|system S", "", "", "user A|assistant B|user <S>"},
		"several late ones":           {"user A|assistant B|system S|system T|user C", "", "", "user A|assistant B|user <S>\n<T>\n\nC"},
		"hoisted":                     {"system S|user A|system T|user B", "hoist", "", "system S\n\nT|user A|user B"},
		"inline":                      {"user A|developer T|user B", "inline", "", "user A|system T|user B"},
	} {
		in := conversation(c.in)
		before := fmt.Sprint(in)
		got, notes := dialect.Arrange(in, llm.Model{SystemLate: c.late, DeveloperRole: c.developer})
		if written(got) != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, written(got), c.want)
		}
		if fmt.Sprint(in) != before {
			t.Errorf("%s: the request was changed", name)
		}
		if folded := strings.Contains(c.want, "<"); folded != (len(notes) == 1 && notes[0].What == "folded") && c.late == "" {
			t.Errorf("%s: notes %v", name, notes)
		}
	}
}

func TestFoldingKeepsThePrefixOfTheLastTurn(t *testing.T) {
	t.Parallel()
	history := conversation("system P|user A|system S|assistant B|tool R|system T|assistant C|user D|system U")
	for n := 2; n < len(history); n++ {
		short, _ := dialect.Arrange(history[:n], llm.Model{})
		long, _ := dialect.Arrange(history, llm.Model{})
		for i, m := range short[:len(short)-1] {
			if !reflect.DeepEqual(m, long[i]) {
				t.Errorf("with %d of %d messages turn %d is %q, later %q", n, len(history), i, m.Text(), long[i].Text())
			}
		}
	}
}

func TestPlanThinking(t *testing.T) {
	t.Parallel()
	budget := 4096
	for name, c := range map[string]struct {
		ask     llm.Thinking
		profile llm.ThinkingProfile
		want    string
	}{
		"nothing asked":             {llm.Thinking{}, llm.ProfileToggle, ""},
		"toggle on":                 {llm.Thinking{Mode: llm.ThinkingOn}, llm.ProfileToggle, "switch:true"},
		"toggle off":                {llm.Thinking{Mode: llm.ThinkingOff}, llm.ProfileToggle, "switch:false hide"},
		"toggle with budget":        {llm.Thinking{Mode: llm.ThinkingOn, Budget: &budget}, llm.ProfileToggle, "switch:true budget:4096"},
		"toggle with effort":        {llm.Thinking{Mode: llm.ThinkingOn, Effort: llm.EffortHigh}, llm.ProfileToggle, "switch:true reasoning_effort=clamped:on"},
		"effort":                    {llm.Thinking{Mode: llm.ThinkingOn, Effort: llm.EffortMedium}, llm.ProfileEffort, "effort:medium"},
		"effort too high":           {llm.Thinking{Mode: llm.ThinkingAdaptive, Effort: llm.EffortXHigh}, llm.ProfileEffort, "effort:high reasoning_effort=clamped:high"},
		"effort too low":            {llm.Thinking{Mode: llm.ThinkingOn, Effort: llm.EffortMinimal}, llm.ProfileEffort, "effort:low reasoning_effort=clamped:low"},
		"effort cannot be off":      {llm.Thinking{Mode: llm.ThinkingOff}, llm.ProfileEffort, "effort:low hide reasoning_effort=clamped:low"},
		"effort from budget":        {llm.Thinking{Mode: llm.ThinkingOn, Budget: &budget}, llm.ProfileEffort, "effort:medium budget:4096"},
		"levels off":                {llm.Thinking{Mode: llm.ThinkingOff}, llm.ProfileLevels, "off hide"},
		"always cannot be off":      {llm.Thinking{Mode: llm.ThinkingOff}, llm.ProfileAlways, "hide reasoning_effort=clamped:hidden"},
		"plain model":               {llm.Thinking{Mode: llm.ThinkingOn}, llm.ProfileNone, "reasoning_effort=dropped"},
		"plain model told not to":   {llm.Thinking{Mode: llm.ThinkingOff}, llm.ProfileNone, "hide"},
		"hidden on its own is fine": {llm.Thinking{Hidden: true}, llm.ProfileToggle, "hide"},
	} {
		p := dialect.PlanThinking(c.ask, llm.Model{Thinking: c.profile}, llm.DialectOpenAI, nil)
		var got []string
		if p.Switch != nil {
			got = append(got, fmt.Sprintf("switch:%t", *p.Switch))
		}
		if p.Effort != "" {
			got = append(got, "effort:"+string(p.Effort))
		}
		if p.Off {
			got = append(got, "off")
		}
		if p.Budget != nil {
			got = append(got, fmt.Sprintf("budget:%d", *p.Budget))
		}
		if p.Hide {
			got = append(got, "hide")
		}
		for _, n := range p.Notes {
			got = append(got, n.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, " "), c.want)
		}
	}
}
