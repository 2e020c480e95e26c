package scheduler

import (
	"sync"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// Lease is a slot on a backend. Its holder may have one request in flight there until Release.
type Lease struct {
	s           *Scheduler
	job         Job
	choice      routing.Choice
	explanation routing.Explanation
	granted     time.Time

	once sync.Once
}

// Backend is where the request shall go.
func (l *Lease) Backend() routing.Backend { return l.choice.Backend }

// Model is what it shall run there.
func (l *Lease) Model() llm.Model { return l.choice.Model }

// Wait is how long the request waited for the slot, from its arrival.
func (l *Lease) Wait() time.Duration { return max(0, l.granted.Sub(l.job.Arrival)) }

// Explain returns the table of the decision.
func (l *Lease) Explain() routing.Explanation { return l.explanation }

// Actual is what a request really used.
type Actual struct {
	Usage llm.Usage
	// Refund gives the whole charge back: the end was the backend's fault or ours, or nothing was sent.
	Refund bool
}

// Prices of a token in token-equivalents.
const (
	inputPrice  = 1.0
	cachedPrice = 0.1
	outputPrice = 2.0
)

// Cost is the price of usage in token-equivalents: computed input at 1, cached input at 0.1, output at 2.
func Cost(u llm.Usage) float64 {
	return inputPrice*float64(u.Input-u.CachedInput) + cachedPrice*float64(u.CachedInput) + outputPrice*float64(u.Output)
}

// Release gives the slot back, corrects the tenant's charge and hands the slot to the next waiter at once. Only the
// first call counts.
func (l *Lease) Release(a Actual) {
	l.once.Do(func() {
		cost := Cost(a.Usage)
		if a.Refund {
			cost = 0
		}
		l.s.release(l, cost)
	})
}

// NoBackendError is ErrNoBackend with the reasons of every backend.
type NoBackendError struct {
	Explanation routing.Explanation
}

// Error names no backend; the explanation does.
func (e *NoBackendError) Error() string { return ErrNoBackend.Error() }

// Unwrap makes errors.Is(err, ErrNoBackend) true.
func (e *NoBackendError) Unwrap() error { return ErrNoBackend }
