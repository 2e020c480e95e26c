package scheduler

import (
	"cmp"
	"slices"

	"mindrouter/internal/routing"
)

// Snapshot is the state of the scheduler at one moment.
type Snapshot struct {
	Waiting  int
	InFlight map[routing.BackendID]int
	// Subjects counts leases by subject of a limit.
	Subjects map[string]int
	// Served is the token-equivalents charged to each tenant: prepaid when a slot is taken, corrected at its release.
	// Tenants without requests for long are forgotten.
	Served map[string]float64
}

// Snapshot returns the state. It takes time in proportion to the tenants known; see [Scheduler.InFlight].
func (s *Scheduler) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{
		Waiting: len(s.waiting), InFlight: s.inFlightLocked(), Subjects: map[string]int{}, Served: map[string]float64{},
	}
	for name, sub := range s.subjects {
		if sub.taken > 0 {
			snap.Subjects[name] = sub.taken
		}
	}
	for _, d := range s.domains {
		for id, f := range d.policy.flows {
			snap.Served[id.Tenant] += f.served
		}
	}
	return snap
}

// InFlight counts leases by backend. Backends without leases are not in it.
func (s *Scheduler) InFlight() map[routing.BackendID]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlightLocked()
}

func (s *Scheduler) inFlightLocked() map[routing.BackendID]int {
	out := map[routing.BackendID]int{}
	for id, b := range s.slots {
		if b.total > 0 {
			out[id] = b.total
		}
	}
	return out
}

// FlowState is one tenant, or one pool, in one domain.
type FlowState struct {
	Domain  int    // its number; domains are numbered anew when the fleet changes
	Pool    string // the pool that it is in, or is
	Tenant  string // empty for a pool as a whole
	Weight  float64
	Deficit float64 // token-equivalents: above zero is owed to it, below is ahead of its share
	Served  float64 // token-equivalents charged
	Waiting int
	Running int
	Parked  bool // at its concurrency limit
}

// Flows lists the tenants and pools that have requests, those that are owed most first.
func (s *Scheduler) Flows() []FlowState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []FlowState
	for i, d := range s.domains {
		for f := range d.policy.all() {
			if f.idle() {
				continue
			}
			clock := d.policy.clock.v
			if f.pool != nil {
				clock = f.pool.inner.v
			}
			out = append(out, FlowState{
				Domain: i, Pool: f.id.Pool, Tenant: f.id.Tenant, Weight: f.weight, Deficit: (clock - f.v) * f.weight,
				Served: f.served, Waiting: f.Waiting(), Running: f.running, Parked: f.parked,
			})
		}
	}
	slices.SortFunc(out, func(a, b FlowState) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(b.Deficit, a.Deficit), cmp.Compare(a.Tenant, b.Tenant))
	})
	return out
}
