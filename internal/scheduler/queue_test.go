package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
	"mindrouter/internal/scheduler"
)

func TestNoMoreLeasesThanSlotsWhateverTheProfileSays(t *testing.T) {
	s := scheduler.New(scheduler.Config{}) // no filters at all
	s.SetBackends(fleet(2))
	acquire(t, s, job("a"))
	acquire(t, s, job("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Acquire(ctx, job("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a third request on two slots, want that of its context", err)
	}
}

func TestBacklogThatCannotBeServedInTimeIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		use := scheduler.Actual{Usage: llm.Usage{Input: 1000}}
		l := acquire(t, s, jobOf("a", 1000))
		time.Sleep(10 * time.Second)
		l.Release(use) // a request costs 1,000 TE and takes 10 s
		acquire(t, s, jobOf("a", 1000))
		var err error
		n := 0
		for ; n < 100 && err == nil; n++ {
			_, fits := s.Estimate(jobOf("a", 1000))
			if !fits {
				t.Fatal("no estimate although a request has ended")
			}
			done := make(chan error, 1)
			go func() { _, err := s.Acquire(t.Context(), jobOf("a", 1000)); done <- err }()
			synctest.Wait()
			select {
			case err = <-done:
			default:
			}
		}
		var refused *scheduler.RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, scheduler.ErrRefusedEarly) || !errors.Is(err, scheduler.ErrTenantQueueFull) {
			t.Fatalf("error %v, want an early refusal for the tenant's own requests", err)
		}
		if n < 20 || n > 40 {
			t.Errorf("refused with %d waiting, want soon after a quarter of the bound of 100: 15 are served in 150 s", n)
		}
		if refused.RetryAfter < time.Minute || refused.RetryAfter > 2*time.Minute || refused.RetryAfter%time.Second != 0 {
			t.Errorf("retry after %v, want about %v, whole seconds up to 120", refused.RetryAfter, refused.Wait-scheduler.DefaultMaxWait)
		}
		if refused.Position < 20 || refused.Position > 30 {
			t.Errorf("position %d, want about %d", refused.Position, n)
		}
		// Another tenant has its turn soon.
		b := queue(t, s, jobOf("b", 1000))
		if est, _ := s.Estimate(jobOf("b", 1000)); est.Wait > 30*time.Second {
			t.Errorf("estimate for a tenant without backlog: %v", est.Wait)
		}
		s.Drain()
		<-b
	})
}

func TestOverloadIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		l := acquire(t, s, jobOf("x", 1000))
		time.Sleep(20 * time.Second)
		l.Release(scheduler.Actual{Usage: llm.Usage{Input: 1000}})
		acquire(t, s, jobOf("x", 1000))
		var early, waiting int
		for i := range 60 {
			done := make(chan error, 1)
			go func() { _, err := s.Acquire(t.Context(), jobOf(fmt.Sprint("t", i), 1000)); done <- err }()
			synctest.Wait()
			time.Sleep(time.Millisecond)
			select {
			case err := <-done:
				if !errors.Is(err, scheduler.ErrRefusedEarly) || !errors.Is(err, scheduler.ErrQueueFull) {
					t.Fatalf("error %v, want an early refusal", err)
				}
				early++
			default:
				waiting++
			}
		}
		if waiting != 25 {
			t.Errorf("%d tenants wait and %d were refused at once, want 25 to wait: eight are served in 150 s, and below a quarter of the bound none is refused", waiting, early)
		}
		s.Drain()
	})
}

func TestAnIdleModelDoesNotCountOnABusyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := fleet(1, 1)
		backends[1].Models = map[string]llm.Model{"other": {Name: "other"}}
		s := newScheduler(backends)
		for range 20 { // much use of the other model, which nobody else wants
			j := jobOf("a", 5000)
			j.Need.Models = []string{"other"}
			acquire(t, s, j).Release(scheduler.Actual{Usage: llm.Usage{Input: 5000}})
		}
		held := acquire(t, s, jobOf("x", 100))
		a := queue(t, s, jobOf("a", 100))
		time.Sleep(time.Second)
		b := queue(t, s, jobOf("b", 100))
		held.Release(scheduler.Actual{})
		l := granted(a)
		if l == nil || granted(b) != nil {
			t.Fatal("use of an idle model has cost a place on a busy one")
		}
		l.Release(scheduler.Actual{})
		<-b
	})
}

func TestDomainsMergeAndSplitUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := fleet(1, 1)
		backends[1].Models = map[string]llm.Model{"other": {Name: "other"}}
		s := newScheduler(backends)
		on := func(tenant string, models ...string) scheduler.Job {
			j := jobOf(tenant, 1000)
			j.Need.Models = models
			return j
		}
		x, y := acquire(t, s, on("x", "m")), acquire(t, s, on("x", "other"))
		m, o := queue(t, s, on("heavy", "m")), queue(t, s, on("b", "other"))
		chain := queue(t, s, on("c", "m", "other"))
		if n := s.Snapshot(); n.Waiting != 3 || n.Served["x"] != 2000 {
			t.Fatalf("after the merge: %+v", n)
		}
		y.Release(scheduler.Actual{Usage: llm.Usage{Input: 1000}})
		lo := granted(o)
		if lo == nil || granted(chain) != nil {
			t.Fatal("the first waiter lost its place by the merge")
		}
		lo.Release(scheduler.Actual{Usage: llm.Usage{Input: 1000}})
		lc := granted(chain)
		if lc == nil || lc.Model().Name != "other" {
			t.Fatal("the chain did not take the second model")
		}
		lc.Release(scheduler.Actual{Usage: llm.Usage{Input: 1000}})
		time.Sleep(time.Hour)
		s.SetBackends(fleet(1)) // the other backend goes, the chain's lane is old
		x.Release(scheduler.Actual{Usage: llm.Usage{Input: 1000}})
		if _, ok := <-m; ok {
			t.Error("a request was served an hour after its deadline")
		}
		acquire(t, s, on("heavy", "m")).Release(scheduler.Actual{Refund: true})
		if n := s.Snapshot(); n.Waiting != 0 || len(n.InFlight) != 0 {
			t.Errorf("left behind: %+v", n)
		}
	})
}

func TestExplanationNamesBusyBackendsAsTheyWere(t *testing.T) {
	s := newScheduler(fleet(1, 2))
	first := acquire(t, s, job("a"))
	second := acquire(t, s, job("a"))
	third := acquire(t, s, job("a"))
	first.Release(scheduler.Actual{})
	second.Release(scheduler.Actual{})
	ex := third.Explain()
	if len(ex.Candidates) != 2 || ex.Candidates[0].Backend != "b0" || ex.Candidates[1].Backend != "b1" {
		t.Fatalf("explanation %+v, want both backends in order", ex)
	}
	var full, chosen int
	for _, c := range ex.Candidates {
		switch {
		case c.Excluded != nil && c.Excluded.Busy:
			full++
		case c.Chosen && c.Backend == third.Backend().ID:
			chosen++
		}
	}
	if full != 1 || chosen != 1 {
		t.Errorf("explanation %+v, want one backend full and the other chosen", ex)
	}
	if d := third.Decision(); d.Prepaid != 64 || d.Weight != 1 {
		t.Errorf("decision %+v", d)
	}
}

func TestEveryFieldOfANeedIsConsidered(t *testing.T) {
	known := map[string]bool{"Models": true, "Capabilities": true, "Input": true, "CampusOnly": true, "Avoid": true}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[routing.Need]()) {
		if !known[f.Name] {
			t.Errorf("routing.Need has a new field %s: if a filter looks at it, it belongs into laneKeyLocked; then add it here", f.Name)
		}
	}
}

func TestLongPromptDoesNotBlockShortOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := fleet(1, 1)
		backends[0].Models = map[string]llm.Model{"m": {Name: "m", ContextLength: 100_000}}
		backends[1].Models = map[string]llm.Model{"m": {Name: "m", ContextLength: 8000}}
		s := newScheduler(backends)
		long := job("a")
		long.Need.Input = 50_000
		acquire(t, s, long)
		waits := queue(t, s, long)
		if granted(waits) != nil {
			t.Fatal("a long prompt went to a small context")
		}
		acquire(t, s, job("b")) // must not wait
		s.Drain()
		<-waits
	})
}

func TestRacesOfCancelExpireAndGrant(t *testing.T) {
	s := scheduler.New(scheduler.Config{Profile: routing.Least(), MaxQueuedPerTenant: 1000})
	const slots = 3
	s.SetBackends(fleet(slots, slots))
	var inFlight [2]atomic.Int32
	var granted, refusals atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 150 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(2000))*time.Microsecond)
				j := jobOf(fmt.Sprint("user:", i%4), 100)
				j.MaxWait = time.Duration(rnd.IntN(2000)) * time.Microsecond
				j.Limits = []scheduler.Limit{{Subject: fmt.Sprint("key:", i%8), Max: 1}, {Subject: j.Tenant, Max: 2}}
				if i%4 == 0 {
					j.Pool = "group:g"
				}
				l, err := s.Acquire(ctx, j)
				if err != nil {
					refusals.Add(1)
					cancel()
					continue
				}
				granted.Add(1)
				at := &inFlight[l.Backend().ID[1]-'0']
				if n := at.Add(1); n > slots {
					t.Errorf("%d leases on %d slots", n, slots)
				}
				l.Charge(rnd.IntN(500))
				if rnd.IntN(3) == 0 {
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
				}
				at.Add(-1)
				l.Release(scheduler.Actual{Refund: rnd.IntN(4) == 0, Usage: llm.Usage{Input: 100}})
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	var fleetChanges sync.WaitGroup
	fleetChanges.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			b := fleet(slots, slots)
			if i%3 == 0 {
				b[1].Models = map[string]llm.Model{"m": {Name: "m"}, "n": {Name: "n"}}
			}
			if i%5 == 0 {
				b[0].Health = routing.HealthDown
			}
			s.SetBackends(b)
			s.Flows()
			time.Sleep(200 * time.Microsecond)
		}
	})
	wg.Wait()
	close(stop)
	fleetChanges.Wait()
	if snap := s.Snapshot(); snap.Waiting != 0 || len(snap.InFlight) != 0 || len(snap.Subjects) != 0 {
		t.Errorf("left behind: %+v", snap)
	}
	if granted.Load() == 0 || refusals.Load() == 0 {
		t.Errorf("granted %d, given up %d: the test shows nothing", granted.Load(), refusals.Load())
	}
}
