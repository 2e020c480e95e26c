package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
	"mindrouter/internal/simbackend/timing"
)

// contended is a gateway before one backend with one slot.
func contended(t *testing.T, cluster string) *e2e.Server {
	t.Helper()
	return e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {
			Dialect: simbackend.DialectVLLM, Models: models(t), TimeScale: 1, Timing: timing.Model{DecodeTPS: 15_000},
		}},
		Cluster: `backends: [{name: sim, engine: vllm, url: "%sim%", max_concurrent: 1}]` + "\n" + cluster,
	})
}

// race sends many requests of several callers at once and returns whose they were, in the order of their answers, and how
// many of the first caller's were answered when the others came: those that were not wait by then.
func race(t *testing.T, s *e2e.Server, callers []string, keys map[string][]string, each map[string]int) (order []string, head int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	waiting := 0
	for _, who := range callers {
		for i := range each[who] {
			key := keys[who][i%len(keys[who])]
			all.Go(func() {
				got := s.Post("/v1/chat/completions", key, `{"model":"chat","max_tokens":300,"messages":[{"role":"user","content":"[[tokens=300]]"}]}`)
				if got.Status != http.StatusOK {
					t.Errorf("%s: %d %s", who, got.Status, got.Body)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, who)
			})
		}
		waiting += each[who]
		if who == callers[0] {
			s.Eventually("the first caller's requests wait", func() error {
				mu.Lock()
				done := len(order)
				mu.Unlock()
				if w := s.Gauges()["mindrouter_requests_waiting"]; int(w) < waiting-1-done {
					return fmt.Errorf("%v wait", w)
				}
				head = done
				return nil
			})
		}
	}
	all.Wait()
	return order, head
}

// place is where the last answer of who stands in the order, from 1.
func place(order []string, who string) int {
	last := 0
	for i, w := range order {
		if w == who {
			last = i + 1
		}
	}
	return last
}

func TestAFloodDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	s := contended(t, "")
	// The flood uses five keys: a user has one turn, whatever the number of keys.
	keys := map[string][]string{"calm": {s.Key(app.NewKey{User: "calm"})}}
	for range 5 {
		keys["flood"] = append(keys["flood"], s.Key(app.NewKey{User: "flood"}))
	}
	order, head := race(t, s, []string{"flood", "calm"}, keys, map[string]int{"flood": 40, "calm": 3})
	if at := place(order, "calm"); at > head+20 || at == len(order) {
		t.Errorf("the last of 3 requests that came after %d answers of a flood of 40 was answer %d: %v", head, at, order)
	}
}

func TestWeightsCount(t *testing.T) {
	t.Parallel()
	s := contended(t, `
groups: [{name: heavy, weight: 4}, {name: light, weight: 1}]
users: [{name: h, email: h@example.edu, group: heavy}, {name: l, email: l@example.edu, group: light}]`)
	keys := map[string][]string{"h": {s.Key(app.NewKey{User: "h"})}, "l": {s.Key(app.NewKey{User: "l"})}}
	order, _ := race(t, s, []string{"l", "h"}, keys, map[string]int{"l": 40, "h": 40})
	// From the moment when both wait to the end of the heavier, four answers in five are theirs, and some more at first:
	// who comes has a credit of four requests for each unit of weight.
	first := 0
	for i, who := range order {
		if who == "h" {
			first = i
			break
		}
	}
	span := order[first:place(order, "h")]
	light := 0
	for _, who := range span {
		if who == "l" {
			light++
		}
	}
	if len(span)-light != 40 || light < 2 || light > 20 {
		t.Errorf("while the heavier user had 40 answers the lighter had %d, want about 6: %v", light, span)
	}
}
