package dialect

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"mindrouter/internal/llm"
)

// MaxDelta is the largest text of one delta event, in bytes. Some clients read lines into small buffers.
const MaxDelta = 64 << 10

// SequencerOptions adjust what a [Sequencer] lets through.
type SequencerOptions struct {
	HideThinking bool // keep thinking out of the answer
	// PromoteThinking turns hidden thinking into text if the answer would otherwise be empty: some models write the
	// answer there although thinking is off.
	PromoteThinking bool
	ThinkTags       bool // the model writes its thinking into the text, between <think> and </think>
	OneToolCall     bool // drop every tool call after the first of a choice
}

// ToolFragment is a part of a tool call as a backend sends it.
type ToolFragment struct {
	Index     int // which call of the choice; negative if the backend did not say
	ID        string
	Name      string
	Arguments string // the next bytes of the arguments
	Whole     bool   // the fragment is a whole call, whatever its index
}

// Sequencer turns the fragments of a backend's stream into events that obey the grammar of llm.Check: dense blocks
// that do not overlap, tool calls that start with id and name.
//
// Each choice is an ordered list of segments, one per block. Only the first unfinished one is open and streams;
// later ones are held until it may end. Text ends as soon as something else arrives; a tool call ends when its
// arguments are a complete JSON value and something else has arrived, or with the choice. Thus fragments of parallel
// calls may interleave, and calls that come one after the other still stream.
//
// Its methods report false when the consumer has stopped or an error was yielded; the decoder then returns. Not safe
// for concurrent use.
type Sequencer struct {
	o       SequencerOptions
	yield   func(llm.Event, error) bool
	choices []*choice
	ids     map[string]bool // of the tool calls so far
	usage   llm.Usage
	started bool
	stopped bool // the consumer does not want more
}

// NewSequencer returns a sequencer that hands its events to yield, which is the body of an llm.Stream.
func NewSequencer(o SequencerOptions, yield func(llm.Event, error) bool) *Sequencer {
	return &Sequencer{o: o, yield: yield}
}

// Start yields the Start event, with the usage that is known by now, unless it was yielded before.
func (s *Sequencer) Start(usage *llm.Usage) bool {
	if s.started {
		return !s.stopped
	}
	s.started = true
	if usage != nil {
		s.usage = *usage
	}
	return s.emit(llm.Event{Kind: llm.EventStart, Usage: usage})
}

// KeepAlive yields a sign of life.
func (s *Sequencer) KeepAlive() bool { return s.emit(llm.Event{Kind: llm.EventKeepAlive}) }

// Fail yields err as the end of the stream.
func (s *Sequencer) Fail(err error) bool {
	if !s.stopped {
		s.stopped = true
		s.yield(llm.Event{}, err)
	}
	return false
}

// Text takes text, thinking or refusal of choice i. Logprobs is a JSON array of token entries, or nil.
func (s *Sequencer) Text(i int, kind llm.BlockKind, text string, logprobs json.RawMessage) bool {
	c := s.choice(i)
	if c.finished || s.stopped || (text == "" && logprobs == nil) {
		return !s.stopped
	}
	if kind == llm.BlockText && s.o.ThinkTags {
		return c.tags.split(text, func(kind llm.BlockKind, part string) bool {
			lp := logprobs
			logprobs = nil
			return s.text(c, kind, part, lp)
		}) && (logprobs == nil || s.text(c, llm.BlockText, "", logprobs))
	}
	return s.text(c, kind, text, logprobs)
}

func (s *Sequencer) text(c *choice, kind llm.BlockKind, text string, logprobs json.RawMessage) bool {
	if kind == llm.BlockThinking && s.o.HideThinking {
		if s.o.PromoteThinking {
			c.hidden.WriteString(text)
		}
		return !s.stopped
	}
	if text == "" {
		// A token without text of its own, such as half a rune or a part of a tool call: it rides on what is open.
		if len(c.segments) == 0 || !c.segments[0].started {
			c.logprobs = JoinArrays(c.logprobs, logprobs)
			return !s.stopped
		}
		open := c.segments[0]
		return s.emit(llm.Event{Kind: llm.EventDelta, Choice: c.index, Index: open.index, Block: open.kind, Logprobs: logprobs})
	}
	c.hasText = c.hasText || kind != llm.BlockThinking
	last := c.last()
	if last == nil || last.kind != kind {
		last = &segment{kind: kind}
		c.segments = append(c.segments, last)
	}
	if c.logprobs != nil {
		logprobs, c.logprobs = JoinArrays(c.logprobs, logprobs), nil
	}
	if last == c.segments[0] && last.started { // the common case: no copy
		return s.delta(c, last, text, logprobs)
	}
	last.pending = append(last.pending, text...)
	last.logprobs = JoinArrays(last.logprobs, logprobs)
	return s.advance(c, false)
}

// Tool takes a fragment of a tool call of choice i.
func (s *Sequencer) Tool(i int, f ToolFragment) bool {
	c := s.choice(i)
	if c.finished || s.stopped {
		return !s.stopped
	}
	call := c.call(f)
	if call == nil {
		call = &segment{kind: llm.BlockToolCall, key: f.Index, dropped: s.o.OneToolCall && len(c.calls) > 0}
		if f.Index < 0 {
			call.key = len(c.calls)
		}
		c.calls = append(c.calls, call)
		if !call.dropped {
			c.segments = append(c.segments, call)
		}
	}
	if call.sent == "" && !call.started {
		call.sent = f.ID
	}
	if call.name == "" {
		call.name = f.Name
	}
	call.extent.add(f.Arguments)
	switch {
	case call.dropped || f.Arguments == "":
	case call.ended:
		if strings.TrimSpace(f.Arguments) != "" {
			return s.Fail(llm.Errorf(llm.CodeUpstream, "the model server continued a tool call after its end"))
		}
	case call.started && call == c.segments[0]:
		return s.delta(c, call, f.Arguments, nil) && s.advance(c, false)
	default:
		call.pending = append(call.pending, f.Arguments...)
	}
	return s.advance(c, false)
}

// Finish ends choice i. The reason becomes tool use if there were tool calls, unless the answer was cut. Finishing
// twice does nothing.
func (s *Sequencer) Finish(i int, reason llm.StopReason, sequence string) bool {
	c := s.choice(i)
	if c.finished || s.stopped {
		return !s.stopped
	}
	if s.o.ThinkTags && !c.tags.flush(func(kind llm.BlockKind, part string) bool { return s.text(c, kind, part, nil) }) {
		return false
	}
	if s.o.PromoteThinking && !c.hasText && len(c.calls) == 0 && c.hidden.Len() > 0 {
		c.segments = append(c.segments, &segment{kind: llm.BlockText, pending: []byte(c.hidden.String())})
	}
	if !s.advance(c, true) {
		return false
	}
	c.finished = true
	if len(c.calls) > 0 && (reason == llm.StopEnd || reason == llm.StopSequence) {
		reason, sequence = llm.StopToolUse, ""
	}
	if len(c.calls) == 0 && reason == llm.StopToolUse {
		reason = llm.StopEnd
	}
	return s.emit(llm.Event{Kind: llm.EventStop, Choice: i, StopReason: reason, StopSequence: sequence})
}

// Usage yields cumulative counts if they changed. Counts that shrink are kept at their highest.
func (s *Sequencer) Usage(u llm.Usage) bool {
	u.Output = max(u.Output, s.usage.Output)
	if u == s.usage {
		return !s.stopped
	}
	s.usage = u
	return s.emit(llm.Event{Kind: llm.EventUsage, Usage: &u})
}

// Complete reports whether there was a choice and every choice has finished.
func (s *Sequencer) Complete() bool {
	for _, c := range s.choices {
		if c != nil && !c.finished {
			return false
		}
	}
	return len(s.choices) > 0
}

// Choices returns the number of choices seen.
func (s *Sequencer) Choices() int { return len(s.choices) }

// Finished reports whether choice i has finished.
func (s *Sequencer) Finished(i int) bool { return s.choice(i).finished }

func (s *Sequencer) emit(ev llm.Event) bool {
	if !s.stopped && !s.yield(ev, nil) {
		s.stopped = true
	}
	return !s.stopped
}

func (s *Sequencer) choice(i int) *choice {
	for len(s.choices) <= i {
		s.choices = append(s.choices, nil)
	}
	if s.choices[i] == nil {
		s.choices[i] = &choice{index: i}
	}
	return s.choices[i]
}

// advance starts, streams and ends segments as far as possible; all of them if final.
func (s *Sequencer) advance(c *choice, final bool) bool {
	for len(c.segments) > 0 {
		seg := c.segments[0]
		if !seg.started && !s.begin(c, seg, final) {
			return !s.stopped
		}
		if len(seg.pending) > 0 || seg.logprobs != nil {
			text := string(seg.pending)
			lp := seg.logprobs
			seg.pending, seg.logprobs = nil, nil
			if !s.delta(c, seg, text, lp) {
				return false
			}
		}
		more := len(c.segments) > 1
		if !final && (!more || (seg.kind == llm.BlockToolCall && !seg.extent.complete())) {
			return true
		}
		seg.ended = true
		c.segments = c.segments[1:]
		if !s.emit(llm.Event{Kind: llm.EventBlockStop, Choice: c.index, Index: seg.index, Block: seg.kind}) {
			return false
		}
	}
	return true
}

// begin yields the start of seg if it can start. A tool call waits for its name, and for its id until the arguments
// begin: servers may send either late. At the end a call without name is the server's fault.
func (s *Sequencer) begin(c *choice, seg *segment, final bool) bool {
	ev := llm.Event{Kind: llm.EventBlockStart, Choice: c.index, Index: c.next, Block: seg.kind}
	if seg.kind == llm.BlockToolCall {
		if seg.name == "" {
			if final {
				s.Fail(llm.Errorf(llm.CodeUpstream, "the model server sent a tool call without a name"))
			}
			return false
		}
		if seg.sent == "" && len(seg.pending) == 0 && !final {
			return false
		}
		id := seg.sent
		if id == "" || s.ids[id] {
			id = NewToolID()
		}
		if s.ids == nil {
			s.ids = map[string]bool{}
		}
		s.ids[id] = true
		ev.ToolCall = &llm.ToolCall{ID: id, Name: seg.name}
	}
	seg.started, seg.index = true, c.next
	c.next++
	return s.emit(ev)
}

// delta yields text in pieces of at most MaxDelta bytes that end at rune borders.
func (s *Sequencer) delta(c *choice, seg *segment, text string, logprobs json.RawMessage) bool {
	for len(text) > MaxDelta {
		cut := MaxDelta
		for cut > MaxDelta-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		ev := llm.Event{Kind: llm.EventDelta, Choice: c.index, Index: seg.index, Block: seg.kind, Text: text[:cut], Logprobs: logprobs}
		if !s.emit(ev) {
			return false
		}
		text, logprobs = text[cut:], nil
	}
	return s.emit(llm.Event{Kind: llm.EventDelta, Choice: c.index, Index: seg.index, Block: seg.kind, Text: text, Logprobs: logprobs})
}

// SequencerFor returns the options that follow from a request and the model that answers it.
func SequencerFor(r *llm.Request, m llm.Model) SequencerOptions {
	return SequencerOptions{
		HideThinking:    r.Thinking.Hidden || r.Thinking.Mode == llm.ThinkingOff,
		PromoteThinking: m.ThinkingPromote && r.Thinking.Mode == llm.ThinkingOff,
		ThinkTags:       m.ThinkingTags,
		OneToolCall:     r.ParallelTools != nil && !*r.ParallelTools,
	}
}

// EstimateTokens guesses how many tokens a text of n bytes has, for servers that do not count.
func EstimateTokens(n int) int { return (n + 3) / 4 }
