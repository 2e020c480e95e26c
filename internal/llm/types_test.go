package llm_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mindrouter/internal/llm"
)

func TestErrorKeepsItsCauseForTheLog(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial 10.0.0.1")
	err := llm.Invalid("messages[0]", "is %s", "wrong").With(cause)
	if err.Message != "is wrong" || err.Param != "messages[0]" || !errors.Is(err, cause) || err.Error() != "invalid_request: is wrong: dial 10.0.0.1" {
		t.Errorf("%v of %q", err, err.Param)
	}
	wrapped := fmt.Errorf("attempt 2: %w", err)
	if llm.CodeOf(wrapped) != llm.CodeInvalidRequest || llm.AsError(wrapped) != err {
		t.Errorf("CodeOf(%v) = %s", wrapped, llm.CodeOf(wrapped))
	}
	if llm.CodeOf(cause) != llm.CodeInternal || llm.AsError(cause) != nil || llm.AsError(nil) != nil {
		t.Error("an unclassified error is classified")
	}
	plain := &llm.Error{Code: llm.CodeTimeout, RetryAfter: time.Second}
	if plain.With(cause).Err == nil || plain.Err != nil {
		t.Error("With changes its receiver")
	}
}

func TestSemanticEventsCommit(t *testing.T) {
	t.Parallel()
	for kind, want := range map[llm.EventKind]bool{
		llm.EventStart: false, llm.EventUsage: false, llm.EventKeepAlive: false,
		llm.EventBlockStart: true, llm.EventDelta: true, llm.EventBlockStop: true, llm.EventStop: true,
	} {
		if got := (llm.Event{Kind: kind}).Semantic(); got != want {
			t.Errorf("%s is semantic: %t, want %t", kind, got, want)
		}
	}
}

func TestNoteIsOneWord(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]llm.Note{
		"logit_bias=dropped":   {Field: "logit_bias", What: "dropped"},
		"thinking=clamped:low": {Field: "thinking", What: "clamped", Detail: "low"},
	} {
		if n.String() != want {
			t.Errorf("%q, want %q", n.String(), want)
		}
	}
}

func TestRoomKeepsAReserve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		context, input, want int
		known                bool
	}{
		{0, 5, 0, false}, {4096, 1000, 4096 - 1000 - 512, true}, {32768, 1000, 32768 - 1000 - 1024, true}, {4096, 4000, 4096 - 4000 - 512, true},
	} {
		got, known := llm.Model{ContextLength: c.context}.Room(c.input)
		if got != c.want || known != c.known {
			t.Errorf("Room(%d) of %d = %d, %t, want %d, %t", c.input, c.context, got, known, c.want, c.known)
		}
	}
}
