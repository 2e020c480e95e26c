package scheduler

import (
	"context"
	"sync"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// Limit is a bound on the leases of one subject. A request above it waits; it is not refused. If Subject is the tenant or
// the pool of the job, all of its requests wait together and keep their order; any other subject, such as one key of the
// tenant, holds back its own requests only. Max is the newest that any job gave; zero is no limit.
type Limit struct {
	Subject string
	Max     int
}

// Job is a request for a slot.
type Job struct {
	// Tenant is who pays: all requests of a tenant, whatever their key, share one turn.
	Tenant string
	Weight float64 // the tenant's share; zero counts as 1
	// Pool, if set, is a group of tenants that counts as one, with PoolWeight as its share; Weight is then the tenant's
	// share of the pool.
	Pool       string
	PoolWeight float64
	Class      llm.Class
	// Cost is what the request is expected to cost, in token-equivalents. It is not used if Input or MaxTokens is set.
	Cost float64
	// Input is the tokens of the prompt and MaxTokens the bound of the answer; from them, and the tenant's past answers,
	// the scheduler predicts the cost.
	Input     int
	MaxTokens int
	Timed     bool // charge the time of the slot at Prices.Second too: tokens do not measure the work
	Need      routing.Need
	// Affine says that the score of a backend depends on this very request, such as by a known prefix, and not only on
	// the model and the backend: it is then scored by itself when a slot is free.
	Affine   bool
	Bytes    int64 // what the request holds in memory while it waits
	Limits   []Limit
	Arrival  time.Time     // when the request came; a retry keeps the first
	MaxWait  time.Duration // from Arrival
	Attempts int           // tries before this one
}

func (j *Job) flow() FlowID { return FlowID{Pool: j.Pool, Tenant: j.Tenant} }

// Config configures [New].
type Config struct {
	Profile  routing.Profile
	Settings Settings
	// MaxQueued bounds the waiters of one domain, MaxQueuedTotal those of all, MaxQueuedPerTenant those of one tenant and
	// MaxQueuedBytes the memory of all. Zero means the default.
	MaxQueued          int
	MaxQueuedTotal     int
	MaxQueuedPerTenant int
	MaxQueuedBytes     int64
}

// Default bounds of the queue.
const (
	DefaultMaxQueued          = 10_000
	DefaultMaxQueuedTotal     = 100_000
	DefaultMaxQueuedPerTenant = 100
	DefaultMaxQueuedBytes     = 1 << 30
	// DefaultMaxWait is how long a request may wait for a slot.
	DefaultMaxWait = 150 * time.Second
)

// Scheduler hands out leases. It is safe for concurrent use.
type Scheduler struct {
	cfg Config // the bounds; profile and settings change

	mu       sync.Mutex
	profile  routing.Profile
	settings Settings
	set      []routing.Backend // the fleet as it was set; shared with readers, not changed
	live     []routing.Backend // the same with the leases filled in
	slots    map[routing.BackendID]*slots
	domains  []*domain
	lanes    map[string]*lane
	lanesMax int
	epoch    time.Time // of all policies
	contexts []int     // thresholds of prompts: see laneKey
	subjects map[string]*subject
	queued   map[string]*queued // by tenant
	waiting  waiters
	bytes    int64
	leases   *Lease // list of all
	draining bool

	dirty []*domain // where something may be dispatched
	woken *waiter   // list of those to wake once the lock is free
	key   []byte    // scratch
	open  []routing.Backend
	near  []*Waiter
	peers []*Lane
	// comparisons counts the looks for a request that suits a slot better.
	comparisons uint64
}

// New returns a scheduler without backends; see [Scheduler.SetBackends].
func New(cfg Config) *Scheduler {
	for _, n := range []struct {
		v *int
		d int
	}{
		{&cfg.MaxQueued, DefaultMaxQueued},
		{&cfg.MaxQueuedTotal, DefaultMaxQueuedTotal},
		{&cfg.MaxQueuedPerTenant, DefaultMaxQueuedPerTenant},
	} {
		if *n.v == 0 {
			*n.v = n.d
		}
	}
	if cfg.MaxQueuedBytes == 0 {
		cfg.MaxQueuedBytes = DefaultMaxQueuedBytes
	}
	return &Scheduler{
		cfg: cfg, profile: cfg.Profile, settings: cfg.Settings,
		lanesMax: 2 * maxLanes,
		slots:    map[routing.BackendID]*slots{}, lanes: map[string]*lane{}, subjects: map[string]*subject{}, queued: map[string]*queued{},
	}
}

// SetBackends replaces the fleet. Leases on backends that are gone stay valid until they are released. Waiters for whom
// no backend is left are refused; others are served at once where the new fleet has room. The slice belongs to the
// scheduler from now on and must not be changed.
func (s *Scheduler) SetBackends(backends []routing.Backend) {
	s.change(func(now time.Time) { s.setBackendsLocked(backends, now) })
}

// SetSettings replaces the knobs of the policy at once. Requests that wait keep the order that they have.
func (s *Scheduler) SetSettings(set Settings) {
	s.change(func(time.Time) {
		s.settings = set
		for _, d := range s.domains {
			d.policy.SetSettings(set)
		}
	})
}

// SetProfile replaces the filters and scorers of backends.
func (s *Scheduler) SetProfile(p routing.Profile) {
	s.change(func(now time.Time) {
		s.profile = p
		s.judgeLocked(now)
	})
}

// Drain refuses all waiters and every later Acquire with ErrDraining. Leases go on.
func (s *Scheduler) Drain() {
	s.change(func(now time.Time) {
		s.draining = true
		for len(s.waiting) > 0 {
			s.failLocked(s.waiting[len(s.waiting)-1], ErrDraining, now)
		}
	})
}

// change does f, then whatever has become possible by it.
func (s *Scheduler) change(f func(now time.Time)) {
	s.mu.Lock()
	now := time.Now()
	f(now)
	s.dispatchLocked(now)
	woken := s.takeWokenLocked()
	s.mu.Unlock()
	wake(woken)
}

// Acquire returns a lease on a backend for the job. It waits at most until job.Arrival + job.MaxWait. The caller must
// Release the lease. Errors wrap one of the package's errors, or are the context's cause. A retry passes the first
// Arrival again: it goes to the head of its tenant's queue.
func (s *Scheduler) Acquire(ctx context.Context, job Job) (*Lease, error) {
	w := &waiter{job: job}
	s.mu.Lock()
	now := time.Now()
	if err := s.enqueueLocked(w, now); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	s.dispatchLocked(now)
	if !w.settled {
		w.done = make(chan struct{}, 1) // the sender never blocks
	}
	woken := s.takeWokenLocked()
	s.mu.Unlock()
	wake(woken)
	if w.done == nil {
		return w.lease, w.err
	}

	wait, cancel := context.WithDeadlineCause(ctx, job.Arrival.Add(job.MaxWait), ErrDeadline)
	defer cancel()
	select {
	case <-w.done:
		return w.lease, w.err
	case <-wait.Done():
		return s.abandon(wait, w)
	}
}

// abandon takes w out of the queue. A grant that came in between goes to the next waiter.
func (s *Scheduler) abandon(ctx context.Context, w *waiter) (*Lease, error) {
	s.mu.Lock()
	if !w.settled {
		now := time.Now()
		s.unqueueLocked(w, now)
		s.dispatchLocked(now) // it may have held back others of its subject
	}
	woken := s.takeWokenLocked()
	s.mu.Unlock()
	wake(woken)
	if w.err != nil {
		return nil, w.err
	}
	if w.lease != nil {
		w.lease.Release(Actual{Refund: true})
	}
	return nil, context.Cause(ctx)
}

func (s *Scheduler) charge(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.ended.Load() {
		return
	}
	l.charged.Store(l.output.Load())
	p := l.domain.policy
	cost := p.Cost(l.model.Name, llm.Usage{Input: l.w.job.Input, Output: int(l.output.Load())})
	if more := cost - l.charge.Paid(); more > 0 {
		p.Pay(&l.charge, more, time.Now())
	}
}

func (s *Scheduler) release(l *Lease, a Actual) {
	s.change(func(now time.Time) {
		p, held := l.domain.policy, now.Sub(l.granted)
		if a.Refund {
			p.Refund(&l.charge, now)
		} else {
			cost := p.Cost(l.model.Name, a.Usage)
			if l.w.job.Timed {
				cost += p.TimeCost(held)
			}
			p.Learn(l.charge.Flow(), l.model.Name, a.Usage.Output)
			p.Settle(&l.charge, cost, held, now)
		}
		s.freeLocked(l, now)
	})
}

// Peek says what a choice would be now, without taking a slot.
func (s *Scheduler) Peek(n routing.Need) (routing.Explanation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ex, ok := s.profile.Choose(n, s.live)
	return ex, ok
}

// Estimate is a prediction of a wait.
type Estimate struct {
	Position int           // in the order of all; 1 is next
	Wait     time.Duration // until the slot is taken
}

// Estimate predicts the wait of a job that comes now or waits already, by what is known at the moment; of one that waits
// the Arrival must be what it was. It reports false if nothing is known, which is so until a first request has ended, or
// if no backend can serve the job.
func (s *Scheduler) Estimate(job Job) (Estimate, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l := s.lanes[string(s.laneKeyLocked(&job.Need))]
	if l == nil || l.domain == nil {
		return Estimate{}, false
	}
	f := l.domain.policy.Find(job.flow())
	return l.estimate(f, &job, l.domain.policy.ahead(f, &job), now)
}
