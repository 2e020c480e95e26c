package quota_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/quota"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// counters is a store that holds what it is given.
type counters map[identity.Subject]quota.Counter

func (c counters) Counter(_ context.Context, s identity.Subject) (quota.Counter, error) {
	k := c[s]
	k.Subject = s
	return k, nil
}

func start() *clock { return &clock{t: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func principal(l identity.Limits) identity.Principal {
	return identity.Principal{
		User:  identity.User{ID: "u"},
		Group: identity.Group{ID: "g", Limits: l, BudgetPeriodDays: 30},
		Key:   identity.Key{ID: "k"},
	}
}

func reserve(t *testing.T, m *quota.Meter, p identity.Principal, tokens int) *quota.Reservation {
	t.Helper()
	r, err := m.Reserve(t.Context(), p, tokens)
	if err != nil {
		t.Fatalf("Reserve(%d): %v", tokens, err)
	}
	return r
}

func refused(t *testing.T, m *quota.Meter, p identity.Principal, tokens int, want llm.Code) *llm.Error {
	t.Helper()
	_, err := m.Reserve(t.Context(), p, tokens)
	e := llm.AsError(err)
	if e == nil || e.Code != want {
		t.Fatalf("Reserve(%d): %v, want %s", tokens, err, want)
	}
	if e.RetryAfter <= 0 {
		t.Errorf("refusal %q does not say when to come back", e.Message)
	}
	return e
}

func TestBalanceForThreeAdmitsExactlyThreeOfManyAtOnce(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	p := principal(identity.Limits{TokenBudget: 3 * 150})
	var mu sync.Mutex
	var admitted []*quota.Reservation
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if r, err := m.Reserve(context.Background(), p, 150); err == nil {
				mu.Lock()
				admitted = append(admitted, r)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(admitted) != 3 {
		t.Fatalf("%d admitted, want 3", len(admitted))
	}
	for _, r := range admitted {
		r.Settle(llm.Usage{Input: 50, Output: 40})
	}
	if got := m.Reserved(); got != 0 {
		t.Errorf("reserved %d after settling, want 0", got)
	}
	reserve(t, m, p, 450-270)
	_ = refused(t, m, p, 1, llm.CodeBudgetSpent)
}

func TestRequestsPerMinuteIsASlidingWindow(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	p := principal(identity.Limits{RequestsPerMinute: 2})
	reserve(t, m, p, 1)
	c.t = c.t.Add(30 * time.Second)
	reserve(t, m, p, 1)
	c.t = c.t.Add(29 * time.Second)
	e := refused(t, m, p, 1, llm.CodeRateLimited)
	if e.RetryAfter != time.Second {
		t.Errorf("RetryAfter %v, want 1s: the first leaves the window then", e.RetryAfter)
	}
	c.t = c.t.Add(time.Second)
	reserve(t, m, p, 1)
	_ = refused(t, m, p, 1, llm.CodeRateLimited)
}

func TestRefusedRequestsConsumeNothing(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	p := principal(identity.Limits{RequestsPerMinute: 10, TokenBudget: 100})
	for range 20 {
		_ = refused(t, m, p, 101, llm.CodeBudgetSpent)
	}
	for range 10 {
		reserve(t, m, p, 10)
	}
}

func TestTokensPerMinuteRefills(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	p := principal(identity.Limits{TokensPerMinute: 600})
	r := reserve(t, m, p, 600)
	e := refused(t, m, p, 100, llm.CodeRateLimited)
	if e.RetryAfter != 10*time.Second {
		t.Errorf("RetryAfter %v, want 10s: 600 a minute are 10 a second", e.RetryAfter)
	}
	r.Settle(llm.Usage{Output: 300})
	reserve(t, m, p, 300)
	c.t = c.t.Add(10 * time.Second)
	reserve(t, m, p, 100)
	c.t = c.t.Add(time.Hour)
	reserve(t, m, p, 5000) // above the whole bucket passes when it is full, or it never would
}

func TestRefundGivesEverythingBack(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	p := principal(identity.Limits{RequestsPerMinute: 1, TokensPerMinute: 100, TokenBudget: 100})
	for range 5 {
		r := reserve(t, m, p, 100)
		r.Refund()
		r.Refund()
		if c := r.Settle(llm.Usage{Output: 100}); c != nil {
			t.Fatalf("a refunded reservation charged %v", c)
		}
	}
}

func TestPeriodResetsFromItsOldEnd(t *testing.T) {
	c := start()
	sub := identity.Subject{Scope: "user", ID: "u"}
	end := c.t.Add(time.Hour)
	m := quota.NewMeter(counters{sub: {PeriodEnd: end, Used: 100}}, c.now)
	p := principal(identity.Limits{TokenBudget: 100})
	e := refused(t, m, p, 1, llm.CodeBudgetSpent)
	if e.RetryAfter != time.Hour {
		t.Errorf("RetryAfter %v, want the hour to the reset", e.RetryAfter)
	}
	c.t = end.Add(70 * 24 * time.Hour) // two whole periods were missed
	charges := reserve(t, m, p, 10).Settle(llm.Usage{Input: 4, Output: 3})
	for _, ch := range charges {
		if ch.Subject == sub && !ch.PeriodEnd.Equal(end.Add(90*24*time.Hour)) {
			t.Errorf("period ends %v, want a multiple of 30 days after %v", ch.PeriodEnd, end)
		}
		if ch.Tokens != 7 {
			t.Errorf("charge %d, want 7", ch.Tokens)
		}
	}
}

func TestTightestScopeIsNamed(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	p := principal(identity.Limits{RequestsPerMinute: 100})
	p.Key.Limits = identity.Limits{TokenBudget: 5}
	if e := refused(t, m, p, 6, llm.CodeBudgetSpent); !strings.Contains(e.Message, "this key") {
		t.Errorf("message %q does not name the key", e.Message)
	}
	p.Key.Limits = identity.Limits{}
	p.Group.ShareMode = identity.SharePooled
	p.Group.Limits = identity.Limits{TokenBudget: 5}
	if e := refused(t, m, p, 6, llm.CodeBudgetSpent); !strings.Contains(e.Message, "this group") {
		t.Errorf("message %q does not name the group", e.Message)
	}
}

func TestExtendStopsAtTheBudget(t *testing.T) {
	c := start()
	m := quota.NewMeter(counters{}, c.now)
	r := reserve(t, m, principal(identity.Limits{TokenBudget: 100}), 50)
	if !r.Extend(50) {
		t.Error("Extend(50) of 100 with 50 held was refused")
	}
	if r.Extend(1) {
		t.Error("Extend above the budget was granted")
	}
	if r.Tokens() != 100 {
		t.Errorf("reservation %d, want 100", r.Tokens())
	}
}

// However requests come, go, fail and succeed, the budget is never overrun and nothing stays reserved.
func TestBudgetIsNeverOverrun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := start()
		budget := int64(rapid.IntRange(1, 1000).Draw(rt, "budget"))
		m := quota.NewMeter(counters{}, c.now)
		p := principal(identity.Limits{TokenBudget: budget})
		var running []*quota.Reservation
		var used int64
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			label := fmt.Sprint("step", i)
			if len(running) == 0 || rapid.Bool().Draw(rt, label+"start") {
				if r, err := m.Reserve(context.Background(), p, rapid.IntRange(1, 400).Draw(rt, label+"size")); err == nil {
					running = append(running, r)
				}
			} else {
				r := running[0]
				running = running[1:]
				if rapid.Bool().Draw(rt, label+"ok") {
					n := rapid.IntRange(0, r.Tokens()).Draw(rt, label+"used")
					r.Settle(llm.Usage{Output: n})
					used += int64(n)
				} else {
					r.Refund()
				}
			}
			var held int64
			for _, r := range running {
				held += int64(r.Tokens())
			}
			if used+held > budget {
				rt.Fatalf("used %d and held %d exceed the budget %d", used, held, budget)
			}
		}
		for _, r := range running {
			r.Refund()
		}
		if got := m.Reserved(); got != 0 {
			rt.Fatalf("reserved %d when nothing runs", got)
		}
	})
}
