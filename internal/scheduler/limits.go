package scheduler

import (
	"slices"
	"time"
)

// subject is something whose leases are bounded.
//
// A request that meets a bound is taken out of the way, so that dispatching passes it at no cost, and comes back when a
// lease of the subject ends. If the subject is the tenant or its pool, the whole flow steps aside and keeps its order.
// Otherwise requests step aside one by one, as they are met; of those of one flow held back in one lane, one competes as
// soon as the subject is below its bound, and the next follows when that one has its slot or is gone. So a release costs
// no more however many are held back, and none is forgotten.
type subject struct {
	name  string
	max   int // 0: no bound
	taken int // leases
	refs  int // leases and waiters
	flows []parkedFlow
	held  []*heldBack
}

type parkedFlow struct {
	domain *domain
	flow   *Flow
}

// heldBack is the requests of one subject that are held back, of one flow in one lane.
type heldBack struct {
	subject *subject
	lane    *lane
	flow    *Flow
	queue   heap[*waiter]
	token   *waiter // the one that competes
}

func (s *subject) full() bool { return s.max > 0 && s.taken >= s.max }

func (w *waiter) overLimit() *subject {
	for _, sub := range w.claims {
		if sub.full() {
			return sub
		}
	}
	return nil
}

// claimLocked finds the subjects of w's limits.
func (s *Scheduler) claimLocked(w *waiter, now time.Time) {
	if len(w.job.Limits) == 0 {
		return
	}
	w.claims = make([]*subject, len(w.job.Limits))
	for i, lim := range w.job.Limits {
		sub := s.subjects[lim.Subject]
		if sub == nil {
			sub = &subject{name: lim.Subject}
			s.subjects[lim.Subject] = sub
		}
		sub.refs++
		sub.max = max(0, lim.Max)
		s.admitMoreLocked(sub, now) // the bound may be a higher one
		w.claims[i] = sub
	}
}

func (s *Scheduler) unrefLocked(sub *subject) {
	if sub.refs--; sub.refs == 0 {
		delete(s.subjects, sub.name)
	}
}

// holdBackLocked takes w out of the way until sub is below its bound.
func (s *Scheduler) holdBackLocked(w *waiter, sub *subject, now time.Time) {
	d := w.lane.domain
	w.decision.Parked = true
	switch sub.name {
	case w.job.Pool:
		d.policy.Park(w.Flow.pool, now)
		sub.flows = append(sub.flows, parkedFlow{d, w.Flow.pool})
		return
	case w.job.Tenant:
		d.policy.Park(w.Flow, now)
		sub.flows = append(sub.flows, parkedFlow{d, w.Flow})
		return
	}
	d.policy.SetAside(&w.Waiter, now)
	h := sub.of(w)
	w.held = h
	h.queue.push(w, w.order())
	s.passTokenLocked(w, now)
}

func (s *subject) of(w *waiter) *heldBack {
	for _, h := range s.held {
		if h.lane == w.lane && h.flow == w.Flow {
			return h
		}
	}
	h := &heldBack{subject: s, lane: w.lane, flow: w.Flow}
	s.held = append(s.held, h)
	return h
}

// admitMoreLocked lets those compete that sub has held back, if it is below its bound.
func (s *Scheduler) admitMoreLocked(sub *subject, now time.Time) {
	if sub.full() {
		return
	}
	for _, pf := range sub.flows {
		pf.domain.policy.Unpark(pf.flow, now)
		s.markLocked(pf.domain)
	}
	sub.flows = sub.flows[:0]
	for _, h := range slices.Clone(sub.held) {
		s.nextHeldLocked(h, now)
	}
}

// passTokenLocked lets another compete in the place of w, which is granted, gone, or held back elsewhere.
func (s *Scheduler) passTokenLocked(w *waiter, now time.Time) {
	if h := w.token; h != nil {
		w.token, h.token = nil, nil
		s.nextHeldLocked(h, now)
	}
}

func (s *Scheduler) nextHeldLocked(h *heldBack, now time.Time) {
	switch {
	case len(h.queue) == 0:
		if h.token == nil {
			sub := h.subject
			sub.held = slices.DeleteFunc(sub.held, func(o *heldBack) bool { return o == h })
		}
	case h.token == nil && !h.subject.full():
		w := h.queue[0].item
		h.queue.remove(0)
		w.held, w.token, h.token = nil, h, w
		s.wakeClocksLocked(h.lane, now)
		h.lane.domain.policy.Push(&w.Waiter, now)
		s.markLocked(h.lane.domain)
	}
}
