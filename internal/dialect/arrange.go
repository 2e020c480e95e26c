package dialect

import (
	"slices"
	"strings"

	"mindrouter/internal/llm"
)

// Arrange fits the roles of a conversation to what the template of model m accepts and returns the messages to send;
// msgs is not changed. What it changes in substance is noted.
//
// Leading system and developer messages become one. A later one follows m.SystemLate. Folding depends only on what
// stands before it and on whether a user turn comes next, so the same history renders to the same prefix in every
// turn and the backend's prefix cache stays valid; hoisting gives that up. A developer message is a system message
// unless the model knows the role.
func Arrange(msgs []llm.Message, m llm.Model) ([]llm.Message, []llm.Note) {
	lead := 0
	for lead < len(msgs) && instructs(msgs[lead].Role) {
		lead++
	}
	late := false
	for _, msg := range msgs[lead:] {
		late = late || instructs(msg.Role)
	}
	if !late && (lead == 0 || (lead == 1 && instructionRole(msgs[0].Role, m) == msgs[0].Role)) {
		return msgs, nil
	}
	a := arranger{model: m}
	for _, msg := range msgs[:lead] {
		a.lead(msg)
	}
	if late && m.SystemLate == "hoist" {
		for _, msg := range msgs[lead:] {
			if instructs(msg.Role) {
				a.lead(msg)
			}
		}
	}
	for i, msg := range msgs[lead:] {
		a.add(msg, userNext(msgs[lead+i+1:]))
	}
	a.flush(nil)
	return a.out, a.notes
}

type arranger struct {
	model llm.Model
	out   []llm.Message
	fold  []string // late instructions that wait for the next user turn
	notes []llm.Note
}

func instructs(r llm.Role) bool { return r == llm.RoleSystem || r == llm.RoleDeveloper }

func instructionRole(r llm.Role, m llm.Model) llm.Role {
	if r == llm.RoleDeveloper && m.DeveloperRole != string(llm.RoleDeveloper) {
		return llm.RoleSystem
	}
	return r
}

// userNext reports whether the first message of rest that is not an instruction is a user turn.
func userNext(rest []llm.Message) bool {
	for _, msg := range rest {
		if !instructs(msg.Role) {
			return msg.Role == llm.RoleUser
		}
	}
	return false
}

// lead adds a leading instruction, merged into the one before it if their roles agree.
func (a *arranger) lead(msg llm.Message) {
	role := instructionRole(msg.Role, a.model)
	text := msg.Text()
	if n := len(a.out); n > 0 && a.out[n-1].Role == role {
		a.out[n-1].Blocks = []llm.Block{llm.TextBlock(joinText(a.out[n-1].Text(), text))}
		return
	}
	a.out = append(a.out, llm.Message{Role: role, Name: msg.Name, Blocks: []llm.Block{llm.TextBlock(text)}})
}

func joinText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

func (a *arranger) add(msg llm.Message, userNext bool) {
	if !instructs(msg.Role) {
		a.flush(&msg)
		a.out = append(a.out, msg)
		return
	}
	switch a.model.SystemLate {
	case "hoist":
		a.note("hoisted")
	case "inline":
		msg.Role = instructionRole(msg.Role, a.model)
		a.out = append(a.out, msg)
	default:
		a.note("folded")
		reminder := asReminder(msg.Text())
		n := len(a.out)
		if len(a.fold) > 0 || n == 0 || a.out[n-1].Role != llm.RoleUser {
			a.fold = append(a.fold, reminder)
			if !userNext {
				a.flush(nil)
			}
			return
		}
		a.out[n-1].Blocks = appendText(a.out[n-1].Blocks, reminder)
	}
}

// asReminder marks an instruction inside a user turn in the way of coding agents, some of which have done so themselves.
func asReminder(text string) string {
	const begin, end = "<system-reminder>", "</system-reminder>"
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, begin) && strings.HasSuffix(trimmed, end) {
		return trimmed
	}
	return begin + "\n" + text + "\n" + end
}

// flush puts waiting instructions in front of the user turn msg, or into a user turn of their own.
func (a *arranger) flush(msg *llm.Message) {
	if len(a.fold) == 0 {
		return
	}
	text := strings.Join(a.fold, "\n")
	a.fold = nil
	if msg != nil && msg.Role == llm.RoleUser {
		msg.Blocks = prependText(msg.Blocks, text)
		return
	}
	a.out = append(a.out, llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{llm.TextBlock(text)}})
}

// appendText returns a copy of blocks with text at the end, in the last block if that is text: a message of one text
// stays one, which is all that some templates know.
func appendText(blocks []llm.Block, text string) []llm.Block {
	blocks = slices.Clone(blocks)
	if n := len(blocks); n > 0 && blocks[n-1].Kind == llm.BlockText {
		blocks[n-1].Text = joinText(blocks[n-1].Text, text)
		return blocks
	}
	return append(blocks, llm.TextBlock(text))
}

// prependText returns a copy of blocks with text at the beginning.
func prependText(blocks []llm.Block, text string) []llm.Block {
	if len(blocks) > 0 && blocks[0].Kind == llm.BlockText {
		blocks = slices.Clone(blocks)
		blocks[0].Text = joinText(text, blocks[0].Text)
		return blocks
	}
	return append([]llm.Block{llm.TextBlock(text)}, blocks...)
}

func (a *arranger) note(what string) {
	for _, n := range a.notes {
		if n.What == what {
			return
		}
	}
	a.notes = append(a.notes, llm.Note{Field: "messages.system", What: what})
}

// AfterLastUser returns the index of the first message after the last user turn. Thinking before it belongs to turns
// that are over; templates do not want it back unless the model always thinks.
func AfterLastUser(msgs []llm.Message) int {
	for i := len(msgs) - 1; i >= 0; i-- {
		if msgs[i].Role == llm.RoleUser {
			return i + 1
		}
	}
	return 0
}
