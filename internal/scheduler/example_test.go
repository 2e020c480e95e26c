package scheduler_test

import (
	"fmt"
	"time"

	"mindrouter/internal/scheduler"
)

// A simulator drives the policy with a clock of its own. It keeps the slots; the policy says who is next.
func ExamplePolicy() {
	now := time.Unix(0, 0)
	p := scheduler.NewPolicy(scheduler.Settings{}, now)
	clock := p.NewClock()                            // one for each backend
	lanes := []*scheduler.Lane{p.NewLane(clock)}     // one for each set of backends that may serve the same requests
	for _, tenant := range []string{"a", "a", "b"} { // b comes last
		f := p.Flow(scheduler.FlowID{Tenant: tenant}, 1, 0, now)
		p.Push(&scheduler.Waiter{Flow: f, Lane: lanes[0], Arrival: now, Value: tenant}, now)
	}
	for w := p.Peek(lanes, now); w != nil; w = p.Peek(lanes, now) { // a slot is free
		charge, turn := p.Take(w, 1000, clock, lanes, now)
		fmt.Printf("%s prepays %.0f\n", w.Value, turn.Prepaid)
		now = now.Add(time.Second)
		p.Settle(&charge, 700, time.Second, now) // it has ended
	}
	// Output:
	// a prepays 1000
	// b prepays 1000
	// a prepays 1000
}
