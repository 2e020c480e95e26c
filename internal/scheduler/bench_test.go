package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// One turn of the policy alone: the smallest key is found, served, charged, ended and another request comes.
func BenchmarkPolicyTurn(b *testing.B) {
	for _, size := range []struct{ waiting, flows int }{{1000, 100}, {100_000, 10_000}, {100_000, 100_000}} {
		b.Run(fmt.Sprintf("waiting=%d/flows=%d", size.waiting, size.flows), func(b *testing.B) {
			now := time.Unix(0, 0)
			p := NewPolicy(Settings{}, now)
			clock := p.NewClock()
			lane := p.NewLane(clock)
			lanes := []*Lane{lane}
			rnd := rand.New(rand.NewPCG(1, 2))
			push := func() {
				tenant := fmt.Sprint("t", rnd.IntN(size.flows))
				f := p.Flow(FlowID{Tenant: tenant}, float64(1+rnd.IntN(10)), 0, now)
				p.Push(&Waiter{Flow: f, Lane: lane, Arrival: now}, now)
			}
			for range size.waiting {
				push()
			}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				w := p.Peek(lanes, now)
				c, _ := p.Take(w, 500+float64(rnd.IntN(1000)), clock, lanes, now)
				p.Settle(&c, 1000, time.Second, now)
				w.seq, w.Arrival = 0, now
				p.Push(w, now)
			}
		})
	}
}

// The decision alone, as long as 100,000 requests of 10,000 tenants wait: who is next, the charge, and the clock.
func BenchmarkDecision(b *testing.B) {
	now := time.Unix(0, 0)
	p := NewPolicy(Settings{}, now)
	clock := p.NewClock()
	lane := p.NewLane(clock)
	lanes := []*Lane{lane}
	rnd := rand.New(rand.NewPCG(1, 2))
	const batch = 1000
	for i := range 100_000 + batch {
		f := p.Flow(FlowID{Tenant: fmt.Sprint("t", i%10_000)}, float64(1+i%10), 0, now)
		p.Push(&Waiter{Flow: f, Lane: lane, Arrival: now}, now)
	}
	var taken [batch]*Waiter
	var charges [batch]Charge
	b.ReportAllocs()
	for n := 0; n < b.N; {
		k := min(batch, b.N-n)
		for i := range k {
			now = now.Add(time.Millisecond)
			taken[i] = p.Peek(lanes, now)
			charges[i], _ = p.Take(taken[i], 500+float64(rnd.IntN(1000)), clock, lanes, now)
		}
		n += k
		b.StopTimer()
		for i := range k {
			p.Settle(&charges[i], 1000, time.Second, now)
			taken[i].seq, taken[i].Arrival = 0, now
			p.Push(taken[i], now)
		}
		b.StartTimer()
	}
}

// crowd fills a scheduler: all slots are taken, waiting requests of so many tenants wait. It returns a lease to begin with.
func crowd(b *testing.B, backends, waiting, tenants int, limited bool) (*Scheduler, *Lease) {
	b.Helper()
	s := New(Config{Profile: routing.Least(), MaxQueued: 1 << 30, MaxQueuedTotal: 1 << 30, MaxQueuedPerTenant: 1 << 30, MaxQueuedBytes: 1 << 40})
	var fleet []routing.Backend
	for i := range backends {
		fleet = append(fleet, routing.Backend{
			ID: routing.BackendID(fmt.Sprint("b", i)), Slots: 4, Health: routing.HealthUp, Intent: routing.IntentEnabled,
			Models: map[string]llm.Model{"m": {Name: "m"}},
		})
	}
	s.SetBackends(fleet)
	var first *Lease
	for range backends * 4 {
		l, err := s.Acquire(b.Context(), crowdJob(0, false))
		if err != nil {
			b.Fatal(err)
		}
		first = l
	}
	for i := range waiting {
		enqueue(b, s, crowdJob(i%tenants, limited))
	}
	return s, first
}

func crowdJob(tenant int, limited bool) Job {
	j := Job{
		Tenant: fmt.Sprint("t", tenant), Weight: float64(1 + tenant%10), Cost: 1000, Need: routing.Need{Models: []string{"m"}},
		Arrival: time.Now(), MaxWait: 1000 * time.Hour,
	}
	if limited {
		j.Limits = []Limit{{"key:" + j.Tenant, 1}, {j.Tenant, 2}}
	}
	return j
}

func enqueue(b *testing.B, s *Scheduler, j Job) *waiter {
	b.Helper()
	w := &waiter{job: j}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enqueueLocked(w, time.Now()); err != nil {
		b.Fatal(err)
	}
	s.dispatchLocked(time.Now())
	w.done = make(chan struct{}, 1)
	return w
}

// One turn of the whole scheduler: a slot is released, handed to the next, and another request comes.
func BenchmarkReleaseAndDispatch(b *testing.B) {
	for _, limited := range []bool{false, true} {
		for _, backends := range []int{1, 16, 64} {
			for _, waiting := range []int{1000, 100_000} {
				b.Run(fmt.Sprintf("backends=%d/waiting=%d/limited=%v", backends, waiting, limited), func(b *testing.B) {
					tenants := waiting / 10
					s, l := crowd(b, backends, waiting, tenants, limited)
					b.ReportAllocs()
					for b.Loop() {
						s.release(l, Actual{Usage: llm.Usage{Input: 500, Output: 250}})
						l = s.leases // the newest
						j := l.w.job
						j.Arrival = l.granted
						enqueue(b, s, j)
					}
				})
			}
		}
	}
}

// A request that comes while all slots are taken, and goes away again.
func BenchmarkEnqueueAndCancel(b *testing.B) {
	s, _ := crowd(b, 16, 100_000, 10_000, false)
	jobs := make([]Job, 1024)
	for i := range jobs {
		jobs[i] = crowdJob(i*7%10_000, false)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		w := enqueue(b, s, jobs[i%len(jobs)])
		s.mu.Lock()
		s.unqueueLocked(w, time.Now())
		s.mu.Unlock()
	}
}

// A slot that is free is taken and given back.
func BenchmarkUncontended(b *testing.B) {
	for _, backends := range []int{1, 16} {
		b.Run(fmt.Sprint("backends=", backends), func(b *testing.B) {
			s, l := crowd(b, backends, 0, 1, false)
			l.Release(Actual{})
			j := crowdJob(1, false)
			b.ReportAllocs()
			for b.Loop() {
				l, err := s.Acquire(b.Context(), j)
				if err != nil {
					b.Fatal(err)
				}
				l.Release(Actual{})
			}
		})
	}
}

func BenchmarkCharge(b *testing.B) {
	s, l := crowd(b, 1, 100, 10, false)
	_ = s
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		l.Charge(n)
	}
}

// A slot that is free is taken and given back while 100,000 requests wait that cannot be served: because the slots of their
// model are taken, or because their tenants are at their limits. They must cost nothing.
func BenchmarkPassingOver(b *testing.B) {
	for _, why := range []string{"nobody", "model", "limit"} {
		b.Run(why, func(b *testing.B) {
			s := New(Config{Profile: routing.Least(), MaxQueued: 1 << 30, MaxQueuedTotal: 1 << 30, MaxQueuedPerTenant: 1 << 30})
			host := routing.Backend{
				ID: "b", Slots: 10_000, Health: routing.HealthUp, Intent: routing.IntentEnabled,
				Models: map[string]llm.Model{"m": {Name: "m"}}, ModelSlots: map[string]int{},
			}
			for i := range 20 {
				name := fmt.Sprint("busy", i)
				host.Models[name], host.ModelSlots[name] = llm.Model{Name: name}, 1
			}
			s.SetBackends([]routing.Backend{host})
			if why != "nobody" {
				for i := range 100_000 {
					j := crowdJob(i%1000, false)
					if why == "limit" {
						j.Limits = []Limit{{"key:" + j.Tenant, 1}, {j.Tenant, 1}}
						if i%2000 < 1000 {
							j.Limits = j.Limits[1:] // the whole tenant is parked
						}
					} else {
						j.Need.Models = []string{fmt.Sprint("busy", i%20)}
					}
					enqueue(b, s, j)
				}
				if n := s.Snapshot().Waiting; n < 98_000 {
					b.Fatalf("%d wait", n)
				}
			}
			j := crowdJob(5000, false)
			b.ReportAllocs()
			for b.Loop() {
				l, err := s.Acquire(b.Context(), j)
				if err != nil {
					b.Fatal(err)
				}
				l.Release(Actual{})
			}
		})
	}
}
