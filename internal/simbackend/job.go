package simbackend

import (
	"encoding/json"
	"strings"
)

// job is a request for text in the words of no dialect.
type job struct {
	model *Model
	turns []turn
	tools []tool

	choice   toolMode
	only     string // the tool of toolNamed
	parallel bool   // more than one call is allowed

	format format
	think  bool

	n           int
	maxTokens   int // 0: as many as fit
	minTokens   int
	ignoreEOS   bool
	stops       []string
	includeStop bool

	cacheSalt string
	raw       bool // the prompt is the text of the only turn, without a template

	tokens int    // of the prompt
	room   int    // how many tokens fit after it
	demand demand // what the engine needs to know
}

type turn struct {
	role, text, thinking string
	images               []picture
	toolName             string
	callID               string
	calls                []call
}

// call is a tool call of the history or of the answer. args is JSON text.
type call struct {
	id, name, args string
}

type tool struct {
	name   string
	schema json.RawMessage
	text   string // how the prompt shows it
}

type toolMode int

const (
	toolAuto toolMode = iota
	toolNone
	toolRequired
	toolNamed
)

// format is a demand on the shape of the answer.
type format struct {
	kind   formatKind
	schema json.RawMessage
	choice []string
}

type formatKind int

const (
	formatText formatKind = iota
	formatObject
	formatSchema
	formatChoice
)

// prompt renders the conversation as the model would read it.
func (j *job) prompt() string {
	if j.raw {
		return j.turns[0].text
	}
	var b strings.Builder
	if len(j.tools) > 0 && j.choice != toolNone {
		b.WriteString("<|tools|>")
		for _, t := range j.tools {
			b.WriteString("\n")
			b.WriteString(t.text)
		}
		b.WriteString("\n")
	}
	for _, t := range j.turns {
		b.WriteString("<|" + t.role + "|>\n")
		if t.thinking != "" {
			b.WriteString("<think>" + t.thinking + "</think>\n")
		}
		b.WriteString(t.text)
		for _, c := range t.calls {
			b.WriteString("\n<|call|>" + c.name + c.args)
		}
		b.WriteString("\n")
	}
	b.WriteString("<|assistant|>\n")
	return b.String()
}

// measure counts the tokens of the prompt, images included, against a context of that many tokens.
func (j *job) measure(context int) {
	j.tokens = countTokens(j.prompt())
	for _, t := range j.turns {
		j.tokens += imageTokens * len(t.images)
	}
	j.room = context - j.tokens
}

// lastUser returns the last user turn, or an empty turn.
func (j *job) lastUser() turn {
	for i := len(j.turns) - 1; i >= 0; i-- {
		if j.turns[i].role == "user" {
			return j.turns[i]
		}
	}
	return turn{}
}

// last returns the last turn, or an empty turn.
func (j *job) last() turn {
	if len(j.turns) == 0 {
		return turn{}
	}
	return j.turns[len(j.turns)-1]
}
