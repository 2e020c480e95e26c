package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/responses"
	"mindrouter/internal/store"
)

var responseTests = []test{
	migrated("a response comes back as it was, to its owner alone", func(t *testing.T, s *store.Store) {
		r := storedResponse("r1", "alice")
		if err := s.SaveResponse(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got, err := s.Response(t.Context(), "alice", "r1", now)
		got.At, got.Expires = got.At.UTC(), got.Expires.UTC()
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v; want %+v", got, err, r)
		}
		if _, err := s.Response(t.Context(), "bob", "r1", now); !errors.Is(err, responses.ErrNotFound) {
			t.Errorf("to somebody else: %v", err)
		}
		if err := s.DeleteResponse(t.Context(), "bob", "r1", now); !errors.Is(err, responses.ErrNotFound) {
			t.Errorf("deleted by somebody else: %v", err)
		}
	}),
	migrated("an item leads to the newest response that has it", func(t *testing.T, s *store.Store) {
		for i, id := range []string{"r1", "r2"} {
			r := storedResponse(id, "alice")
			r.At = now.Add(time.Duration(i) * time.Second)
			if err := s.SaveResponse(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.ResponseWithItem(t.Context(), "alice", "out", now); err != nil || got.ID != "r2" {
			t.Errorf("got %s, %v", got.ID, err)
		}
		for _, c := range [][2]string{{"bob", "out"}, {"alice", "none"}} {
			if _, err := s.ResponseWithItem(t.Context(), c[0], c[1], now); !errors.Is(err, responses.ErrNotFound) {
				t.Errorf("%v: %v", c, err)
			}
		}
	}),
	migrated("what is deleted or expired is gone with its items", func(t *testing.T, s *store.Store) {
		for _, id := range []string{"deleted", "expired", "stays"} {
			r := storedResponse(id, "alice")
			if id == "expired" {
				r.Expires = now
			}
			if err := s.SaveResponse(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.DeleteResponse(t.Context(), "alice", "deleted", now); err != nil {
			t.Error(err)
		}
		for _, id := range []string{"deleted", "expired"} {
			if _, err := s.Response(t.Context(), "alice", id, now); !errors.Is(err, responses.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
			if err := s.DeleteResponse(t.Context(), "alice", id, now); !errors.Is(err, responses.ErrNotFound) {
				t.Errorf("%s again: %v", id, err)
			}
		}
		if n, err := s.ExpireResponses(t.Context(), now); n != 1 || err != nil {
			t.Errorf("expired %d, %v", n, err)
		}
		same(t, "items", look(t, s).texts("SELECT DISTINCT response_id FROM response_items"), [][]string{{"stays"}})
		same(t, "responses", look(t, s).texts("SELECT id FROM responses"), [][]string{{"stays"}})
	}),
}

func storedResponse(id, owner string) responses.Stored {
	return responses.Stored{
		ID: id, Owner: owner, Previous: "before", At: now, Expires: now.Add(time.Hour), Failed: true,
		Input:    []json.RawMessage{json.RawMessage(`{"id":"in","text":"` + strings.Repeat("long ", 200) + `"}`), json.RawMessage(`{"no":"id"}`)},
		Output:   []json.RawMessage{json.RawMessage(`{"id":"out"}`)},
		Response: json.RawMessage(`{"id":"` + id + `"}`),
	}
}
