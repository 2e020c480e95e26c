package scheduler_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"mindrouter/internal/routing"
	"mindrouter/internal/scheduler"
)

// TestNoSlotIsLostWhenAllLeaveAtOnce lets many waiters give up in the moment in which slots become free for them.
func TestNoSlotIsLostWhenAllLeaveAtOnce(t *testing.T) {
	t.Parallel()
	const waiters, rounds = 64, 200
	s := scheduler.New(scheduler.Config{Profile: routing.Least(), MaxQueuedPerTenant: 2 * waiters})
	for round := range rounds {
		s.SetBackends(fleet(1))
		held, err := s.Acquire(t.Context(), job("holder"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				if l, err := s.Acquire(ctx, job("tenant")); err == nil {
					l.Release(scheduler.Actual{})
				}
			})
		}
		for s.Snapshot().Waiting < waiters {
			runtime.Gosched()
		}
		all.Go(leave)
		if round%2 == 0 {
			s.SetBackends(fleet(waiters))
		}
		held.Release(scheduler.Actual{})
		all.Wait()
		leave()
		if snap := s.Snapshot(); len(snap.InFlight) != 0 || snap.Waiting != 0 {
			t.Fatalf("round %d: %d wait and %v are in flight, and nobody is there", round, snap.Waiting, snap.InFlight)
		}
	}
}
