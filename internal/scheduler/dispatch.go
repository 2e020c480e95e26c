package scheduler

import (
	"slices"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

func (s *Scheduler) markLocked(d *domain) {
	if !d.dirty {
		d.dirty = true
		s.dirty = append(s.dirty, d)
	}
}

// dispatchLocked serves whoever can be served, in order, in every domain where something has changed.
func (s *Scheduler) dispatchLocked(now time.Time) {
	for len(s.dirty) > 0 {
		d := s.dirty[len(s.dirty)-1]
		s.dirty = s.dirty[:len(s.dirty)-1]
		d.dirty = false
		for s.dispatchNextLocked(d, now) {
		}
	}
}

// dispatchNextLocked looks at the next request of the domain among the lanes that may have a free slot. It reports false
// if there is none.
func (s *Scheduler) dispatchNextLocked(d *domain, now time.Time) bool {
	var l *lane
	var w *Waiter
	var least order
	for _, at := range d.lanes {
		if !at.ready || !at.queue.Waiting() {
			continue
		}
		if !at.free() {
			at.ready = false
			continue
		}
		if head, key, ok := d.policy.Head(at.queue, now); ok {
			if o := (order{at: key, seq: head.seq}); l == nil || o.before(least) {
				l, w, least = at, head, o
			}
		}
	}
	if l == nil {
		return false
	}
	s.serveLocked(w.Value.(*waiter), now)
	return true
}

// serveLocked gives w a slot, or finds out why it cannot have one: then w is out of the way until that has changed.
func (s *Scheduler) serveLocked(w *waiter, now time.Time) {
	if sub := w.overLimit(); sub != nil {
		s.holdBackLocked(w, sub, now)
		return
	}
	s.open = s.open[:0]
	for _, b := range w.lane.backends {
		if b.free() {
			s.open = append(s.open, s.live[b.at])
		}
	}
	choice, ex, ok := s.profile.Choose(w.job.Need, s.open)
	if !ok {
		w.lane.ready = false
		if _, ex, _ := s.profile.Choose(w.job.Need, s.live); ex.Hopeless() {
			w.lane.ready = true
			s.failLocked(w, &NoBackendError{Explanation: ex}, now)
		}
		return
	}
	if len(s.open) == 1 {
		if better, c, e := s.suitsBetterLocked(w, s.open, ex.Candidates[0].Score); better != nil {
			w, choice, ex = better, c, e
			w.decision.BySlack = true
		}
	}
	s.grantLocked(w, choice, ex, now)
}

// suitsBetterLocked looks for a request that the free slot suits better than w, among those whose turn is near. Requests
// of one lane score alike unless they say otherwise.
func (s *Scheduler) suitsBetterLocked(w *waiter, open []routing.Backend, score float64) (*waiter, routing.Choice, routing.Explanation) {
	p := w.lane.domain.policy
	if p.Slack() == 0 {
		return nil, routing.Choice{}, routing.Explanation{}
	}
	b := s.slots[open[0].ID]
	s.peers = s.peers[:0]
	for _, at := range b.lanes {
		if at.free(b) {
			s.peers = append(s.peers, at.queue)
		}
	}
	if len(s.peers) < 2 && w.lane.affine == 0 {
		return nil, routing.Choice{}, routing.Explanation{}
	}
	var best *waiter
	var choice routing.Choice
	var table routing.Explanation
	s.comparisons++
	w.lane.scored = s.comparisons
	s.near = p.Near(s.near[:0], s.peers)
	for _, n := range s.near {
		at := n.Value.(*waiter)
		if at == w || (at.lane.scored == s.comparisons && !at.job.Affine && !w.job.Affine) || at.overLimit() != nil {
			continue
		}
		at.lane.scored = s.comparisons
		c, ex, ok := s.profile.Choose(at.job.Need, open)
		if ok && ex.Candidates[0].Score > score {
			best, choice, table, score = at, c, ex, ex.Candidates[0].Score
		}
	}
	clear(s.near)
	return best, choice, table
}

// grantLocked takes the slot for w.
func (s *Scheduler) grantLocked(w *waiter, choice routing.Choice, ex routing.Explanation, now time.Time) {
	b := s.slots[choice.Backend.ID]
	d := w.lane.domain
	job := &w.job
	cost := job.Cost * d.policy.kappa(choice.Model.Name)
	if job.Input > 0 || job.MaxTokens > 0 {
		cost = d.policy.Prepay(w.Flow, choice.Model.Name, job.Input, job.MaxTokens)
	}
	s.peers = s.peers[:0]
	for _, at := range b.lanes {
		if at.free(b) {
			s.peers = append(s.peers, at.queue)
		}
	}
	charge, turn := d.policy.Take(&w.Waiter, cost, b.clock, s.peers, now)
	if m := choice.Model.Name; b.limits[m] > 0 {
		s.peers = s.peers[:0]
		for _, at := range b.lanes {
			if slices.Contains(at.models, m) {
				s.peers = append(s.peers, at.queue)
			}
		}
		d.policy.Advance(turn, b.clockOf(m), s.peers)
	}

	l := &Lease{
		s: s, w: w, model: choice.Model, granted: now,
		table: table{
			profile: s.profile, fleet: s.set, taken: make([]int32, len(s.live)), chosen: b.at, open: ex.Candidates, mode: ex.Mode,
		},
		slots: b, domain: d, charge: charge,
	}
	for i := range s.live {
		l.table.taken[i] = int32(s.live[i].InFlight)
	}
	w.decision.WaitMS = l.Wait().Milliseconds()
	w.decision.fill(turn)
	l.covers(d.policy)

	b.take(choice.Model.Name)
	s.live[b.at].InFlight = b.total
	for _, sub := range w.claims {
		sub.taken++
	}
	if l.next = s.leases; l.next != nil {
		l.next.prev = l
	}
	s.leases = l
	w.lease = l
	s.settleLocked(w)
	s.passTokenLocked(w, now)
}

func (d *Decision) fill(t Turn) {
	d.Weight, d.Key, d.Counter, d.Clock = t.Weight, t.Key, t.Counter, t.Clock
	d.DeficitBefore, d.DeficitAfter, d.Prepaid = t.Deficit, t.DeficitAfter, t.Prepaid
}

// covers notes how much of the answer the prepayment pays for.
func (l *Lease) covers(p *Policy) {
	perToken := p.Cost(l.model.Name, llm.Usage{Output: 1})
	if spare := l.charge.Paid() - p.Cost(l.model.Name, llm.Usage{Input: l.w.job.Input}); spare > 0 && perToken > 0 {
		l.charged.Store(int64(spare / perToken))
	}
}

// freeLocked takes the lease off the books and opens its slot.
func (s *Scheduler) freeLocked(l *Lease, now time.Time) {
	b := l.slots
	full := b.total >= b.max
	b.give(l.model.Name)
	if b.at >= 0 {
		s.live[b.at].InFlight = b.total
	} else if b.total == 0 {
		delete(s.slots, b.id)
	}
	if l.prev == nil {
		s.leases = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
	for _, sub := range l.w.claims {
		sub.taken--
		s.admitMoreLocked(sub, now)
		s.unrefLocked(sub)
	}
	for _, at := range b.lanes {
		if full || slices.Contains(at.models, l.model.Name) {
			at.ready = true // else it has gained nothing
		}
	}
	if b.domain != nil {
		s.markLocked(b.domain)
	}
}
