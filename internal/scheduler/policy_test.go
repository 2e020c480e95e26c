package scheduler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mindrouter/internal/llm"
	"mindrouter/internal/scheduler"
)

// load is what one tenant of a simulation sends.
type load struct {
	tenant     string
	pool       string
	weight     float64 // of the pool if there is one
	share      float64 // in the pool
	class      llm.Class
	open       int           // requests that are always outstanding
	every      time.Duration // or one request each so often
	from, till time.Duration
	cost       float64 // average, in token-equivalents
	wrong      float64 // factor of the prepayment
	cancelled  bool    // after 10 ms
	lane       int
}

// sim is a machine of slots that serve speed token-equivalents a second each, in virtual time.
type sim struct {
	policy *scheduler.Policy
	now    time.Time
	start  time.Time
	lanes  []*scheduler.Lane
	boxes  []*box
	loads  []*load
	rnd    *rand.Rand
	speed  float64

	served map[string]float64         // by tenant
	waits  map[string][]time.Duration // by tenant
	after  func()                     // called after each event
	on     func(*running)             // called for each grant
	next   []time.Time
	count  map[*load]int // outstanding
}

// box is a backend.
type box struct {
	clock *scheduler.Clock
	lanes []*scheduler.Lane
	slots int
	runs  []*running
}

type running struct {
	load   *load
	charge scheduler.Charge
	turn   scheduler.Turn
	cost   float64
	began  time.Time
	ends   time.Time
}

type asked struct {
	load *load
	cost float64
}

func newSim(set scheduler.Settings, loads ...*load) *sim {
	start := time.Unix(1_000_000, 0)
	s := &sim{
		policy: scheduler.NewPolicy(set, start), now: start, start: start, loads: loads, speed: 200,
		rnd: rand.New(rand.NewPCG(7, 11)), served: map[string]float64{}, waits: map[string][]time.Duration{}, count: map[*load]int{},
	}
	for _, l := range loads {
		s.next = append(s.next, start.Add(l.from))
	}
	return s
}

// machine adds a backend that serves the lanes.
func (s *sim) machine(slots int, lanes ...int) {
	b := &box{clock: s.policy.NewClock(), slots: slots}
	for _, i := range lanes {
		for len(s.lanes) <= i {
			s.lanes = append(s.lanes, s.policy.NewLane())
		}
		b.lanes = append(b.lanes, s.lanes[i])
	}
	s.boxes = append(s.boxes, b)
	for _, l := range s.lanes {
		var clocks []*scheduler.Clock
		for _, b := range s.boxes {
			if slices.Contains(b.lanes, l) {
				clocks = append(clocks, b.clock)
			}
		}
		s.policy.SetClocks(l, clocks)
	}
}

func (s *sim) send(l *load) {
	cost := l.cost * (0.5 + s.rnd.Float64())
	f := s.policy.Flow(scheduler.FlowID{Pool: l.pool, Tenant: l.tenant}, l.share+b2f(l.pool == "")*l.weight, l.weight, s.now)
	s.count[l]++
	s.policy.Push(&scheduler.Waiter{Flow: f, Lane: s.lanes[l.lane], Class: l.class, Arrival: s.now, Value: asked{l, cost}}, s.now)
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *sim) dispatch() {
	for _, b := range s.boxes {
		for len(b.runs) < b.slots {
			w := s.policy.Peek(b.lanes, s.now)
			if w == nil {
				break
			}
			a := w.Value.(asked)
			wrong := a.load.wrong
			if wrong == 0 {
				wrong = 1
			}
			r := &running{load: a.load, cost: a.cost, began: s.now}
			r.charge, r.turn = s.policy.Take(w, a.cost*wrong, b.clock, b.lanes, s.now)
			r.ends = s.now.Add(time.Duration(a.cost / s.speed * float64(time.Second)))
			if a.load.cancelled {
				r.cost, r.ends = 0, s.now.Add(10*time.Millisecond)
			}
			b.runs = append(b.runs, r)
			s.waits[a.load.tenant] = append(s.waits[a.load.tenant], s.now.Sub(w.Arrival))
			if s.on != nil {
				s.on(r)
			}
		}
	}
}

// run goes on until d after the start.
func (s *sim) run(d time.Duration) {
	end := s.start.Add(d)
	for {
		for i, l := range s.loads {
			active := !s.now.Before(s.start.Add(l.from)) && (l.till == 0 || s.now.Before(s.start.Add(l.till)))
			for active && l.every == 0 && s.count[l] < l.open {
				s.send(l)
			}
			if active && l.every > 0 && !s.now.Before(s.next[i]) {
				s.send(l)
				s.next[i] = s.now.Add(time.Duration(s.rnd.ExpFloat64() * float64(l.every)))
			}
		}
		s.dispatch()
		if s.after != nil {
			s.after()
		}
		at := end
		for i, l := range s.loads {
			if l.every > 0 && s.next[i].After(s.now) && s.next[i].Before(at) {
				at = s.next[i]
			}
			if from := s.start.Add(l.from); from.After(s.now) && from.Before(at) {
				at = from
			}
		}
		for _, b := range s.boxes {
			for _, r := range b.runs {
				if r.ends.Before(at) {
					at = r.ends
				}
			}
		}
		if !at.Before(end) {
			s.now = end
			return
		}
		s.now = at
		for _, b := range s.boxes {
			b.runs = slices.DeleteFunc(b.runs, func(r *running) bool {
				if r.ends.After(s.now) {
					return false
				}
				s.policy.Settle(&r.charge, r.cost, r.ends.Sub(r.began), s.now)
				s.served[r.load.tenant] += r.ends.Sub(r.began).Seconds() * s.speed
				s.count[r.load]--
				return true
			})
		}
	}
}

// shares are the parts of all service since the last call.
func (s *sim) shares() map[string]float64 {
	var sum float64
	for _, v := range s.served {
		sum += v
	}
	out := map[string]float64{}
	for k, v := range s.served {
		out[k] = v / sum
	}
	clear(s.served)
	return out
}

func wantShare(t *testing.T, shares map[string]float64, tenant string, want, margin float64) {
	t.Helper()
	if got := shares[tenant]; math.Abs(got-want) > margin {
		t.Errorf("share of %s: %.3f, want %.3f give or take %.3f (all: %v)", tenant, got, want, margin, shares)
	}
}

func TestBacklogedTenantsGetTheirWeightedShares(t *testing.T) {
	t.Parallel()
	s := newSim(scheduler.Settings{}, &load{tenant: "student", weight: 1, open: 50, cost: 600}, &load{tenant: "staff", weight: 2, open: 50, cost: 600},
		&load{tenant: "faculty", weight: 5, open: 50, cost: 600}, &load{tenant: "admin", weight: 10, open: 50, cost: 600})
	s.machine(16, 0)
	s.run(10 * time.Minute)
	got := s.shares()
	for tenant, w := range map[string]float64{"student": 1, "staff": 2, "faculty": 5, "admin": 10} {
		wantShare(t, got, tenant, w/18, 0.005)
	}
}

// A positive balance must help the heavy more than the light, a negative one must not help anybody.
func TestWeightsDoNotInvertAfterAbsenceOrExcess(t *testing.T) {
	t.Parallel()
	for name, light := range map[string]*load{
		"all come back with credit": {tenant: "light", weight: 1, open: 50, cost: 600, from: 300 * time.Second},
		"the light is ahead":        {tenant: "light", weight: 1, open: 50, cost: 600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heavy := &load{tenant: "heavy", weight: 10, open: 50, cost: 600, from: 300 * time.Second}
			s := newSim(scheduler.Settings{}, light, heavy, &load{tenant: "other", weight: 1, open: 50, cost: 600})
			s.machine(8, 0)
			s.run(300 * time.Second)
			s.shares()
			s.run(330 * time.Second)
			wantShare(t, s.shares(), "heavy", 10.0/12, 0.08)
			s.run(630 * time.Second)
			wantShare(t, s.shares(), "heavy", 10.0/12, 0.01)
		})
	}
}

func TestUseOfAnIdleMachineCostsNothingLater(t *testing.T) {
	t.Parallel()
	s := newSim(scheduler.Settings{}, &load{tenant: "early", weight: 1, open: 50, cost: 600}, &load{tenant: "late", weight: 1, open: 50, cost: 600, from: 400 * time.Second})
	s.machine(8, 0)
	s.run(400 * time.Second)
	s.shares()
	s.run(460 * time.Second)
	wantShare(t, s.shares(), "early", 0.5, 0.06)
}

func TestAnIdleTenantDoesNotHoardCredit(t *testing.T) {
	t.Parallel()
	const k, inFlight = 20_000, 8 * 900
	s := newSim(scheduler.Settings{Credit: k}, &load{tenant: "steady", weight: 1, open: 50, cost: 600}, &load{tenant: "other", weight: 1, open: 50, cost: 600},
		&load{tenant: "back", weight: 1, open: 50, cost: 600, from: time.Hour})
	s.machine(8, 0)
	s.run(time.Hour)
	clear(s.served)
	s.run(time.Hour + 2*time.Minute)
	got := s.served["back"] - (s.served["steady"]+s.served["other"])/2
	if math.Abs(got-k) > inFlight {
		t.Errorf("who was away for an hour got %.0f TE more than the others in two minutes, want the credit of %d and what is in flight", got, k)
	}
}

// A lead of more than the clock makes in a window, or of the credit, is forgiven to who comes back.
func TestDebtIsForgiven(t *testing.T) {
	t.Parallel()
	s := newSim(scheduler.Settings{Credit: 1000}, &load{tenant: "steady", weight: 1, open: 20, cost: 600}, &load{tenant: "other", weight: 1, open: 20, cost: 600},
		&load{tenant: "huge", weight: 1, open: 20, cost: 600, from: 2 * time.Minute})
	s.machine(2, 0) // the clock makes 200 TE a second, 12,000 in a window
	w := &scheduler.Waiter{Flow: s.policy.Flow(scheduler.FlowID{Tenant: "huge"}, 1, 0, s.now), Lane: s.lanes[0], Arrival: s.now}
	s.policy.Push(w, s.now)
	c, _ := s.policy.Take(w, 200_000, s.boxes[0].clock, s.lanes, s.now)
	s.policy.Settle(&c, 200_000, time.Second, s.now)
	s.run(5 * time.Minute)
	// Without forgiveness nothing would come for a quarter of an hour; with it, one of the three minutes passes first.
	if got := s.served["huge"]; got < 14_000 || got > 18_000 {
		t.Errorf("%.0f TE in three minutes for a tenant with a debt, want its third of the service in two of them, 16,000", got)
	}
}

// Whoever has used the busy side much pays for it on a scarce backend by a wait of about a window, not for ever.
func TestALeadOnTheBusySideDoesNotShutTheScarce(t *testing.T) {
	t.Parallel()
	s := newSim(scheduler.Settings{}, &load{tenant: "scarce1", weight: 1, open: 10, cost: 600, lane: 0}, &load{tenant: "scarce2", weight: 1, open: 10, cost: 600, lane: 0},
		&load{tenant: "both", weight: 1, open: 50, cost: 600, lane: 1, till: 20 * time.Minute},
		&load{tenant: "both", weight: 1, open: 10, cost: 600, lane: 0, from: 21 * time.Minute})
	s.machine(1, 0, 2)
	s.machine(16, 1, 2)
	s.run(21 * time.Minute)
	clear(s.served)
	s.run(26 * time.Minute)
	if got := s.served["both"] / (300 * 200); got < 0.2 {
		t.Errorf("%.2f of the scarce backend in five minutes, want nearly a third", got)
	}
}

func TestInteractiveTenantsWaitForAboutOneSlot(t *testing.T) {
	t.Parallel()
	loads := []*load{}
	for i := range 6 {
		loads = append(loads, &load{tenant: fmt.Sprint("batch", i), class: llm.ClassBatch, weight: 1, open: 50, cost: 800})
	}
	for i := range 10 {
		loads = append(loads, &load{tenant: fmt.Sprint("chat", i), class: llm.ClassInteractive, weight: 1, every: 20 * time.Second, cost: 500})
	}
	s := newSim(scheduler.Settings{}, loads...)
	s.machine(32, 0)
	s.run(10 * time.Minute)
	var waits []time.Duration
	for i := range 10 {
		waits = append(waits, s.waits[fmt.Sprint("chat", i)]...)
	}
	slices.Sort(waits)
	// A slot gets free each 125 ms on average.
	if p95 := waits[len(waits)*95/100]; p95 > 500*time.Millisecond {
		t.Errorf("95 of 100 interactive requests waited up to %v, want about the time until a slot is free", p95)
	}
}

func TestCancelledRequestsArePaidFor(t *testing.T) {
	t.Parallel()
	s := newSim(scheduler.Settings{}, &load{tenant: "spammer", weight: 1, open: 200, cost: 600, cancelled: true}, &load{tenant: "honest", weight: 1, open: 50, cost: 600})
	s.machine(4, 0)
	s.run(5 * time.Minute)
	if got := s.shares()["honest"]; got < 0.9 {
		t.Errorf("share of the honest tenant %.2f beside one that cancels everything, want nearly all: a cancelled request holds its slot for 10 ms", got)
	}
	n := float64(len(s.waits["spammer"])) * 64
	h := float64(len(s.waits["honest"])) * 600
	if n > 1.2*h {
		t.Errorf("the spammer was given %.0f TE worth of turns, the honest tenant %.0f: turns must cost at least 64 TE", n, h)
	}
}

func TestAPoolCountsAsOne(t *testing.T) {
	t.Parallel()
	loads := []*load{{tenant: "alone", weight: 1, open: 50, cost: 600}}
	for i := range 8 {
		loads = append(loads, &load{tenant: fmt.Sprint("member", i), pool: "course", weight: 1, share: float64(1 + i%2), open: 20, cost: 600})
	}
	s := newSim(scheduler.Settings{}, loads...)
	s.machine(8, 0)
	s.run(20 * time.Minute)
	got := s.shares()
	wantShare(t, got, "alone", 0.5, 0.01)
	wantShare(t, got, "member0", 0.5/12, 0.01)
	wantShare(t, got, "member1", 0.5*2/12, 0.01)
}

// The trap of the clock rule: a flow whose counter has just jumped by a large prepayment is served again, because the one
// who is first in the order cannot be. The clock must not follow it, or all who come now start behind by that jump.
func TestTheClockDoesNotFollowAJump(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	p := scheduler.NewPolicy(scheduler.Settings{Credit: -1, Bonus: -1}, now)
	clock := p.NewClock()
	open, full := p.NewLane(clock), p.NewLane(clock) // full: the model's own slots are taken
	lanes := []*scheduler.Lane{open, full}
	push := func(tenant string, l *scheduler.Lane) *scheduler.Waiter {
		w := &scheduler.Waiter{Flow: p.Flow(scheduler.FlowID{Tenant: tenant}, 1, 0, now), Lane: l, Arrival: now}
		p.Push(w, now)
		return w
	}
	push("waits", full)
	for range 4 {
		push("jumps", open)
	}
	for range 3 {
		w := p.Peek(lanes[:1], now)
		p.Take(w, 30_000, clock, lanes, now)
	}
	if v := p.Clock(); v != 0 {
		t.Errorf("clock %v, want 0: somebody who waits for the backend has not been served at all", v)
	}
	newcomer := push("newcomer", open)
	if got := p.Peek(lanes[:1], now); got != newcomer {
		t.Error("a newcomer is behind a tenant that is 90,000 TE ahead")
	}
}

// In a domain with a scarce backend, tenants who depend on it fall behind the others. That must neither let newcomers
// there wait for ever nor let newcomers on the other side take everything.
func TestAScarceBackendStarvesNobody(t *testing.T) {
	t.Parallel()
	loads := []*load{}
	for i := range 6 {
		loads = append(loads, &load{tenant: fmt.Sprint("scarce", i), weight: float64(1 + i%2), open: 10, cost: 600, lane: 0})
	}
	for i := range 2 {
		loads = append(loads, &load{tenant: fmt.Sprint("plenty", i), weight: 1, open: 50, cost: 600, lane: 1})
	}
	loads = append(loads,
		&load{tenant: "new-scarce", weight: 1, open: 10, cost: 600, lane: 0, from: 20 * time.Minute},
		&load{tenant: "new-plenty", weight: 1, open: 50, cost: 600, lane: 1, from: 20 * time.Minute})
	s := newSim(scheduler.Settings{}, loads...)
	s.machine(1, 0, 2) // lane 2 makes it one domain
	s.machine(16, 1, 2)
	s.run(20 * time.Minute)
	s.shares()
	s.run(25 * time.Minute)
	total := 300.0 * 200
	wantNear := func(tenant string, want float64) {
		t.Helper()
		if got := s.served[tenant] / total; math.Abs(got-want) > 0.25*want {
			t.Errorf("%s got %.2f slots, want %.2f", tenant, got, want)
		}
	}
	wantNear("new-scarce", 1.0/10)
	wantNear("scarce0", 1.0/10)
	wantNear("scarce1", 2.0/10)
	wantNear("new-plenty", 16.0/3)
	wantNear("plenty0", 16.0/3)
}

// A detour over a slow lane must not earn credit on a busy one.
func TestCreditIsNotEarnedByChangingLanes(t *testing.T) {
	t.Parallel()
	s := newSim(scheduler.Settings{}, &load{tenant: "steady", weight: 1, open: 50, cost: 600, lane: 1}, &load{tenant: "steady2", weight: 1, open: 50, cost: 600, lane: 1},
		&load{tenant: "hopper", weight: 1, open: 4, cost: 600, lane: 1}, &load{tenant: "hopper", weight: 1, every: 2 * time.Second, cost: 64, lane: 0},
		&load{tenant: "scarce", weight: 1, open: 4, cost: 600, lane: 0})
	s.machine(1, 0, 2)
	s.machine(4, 1, 2)
	s.run(10 * time.Minute)
	if got, fair := s.served["hopper"], s.served["steady"]; got > 1.1*fair {
		t.Errorf("who hops between lanes got %.0f TE, a steady tenant %.0f", got, fair)
	}
}

func TestTheBonusOfAVeryLongWaitIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	const bonus = 1000
	p := scheduler.NewPolicy(scheduler.Settings{Bonus: bonus, Credit: -1, Age: 150 * time.Second}, now)
	clock := p.NewClock()
	lane := p.NewLane(clock)
	lanes := []*scheduler.Lane{lane}
	push := func(tenant string) *scheduler.Waiter {
		w := &scheduler.Waiter{Flow: p.Flow(scheduler.FlowID{Tenant: tenant}, 1, 0, now), Lane: lane, Arrival: now}
		p.Push(w, now)
		return w
	}
	push("ahead")
	push("ahead")
	p.Take(p.Peek(lanes, now), 1100, clock, lanes, now) // a counter of 1,100
	now = now.Add(time.Hour)
	fresh := push("fresh") // a counter of 0
	if p.Peek(lanes, now) != fresh {
		t.Error("an hour of waiting outweighs a lead of 1,100 TE, want at most the bonus of 1,000")
	}
}

// At every event of a random workload: what a tenant was charged is what its counter shows, and two tenants who wait
// without a break are never further apart than the bound in the package comment.
func TestTheServiceDifferenceStaysBelowTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const maxCost = 1500.0 // twice 0.5 to 1.5 of the average
		slack := 0.0
		bonus := float64(rapid.IntRange(0, 2000).Draw(rt, "bonus"))
		set := scheduler.Settings{Bonus: bonus - b2f(bonus == 0), Slack: -1, Credit: float64(rapid.IntRange(1, 8000).Draw(rt, "credit"))}
		wrong := rapid.Float64Range(0.2, 3).Draw(rt, "misprediction")
		var loads []*load
		n := rapid.IntRange(2, 5).Draw(rt, "tenants")
		weights := map[string]float64{}
		for i := range n {
			w := float64(rapid.IntRange(1, 10).Draw(rt, "weight"))
			name := fmt.Sprint("t", i)
			weights[name] = w
			loads = append(loads, &load{tenant: name, weight: w, open: 40, cost: maxCost / 1.5, wrong: wrong})
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, "visitors") {
			loads = append(loads, &load{tenant: fmt.Sprint("visitor", i), weight: 1, every: 10 * time.Second, cost: 400, class: llm.ClassInteractive})
		}
		s := newSim(set, loads...)
		slots := rapid.IntRange(1, 12).Draw(rt, "slots")
		s.machine(slots, 0)
		s.rnd = rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))

		served, base := map[string]bool{}, map[string]float64{}
		c0 := max(maxCost*wrong, 64)
		over, refund := max(0, maxCost*(1-wrong)), max(0, maxCost*(wrong-1))
		s.on = func(r *running) { served[r.load.tenant] = true }
		s.after = func() {
			for f, w := range weights {
				if at := s.policy.Find(scheduler.FlowID{Tenant: f}); served[f] {
					// Its counter moves by what it is charged and by nothing else.
					rest := at.Counter() - at.Served()/w
					if was, ok := base[f]; ok && math.Abs(rest-was) > 1e-6 {
						rt.Fatalf("counter of %s: %.3f TE per unit of weight are not accounted for", f, rest-was)
					}
					base[f] = rest
				}
			}
			for f, wf := range weights {
				for g, wg := range weights {
					if f == g || !served[f] || !served[g] {
						continue
					}
					a, b := s.policy.Find(scheduler.FlowID{Tenant: f}), s.policy.Find(scheduler.FlowID{Tenant: g})
					bound := bonus + slack + (c0+float64(slots)*over)/wf + float64(slots)*refund/wg
					if diff := a.Counter() - b.Counter(); diff > bound+1e-6 {
						rt.Fatalf("%s is ahead of %s by %.0f TE per unit of weight, the bound is %.0f", f, g, diff, bound)
					}
				}
			}
		}
		s.run(2 * time.Minute)
	})
}

func TestOwnUrgentRequestsGoFirst(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	p := scheduler.NewPolicy(scheduler.Settings{}, now)
	clock := p.NewClock()
	lanes := []*scheduler.Lane{p.NewLane(clock)}
	f := p.Flow(scheduler.FlowID{Tenant: "u"}, 1, 0, now)
	for i, c := range []llm.Class{llm.ClassBatch, llm.ClassStandard, llm.ClassInteractive, llm.ClassStandard, llm.ClassBatch, llm.ClassInteractive} {
		p.Push(&scheduler.Waiter{Flow: f, Lane: lanes[0], Class: c, Arrival: now.Add(time.Duration(i)), Value: i}, now)
	}
	// A retry keeps its arrival.
	p.Push(&scheduler.Waiter{Flow: f, Lane: lanes[0], Class: llm.ClassInteractive, Arrival: now.Add(-time.Minute), Value: "retry"}, now)
	var got []any
	for w := p.Peek(lanes, now); w != nil; w = p.Peek(lanes, now) {
		p.Take(w, 100, clock, lanes, now)
		got = append(got, w.Value)
	}
	if want := "[retry 2 5 1 3 0 4]"; fmt.Sprint(got) != want {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestIdleTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	p := scheduler.NewPolicy(scheduler.Settings{}, now)
	clock := p.NewClock()
	lanes := []*scheduler.Lane{p.NewLane(clock)}
	id := scheduler.FlowID{Pool: "g", Tenant: "gone"}
	p.Push(&scheduler.Waiter{Flow: p.Flow(id, 1, 1, now), Lane: lanes[0], Arrival: now}, now)
	c, _ := p.Take(p.Peek(lanes, now), 100, clock, lanes, now)
	now = now.Add(time.Hour)
	for range 3 {
		p.Flow(scheduler.FlowID{Tenant: "other"}, 1, 0, now)
	}
	if p.Find(id) == nil {
		t.Fatal("a tenant with a running request was forgotten")
	}
	p.Settle(&c, 100, time.Hour, now)
	now = now.Add(10 * time.Minute)
	p.Flow(scheduler.FlowID{Tenant: "other"}, 1, 0, now)
	if p.Find(id) == nil {
		t.Error("a tenant was forgotten before the window and ten minutes were over")
	}
	now = now.Add(2 * time.Minute)
	p.Flow(scheduler.FlowID{Tenant: "other"}, 1, 0, now)
	if p.Find(id) != nil {
		t.Error("an idle tenant is remembered for ever")
	}
}
