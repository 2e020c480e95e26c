package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// near allows for rounding.
func near(a, b order) bool { return a.seq == b.seq && math.Abs(a.at-b.at) < 1e-6 }

// check compares everything that the policy keeps with what it must follow from.
func (p *Policy) check(lanes []*Lane) error {
	phi := 0.0
	waiting := map[*Flow]int{}
	for f := range p.all() {
		active := 0
		for _, e := range f.entries {
			for i, n := range e.queue {
				if n.item.index != i || n.item.entry != e || n.item.Flow != f || i > 0 && n.before(e.queue[(i-1)/4].order) {
					return fmt.Errorf("queue of %v is out of order at %d", f.id, i)
				}
				waiting[f]++
				if f.pool != nil {
					waiting[f.pool]++
				}
			}
			for i, n := range e.inner {
				if n.item.index != i || !near(n.order, p.order(n.item)) || i > 0 && n.before(e.inner[(i-1)/4].order) {
					return fmt.Errorf("members of %v are out of order at %d", f.id, i)
				}
			}
			if in := e.index >= 0; in != (!e.empty() && !f.parked) {
				return fmt.Errorf("%v: in a heap %v, empty %v, parked %v", f.id, in, e.empty(), f.parked)
			}
			if e.index >= 0 {
				active++
			}
		}
		if f.active != active {
			return fmt.Errorf("%v: active %d, counted %d", f.id, f.active, active)
		}
		if active > 0 && f.pool == nil {
			phi += f.weight
		}
		if f.idle() != p.idle.holds(f) {
			return fmt.Errorf("%v: idle %v, in the list %v", f.id, f.idle(), p.idle.holds(f))
		}
	}
	for f := range p.all() {
		if f.waiting != waiting[f] {
			return fmt.Errorf("%v: waiting %d, counted %d", f.id, f.waiting, waiting[f])
		}
	}
	if math.Abs(p.phi-phi) > 1e-6 {
		return fmt.Errorf("phi %v, counted %v", p.phi, phi)
	}
	for _, l := range lanes {
		for i, n := range l.heap {
			if n.item.index != i || !near(n.order, p.order(n.item)) || i > 0 && n.before(l.heap[(i-1)/4].order) {
				return fmt.Errorf("lane is out of order at %d", i)
			}
		}
		for _, c := range l.clocks {
			if c.v > p.clock.v+1e-6 {
				return fmt.Errorf("a backend's clock %v is past the domain's %v", c.v, p.clock.v)
			}
		}
	}
	return nil
}

// check compares everything that the scheduler keeps with what it must follow from, and finds waiters that could be served.
func (s *Scheduler) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.domains {
		var lanes []*Lane
		n := 0
		for _, l := range d.lanes {
			lanes = append(lanes, l.queue)
			n += l.waiting
			if s.lanes[l.key] != l || l.domain != d {
				return fmt.Errorf("lane %q is lost", l.key)
			}
		}
		if n != d.waiting {
			return fmt.Errorf("domain: waiting %d, counted %d", d.waiting, n)
		}
		if err := d.policy.check(lanes); err != nil {
			return err
		}
	}
	held, subjects, running := map[routing.BackendID]int{}, map[string]int{}, map[*Flow]int{}
	for l := s.leases; l != nil; l = l.next {
		held[l.slots.id]++
		running[l.charge.flow]++
		if f := l.domain.policy.flows[l.w.job.flow()]; f != l.charge.flow {
			return fmt.Errorf("the lease of %s is paid by a flow that is not in its domain", l.w.job.Tenant)
		}
		for _, sub := range l.w.claims {
			subjects[sub.name]++
		}
	}
	for id, b := range s.slots {
		if b.total != held[id] || b.at >= 0 && s.live[b.at].InFlight != held[id] {
			return fmt.Errorf("backend %s: %d leases, counted %d", id, b.total, held[id])
		}
	}
	for name, sub := range s.subjects {
		if sub.taken != subjects[name] {
			return fmt.Errorf("subject %s: %d leases, counted %d", name, sub.taken, subjects[name])
		}
		for _, h := range sub.held {
			for i, n := range h.queue {
				if n.item.held != h || n.item.index != i {
					return fmt.Errorf("subject %s: held back out of order", name)
				}
			}
		}
	}
	for _, d := range s.domains {
		for _, f := range d.policy.flows {
			if f.running != running[f] {
				return fmt.Errorf("%v: %d running, counted %d", f.id, f.running, running[f])
			}
		}
	}
	for i, w := range s.waiting {
		if w.at != i {
			return fmt.Errorf("waiter %d believes to be at %d", i, w.at)
		}
		if w.overLimit() != nil {
			continue
		}
		if _, ex, ok := s.profile.Choose(w.job.Need, s.live); ok || ex.Hopeless() {
			return fmt.Errorf("%s of %s waits (held back %v) although it could be served: %+v", w.job.Need.Models, w.job.Tenant, w.held != nil, ex)
		}
	}
	return nil
}

// world drives a scheduler without goroutines.
type world struct {
	*Scheduler
	t       *rapid.T
	waiters []*waiter
	leases  []*Lease
	served  float64
}

// settle collects what an event has decided and checks the order of the grants.
func (w *world) settle() {
	granted := map[*Flow]bool{}
	var fresh []*Lease
	w.waiters = slices.DeleteFunc(w.waiters, func(at *waiter) bool {
		if !at.settled {
			return false
		}
		if at.lease != nil {
			fresh = append(fresh, at.lease)
			granted[at.lease.charge.flow.top()] = true
			if b := at.lease.slots; b.total > b.max {
				w.t.Fatalf("%d leases on %d slots", b.total, b.max)
			}
			for _, sub := range at.claims {
				if sub.max > 0 && sub.taken > sub.max {
					w.t.Fatalf("%s has %d leases of %d", sub.name, sub.taken, sub.max)
				}
			}
		} else if !errors.Is(at.err, ErrNoBackend) {
			w.t.Fatalf("waiter got neither a lease nor an error that it may get: %v", at.err)
		}
		return true
	})
	for _, l := range fresh {
		slack := l.domain.policy.Slack()
		for _, at := range w.waiters {
			if at.lane.domain != l.domain || granted[at.Flow.top()] || at.held != nil || at.overLimit() != nil || at.Flow.top().parked || at.Flow.parked {
				continue
			}
			if !slices.ContainsFunc(at.lane.backends, func(e eligible) bool { return e.slots == l.slots && len(e.limits) == 0 }) {
				continue
			}
			if key := at.Flow.top().entry(at.Lane).position() + at.Flow.top().entry(at.Lane).head().stamp; key+slack < l.w.decision.Key-1e-6 {
				w.t.Fatalf("key %v was served while %v waited for the same backend (slack %v)", l.w.decision.Key, key, slack)
			}
		}
	}
	w.leases = append(w.leases, fresh...)
	if err := w.check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) arrive(j Job) {
	at := &waiter{job: j}
	w.mu.Lock()
	err := w.enqueueLocked(at, time.Now())
	if err == nil {
		at.done = make(chan struct{}, 1)
		w.dispatchLocked(time.Now())
	}
	wake(w.takeWokenLocked())
	w.mu.Unlock()
	if err == nil {
		w.waiters = append(w.waiters, at)
	} else if !errors.Is(err, ErrNoBackend) && !errors.Is(err, ErrTenantQueueFull) && !errors.Is(err, ErrQueueFull) {
		w.t.Fatal(err)
	}
}

func (w *world) cancel(i int) {
	at := w.waiters[i]
	w.waiters = slices.Delete(w.waiters, i, i+1)
	w.mu.Lock()
	w.unqueueLocked(at, time.Now())
	w.dispatchLocked(time.Now())
	wake(w.takeWokenLocked())
	w.mu.Unlock()
}

func (w *world) end(i int, a Actual) {
	l := w.leases[i]
	w.leases = slices.Delete(w.leases, i, i+1)
	paid := l.charge.paid
	w.Scheduler.release(l, a)
	w.served += l.charge.paid
	_ = paid
}

var worldModels = []string{"a", "b", "c"}

func drawFleet(t *rapid.T) []routing.Backend {
	var out []routing.Backend
	for i := range rapid.IntRange(1, 4).Draw(t, "backends") {
		b := routing.Backend{
			ID: routing.BackendID(fmt.Sprint("b", i)), Slots: rapid.IntRange(1, 3).Draw(t, "slots"),
			Health: rapid.SampledFrom([]routing.Health{routing.HealthUp, routing.HealthUp, routing.HealthDown}).Draw(t, "health"),
			Intent: routing.IntentEnabled, Models: map[string]llm.Model{},
		}
		for _, m := range rapid.SliceOfDistinct(rapid.SampledFrom(worldModels), rapid.ID[string]).Draw(t, "models") {
			b.Models[m] = llm.Model{Name: m, ContextLength: rapid.SampledFrom([]int{0, 0, 4096}).Draw(t, "context")}
		}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			b.ModelSlots = map[string]int{"a": 1}
		}
		out = append(out, b)
	}
	return out
}

func drawJob(t *rapid.T) Job {
	tenant := rapid.IntRange(0, 4).Draw(t, "tenant")
	j := Job{
		Tenant: fmt.Sprint("user:", tenant), Weight: float64(1 + tenant), Cost: float64(rapid.IntRange(0, 3000).Draw(t, "cost")),
		Class: rapid.SampledFrom([]llm.Class{llm.ClassInteractive, llm.ClassStandard, llm.ClassBatch}).Draw(t, "class"),
		Need: routing.Need{
			Models: rapid.SliceOfNDistinct(rapid.SampledFrom(worldModels), 1, 2, rapid.ID[string]).Draw(t, "need"),
			Input:  rapid.SampledFrom([]int{100, 4000}).Draw(t, "input"),
		},
		Affine:  rapid.Bool().Draw(t, "affine"),
		Arrival: time.Now(), MaxWait: time.Hour,
	}
	if tenant < 2 {
		j.Pool, j.PoolWeight = "group:g", 3
		j.Limits = append(j.Limits, Limit{"group:g", 3})
	}
	if tenant%2 == 1 {
		j.Limits = append(j.Limits, Limit{j.Tenant, 2})
	}
	switch rapid.IntRange(0, 2).Draw(t, "limits") {
	case 0:
		j.Limits = append(j.Limits, Limit{fmt.Sprint("key:", tenant, rapid.IntRange(0, 1).Draw(t, "key")), 1})
	case 1:
		j.Limits = append(j.Limits, Limit{"shared", rapid.IntRange(1, 2).Draw(t, "max")})
	}
	return j
}

// Whatever happens in whatever order: free and leased slots add up, nobody waits who could be served, nobody is served
// before somebody whose turn was clearly earlier, and at the end nothing is left.
func TestSchedulerKeepsItsInvariantsAtEveryEvent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: rt, Scheduler: New(Config{Profile: routing.Least(), MaxQueuedPerTenant: 20})}
		w.SetBackends(drawFleet(rt))
		for range rapid.IntRange(1, 120).Draw(rt, "events") {
			switch op := rapid.IntRange(0, 20).Draw(rt, "op"); {
			case op < 10:
				w.arrive(drawJob(rt))
			case op < 16 && len(w.leases) > 0:
				a := Actual{Usage: llm.Usage{Input: 100, Output: rapid.IntRange(0, 2000).Draw(rt, "output")}, Refund: rapid.IntRange(0, 4).Draw(rt, "refund") == 0}
				w.end(rapid.IntRange(0, len(w.leases)-1).Draw(rt, "lease"), a)
			case op == 16 && len(w.waiters) > 0:
				w.cancel(rapid.IntRange(0, len(w.waiters)-1).Draw(rt, "waiter"))
			case op == 17 && len(w.leases) > 0:
				w.leases[rapid.IntRange(0, len(w.leases)-1).Draw(rt, "lease")].Charge(rapid.IntRange(0, 5000).Draw(rt, "tokens"))
			case op == 18:
				w.SetBackends(drawFleet(rt))
				w.settleRelaxed()
				continue
			case op == 19:
				w.SetSettings(Settings{Slack: float64(rapid.IntRange(-1, 1000).Draw(rt, "slack")), Bonus: float64(rapid.IntRange(-1, 1000).Draw(rt, "bonus"))})
			}
			w.settle()
		}
		for len(w.leases)+len(w.waiters) > 0 {
			if len(w.waiters) > 0 {
				w.cancel(0)
			}
			if len(w.leases) > 0 {
				w.end(0, Actual{})
			}
			w.settle()
		}
		if snap := w.Snapshot(); snap.Waiting != 0 || len(snap.InFlight) != 0 || len(snap.Subjects) != 0 {
			rt.Fatalf("left behind: %+v", snap)
		}
		if w.bytes != 0 || len(w.queued) != 0 || len(w.subjects) != 0 {
			rt.Fatalf("left behind: %d bytes, %v, %v", w.bytes, w.queued, w.subjects)
		}
	})
}

// settleRelaxed is settle after a change of the fleet: slots may have become fewer than leases, and domains new.
func (w *world) settleRelaxed() {
	w.waiters = slices.DeleteFunc(w.waiters, func(at *waiter) bool {
		if at.lease != nil {
			w.leases = append(w.leases, at.lease)
		}
		return at.settled
	})
	if err := w.check(); err != nil {
		w.t.Fatal(err)
	}
}
