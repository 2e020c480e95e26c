package simbackend

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// finishReason is why an answer ended.
type finishReason string

const (
	finishStop   finishReason = "stop"
	finishLength finishReason = "length"
	finishCalls  finishReason = "tool_calls"
)

// script is an answer, complete before its first token is sent.
type script struct {
	steps  []step
	calls  []call
	finish finishReason
	stop   string // the stop string that ended it
}

// step is one token of an answer.
type step struct {
	kind stepKind
	text string
	call int // which call, for the kinds that belong to one
}

type stepKind int

const (
	stepThink stepKind = iota
	stepText
	stepCallOpen // the name of a call; text is empty
	stepCallArgs // a fragment of its arguments
)

// compose decides the answer: it depends on the seed, the index of the choice and the job alone. room is how many tokens
// fit the context after the prompt.
func compose(seed uint64, index int, j *job, room int) script {
	w := newWriter(seed, index, j)
	var s script
	if j.model.Can(CapThinking) && j.think {
		s.add(stepThink, w.thought())
	}
	if calls := markedCalls(j); len(calls) > 0 {
		for _, c := range calls {
			s.addCall(c)
		}
		s.finish = finishCalls
	} else if names := wantedTools(j); len(names) > 0 {
		for _, name := range names {
			s.addCall(call{name: name, args: w.arguments(j, name)})
		}
		s.finish = finishCalls
	} else {
		s.addText(j, w.answer())
	}
	s.limit(j, room)
	return s
}

func (s *script) add(kind stepKind, text string) {
	for p := range pieces(text) {
		s.steps = append(s.steps, step{kind: kind, text: p})
	}
}

// addText adds the answer, ended at the first stop string in it.
func (s *script) addText(j *job, text string) {
	s.finish = finishStop
	at := -1
	for _, stop := range j.stops {
		if i := strings.Index(text, stop); stop != "" && i >= 0 && (at < 0 || i < at) {
			at, s.stop = i, stop
		}
	}
	if at >= 0 {
		if j.includeStop {
			at += len(s.stop)
		}
		text = text[:at]
	}
	s.add(stepText, text)
}

// addCall adds a call: a step for its name, then its arguments in fragments of a few bytes. The
// arguments are ASCII; every escape in them is split after its backslash.
func (s *script) addCall(c call) {
	n := len(s.calls)
	s.calls = append(s.calls, c)
	s.steps = append(s.steps, step{kind: stepCallOpen, call: n})
	sizes := [...]int{1, 4, 2, 7, 3, 5}
	for i, rest := 0, c.args; rest != ""; i++ {
		size := min(sizes[i%len(sizes)], len(rest))
		if escape := strings.IndexByte(rest[:size], '\\'); escape >= 0 {
			size = escape + 1
		}
		s.steps = append(s.steps, step{kind: stepCallArgs, call: n, text: rest[:size]})
		rest = rest[size:]
	}
}

// limit applies the demands on the length. Filling only makes sense for text.
func (s *script) limit(j *job, room int) {
	most := max(room, 1)
	if j.maxTokens > 0 {
		most = min(most, j.maxTokens)
	}
	least := j.minTokens
	if j.ignoreEOS {
		least = most
	}
	if s.finish != finishCalls {
		for i := 0; len(s.steps) < min(least, most); i++ {
			s.steps = append(s.steps, step{kind: stepText, text: " " + fillers[i%len(fillers)]})
		}
	}
	if len(s.steps) > most || (j.ignoreEOS && len(s.steps) == most) {
		s.steps = s.steps[:min(most, len(s.steps))]
		s.finish, s.stop = finishLength, ""
	}
}

// markedCalls returns the calls that marks in the last user text demand, of tools that are offered.
func markedCalls(j *job) []call {
	if j.choice == toolNone || j.last().role != "user" {
		return nil
	}
	var calls []call
	for _, m := range markCall.FindAllStringSubmatch(j.last().text, -1) {
		if json.Valid([]byte(m[2])) && slices.ContainsFunc(j.tools, func(t tool) bool { return t.name == m[1] }) {
			calls = append(calls, call{name: m[1], args: asciiJSON([]byte(m[2]))})
		}
	}
	return calls
}

// wantedTools returns the names of the tools that the answer calls, in order.
func wantedTools(j *job) []string {
	if len(j.tools) == 0 || j.choice == toolNone {
		return nil
	}
	if j.choice == toolNamed {
		return []string{j.only}
	}
	var names []string
	if j.last().role == "user" || j.choice == toolRequired {
		names = mentioned(j)
	}
	if len(names) == 0 && j.choice == toolRequired {
		names = []string{j.tools[0].name}
	}
	if !j.parallel && len(names) > 1 {
		names = names[:1]
	}
	return names
}

// mentioned returns the tools whose names the last user text contains as whole words, in the order of the text; none if
// the text says what to answer.
func mentioned(j *job) []string {
	if markSay.MatchString(j.lastUser().text) {
		return nil
	}
	text := withoutMarks(j.lastUser().text)
	at := map[string]int{}
	var names []string
	for _, t := range j.tools {
		if i := wordIndex(text, t.name); i >= 0 && t.name != "" {
			if _, ok := at[t.name]; !ok {
				names = append(names, t.name)
			}
			at[t.name] = i
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return at[a] - at[b] })
	return names
}

func wordIndex(text, word string) int {
	inWord := func(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 || word == "" {
			return -1
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		if !inWord(before) && !inWord(after) {
			return i
		}
		from = i + len(word)
	}
}

// arguments makes the arguments of a call from the schema of its tool. Text outside ASCII is escaped, as Python does.
func (w *writer) arguments(j *job, name string) string {
	for _, t := range j.tools {
		if t.name == name {
			return asciiJSON(w.fill(t.schema))
		}
	}
	return "{}"
}

// asciiJSON escapes everything outside ASCII in JSON text.
func asciiJSON(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16Units(r) {
			const digits = "0123456789abcdef"
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(digits[u>>shift&0xf])
			}
		}
	}
	return b.String()
}
