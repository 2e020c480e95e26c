package routing_test

import (
	"fmt"
	"slices"
	"testing"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

func server(id string, change func(*routing.Backend)) routing.Backend {
	b := routing.Backend{
		ID: routing.BackendID(id), Models: map[string]llm.Model{"m": {Name: "m"}}, Slots: 10,
		Health: routing.HealthUp, Intent: routing.IntentEnabled, Boundary: "campus",
	}
	if change != nil {
		change(&b)
	}
	return b
}

func TestPoints(t *testing.T) {
	t.Parallel()
	loaded := func(b *routing.Backend) { b.Resident = map[string]bool{"m": true} }
	cold := func(b *routing.Backend) { b.Resident = map[string]bool{} }
	both := func(f ...func(*routing.Backend)) func(*routing.Backend) {
		return func(b *routing.Backend) {
			for _, g := range f {
				g(b)
			}
		}
	}
	busy := func(n int) func(*routing.Backend) { return func(b *routing.Backend) { b.InFlight = n } }
	slow := func(ms float64) func(*routing.Backend) { return func(b *routing.Backend) { b.Latency = ms } }
	wanted := func(n int) func(*routing.Backend) { return func(b *routing.Backend) { b.Priority = n } }
	for name, tt := range map[string]struct {
		weights map[string]float64
		a, b    func(*routing.Backend)
		want    string
	}{
		"a loaded model wins":                    {nil, cold, loaded, "b"},
		"even on a busy server":                  {nil, cold, both(loaded, busy(9)), "b"},
		"free slots win":                         {nil, busy(5), busy(1), "b"},
		"the faster first token wins":            {nil, slow(9000), slow(100), "b"},
		"preference breaks ties":                 {nil, nil, wanted(1), "b"},
		"preference does not outweigh a load":    {nil, both(loaded, busy(2)), both(cold, wanted(100)), "a"},
		"a bad preference is bounded too":        {nil, both(loaded, wanted(-100)), cold, "a"},
		"weights of the settings count":          {map[string]float64{"resident": 0}, busy(5), both(loaded, busy(6)), "a"},
		"what a server does not say counts as 0": {nil, nil, cold, "a"},
	} {
		choice, ex, ok := routing.Points(tt.weights).Choose(routing.Need{Models: []string{"m"}}, []routing.Backend{server("a", tt.a), server("b", tt.b)})
		if !ok || string(choice.Backend.ID) != tt.want {
			t.Errorf("%s: chose %s: %+v", name, choice.Backend.ID, ex.Candidates)
		}
	}
	_, ex, _ := routing.Points(nil).Choose(routing.Need{Models: []string{"m"}}, []routing.Backend{server("a", nil)})
	if got := fmt.Sprint(ex.Candidates[0].NotReported); got != "[resident latency queue tokens_per_second]" {
		t.Errorf("not reported: %s", got)
	}
}

// TestABurstSpreadsEvenly takes slots one by one, each choice on the leases of those before.
func TestABurstSpreadsEvenly(t *testing.T) {
	t.Parallel()
	var fleet []routing.Backend
	for i := range 8 {
		fleet = append(fleet, server(fmt.Sprint(i), func(b *routing.Backend) { b.Slots = 16 }))
	}
	p := routing.Points(nil)
	for range 80 {
		choice, _, ok := p.Choose(routing.Need{Models: []string{"m"}}, fleet)
		if !ok {
			t.Fatal("no choice")
		}
		fleet[slices.IndexFunc(fleet, func(b routing.Backend) bool { return b.ID == choice.Backend.ID })].InFlight++
	}
	for _, b := range fleet {
		if b.InFlight < 9 || b.InFlight > 11 {
			t.Errorf("backend %s has %d of 80, want 10 give or take 1", b.ID, b.InFlight)
		}
	}
}
