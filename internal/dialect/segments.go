package dialect

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"mindrouter/internal/llm"
)

// choice is the state of one of the answers.
type choice struct {
	index    int
	segments []*segment // from the open one on
	calls    []*segment // all tool calls of the choice
	next     int        // index of the next block
	logprobs json.RawMessage
	hidden   strings.Builder // thinking that is kept for promotion
	tags     tagSplitter
	hasText  bool
	finished bool
}

// segment is one block, possibly not started yet.
type segment struct {
	kind     llm.BlockKind
	key      int    // index of a tool call as the backend counts
	sent     string // id of a tool call as the backend sent it
	name     string
	pending  []byte
	logprobs json.RawMessage
	extent   jsonExtent
	index    int
	started  bool
	ended    bool
	dropped  bool
}

func (c *choice) last() *segment {
	if len(c.segments) == 0 {
		return nil
	}
	return c.segments[len(c.segments)-1]
}

// call finds the tool call that f continues, or nil if f begins one.
func (c *choice) call(f ToolFragment) *segment {
	if f.Whole || len(c.calls) == 0 {
		return nil
	}
	if f.Index < 0 {
		if f.ID == "" {
			if last := c.calls[len(c.calls)-1]; f.Name == "" || last.name == "" {
				return last
			}
			return nil // a second name without id: the next call
		}
		for _, call := range c.calls {
			if call.sent == f.ID {
				return call
			}
		}
		if last := c.calls[len(c.calls)-1]; last.sent == "" && f.Name == "" {
			return last
		}
		return nil
	}
	for i := len(c.calls) - 1; i >= 0; i-- {
		call := c.calls[i]
		if call.key != f.Index {
			continue
		}
		if f.ID != "" && f.Name != "" && call.sent != "" && call.sent != f.ID && call.name != "" {
			return nil // servers exist that give every call the index 0
		}
		return call
	}
	return nil
}

// NewToolID returns a fresh id of a tool call.
func NewToolID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return "call_" + hex.EncodeToString(b[:])
}
