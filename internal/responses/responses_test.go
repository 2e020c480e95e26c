package responses_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/responses"
)

// shelf is a store in memory.
type shelf map[string]responses.Stored

func (s shelf) SaveResponse(_ context.Context, r responses.Stored) error { s[r.ID] = r; return nil }

func (s shelf) Response(_ context.Context, owner, id string, now time.Time) (responses.Stored, error) {
	r, ok := s[id]
	if !ok || r.Owner != owner || !r.Expires.After(now) {
		return responses.Stored{}, responses.ErrNotFound
	}
	return r, nil
}

func (s shelf) ResponseWithItem(ctx context.Context, owner, item string, now time.Time) (responses.Stored, error) {
	for id := range s {
		r, err := s.Response(ctx, owner, id, now)
		if err == nil && strings.Contains(fmt.Sprintf("%s", append(r.Input, r.Output...)), `"`+item+`"`) {
			return r, nil
		}
	}
	return responses.Stored{}, responses.ErrNotFound
}

func (s shelf) DeleteResponse(ctx context.Context, owner, id string, now time.Time) error {
	_, err := s.Response(ctx, owner, id, now)
	delete(s, id)
	return err
}

func (s shelf) ExpireResponses(context.Context, time.Time) (int, error) { return 0, nil }

func items(ids ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, id := range ids {
		out = append(out, json.RawMessage(`{"id":"`+id+`"}`))
	}
	return out
}

func TestConversation(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	k := responses.NewKeeper(shelf{}, func() time.Time { return now })
	for _, r := range []responses.Stored{
		{ID: "1", Owner: "a", Input: items("i1"), Output: items("o1", "o2")},
		{ID: "2", Owner: "a", Previous: "1", Input: items("i2"), Output: items("o3")},
		{ID: "3", Owner: "a", Previous: "2", Input: items("i3"), Failed: true},
		{ID: "4", Owner: "b", Previous: "1", Input: items("i4")},
		{ID: "5", Owner: "a", Previous: "5", Input: items("i5")},
		{ID: "6", Owner: "a", Input: []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", 33<<20) + `"`)}},
	} {
		if err := k.Keep(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, owner, id, want string
		err                   error
	}{
		{"one", "a", "1", `[{"id":"i1"} {"id":"o1"} {"id":"o2"}]`, nil},
		{"two", "a", "2", `[{"id":"i1"} {"id":"o1"} {"id":"o2"} {"id":"i2"} {"id":"o3"}]`, nil},
		{"one that failed", "a", "3", "[]", responses.ErrFailed},
		{"another's", "b", "1", "[]", responses.ErrNotFound},
		{"that continues another's", "b", "4", "[]", responses.ErrNotFound},
		{"that continues itself", "a", "5", "[]", responses.ErrTooLong},
		{"too large", "a", "6", "[]", responses.ErrTooLong},
		{"none", "a", "7", "[]", responses.ErrNotFound},
	} {
		got, err := k.Conversation(t.Context(), tt.owner, tt.id)
		if fmt.Sprintf("%s", got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %s, %v; want %s, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
	if item, err := k.Item(t.Context(), "a", "o2"); err != nil || string(item) != `{"id":"o2"}` {
		t.Errorf("item: %s, %v", item, err)
	}
	if _, err := k.Item(t.Context(), "b", "o2"); !errors.Is(err, responses.ErrNotFound) {
		t.Errorf("another's item: %v", err)
	}
	now = now.Add(responses.Retention)
	if _, err := k.Get(t.Context(), "a", "1"); !errors.Is(err, responses.ErrNotFound) {
		t.Errorf("after its time: %v", err)
	}
}
