package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"

	"mindrouter/internal/llm"
	"mindrouter/internal/scheduler"
)

func TestLimitOfAKeyHoldsBackThatKeyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(8))
		by := func(key string) scheduler.Job {
			j := jobOf("user:a", 100)
			j.Limits = []scheduler.Limit{{Subject: "key:" + key, Max: 1}, {Subject: "user:a", Max: 3}}
			return j
		}
		one := acquire(t, s, by("1"))
		second, third := queue(t, s, by("1")), queue(t, s, by("1"))
		other := acquire(t, s, by("2"))
		if granted(second) != nil {
			t.Fatal("a key with 1 concurrent has 2")
		}
		if f := s.Flows(); len(f) != 1 || f[0].Waiting != 2 || f[0].Running != 2 {
			t.Errorf("flows %+v, want one with 2 waiting and 2 running", f)
		}
		one.Release(scheduler.Actual{})
		l := granted(second)
		if l == nil || granted(third) != nil {
			t.Fatal("the release of the key's lease must let one of its requests go on")
		}
		if !l.Decision().Parked {
			t.Error("the decision does not say that the request was held back by a limit")
		}
		l.Release(scheduler.Actual{})
		granted(third).Release(scheduler.Actual{})
		other.Release(scheduler.Actual{})
		if n := s.Snapshot().Subjects; len(n) != 0 {
			t.Errorf("subjects %v, want none", n)
		}
	})
}

func TestTheNextHeldBackFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(4))
		by := func(n int) scheduler.Job {
			j := jobOf("user:a", 1000)
			j.Limits = []scheduler.Limit{{Subject: "key:1", Max: n}}
			return j
		}
		one := acquire(t, s, by(1))
		others := []*scheduler.Lease{acquire(t, s, jobOf("b", 100)), acquire(t, s, jobOf("b", 100))}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = s.Acquire(ctx, by(1)) }()
		synctest.Wait()
		second, third := queue(t, s, by(1)), queue(t, s, by(1))
		others = append(others, acquire(t, s, jobOf("b", 100))) // passes them; now all slots are taken
		other := queue(t, s, jobOf("b", 100))
		one.Release(scheduler.Actual{Usage: llm.Usage{Input: 1000}}) // b, who has used less, has the slot; the first held back competes
		l := granted(other)
		if l == nil {
			t.Fatal("b did not get the slot")
		}
		cancel()
		synctest.Wait()
		l.Release(scheduler.Actual{})
		two := granted(second)
		if two == nil {
			t.Fatal("the next did not follow the one that was cancelled")
		}
		others[0].Release(scheduler.Actual{})
		if granted(third) != nil {
			t.Fatal("two leases of a key with one")
		}
		two.Release(scheduler.Actual{})
		if granted(third) == nil {
			t.Fatal("the last did not follow")
		}
	})
}

func TestLimitOfAPoolKeepsItsMembersFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(4))
		member := func(name string, cost float64) scheduler.Job {
			j := jobOf("user:"+name, cost)
			j.Pool, j.PoolWeight = "group:g", 5
			j.Limits = []scheduler.Limit{{Subject: "group:g", Max: 1}}
			return j
		}
		held := acquire(t, s, member("heavy", 5000))
		heavy := queue(t, s, member("heavy", 5000))
		light := queue(t, s, member("light", 100))
		acquire(t, s, jobOf("user:outside", 100)).Release(scheduler.Actual{}) // others pass
		held.Release(scheduler.Actual{Usage: llm.Usage{Input: 5000}})
		l := granted(light)
		if l == nil || granted(heavy) != nil {
			t.Fatal("the member that has used less must go first, and alone")
		}
		l.Release(scheduler.Actual{})
		granted(heavy).Release(scheduler.Actual{})
	})
}

func TestARaisedLimitTakesEffectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(8))
		with := func(limit int) scheduler.Job {
			j := jobOf("user:a", 100)
			j.Limits = []scheduler.Limit{{Subject: "user:a", Max: limit}}
			return j
		}
		acquire(t, s, with(1))
		waits := queue(t, s, with(1))
		next := queue(t, s, with(3))
		if granted(waits) == nil || granted(next) == nil {
			t.Error("requests wait below the new bound of 3")
		}
	})
}
