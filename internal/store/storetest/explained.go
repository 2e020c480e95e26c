package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"mindrouter/internal/audit"
	"mindrouter/internal/store"
)

// explains checks what is read back of a request, while it runs and after its end.
func explains(t *testing.T, s *store.Store) {
	const id = audit.ID("01900000-0000-7000-8000-0000000000e1")
	if _, err := s.Explained(t.Context(), id); !errors.Is(err, audit.ErrUnknownRequest) {
		t.Errorf("a request that never was: %v", err)
	}
	write(t, s, begin(audit.Record{ID: id, Epoch: "e", At: now, User: "u", ModelAsked: "default", ModelResolved: "chat"}))
	got, err := s.Explained(t.Context(), id)
	want := audit.Explained{ID: id, User: "u", At: now, ModelAsked: "default", ModelResolved: "chat", Running: true, Decision: json.RawMessage("{}")}
	got.At = got.At.UTC()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("while it runs: %+v, %v; want %+v", got, err, want)
	}
	write(t, s, finish(audit.Finish{
		ID: id, At: now.Add(time.Second), Outcome: audit.OutcomeSuccess, Backend: "b", Model: "chat", Queue: 7 * time.Millisecond,
		Attempts: []audit.Attempt{{Backend: "b", Model: "chat", Outcome: "ok", Took: time.Millisecond}},
		Decision: json.RawMessage(`{"mode":"points"}`), Dropped: []string{"a=dropped"}, EffortAsked: "high", EffortEffective: "low",
	}))
	got, err = s.Explained(t.Context(), id)
	want.Running, want.Outcome, want.Backend, want.Model, want.Queue = false, audit.OutcomeSuccess, "b", "chat", 7*time.Millisecond
	want.Attempts = []audit.Attempt{{Backend: "b", Model: "chat", Outcome: "ok", Took: time.Millisecond}}
	want.Decision, want.Dropped, want.EffortAsked, want.EffortEffective = json.RawMessage(`{"mode":"points"}`), []string{"a=dropped"}, "high", "low"
	got.At = got.At.UTC()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after its end: %+v, %v; want %+v", got, err, want)
	}
}
