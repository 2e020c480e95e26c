package scheduler

import (
	"encoding/binary"
	"slices"
	"time"

	"mindrouter/internal/routing"
)

// domain is the backends that compete for the same work: a connected component of the graph of models and backends. It
// has a policy, and so counters, of its own: who has an idle model to itself owes nobody on a busy one.
type domain struct {
	policy  *Policy
	lanes   []*lane
	waiting int
	dirty   bool
}

// lane is the requests that the same backends may serve with the same models.
type lane struct {
	key      string
	need     routing.Need // of the first request
	queue    *Lane
	domain   *domain
	backends []eligible // in the order of the fleet
	slots    int        // of these backends
	waiting  int        // requests, those held back included
	affine   int        // those that are scored one by one
	limited  bool       // some of its models have slots of their own
	ready    bool       // a slot may be free: false says that there is none until one of the backends tells otherwise
	used     time.Time
	scored   uint64
}

// served is a lane as one of its backends sees it.
type served struct {
	*lane
	models []string
}

func (at served) free(b *slots) bool { return eligible{b, at.models}.free() }

// eligible is a backend that may serve a lane when it has a free slot.
type eligible struct {
	*slots
	models []string
}

// slots is the leases of a backend.
type slots struct {
	id       routing.BackendID
	at       int // index in the fleet; -1 once it is gone
	max      int
	perModel map[string]int
	limits   map[string]int // of single models
	total    int
	clock    *Clock
	clocks   map[string]*Clock // of models with a limit: their slots may be scarcer than the backend's
	domain   *domain           // nil until it has one
	lanes    []served
}

func (b *slots) take(model string) {
	b.total++
	b.perModel[model]++
}

func (b *slots) give(model string) {
	b.total--
	if b.perModel[model]--; b.perModel[model] == 0 {
		delete(b.perModel, model)
	}
}

// free reports whether the backend has a slot for one of the models of the lane.
func (e eligible) free() bool {
	if e.total >= e.max {
		return false
	}
	if len(e.limits) == 0 {
		return true
	}
	for _, m := range e.models {
		if limit := e.limits[m]; limit <= 0 || e.perModel[m] < limit {
			return true
		}
	}
	return false
}

func (l *lane) free() bool {
	for _, b := range l.backends {
		if b.free() {
			return true
		}
	}
	return false
}

func (l *lane) estimate(f *Flow, job *Job, ahead int, now time.Time) (Estimate, bool) {
	weight := job.Weight
	if job.Pool != "" {
		weight = job.PoolWeight
	}
	wait, position, known := l.domain.policy.Estimate(f, l.queue, weight, ahead, l.slots, now)
	return Estimate{Position: position, Wait: wait}, known
}

// laneKeyLocked is what requests of a lane have in common: everything in their need that decides which backends could
// serve them. Prompts count as alike if they fit the contexts of the same models.
func (s *Scheduler) laneKeyLocked(n *routing.Need) []byte {
	k := s.key[:0]
	for _, m := range n.Models {
		k = append(append(k, m...), 0)
	}
	k = append(k, 1)
	for _, c := range n.Capabilities {
		k = append(append(k, c...), 0)
	}
	k = append(k, 1)
	for _, id := range n.Avoid {
		k = append(append(k, id...), 0)
	}
	k = append(k, 1)
	if n.CampusOnly {
		k = append(k, 1)
	}
	fits, _ := slices.BinarySearch(s.contexts, n.Input+1)
	k = binary.AppendUvarint(append(k, 1), uint64(fits))
	s.key = k
	return k
}

// contextsOf lists, sorted, the lengths from which on prompts do not fit some model.
func contextsOf(fleet []routing.Backend) []int {
	var out []int
	for _, b := range fleet {
		for _, m := range b.Models {
			if room, known := m.Room(0); known {
				out = append(out, room)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const (
	// keepLane is how long a lane without requests is kept: as long as an idle tenant, because lanes connect domains.
	keepLane = keepIdle
	// maxLanes is how many lanes are kept when some are forgotten, which is when there are twice as many.
	maxLanes = 256
)

// laneLocked returns the lane of a need, nil if no backend could serve it even if it waited.
func (s *Scheduler) laneLocked(n *routing.Need, now time.Time) *lane {
	if l := s.lanes[string(s.laneKeyLocked(n))]; l != nil {
		return l
	}
	l := s.newLaneLocked(*n, now)
	if l == nil {
		return nil
	}
	s.lanes[l.key] = l
	d := l.backends[0].domain
	for _, b := range l.backends {
		if b.domain != d || len(s.lanes) > s.lanesMax {
			s.rebuildLocked(now) // it connects domains, or it is time to forget some
			return s.lanes[string(s.laneKeyLocked(n))]
		}
	}
	l.domain = d
	d.lanes = append(d.lanes, l)
	l.queue = d.policy.NewLane(l.clocks()...)
	s.listLanesLocked()
	return l
}

// newLaneLocked returns a lane without a domain and a queue.
func (s *Scheduler) newLaneLocked(n routing.Need, now time.Time) *lane {
	n.Models, n.Capabilities, n.Avoid = slices.Clone(n.Models), slices.Clone(n.Capabilities), slices.Clone(n.Avoid)
	l := &lane{key: string(s.laneKeyLocked(&n)), need: n, ready: true, used: now}
	s.findBackendsLocked(l)
	if len(l.backends) == 0 {
		return nil
	}
	return l
}

// findBackendsLocked asks the profile which backends could serve the lane with which models if they had a free slot.
func (s *Scheduler) findBackendsLocked(l *lane) {
	l.backends, l.slots = l.backends[:0], 0
	found := make([][]string, len(s.set))
	n := l.need
	for _, m := range l.need.Models {
		n.Models = []string{m}
		_, ex, _ := s.profile.Choose(n, s.set)
		for i, c := range ex.Candidates {
			if c.Excluded == nil || c.Excluded.Busy {
				found[i] = append(found[i], m)
			}
		}
	}
	for i, models := range found {
		if len(models) > 0 {
			b := s.slots[s.set[i].ID]
			l.backends = append(l.backends, eligible{b, models})
			l.slots += b.max
		}
	}
}

// clocks are the clocks of what may serve the lane.
func (l *lane) clocks() []*Clock {
	var out []*Clock
	l.limited = false
	for _, b := range l.backends {
		whole := false
		for _, m := range b.models {
			if b.limits[m] <= 0 {
				whole = true
				continue
			}
			l.limited = true
			out = append(out, b.clockOf(m))
		}
		if whole {
			out = append(out, b.clock)
		}
	}
	return out
}

// clockOf returns the clock of a model with a limit.
func (b *slots) clockOf(model string) *Clock {
	c := b.clocks[model]
	if c == nil {
		c = &Clock{}
		*c = *b.clock
		if b.clocks == nil {
			b.clocks = map[string]*Clock{}
		}
		b.clocks[model] = c
	}
	return c
}

// wakeClocksLocked brings the clocks of models for which nobody waits up to those of their backends. It is called before
// a request comes to the lane: a clock that stands because nobody came must not look like one that lags.
func (s *Scheduler) wakeClocksLocked(l *lane, now time.Time) {
	if !l.limited || l.queue.Waiting() {
		return
	}
	for _, b := range l.backends {
		for _, m := range b.models {
			if b.limits[m] > 0 && !slices.ContainsFunc(b.lanes, func(at served) bool {
				return at.queue.Waiting() && slices.Contains(at.models, m)
			}) {
				l.domain.policy.Sync(b.clockOf(m), b.clock, now)
			}
		}
	}
}

// listLanesLocked tells each backend which lanes it may serve.
func (s *Scheduler) listLanesLocked() {
	for _, b := range s.slots {
		b.lanes = b.lanes[:0]
	}
	for _, d := range s.domains {
		for _, l := range d.lanes {
			for _, b := range l.backends {
				b.lanes = append(b.lanes, served{l, b.models})
			}
		}
	}
}
