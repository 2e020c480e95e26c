package llm

import (
	"errors"
	"strings"
)

// Collect consumes s and builds the whole answer. On an error it returns what had arrived together with the error, so
// that the part that was delivered can be recorded and billed.
func Collect(s Stream) (*Response, error) {
	var a Accumulator
	for ev, err := range s {
		if err != nil {
			return a.Response(), err
		}
		a.Add(ev)
	}
	return a.Response(), nil
}

// Accumulator builds a [Response] from events. The zero value is ready. Because streams and whole answers are built
// by the same code, they agree by construction.
type Accumulator struct {
	resp     Response
	text     []*strings.Builder // of the last block of each choice; a Builder shares what it built without copying
	finished bool
}

// Add takes the next event. Events must obey the grammar of [Check]; others are ignored.
func (a *Accumulator) Add(ev Event) {
	if ev.Usage != nil {
		a.resp.Usage = *ev.Usage
	}
	switch ev.Kind {
	case EventBlockStart:
		c := a.choice(ev.Choice)
		b := Block{Kind: ev.Block}
		if ev.ToolCall != nil {
			call := *ev.ToolCall
			call.Arguments = nil
			b.ToolCall = &call
		}
		c.Blocks = append(c.Blocks, b)
		a.text[ev.Choice] = new(strings.Builder)
	case EventDelta:
		c := a.choice(ev.Choice)
		if len(c.Blocks) == 0 {
			return
		}
		b := &c.Blocks[len(c.Blocks)-1]
		if b.ToolCall != nil {
			b.ToolCall.Arguments = append(b.ToolCall.Arguments, ev.Text...)
		} else {
			text := a.text[ev.Choice]
			text.WriteString(ev.Text)
			b.Text = text.String()
		}
		if ev.Logprobs != nil {
			c.Logprobs = append(c.Logprobs, ev.Logprobs)
		}
	case EventBlockStop:
		c := a.choice(ev.Choice)
		if len(c.Blocks) > 0 && ev.Signature != "" {
			c.Blocks[len(c.Blocks)-1].Signature = ev.Signature
		}
	case EventStop:
		c := a.choice(ev.Choice)
		c.StopReason, c.StopSequence = ev.StopReason, ev.StopSequence
		a.finished = true
	}
}

// Finished reports whether a Stop event was seen.
func (a *Accumulator) Finished() bool { return a.finished }

// Response returns what has arrived so far. It is valid until the next Add.
func (a *Accumulator) Response() *Response {
	r := a.resp
	return &r
}

func (a *Accumulator) choice(i int) *Choice {
	for len(a.resp.Choices) <= i {
		a.resp.Choices = append(a.resp.Choices, Choice{})
		a.text = append(a.text, nil)
	}
	return &a.resp.Choices[i]
}

// Events returns r as a stream, the inverse of [Collect]. The id, model and time of an answer are no events and stay
// behind; so do the log probabilities of a choice without blocks.
func Events(r *Response) Stream {
	return func(yield func(Event, error) bool) {
		if !yield(Event{Kind: EventStart}, nil) {
			return
		}
		for ci, c := range r.Choices {
			if !yieldChoice(ci, c, yield) {
				return
			}
		}
		u := r.Usage
		yield(Event{Kind: EventUsage, Usage: &u}, nil)
	}
}

func yieldChoice(ci int, c Choice, yield func(Event, error) bool) bool {
	logprobs := c.Logprobs
	for i, b := range c.Blocks {
		start := Event{Kind: EventBlockStart, Choice: ci, Index: i, Block: b.Kind}
		text := b.Text
		if b.ToolCall != nil {
			start.ToolCall = &ToolCall{ID: b.ToolCall.ID, Name: b.ToolCall.Name}
			text = string(b.ToolCall.Arguments)
		}
		if !yield(start, nil) {
			return false
		}
		if text != "" && !yield(Event{Kind: EventDelta, Choice: ci, Index: i, Block: b.Kind, Text: text}, nil) {
			return false
		}
		for ; len(logprobs) > 0; logprobs = logprobs[1:] {
			if !yield(Event{Kind: EventDelta, Choice: ci, Index: i, Block: b.Kind, Logprobs: logprobs[0]}, nil) {
				return false
			}
		}
		if !yield(Event{Kind: EventBlockStop, Choice: ci, Index: i, Block: b.Kind, Signature: b.Signature}, nil) {
			return false
		}
	}
	return yield(Event{Kind: EventStop, Choice: ci, StopReason: c.StopReason, StopSequence: c.StopSequence}, nil)
}

// Failed returns a stream that yields only err.
func Failed(err error) Stream {
	return func(yield func(Event, error) bool) { yield(Event{}, err) }
}

// ErrGrammar is wrapped by every error that [Check] reports.
var ErrGrammar = errors.New("event stream breaks the grammar")
