// Package scheduler hands out slots: who may use which backend, and when.
//
// It is a monitor. One mutex guards the queue and the leases; choosing a waiter and taking its slot is one step under it,
// so a backend never has more requests in flight than it has slots. There is no goroutine, no timer and no polling: a
// waiter is woken by the release, the change of the fleet, or its own context. A freed slot goes straight to the chosen
// waiter.
//
// The order is first come, first served among those who can be served: a waiter whose backends are all busy does not
// hold up one behind it whose backend is free, and a waiter at its own concurrency limit is passed over until it is
// below.
package scheduler

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"mindrouter/internal/llm"
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
	// ErrDeadline: the wait for a slot took too long.
	ErrDeadline = errors.New("no slot was free in time")
	// ErrDraining: the server is going down.
	ErrDraining = errors.New("the server is shutting down")
)

// Limit is a bound on the leases of one subject. A request above it waits; it is not refused.
type Limit struct {
	Subject string
	Max     int
}

// Job is a request for a slot.
type Job struct {
	Tenant   string
	Weight   float64
	Class    llm.Class
	Cost     float64 // token-equivalents that it is expected to cost
	Need     routing.Need
	Limits   []Limit
	Arrival  time.Time     // when the request came; a retry keeps the first
	MaxWait  time.Duration // from Arrival
	Attempts int           // tries before this one
}

// Config configures [New].
type Config struct {
	Profile routing.Profile
	// MaxQueued bounds the waiters of all tenants, MaxQueuedPerTenant those of one.
	MaxQueued          int
	MaxQueuedPerTenant int
}

// Default bounds of the queue.
const (
	DefaultMaxQueued          = 10_000
	DefaultMaxQueuedPerTenant = 100
	// maxTenants bounds the table of what tenants were charged.
	maxTenants = 100_000
	// DefaultMaxWait is how long a request may wait for a slot.
	DefaultMaxWait = 150 * time.Second
)

// Scheduler hands out leases. It is safe for concurrent use.
type Scheduler struct {
	cfg Config

	mu       sync.Mutex
	backends []routing.Backend
	held     map[routing.BackendID]*holdings
	subjects map[string]int     // leases by subject of a limit
	served   map[string]float64 // token-equivalents charged, by tenant
	queue    list.List          // of *waiter, by arrival
	queued   map[string]int     // waiters by tenant
	draining bool
}

type holdings struct {
	total    int
	perModel map[string]int
}

type waiter struct {
	job   Job
	grant chan *Lease // capacity 1: the granter never blocks
	fail  chan error  // capacity 1
}

// New returns a scheduler without backends; see [Scheduler.SetBackends].
func New(cfg Config) *Scheduler {
	if cfg.MaxQueued == 0 {
		cfg.MaxQueued = DefaultMaxQueued
	}
	if cfg.MaxQueuedPerTenant == 0 {
		cfg.MaxQueuedPerTenant = DefaultMaxQueuedPerTenant
	}
	return &Scheduler{
		cfg:      cfg,
		held:     map[routing.BackendID]*holdings{},
		subjects: map[string]int{},
		served:   map[string]float64{},
		queued:   map[string]int{},
	}
}

// SetBackends replaces the fleet. Leases on backends that are gone stay valid until they are released. Waiters for whom
// no backend is left are refused; others are served at once where the new fleet has room.
func (s *Scheduler) SetBackends(backends []routing.Backend) {
	s.mu.Lock()
	s.backends = backends
	grants := s.dispatchLocked()
	s.mu.Unlock()
	deliver(grants)
}

// Acquire returns a lease on a backend for the job. It waits at most until job.Arrival + job.MaxWait. The caller must
// Release the lease. Errors wrap one of the package's
// errors, or are the context's cause.
func (s *Scheduler) Acquire(ctx context.Context, job Job) (*Lease, error) {
	w := &waiter{job: job, grant: make(chan *Lease, 1), fail: make(chan error, 1)}
	s.mu.Lock()
	if err := s.admitLocked(job); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	el := s.enqueueLocked(w)
	grants := s.dispatchLocked()
	s.mu.Unlock()
	deliver(grants)

	// The deadline is the waiter's own context; the common case, a free slot, needs none.
	select {
	case l := <-w.grant:
		return l, nil
	case err := <-w.fail:
		return nil, err
	default:
	}
	wait, cancel := context.WithDeadlineCause(ctx, job.Arrival.Add(job.MaxWait), ErrDeadline)
	defer cancel()
	select {
	case l := <-w.grant:
		return l, nil
	case err := <-w.fail:
		return nil, err
	case <-wait.Done():
		return s.abandon(wait, w, el)
	}
}

// abandon takes w out of the queue. A grant that came in between goes to the next waiter.
func (s *Scheduler) abandon(ctx context.Context, w *waiter, el *list.Element) (*Lease, error) {
	s.mu.Lock()
	select {
	case l := <-w.grant:
		s.mu.Unlock()
		l.Release(Actual{Refund: true})
		return nil, context.Cause(ctx)
	case err := <-w.fail:
		s.mu.Unlock()
		return nil, err
	default:
	}
	s.removeLocked(el)
	s.mu.Unlock()
	return nil, context.Cause(ctx)
}

func (s *Scheduler) admitLocked(job Job) error {
	switch {
	case s.draining:
		return ErrDraining
	case s.queue.Len() >= s.cfg.MaxQueued:
		return ErrQueueFull
	case s.queued[job.Tenant] >= s.cfg.MaxQueuedPerTenant:
		return ErrTenantQueueFull
	}
	return nil
}

func (s *Scheduler) enqueueLocked(w *waiter) *list.Element {
	s.queued[w.job.Tenant]++
	for el := s.queue.Back(); el != nil; el = el.Prev() {
		if !el.Value.(*waiter).job.Arrival.After(w.job.Arrival) {
			return s.queue.InsertAfter(w, el)
		}
	}
	return s.queue.PushFront(w)
}

func (s *Scheduler) removeLocked(el *list.Element) {
	w := s.queue.Remove(el).(*waiter)
	if s.queued[w.job.Tenant]--; s.queued[w.job.Tenant] == 0 {
		delete(s.queued, w.job.Tenant)
	}
}

type grant struct {
	w     *waiter
	lease *Lease
	err   error
}

// deliver wakes waiters. It is called without the lock.
func deliver(grants []grant) {
	for _, g := range grants {
		if g.err != nil {
			g.w.fail <- g.err
		} else {
			g.w.grant <- g.lease
		}
	}
}

// dispatchLocked serves, in order, every waiter that can be served now.
func (s *Scheduler) dispatchLocked() []grant {
	var grants []grant
	for el := s.queue.Front(); el != nil; {
		next := el.Next()
		w := el.Value.(*waiter)
		if s.draining {
			s.removeLocked(el)
			grants = append(grants, grant{w: w, err: ErrDraining})
		} else if s.belowLimitsLocked(w.job.Limits) {
			choice, ex, ok := s.cfg.Profile.Choose(w.job.Need, s.snapshotLocked())
			switch {
			case ok:
				s.removeLocked(el)
				grants = append(grants, grant{w: w, lease: s.takeLocked(w, choice, ex)})
			case ex.Hopeless():
				s.removeLocked(el)
				grants = append(grants, grant{w: w, err: &NoBackendError{Explanation: ex}})
			}
		}
		el = next
	}
	return grants
}

func (s *Scheduler) belowLimitsLocked(limits []Limit) bool {
	for _, l := range limits {
		if l.Max > 0 && s.subjects[l.Subject] >= l.Max {
			return false
		}
	}
	return true
}

// snapshotLocked is the fleet with its leases filled in.
func (s *Scheduler) snapshotLocked() []routing.Backend {
	out := make([]routing.Backend, len(s.backends))
	for i, b := range s.backends {
		if h := s.held[b.ID]; h != nil {
			b.InFlight, b.PerModel = h.total, h.perModel
		}
		out[i] = b
	}
	return out
}

func (s *Scheduler) takeLocked(w *waiter, c routing.Choice, ex routing.Explanation) *Lease {
	h := s.held[c.Backend.ID]
	if h == nil {
		h = &holdings{perModel: map[string]int{}}
		s.held[c.Backend.ID] = h
	}
	h.total++
	h.perModel[c.Model.Name]++
	for _, l := range w.job.Limits {
		s.subjects[l.Subject]++
	}
	s.chargeLocked(w.job.Tenant, w.job.Cost)
	c.Backend.PerModel = nil // belongs to the lock
	return &Lease{s: s, job: w.job, choice: c, explanation: ex, granted: time.Now()}
}

func (s *Scheduler) chargeLocked(tenant string, cost float64) {
	if _, known := s.served[tenant]; !known && len(s.served) >= maxTenants {
		clear(s.served)
	}
	s.served[tenant] += cost
}

func (s *Scheduler) release(l *Lease, cost float64) {
	s.mu.Lock()
	s.chargeLocked(l.job.Tenant, cost-l.job.Cost)
	id, model := l.choice.Backend.ID, l.choice.Model.Name
	if h := s.held[id]; h != nil {
		h.total--
		if h.perModel[model]--; h.perModel[model] == 0 {
			delete(h.perModel, model)
		}
		if h.total == 0 {
			delete(s.held, id)
		}
	}
	for _, lim := range l.job.Limits {
		if s.subjects[lim.Subject]--; s.subjects[lim.Subject] == 0 {
			delete(s.subjects, lim.Subject)
		}
	}
	grants := s.dispatchLocked()
	s.mu.Unlock()
	deliver(grants)
}

// Drain refuses all waiters and every later Acquire with ErrDraining. Leases go on.
func (s *Scheduler) Drain() {
	s.mu.Lock()
	s.draining = true
	grants := s.dispatchLocked()
	s.mu.Unlock()
	deliver(grants)
}

// Snapshot is the state of the scheduler at one moment.
type Snapshot struct {
	Waiting  int
	InFlight map[routing.BackendID]int
	// Subjects counts leases by subject of a limit.
	Subjects map[string]int
	// Served is the token-equivalents charged to each tenant: prepaid when a slot is taken, corrected at its release.
	Served map[string]float64
}

// Snapshot returns the state.
func (s *Scheduler) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{Waiting: s.queue.Len(), InFlight: map[routing.BackendID]int{}, Subjects: maps.Clone(s.subjects), Served: maps.Clone(s.served)}
	for id, h := range s.held {
		snap.InFlight[id] = h.total
	}
	return snap
}

// Peek says what a choice would be now, without taking a slot.
func (s *Scheduler) Peek(n routing.Need) (routing.Explanation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ex, ok := s.cfg.Profile.Choose(n, s.snapshotLocked())
	return ex, ok
}
