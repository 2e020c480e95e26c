package llm_test

import (
	"errors"
	"strings"
	"testing"

	"mindrouter/internal/llm"
)

var (
	start     = llm.Event{Kind: llm.EventStart}
	openText  = llm.Event{Kind: llm.EventBlockStart, Block: llm.BlockText}
	say       = llm.Event{Kind: llm.EventDelta, Block: llm.BlockText, Text: "a"}
	closeText = llm.Event{Kind: llm.EventBlockStop, Block: llm.BlockText}
	stop      = llm.Event{Kind: llm.EventStop, StopReason: llm.StopEnd}
	alive     = llm.Event{Kind: llm.EventKeepAlive}
)

func used(output int) llm.Event {
	return llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Output: output}}
}

func of(choice, index int, ev llm.Event) llm.Event {
	ev.Choice, ev.Index = choice, index
	return ev
}

func stream(events ...llm.Event) llm.Stream {
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func TestCheckAcceptsGoodStreams(t *testing.T) {
	t.Parallel()
	call := llm.Event{Kind: llm.EventBlockStart, Block: llm.BlockToolCall, Index: 1, ToolCall: &llm.ToolCall{ID: "c", Name: "f"}}
	for name, s := range map[string]llm.Stream{
		"text":                 stream(start, openText, say, closeText, stop, used(1)),
		"no blocks":            stream(start, stop),
		"keep-alives anywhere": stream(alive, start, alive, openText, alive, say, closeText, alive, stop, alive),
		"usage anywhere":       stream(start, used(1), openText, used(1), closeText, used(2), stop, used(3)),
		"text, then a call":    stream(start, openText, closeText, call, of(0, 1, llm.Event{Kind: llm.EventBlockStop, Block: llm.BlockToolCall}), stop),
		"choices interleave":   stream(start, openText, of(1, 0, openText), say, of(1, 0, say), closeText, of(1, 0, closeText), of(1, 0, stop), stop),
	} {
		if _, err := llm.Collect(llm.Check(s)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckRejectsBrokenStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    llm.Stream
		want string
	}{
		"nothing":                {stream(), "no choice"},
		"no choice":              {stream(start, used(1)), "no choice"},
		"no start":               {stream(openText), "started is false"},
		"two starts":             {stream(start, start), "started is true"},
		"late start":             {stream(used(1), start), "started is false"},
		"no stop":                {stream(start, openText, say, closeText), "without stop"},
		"one of two stops":       {stream(start, stop, of(1, 0, openText), of(1, 0, closeText)), "choice 1 ends without stop"},
		"open block at the stop": {stream(start, openText, stop), "while block 0 is open"},
		"stop without reason":    {stream(start, llm.Event{Kind: llm.EventStop}), "without reason"},
		"two stops":              {stream(start, stop, stop), "after stop"},
		"block after stop":       {stream(start, stop, openText), "after stop"},
		"blocks overlap":         {stream(start, openText, of(0, 1, openText)), "another is open"},
		"index gap":              {stream(start, openText, closeText, of(0, 2, openText)), "want 1"},
		"first index is not 0":   {stream(start, of(0, 1, openText)), "want 0"},
		"delta without block":    {stream(start, say), "open is false"},
		"delta of another block": {stream(start, openText, of(0, 1, say)), "block 1"},
		"delta of another kind":  {stream(start, openText, llm.Event{Kind: llm.EventDelta, Block: llm.BlockThinking, Text: "a"}), "thinking"},
		"stop of another kind":   {stream(start, openText, llm.Event{Kind: llm.EventBlockStop, Block: llm.BlockThinking}), "thinking"},
		"call without name":      {stream(start, llm.Event{Kind: llm.EventBlockStart, Block: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "c"}}), "without id or name"},
		"call without id":        {stream(start, llm.Event{Kind: llm.EventBlockStart, Block: llm.BlockToolCall, ToolCall: &llm.ToolCall{Name: "f"}}), "without id or name"},
		"usage shrinks":          {stream(start, used(2), used(1)), "shrinks"},
		"unknown kind":           {stream(start, llm.Event{Kind: "pause"}), "unknown kind"},
	} {
		_, err := llm.Collect(llm.Check(c.s))
		if !errors.Is(err, llm.ErrGrammar) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a grammar error with %q", name, err, c.want)
		}
	}
}

func TestCheckPassesErrorsThrough(t *testing.T) {
	t.Parallel()
	boom := llm.Errorf(llm.CodeUpstream, "boom")
	failing := llm.Stream(func(yield func(llm.Event, error) bool) {
		_ = yield(start, nil) && yield(openText, nil) && yield(say, nil) && yield(llm.Event{}, boom)
	})
	resp, err := llm.Collect(llm.Check(failing))
	if !errors.Is(err, boom) || resp.Choices[0].Text() != "a" {
		t.Errorf("Collect = %+v, %v, want the error and what had arrived", resp, err)
	}
	if _, err := llm.Collect(llm.Check(llm.Failed(boom))); !errors.Is(err, boom) {
		t.Errorf("Failed yields %v", err)
	}
}

func TestCheckStopsWithItsConsumer(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, err := range llm.Check(stream(start, openText, say)) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("%d events after the consumer stopped at 2", seen)
	}
}
