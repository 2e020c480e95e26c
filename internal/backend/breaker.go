package backend

import "time"

// breaker keeps a backend that fails again and again out of use for a while. It is a pure state machine: the caller
// gives the time. After enough failures in a row it opens; when the cooldown is over it is half open, and the next
// result decides.
type breaker struct {
	failures  int // in a row
	openUntil time.Time
	reason    string
}

// breakerState is the state of a breaker at a moment.
type breakerState int

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerHalfOpen
)

func (b *breaker) state(now time.Time) breakerState {
	switch {
	case b.openUntil.IsZero():
		return breakerClosed
	case now.Before(b.openUntil):
		return breakerOpen
	default:
		return breakerHalfOpen
	}
}

// began notes that a request began to be answered. That ends the trial of a half-open breaker; but until one is answered
// to its end, the next failure opens it again.
func (b *breaker) began(now time.Time, limit int) {
	if b.state(now) == breakerHalfOpen {
		b.failures, b.openUntil = limit-1, time.Time{}
	}
}

// success notes that a request was answered to its end.
func (b *breaker) success() { *b = breaker{} }

func (b *breaker) failure(now time.Time, reason string, limit int, cooldown time.Duration) {
	b.failures++
	b.reason = reason
	if b.failures >= limit || b.state(now) == breakerHalfOpen {
		b.openUntil = now.Add(cooldown)
	}
}
