package simbackend

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// writer makes up the words of one answer.
type writer struct {
	j    *job
	rand *rand.Rand
	user string // the last user text
}

var (
	markTokens = regexp.MustCompile(`\[\[tokens=(\d{1,7})\]\]`)
	markSay    = regexp.MustCompile(`(?s)\[\[say=(.*?)\]\]`)
	markThink  = regexp.MustCompile(`(?s)\[\[think=(.*?)\]\]`)
	markCall   = regexp.MustCompile(`(?s)\[\[call=(\S+) (\{.*?\})\]\]`)
)

// fillers are words of at most maxPiece letters, so that each is one token.
var fillers = [...]string{
	"the", "model", "reads", "every", "word", "of", "a", "prompt", "and", "then", "writes", "one", "token", "after",
	"another", "until", "answer", "is", "long", "enough",
}

var sentences = [...]string{
	"The question can be looked at from more than one side.",
	"A good first step is to write down what is already known.",
	"Most of the work is in choosing the right measure.",
	"Small experiments are cheaper than long arguments.",
	"The usual method works well here, with one exception.",
	"It helps to check the result against a simple case.",
	"Two of the three conditions hold by definition.",
	"The details depend on the size of the data.",
	"In practice, people start with the default and change one thing at a time.",
	"The cost grows with the length of the text.",
}

var thoughts = [...]string{
	"First I look at what is asked.",
	"Then I compare two ways to answer.",
	"The shorter way is enough here.",
	"I should say that this text is simulated.",
}

func newWriter(seed uint64, index int, j *job) *writer {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%d/%s/%s", seed, index, j.model.Name, j.prompt())
	sum := h.Sum64()
	return &writer{j: j, rand: rand.New(rand.NewPCG(sum, seed)), user: j.lastUser().text}
}

// withoutMarks removes the marks that direct the answer.
func withoutMarks(text string) string {
	for _, mark := range []*regexp.Regexp{markSay, markThink, markCall, markTokens} {
		text = mark.ReplaceAllString(text, "")
	}
	return text
}

// answer returns the text of the answer.
func (w *writer) answer() string {
	if m := markSay.FindStringSubmatch(w.user); m != nil {
		return m[1]
	}
	kind := w.j.format.kind
	if !w.j.model.Can(CapJSON) {
		kind = formatText
	}
	switch kind {
	case formatSchema:
		return string(w.fill(w.j.format.schema))
	case formatObject:
		return string(mustJSON(struct {
			Answer string `json:"answer"`
			Model  string `json:"model"`
		}{w.opening(), w.j.model.Name}))
	case formatChoice:
		return w.j.format.choice[w.rand.IntN(len(w.j.format.choice))]
	}
	if m := markTokens.FindStringSubmatch(w.user); m != nil {
		n, _ := strconv.Atoi(m[1])
		return fill(n)
	}
	if last := w.j.last(); last.role == "tool" {
		return w.opening() + " " + quoteResults(w.j.turns)
	}
	if images := w.j.lastUser().images; len(images) > 0 {
		return w.opening() + " " + describe(images)
	}
	return w.prose()
}

// thought returns what a thinking model thinks.
func (w *writer) thought() string {
	if m := markThink.FindStringSubmatch(w.user); m != nil {
		return m[1]
	}
	n := 2 + w.rand.IntN(len(thoughts)-1)
	return "This is a simulated thought. " + strings.Join(thoughts[:n], " ")
}

func (w *writer) opening() string {
	return "This is a simulated answer from " + w.j.model.Name + "."
}

func (w *writer) prose() string {
	out := []string{w.opening()}
	if words := strings.Fields(withoutMarks(w.user)); len(words) > 0 {
		const most = 8
		topic := strings.Join(words[:min(most, len(words))], " ")
		if len(words) > most {
			topic += " ..."
		}
		out = append(out, "You wrote: \""+topic+"\"")
	}
	for _, i := range w.rand.Perm(len(sentences))[:2+w.rand.IntN(3)] {
		out = append(out, sentences[i])
	}
	return strings.Join(out, " ")
}

// quoteResults repeats the results at the end of the conversation.
func quoteResults(turns []turn) string {
	first := len(turns)
	for first > 0 && turns[first-1].role == "tool" {
		first--
	}
	names := map[string]string{}
	for _, t := range turns[:first] {
		for _, c := range t.calls {
			names[c.id] = c.name
		}
	}
	var out []string
	for _, t := range turns[first:] {
		name := t.toolName
		if name == "" {
			name = names[t.callID]
		}
		if name == "" {
			name = "tool"
		}
		out = append(out, fmt.Sprintf("The result of %s was: %s", name, t.text))
	}
	return strings.Join(out, " ")
}

// fill returns a text of exactly n tokens.
func fill(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(fillers[i%len(fillers)])
	}
	return b.String()
}

func utf16Units(r rune) []uint16 { return utf16.AppendRune(nil, r) }
