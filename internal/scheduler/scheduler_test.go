package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
	"mindrouter/internal/scheduler"
)

func fleet(slots ...int) []routing.Backend {
	var out []routing.Backend
	for i, n := range slots {
		out = append(out, routing.Backend{
			ID: routing.BackendID(fmt.Sprintf("b%d", i)), Slots: n, Health: routing.HealthUp, Intent: routing.IntentEnabled,
			Models: map[string]llm.Model{"m": {Name: "m"}},
		})
	}
	return out
}

func job(tenant string) scheduler.Job {
	return scheduler.Job{
		Tenant: tenant, Need: routing.Need{Models: []string{"m"}}, Arrival: time.Now(), MaxWait: scheduler.DefaultMaxWait,
	}
}

func newScheduler(backends []routing.Backend) *scheduler.Scheduler {
	s := scheduler.New(scheduler.Config{Profile: routing.Least()})
	s.SetBackends(backends)
	return s
}

func acquire(t *testing.T, s *scheduler.Scheduler, j scheduler.Job) *scheduler.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), j)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return l
}

func TestBurstSpreadsEvenly(t *testing.T) {
	s := newScheduler(fleet(16, 16, 16, 16, 16, 16, 16, 16))
	for range 80 {
		acquire(t, s, job("u"))
	}
	for id, n := range s.Snapshot().InFlight {
		if n < 9 || n > 11 {
			t.Errorf("backend %s has %d of 80, want 10 give or take 1", id, n)
		}
	}
}

func TestFreedSlotGoesToTheFirstWaiterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, job("a"))
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, name := range []string{"first", "second", "third"} {
			j := job(name)
			wg.Go(func() {
				l := acquire(t, s, j)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				l.Release(scheduler.Actual{})
			})
			synctest.Wait() // it is in the queue
		}
		start := time.Now()
		held.Release(scheduler.Actual{})
		wg.Wait()
		if got := fmt.Sprint(order); got != "[first second third]" {
			t.Errorf("order %s, want arrival order", got)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("hand-over took %v of virtual time: something polled", d)
		}
	})
}

func TestWaiterGivesUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, job("a"))
		start := time.Now()
		_, err := s.Acquire(t.Context(), job("b"))
		if !errors.Is(err, scheduler.ErrDeadline) {
			t.Errorf("error %v, want ErrDeadline", err)
		}
		if d := time.Since(start); d != scheduler.DefaultMaxWait {
			t.Errorf("gave up after %v, want %v", d, scheduler.DefaultMaxWait)
		}
		held.Release(scheduler.Actual{})
		if snap := s.Snapshot(); snap.Waiting != 0 || len(snap.InFlight) != 0 {
			t.Errorf("left behind: %+v", snap)
		}
	})
}

func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, job("a"))
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("client gone")
		done := make(chan error, 1)
		go func() { _, err := s.Acquire(ctx, job("b")); done <- err }()
		synctest.Wait()
		cancel(gone)
		if err := <-done; !errors.Is(err, gone) {
			t.Errorf("error %v, want the cause", err)
		}
		if n := s.Snapshot().Waiting; n != 0 {
			t.Errorf("%d waiting, want 0", n)
		}
		held.Release(scheduler.Actual{})
	})
}

func TestBusyModelDoesNotBlockAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := fleet(1, 1)
		backends[1].Models = map[string]llm.Model{"other": {Name: "other"}}
		s := newScheduler(backends)
		held := acquire(t, s, job("a"))
		go func() {
			if l, err := s.Acquire(t.Context(), job("b")); err == nil {
				l.Release(scheduler.Actual{})
			}
		}()
		synctest.Wait()
		j := job("c")
		j.Need.Models = []string{"other"}
		acquire(t, s, j).Release(scheduler.Actual{})
		held.Release(scheduler.Actual{})
	})
}

func TestConcurrencyLimitParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(8))
		limited := func() scheduler.Job {
			j := job("a")
			j.Limits = []scheduler.Limit{{Subject: "user:a", Max: 2}}
			return j
		}
		one, two := acquire(t, s, limited()), acquire(t, s, limited())
		got := make(chan *scheduler.Lease, 1)
		go func() {
			l, err := s.Acquire(t.Context(), limited())
			if err != nil {
				t.Errorf("third: %v", err)
			}
			got <- l
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Error("the third request of a user with 2 concurrent did not wait")
		default:
		}
		acquire(t, s, job("b")).Release(scheduler.Actual{}) // others pass
		one.Release(scheduler.Actual{})
		(<-got).Release(scheduler.Actual{})
		two.Release(scheduler.Actual{})
	})
}

func TestHopelessWaitIsRefusedAtOnce(t *testing.T) {
	down := fleet(1)
	down[0].Health = routing.HealthDown
	_, err := newScheduler(down).Acquire(t.Context(), job("a"))
	var none *scheduler.NoBackendError
	if !errors.As(err, &none) || !errors.Is(err, scheduler.ErrNoBackend) {
		t.Fatalf("error %v, want NoBackendError", err)
	}
	if len(none.Explanation.Candidates) != 1 || none.Explanation.Candidates[0].Excluded == nil {
		t.Errorf("explanation %+v does not say why", none.Explanation)
	}
}

func TestWaitersAreRefusedWhenTheirBackendGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, job("a"))
		done := make(chan error, 1)
		go func() { _, err := s.Acquire(t.Context(), job("b")); done <- err }()
		synctest.Wait()
		s.SetBackends(nil)
		if err := <-done; !errors.Is(err, scheduler.ErrNoBackend) {
			t.Errorf("error %v, want ErrNoBackend", err)
		}
		held.Release(scheduler.Actual{})
	})
}

func TestDrainRefusesWaitersAndNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, job("a"))
		done := make(chan error, 1)
		go func() { _, err := s.Acquire(t.Context(), job("b")); done <- err }()
		synctest.Wait()
		s.Drain()
		if err := <-done; !errors.Is(err, scheduler.ErrDraining) {
			t.Errorf("waiter: %v, want ErrDraining", err)
		}
		if _, err := s.Acquire(t.Context(), job("c")); !errors.Is(err, scheduler.ErrDraining) {
			t.Errorf("newcomer: %v, want ErrDraining", err)
		}
		held.Release(scheduler.Actual{})
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Config{Profile: routing.Least(), MaxQueued: 3, MaxQueuedPerTenant: 2})
		s.SetBackends(fleet(1))
		held := acquire(t, s, job("x"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, tenant := range []string{"a", "a", "b"} {
			go func() { _, _ = s.Acquire(ctx, job(tenant)) }()
			synctest.Wait()
		}
		if _, err := s.Acquire(ctx, job("c")); !errors.Is(err, scheduler.ErrQueueFull) {
			t.Errorf("fourth waiter: %v, want ErrQueueFull", err)
		}
		cancel()
		synctest.Wait()
		ctx2, cancel2 := context.WithCancel(t.Context())
		defer cancel2()
		for range 2 {
			go func() { _, _ = s.Acquire(ctx2, job("a")) }()
			synctest.Wait()
		}
		if _, err := s.Acquire(ctx2, job("a")); !errors.Is(err, scheduler.ErrTenantQueueFull) {
			t.Errorf("third of a tenant: %v, want ErrTenantQueueFull", err)
		}
		cancel2()
		synctest.Wait()
		held.Release(scheduler.Actual{})
	})
}

// Whatever happens in whatever order, no backend has more leases than slots, and everything is given back.
func TestInvariantsHoldForRandomWorkloads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(rt, "slots")
		n := rapid.IntRange(1, 40).Draw(rt, "requests")
		cancels := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "cancel")
		s := newScheduler(fleet(slots...))
		var mu sync.Mutex
		held := map[routing.BackendID]int{}
		var wg sync.WaitGroup
		for i := range n {
			ctx, cancel := context.WithCancel(context.Background())
			wg.Go(func() {
				defer cancel()
				l, err := s.Acquire(ctx, job(fmt.Sprint("t", i%3)))
				if err != nil {
					return
				}
				b := l.Backend()
				mu.Lock()
				held[b.ID]++
				if held[b.ID] > b.Slots {
					rt.Errorf("%d leases on %d slots", held[b.ID], b.Slots)
				}
				mu.Unlock()
				mu.Lock()
				held[b.ID]--
				mu.Unlock()
				l.Release(scheduler.Actual{Usage: llm.Usage{Input: 1, Output: 1}})
				l.Release(scheduler.Actual{}) // a second one does nothing
			})
			if cancels[i] {
				cancel()
			}
		}
		wg.Wait()
		if snap := s.Snapshot(); snap.Waiting != 0 || len(snap.InFlight) != 0 || len(snap.Subjects) != 0 {
			rt.Fatalf("left behind: %+v", snap)
		}
	})
}

func TestChargeIsPrepaidAndCorrected(t *testing.T) {
	s := newScheduler(fleet(2))
	j := job("a")
	j.Cost = 100
	l := acquire(t, s, j)
	if got := s.Snapshot().Served["a"]; got != 100 {
		t.Errorf("after dispatch %v, want the prepayment 100", got)
	}
	l.Release(scheduler.Actual{Usage: llm.Usage{Input: 100, CachedInput: 100, Output: 50}})
	if got := s.Snapshot().Served["a"]; got != 110 {
		t.Errorf("after release %v, want 100*0.1 + 50*2 = 110", got)
	}
	l = acquire(t, s, j)
	l.Release(scheduler.Actual{Usage: llm.Usage{Output: 50}, Refund: true})
	if got := s.Snapshot().Served["a"]; got != 110 {
		t.Errorf("after a refund %v, want 110", got)
	}
}
