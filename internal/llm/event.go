package llm

import (
	"encoding/json"
	"iter"
	"time"
)

// Stream is an answer as it arrives. The error is the second value of an iteration; after an error nothing follows.
// A stream that ends without error is complete. Whoever stops iterating early ends the upstream call.
// A Stream can be consumed once.
type Stream = iter.Seq2[Event, error]

// EventKind is the kind of an [Event].
type EventKind string

// Event kinds, in the order in which they may appear: one Start; then blocks, each Start, Deltas, Stop; a Stop per
// choice; Usage whenever it is known (cumulative; a later one replaces an earlier one).
const (
	EventStart      EventKind = "start"
	EventBlockStart EventKind = "block_start"
	EventDelta      EventKind = "delta"
	EventBlockStop  EventKind = "block_stop"
	EventUsage      EventKind = "usage"
	EventStop       EventKind = "stop"
	// EventKeepAlive says that the backend is silent but alive. It may appear anywhere and means nothing.
	EventKeepAlive EventKind = "keep_alive"
)

// Event is one step of a streamed answer.
type Event struct {
	Kind   EventKind
	Choice int // which of N answers
	Index  int // which block of the choice; dense from 0

	Block    BlockKind // BlockStart, Delta, BlockStop: kind of the block
	Text     string    // Delta: text; for a tool call the next bytes of its JSON arguments
	ToolCall *ToolCall // BlockStart of a tool call: id and name
	// Signature closes a thinking block (BlockStop).
	Signature string
	// Logprobs of a Delta is a JSON array of tokens in OpenAI's form (token, logprob, bytes, top_logprobs). A delta may
	// carry it with an empty text: the tokens then had none of their own.
	Logprobs json.RawMessage

	StopReason   StopReason // Stop
	StopSequence string     // Stop: the sequence that matched, if known

	Usage *Usage // Usage; also Start, if the count of the prompt is known by then
}

// Semantic reports whether the event carries a part of the answer. The first semantic event commits the request to
// its backend: there is no retry after it.
func (e Event) Semantic() bool {
	switch e.Kind {
	case EventBlockStart, EventDelta, EventBlockStop, EventStop:
		return true
	default:
		return false
	}
}

// StopReason says why an answer ended.
type StopReason string

// Stop reasons.
const (
	StopEnd         StopReason = "end"          // the model was done
	StopSequence    StopReason = "stop"         // a stop sequence matched
	StopToolUse     StopReason = "tool_use"     // the model waits for tool results
	StopMaxTokens   StopReason = "max_tokens"   // the bound of the request was reached
	StopContextFull StopReason = "context_full" // the model's context was full
	StopRefusal     StopReason = "refusal"      // a filter or the model refused
)

// Usage counts tokens. Input includes CachedInput; Output includes Reasoning.
type Usage struct {
	Input       int
	CachedInput int
	Output      int
	Reasoning   int
	// Estimated says that the backend did not report and the counts are ours.
	Estimated bool
}

// Total is Input plus Output.
func (u Usage) Total() int { return u.Input + u.Output }

// Response is a whole answer.
type Response struct {
	ID      string
	Model   string
	Created time.Time
	Choices []Choice
	Usage   Usage
}

// Choice is one of the answers of a [Response].
type Choice struct {
	Blocks       []Block
	StopReason   StopReason
	StopSequence string
	Logprobs     []json.RawMessage // arrays of tokens, as the deltas brought them
}

// Text returns the text blocks of the choice, joined.
func (c Choice) Text() string { return Message{Blocks: c.Blocks}.Text() }

// ToolCalls returns the tool calls of the choice in order.
func (c Choice) ToolCalls() []ToolCall {
	var calls []ToolCall
	for _, b := range c.Blocks {
		if b.Kind == BlockToolCall && b.ToolCall != nil {
			calls = append(calls, *b.ToolCall)
		}
	}
	return calls
}
