package scheduler

import (
	"errors"
	"time"

	"mindrouter/internal/routing"
)

// Errors of Acquire. Callers branch with errors.Is.
var (
	// ErrNoBackend: no backend could serve the request even if it waited.
	ErrNoBackend = errors.New("no backend can serve the request")
	// ErrQueueFull: too many requests wait already.
	ErrQueueFull = errors.New("the queue is full")
	// ErrTenantQueueFull: too many requests of the same tenant wait already.
	ErrTenantQueueFull = errors.New("too many of the tenant's requests wait already")
	// ErrRefusedEarly: the queue has room, but the request would reach its deadline before its turn. An error that wraps
	// it wraps ErrTenantQueueFull as well if the tenant's own requests are the reason, ErrQueueFull otherwise.
	ErrRefusedEarly = errors.New("the wait would be too long")
	// ErrDeadline: the wait for a slot took too long.
	ErrDeadline = errors.New("no slot was free in time")
	// ErrDraining: the server is going down.
	ErrDraining = errors.New("the server is shutting down")
)

// RefusedError is a refusal because of the queue: it wraps ErrQueueFull or ErrTenantQueueFull.
type RefusedError struct {
	Reason     error         // ErrQueueFull or ErrTenantQueueFull
	Early      bool          // it wraps ErrRefusedEarly too
	Position   int           // where in the order it would have been; 0 if not known
	Wait       time.Duration // that was predicted; 0 if not known
	RetryAfter time.Duration // whole seconds, 1 to 120
}

// Error says which bound was met.
func (e *RefusedError) Error() string {
	if e.Early {
		return ErrRefusedEarly.Error() + ": " + e.Reason.Error()
	}
	return e.Reason.Error()
}

// Unwrap returns the reason, and ErrRefusedEarly if it is one.
func (e *RefusedError) Unwrap() []error {
	if e.Early {
		return []error{e.Reason, ErrRefusedEarly}
	}
	return []error{e.Reason}
}

// Bounds of RefusedError.RetryAfter.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 120 * time.Second
)

func refused(reason error, early bool, wait time.Duration, position int, maxWait time.Duration) error {
	after := min(max(wait-maxWait, minRetryAfter), maxRetryAfter)
	return &RefusedError{
		Reason: reason, Early: early, Position: position, Wait: wait,
		RetryAfter: (after + time.Second - 1).Truncate(time.Second),
	}
}

// NoBackendError is ErrNoBackend with the reasons of every backend.
type NoBackendError struct {
	Explanation routing.Explanation
}

// Error names no backend; the explanation does.
func (e *NoBackendError) Error() string { return ErrNoBackend.Error() }

// Unwrap makes errors.Is(err, ErrNoBackend) true.
func (e *NoBackendError) Unwrap() error { return ErrNoBackend }
