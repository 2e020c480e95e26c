package scheduler

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"mindrouter/internal/routing"
)

// setBackendsLocked takes over a new fleet. Where the domains stay as they are, so does all that they know; else they are
// built anew.
func (s *Scheduler) setBackendsLocked(fleet []routing.Backend, now time.Time) {
	if s.epoch.IsZero() {
		s.epoch = now
	}
	if alike(s.set, fleet) {
		s.takeFleetLocked(fleet)
		s.reopenLocked()
		return
	}
	s.takeFleetLocked(fleet)
	s.judgeLocked(now)
}

// alike reports whether two fleets differ in nothing that decides who may serve what.
func alike(a, b []routing.Backend) bool {
	return slices.EqualFunc(a, b, func(x, y routing.Backend) bool {
		x.Latency, y.Latency = 0, 0
		return reflect.DeepEqual(x, y)
	})
}

// reopenLocked looks again at every lane.
func (s *Scheduler) reopenLocked() {
	for _, d := range s.domains {
		for _, l := range d.lanes {
			l.ready = true
		}
		s.markLocked(d)
	}
}

// judgeLocked finds out anew which backends may serve which lanes.
func (s *Scheduler) judgeLocked(now time.Time) {
	contexts := contextsOf(s.set)
	same := slices.Equal(contexts, s.contexts)
	s.contexts = contexts
	for _, l := range s.lanes {
		s.findBackendsLocked(l)
	}
	parts := s.partsLocked()
	if !same || !s.joinLocked(parts, now) {
		s.rebuildLocked(now)
		return
	}
	for key, l := range s.lanes {
		if len(l.backends) > 0 {
			l.domain.policy.SetClocks(l.queue, l.clocks())
			continue
		}
		s.refuseLocked(func(w *waiter) bool { return w.lane == l }, now)
		delete(s.lanes, key)
		l.domain.lanes = slices.DeleteFunc(l.domain.lanes, func(o *lane) bool { return o == l })
		l.domain.policy.DropLane(l.queue)
	}
	s.listLanesLocked()
	s.reopenLocked()
}

// takeFleetLocked brings slots and live up to date.
func (s *Scheduler) takeFleetLocked(fleet []routing.Backend) {
	s.set, s.live = fleet, slices.Clone(fleet)
	for _, b := range s.slots {
		b.at = -1
	}
	for i, f := range fleet {
		b := s.slots[f.ID]
		if b == nil {
			b = &slots{id: f.ID, perModel: map[string]int{}}
			s.slots[f.ID] = b
		}
		b.at, b.max, b.limits = i, f.Slots, f.ModelSlots
		maps.DeleteFunc(b.clocks, func(m string, _ *Clock) bool { return b.limits[m] <= 0 })
		s.live[i].InFlight, s.live[i].PerModel = b.total, b.perModel
	}
	for id, b := range s.slots {
		if b.at >= 0 {
			continue
		}
		b.domain, b.lanes = nil, nil // should it come back, it is new
		if b.total == 0 {
			delete(s.slots, id)
		}
	}
}

// partsLocked returns the connected components of models and backends, as a number for each backend of the fleet. A lane
// connects the backends that may serve it.
func (s *Scheduler) partsLocked() []int {
	part := make([]int, len(s.set))
	for i := range part {
		part[i] = i
	}
	find := func(i int) int {
		for part[i] != i {
			part[i] = part[part[i]]
			i = part[i]
		}
		return i
	}
	byModel := map[string]int{}
	for i, b := range s.set {
		for m := range b.Models {
			if first, ok := byModel[m]; ok {
				part[find(i)] = find(first)
			} else {
				byModel[m] = i
			}
		}
	}
	for _, l := range s.lanes {
		for _, b := range l.backends {
			part[find(b.at)] = find(l.backends[0].at)
		}
	}
	for i := range part {
		part[i] = find(i)
	}
	return part
}

// joinLocked keeps the domains if each part is one domain, perhaps with new backends, or is new. It reports false, and has
// done nothing, if domains have split or merged.
func (s *Scheduler) joinLocked(parts []int, now time.Time) bool {
	of := map[int]*domain{}
	taken := map[*domain]int{}
	for i, part := range parts {
		d := s.slots[s.set[i].ID].domain
		if d == nil {
			continue
		}
		if other, ok := taken[d]; ok && other != part || of[part] != nil && of[part] != d {
			return false
		}
		of[part], taken[d] = d, part
	}
	for _, l := range s.lanes {
		if len(l.backends) > 0 && of[parts[l.backends[0].at]] != l.domain {
			return false // a model has moved
		}
	}
	for _, d := range s.domains {
		if _, ok := taken[d]; !ok && (d.waiting > 0 || len(d.lanes) > 0) {
			return false // all its backends are gone
		}
	}
	s.domains = slices.DeleteFunc(s.domains, func(d *domain) bool { _, ok := taken[d]; return !ok })
	for i, part := range parts {
		if of[part] == nil {
			of[part] = s.newDomainLocked(nil, now)
			s.domains = append(s.domains, of[part])
		}
		if b := s.slots[s.set[i].ID]; b.domain == nil {
			b.domain, b.clock, b.clocks = of[part], of[part].policy.NewClock(), nil
		}
	}
	return true
}

// refuseLocked fails the waiters whom no backend is left to serve.
func (s *Scheduler) refuseLocked(which func(*waiter) bool, now time.Time) {
	for _, w := range slices.Clone(s.waiting) {
		if which(w) {
			_, ex, _ := s.profile.Choose(w.job.Need, s.live)
			s.failLocked(w, &NoBackendError{Explanation: ex}, now)
		}
	}
}

// rebuildLocked makes domains and lanes anew, after the graph of models and backends has changed: rarely, so it may take
// time in proportion to all waiters and tenants. Nobody loses a place, a lead or a debt.
func (s *Scheduler) rebuildLocked(now time.Time) {
	fresh := map[string]*lane{} // nil for a need that no backend serves
	find := func(n routing.Need) *lane {
		key := string(s.laneKeyLocked(&n))
		l, known := fresh[key]
		if !known {
			l = s.newLaneLocked(n, now)
			fresh[key] = l
		}
		return l
	}
	// Those for whom no backend is left go first, while they can be found.
	s.refuseLocked(func(w *waiter) bool { w.moved = find(w.job.Need); return w.moved == nil }, now)

	old := slices.SortedFunc(maps.Values(s.lanes), func(a, b *lane) int { return b.used.Compare(a.used) })
	s.lanes = map[string]*lane{}
	for _, l := range old[:min(len(old), maxLanes)] {
		if again := find(l.need); again != nil && now.Sub(l.used) < keepLane {
			again.used, again.domain = l.used, l.domain // until it has its new one
			s.lanes[again.key] = again
		}
	}
	for _, w := range s.waiting {
		w.moved.domain = w.lane.domain
		s.lanes[w.moved.key] = w.moved
	}
	s.lanesMax = 2 * max(maxLanes, len(s.lanes))

	moved := s.redrawLocked(now)
	for _, l := range s.lanes {
		l.domain = l.backends[0].domain
		l.domain.lanes = append(l.domain.lanes, l)
		l.queue = l.domain.policy.NewLane(l.clocks()...)
	}
	s.listLanesLocked()
	for _, sub := range s.subjects {
		sub.flows, sub.held = nil, nil
	}
	for l := s.leases; l != nil; l = l.next {
		old := l.domain
		if l.domain = l.slots.domain; l.slots.at < 0 || l.domain == nil {
			l.domain = moved[old]
		}
		l.domain.policy.adopt(&l.charge)
	}
	byPlace := slices.SortedFunc(slices.Values(s.waiting), func(a, b *waiter) int {
		return cmp.Or(a.job.Arrival.Compare(b.job.Arrival), cmp.Compare(a.seq, b.seq))
	})
	for _, w := range byPlace {
		s.requeueLocked(w, now)
	}
	s.dirty = s.dirty[:0]
	for _, d := range s.domains {
		d.dirty = false
		s.markLocked(d)
	}
}

// redrawLocked gives each part of the fleet a domain that knows what those knew that it comes from. It returns for each
// old domain one that has its tenants.
func (s *Scheduler) redrawLocked(now time.Time) map[*domain]*domain {
	from := map[int][]*domain{} // old domains of each part
	order := []int{}
	parts := s.partsLocked()
	comes := func(part int, d *domain) {
		if d != nil && !slices.Contains(from[part], d) {
			from[part] = append(from[part], d)
		}
	}
	for i, part := range parts {
		if _, ok := from[part]; !ok {
			from[part] = nil
			order = append(order, part)
		}
		comes(part, s.slots[s.set[i].ID].domain)
	}
	for _, l := range s.lanes {
		comes(parts[l.backends[0].at], l.domain)
	}
	moved := map[*domain]*domain{}
	fresh := map[int]*domain{}
	s.domains = s.domains[:0:0]
	for _, part := range order {
		var policies []*Policy
		for _, d := range from[part] {
			policies = append(policies, d.policy)
		}
		d := s.newDomainLocked(policies, now)
		s.domains = append(s.domains, d)
		fresh[part] = d
		for _, old := range from[part] {
			if moved[old] == nil {
				moved[old] = d
			}
		}
	}
	for l := s.leases; l != nil; l = l.next { // on backends that are gone, with their whole domain
		if l.slots.at < 0 && moved[l.domain] == nil {
			d := s.newDomainLocked([]*Policy{l.domain.policy}, now)
			moved[l.domain] = d
		}
	}
	for i, part := range parts {
		b := s.slots[s.set[i].ID]
		d := fresh[part]
		b.clock = d.policy.moveClock(b.clock, b.domain)
		for m, c := range b.clocks {
			b.clocks[m] = d.policy.moveClock(c, b.domain)
		}
		b.domain = d
	}
	return moved
}

// requeueLocked puts a waiter into its new lane, with its old place in its flow.
func (s *Scheduler) requeueLocked(w *waiter, now time.Time) {
	w.lane, w.moved = s.lanes[w.moved.key], nil
	w.held, w.token = nil, nil
	d := w.lane.domain
	w.Flow = d.policy.Flow(w.job.flow(), w.job.Weight, w.job.PoolWeight, now)
	w.Waiter = Waiter{
		Flow: w.Flow, Lane: w.lane.queue, Class: w.job.Class, Arrival: w.job.Arrival, Value: w,
	}
	w.lane.waiting++
	if w.job.Affine {
		w.lane.affine++
	}
	d.waiting++
	d.policy.Push(&w.Waiter, now)
}

func (s *Scheduler) newDomainLocked(from []*Policy, now time.Time) *domain {
	return &domain{policy: mergePolicies(s.settings, s.epoch, from, now)}
}
