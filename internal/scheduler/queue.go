package scheduler

import "time"

// waiter is a job on its way to a slot. Its fields belong to the scheduler's lock until it is settled and woken.
type waiter struct {
	Waiter
	job    Job
	lane   *lane
	queued *queued
	claims []*subject // of job.Limits
	held   *heldBack  // where it is held back by a limit; nil while it competes
	token  *heldBack  // where it came from: it competes for all that are held back there

	decision Decision
	done     chan struct{} // capacity 1; nil if nobody sleeps on it
	settled  bool
	lease    *Lease
	err      error

	moved     *lane // its next lane, while the domains change
	nextWoken *waiter
	at        int // index among all waiters
}

// queued counts the waiters of a tenant.
type queued struct{ n int }

// waiters holds all waiters in no order: taking one out touches one other, the last, which is likely in the cache.
type waiters []*waiter

func (q *waiters) add(w *waiter) {
	w.at = len(*q)
	*q = append(*q, w)
}

func (q *waiters) remove(w *waiter) {
	s := *q
	last := s[len(s)-1]
	s[w.at], last.at = last, w.at
	s[len(s)-1] = nil
	*q = s[:len(s)-1]
}

// enqueueLocked admits w and puts it into its flow.
func (s *Scheduler) enqueueLocked(w *waiter, now time.Time) error {
	if s.draining {
		return ErrDraining
	}
	job := &w.job
	l := s.laneLocked(&job.Need, now)
	if l == nil {
		_, ex, _ := s.profile.Choose(job.Need, s.live)
		return &NoBackendError{Explanation: ex}
	}
	d := l.domain
	f := d.policy.Flow(job.flow(), job.Weight, job.PoolWeight, now)
	if err := s.admitLocked(w, l, f, now); err != nil {
		return err
	}
	w.lane, w.Value = l, w
	w.decision.Class, w.decision.Waiting = job.Class, d.waiting
	w.Flow, w.Lane, w.Class, w.Arrival = f, l.queue, job.Class, job.Arrival
	s.claimLocked(w, now)
	if w.queued = s.queued[job.Tenant]; w.queued == nil {
		w.queued = &queued{}
		s.queued[job.Tenant] = w.queued
	}
	w.queued.n++
	s.bytes += job.Bytes
	s.waiting.add(w)
	l.waiting++
	if job.Affine {
		l.affine++
	}
	l.used = now
	d.waiting++
	s.wakeClocksLocked(l, now)
	d.policy.Push(&w.Waiter, now)
	if l.ready {
		s.markLocked(d)
	}
	return nil
}

// admitLocked refuses what has no room in the queue, and what would not get its turn in time. A retry was admitted
// before.
func (s *Scheduler) admitLocked(w *waiter, l *lane, f *Flow, now time.Time) error {
	job := &w.job
	if l.domain.waiting == 0 && l.free() {
		return nil
	}
	d, own := l.domain, 0
	if q := s.queued[job.Tenant]; q != nil {
		own = q.n
	}
	est, known := l.estimate(f, job, d.policy.ahead(f, job), now)
	if known {
		w.decision.Position, w.decision.EstimateMS = est.Position, est.Wait.Milliseconds()
	}
	deny := func(reason error, early bool) error {
		return refused(reason, early, est.Wait, est.Position, job.MaxWait)
	}
	bound := s.limitWaitLocked(job, d.policy)
	est.Wait = max(est.Wait, bound)
	switch {
	case job.Attempts > 0:
		return nil
	case len(s.waiting) >= s.cfg.MaxQueuedTotal, d.waiting >= s.cfg.MaxQueued, s.bytes+job.Bytes > s.cfg.MaxQueuedBytes:
		return deny(ErrQueueFull, false)
	case own >= s.cfg.MaxQueuedPerTenant:
		return deny(ErrTenantQueueFull, false)
	case !known || est.Wait <= job.MaxWait:
		return nil
	}
	fill := int(d.policy.set.EarlyFill * float64(s.cfg.MaxQueuedPerTenant))
	alone, _ := l.estimate(f, job, 0, now)
	switch {
	case (alone.Wait <= job.MaxWait || bound > job.MaxWait) && own >= fill:
		return deny(ErrTenantQueueFull, true)
	case alone.Wait > job.MaxWait+job.MaxWait/10 && d.waiting >= fill:
		return deny(ErrQueueFull, true)
	default:
		return nil
	}
}

// limitWaitLocked is how long the job's concurrency limits alone would keep it waiting.
func (s *Scheduler) limitWaitLocked(job *Job, p *Policy) time.Duration {
	var wait float64
	for _, lim := range job.Limits {
		if sub := s.subjects[lim.Subject]; sub != nil && lim.Max > 0 && sub.taken >= lim.Max {
			wait = max(wait, float64(sub.refs-sub.taken+1)*p.hold.mean/float64(lim.Max))
		}
	}
	return time.Duration(wait * float64(time.Second))
}

// settleLocked ends the wait of w, which is out of the policy already.
func (s *Scheduler) settleLocked(w *waiter) {
	if w.queued.n--; w.queued.n == 0 {
		delete(s.queued, w.job.Tenant)
	}
	s.bytes -= w.job.Bytes
	s.waiting.remove(w)
	w.lane.waiting--
	if w.job.Affine {
		w.lane.affine--
	}
	w.lane.domain.waiting--
	w.settled = true
	if w.done != nil {
		w.nextWoken, s.woken = s.woken, w
	}
}

// unqueueLocked takes w out, wherever it waits, without a grant.
func (s *Scheduler) unqueueLocked(w *waiter, now time.Time) {
	if w.held != nil {
		w.held.queue.remove(w.index)
		w.held = nil
	}
	w.lane.domain.policy.Remove(&w.Waiter, now)
	s.settleLocked(w)
	for _, sub := range w.claims {
		s.unrefLocked(sub)
	}
	s.passTokenLocked(w, now)
}

func (s *Scheduler) failLocked(w *waiter, err error, now time.Time) {
	w.err = err
	s.unqueueLocked(w, now)
}

func (s *Scheduler) takeWokenLocked() *waiter {
	w := s.woken
	s.woken = nil
	return w
}

// wake tells waiters that they are settled. It is called without the lock.
func wake(w *waiter) {
	for w != nil {
		next := w.nextWoken // w is its owner's as soon as it knows
		w.nextWoken = nil
		w.done <- struct{}{}
		w = next
	}
}
