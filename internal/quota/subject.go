package quota

import (
	"fmt"
	"time"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// advance moves s to now: it forgets requests outside the window, refills the bucket and starts a new budget period if
// the old one is over. A new period starts at the old one's end, never at now.
func (s *subject) advance(now time.Time, l identity.Limits, period time.Duration) {
	cut := now.Add(-window)
	for len(s.starts) > 0 && !s.starts[0].After(cut) {
		s.starts = s.starts[1:]
	}
	s.fill(now, l)
	switch end := s.counter.PeriodEnd; {
	case end.IsZero():
		s.counter.PeriodEnd = now.Add(period)
	case !now.Before(end):
		missed := now.Sub(end)/period + 1
		s.counter.PeriodEnd = end.Add(missed * period)
		s.counter.Used = 0
	}
}

// fill refills the token bucket at the limit's rate, up to one minute's worth.
func (s *subject) fill(now time.Time, l identity.Limits) {
	if l.TokensPerMinute > 0 {
		rate := float64(l.TokensPerMinute) / window.Seconds()
		s.bucket = min(float64(l.TokensPerMinute), s.bucket+now.Sub(s.filled).Seconds()*rate)
	} else {
		s.bucket = 0
	}
	s.filled = now
}

func (s *subject) budgetLeft(l identity.Limits) (left int64, limited bool) {
	if l.TokenBudget <= 0 {
		return 0, false
	}
	return l.TokenBudget - s.counter.Used - s.reserved, true
}

// refuse says which limit of b a request of tokens would break; nil if none. Of several it names the one that takes
// longest to pass.
func (s *subject) refuse(now time.Time, b identity.Bound, tokens int64) *llm.Error {
	var worst *llm.Error
	add := func(e *llm.Error) {
		if worst == nil || e.RetryAfter > worst.RetryAfter {
			worst = e
		}
	}
	if n := b.Limits.RequestsPerMinute; n > 0 && len(s.starts) >= n {
		wait := s.starts[len(s.starts)-n].Add(window).Sub(now)
		add(rateError(b.Subject, KindRequests, n, wait))
	}
	if n := b.Limits.TokensPerMinute; n > 0 {
		// One that is larger than the whole bucket passes when the bucket is full, or it never would.
		if need := min(float64(tokens), float64(n)); s.bucket < need {
			wait := time.Duration((need - s.bucket) / float64(n) * float64(window))
			add(rateError(b.Subject, KindTokens, n, wait))
		}
	}
	if left, limited := s.budgetLeft(b.Limits); limited && left < tokens {
		add(&llm.Error{
			Code:       llm.CodeBudgetSpent,
			Message:    budgetMessage(b, left, tokens, s.counter.PeriodEnd),
			RetryAfter: s.counter.PeriodEnd.Sub(now),
		})
	}
	return worst
}

func (s *subject) take(now time.Time, l identity.Limits, tokens int64) {
	if l.RequestsPerMinute > 0 {
		s.starts = append(s.starts, now)
	}
	s.hold(l, tokens)
}

// hold reserves tokens; a negative number gives back.
func (s *subject) hold(l identity.Limits, tokens int64) {
	s.reserved += tokens
	if l.TokensPerMinute > 0 {
		s.bucket -= float64(tokens)
	}
}

func rateError(s identity.Subject, k Kind, limit int, wait time.Duration) *llm.Error {
	wait = max(wait, time.Millisecond)
	return &llm.Error{
		Code: llm.CodeRateLimited,
		Message: fmt.Sprintf("Rate limit reached: %d %s of this %s. Please try again in %.1fs.",
			limit, words(k), scopeWords(s), wait.Seconds()),
		RetryAfter: wait,
	}
}

func budgetMessage(b identity.Bound, left, tokens int64, end time.Time) string {
	return fmt.Sprintf("The token budget of this %s (%d tokens) has %d left and the request may use %d. It resets at %s.",
		scopeWords(b.Subject), b.Limits.TokenBudget, max(0, left), tokens, end.UTC().Format(time.RFC3339))
}

func words(k Kind) string {
	if k == KindRequests {
		return "requests per minute"
	}
	return "tokens per minute"
}

func scopeWords(s identity.Subject) string {
	if s.Scope == "service_key" {
		return "service key"
	}
	return s.Scope
}
