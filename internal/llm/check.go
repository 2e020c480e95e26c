package llm

import "fmt"

// Checker verifies the grammar of a [Stream], event by event. The zero value is ready.
//
// The grammar: exactly one Start, first (keep-alives excepted). Per choice, block indexes are dense from 0, blocks do
// not overlap, every delta and stop belongs to the open block and repeats its kind, a tool call names its tool when it
// starts, Stop comes once, after the last block. Usage never shrinks. The stream ends after a Stop of every choice.
type Checker struct {
	started bool
	choices map[int]*choiceState
	usage   Usage
}

type choiceState struct {
	next    int
	open    bool
	kind    BlockKind
	stopped bool
}

// Add checks the next event. Errors wrap [ErrGrammar].
func (c *Checker) Add(ev Event) error {
	if ev.Kind == EventKeepAlive {
		return nil
	}
	if (ev.Kind == EventStart) == c.started {
		return broken("%s while started is %t", ev.Kind, c.started)
	}
	c.started = true
	if ev.Usage != nil {
		if ev.Usage.Output < c.usage.Output {
			return broken("output usage shrinks from %d to %d", c.usage.Output, ev.Usage.Output)
		}
		c.usage = *ev.Usage
	}
	switch ev.Kind {
	case EventStart, EventUsage:
		return nil
	}
	if c.choices == nil {
		c.choices = map[int]*choiceState{}
	}
	st := c.choices[ev.Choice]
	if st == nil {
		st = &choiceState{}
		c.choices[ev.Choice] = st
	}
	return st.add(ev)
}

// End checks that the stream may end here.
func (c *Checker) End() error {
	if len(c.choices) == 0 {
		return broken("no choice")
	}
	for i, st := range c.choices {
		if !st.stopped {
			return broken("choice %d ends without stop", i)
		}
	}
	return nil
}

func (s *choiceState) add(ev Event) error {
	if s.stopped {
		return broken("%s after stop", ev.Kind)
	}
	switch ev.Kind {
	case EventBlockStart:
		if s.open {
			return broken("block %d starts while another is open", ev.Index)
		}
		if ev.Index != s.next {
			return broken("block %d starts, want %d", ev.Index, s.next)
		}
		if ev.Block == BlockToolCall && (ev.ToolCall == nil || ev.ToolCall.Name == "" || ev.ToolCall.ID == "") {
			return broken("tool call %d starts without id or name", ev.Index)
		}
		s.open, s.kind, s.next = true, ev.Block, s.next+1
	case EventDelta, EventBlockStop:
		if !s.open || ev.Index != s.next-1 || ev.Block != s.kind {
			return broken("%s of %s block %d, open is %t %s block %d", ev.Kind, ev.Block, ev.Index, s.open, s.kind, s.next-1)
		}
		if ev.Kind == EventBlockStop {
			s.open = false
		}
	case EventStop:
		if s.open {
			return broken("stop while block %d is open", s.next-1)
		}
		if ev.StopReason == "" {
			return broken("stop without reason")
		}
		s.stopped = true
	default:
		return broken("unknown kind %q", ev.Kind)
	}
	return nil
}

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrGrammar, fmt.Sprintf(format, args...))
}

// Check passes s through and turns a break of the grammar into an error.
func Check(s Stream) Stream {
	return func(yield func(Event, error) bool) {
		var c Checker
		for ev, err := range s {
			if err == nil {
				err = c.Add(ev)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
		if err := c.End(); err != nil {
			yield(Event{}, err)
		}
	}
}
