package scheduler

import (
	"iter"
	"time"
)

const (
	// keepIdle is how long a flow without requests is remembered beyond the window.
	keepIdle = 10 * time.Minute
	// maxFlows bounds the flows of a domain; beyond it those that have been idle for longest are forgotten early.
	maxFlows = 100_000
)

// Flow returns the flow of id and sets its weight. In a pool, weight is the tenant's share of the pool and poolWeight the
// pool's of the domain. Weights below a thousandth, zero among them, count as 1.
func (p *Policy) Flow(id FlowID, weight, poolWeight float64, now time.Time) *Flow {
	p.tick(now)
	p.evict()
	f := p.flows[id]
	if f == nil {
		f = &Flow{id: id}
		if id.Pool == "" {
			f.v = p.clock.v - p.Credit()
		} else {
			f.pool = p.poolFlow(id.Pool)
			f.pool.members++
			p.idle.remove(f.pool)
			f.v = f.pool.inner.v - p.Credit()
		}
		p.flows[id] = f
		p.rest(f)
	}
	p.weigh(f, weight)
	if f.pool != nil {
		p.weigh(f.pool, poolWeight)
	}
	return f
}

// Find returns the flow of id, or nil.
func (p *Policy) Find(id FlowID) *Flow { return p.flows[id] }

func (p *Policy) poolFlow(pool string) *Flow {
	f := p.pools[pool]
	if f == nil {
		f = &Flow{id: FlowID{Pool: pool}, v: p.clock.v - p.Credit(), inner: newClock(0, p.now)}
		p.pools[pool] = f
	}
	return f
}

func (p *Policy) weigh(f *Flow, weight float64) {
	if !(weight >= 1e-3) {
		weight = 1
	}
	if f.pool == nil && f.active > 0 {
		p.phi += weight - f.weight
	}
	f.weight = weight
}

// rest puts a flow that has nothing to do into the idle list.
func (p *Policy) rest(f *Flow) {
	if f.idle() {
		p.idle.add(f, p.now)
	}
}

// evict forgets a few flows that have been idle for long.
func (p *Policy) evict() {
	keep := (p.set.Window + keepIdle).Seconds()
	for range 4 {
		f := p.idle.first
		if f == nil || (p.now-f.idleSince < keep && len(p.flows) < maxFlows) {
			return
		}
		p.idle.remove(f)
		if f.inner != nil {
			delete(p.pools, f.id.Pool)
			continue
		}
		delete(p.flows, f.id)
		if pool := f.pool; pool != nil {
			pool.members--
			p.rest(pool)
		}
	}
}

// idleList holds flows by the time since which they are idle, longest first.
type idleList struct{ first, last *Flow }

func (l *idleList) holds(f *Flow) bool { return f.prev != nil || l.first == f }

func (l *idleList) add(f *Flow, now float64) {
	if l.holds(f) {
		return
	}
	f.idleSince = now
	if f.prev = l.last; f.prev == nil {
		l.first = f
	} else {
		f.prev.next = f
	}
	l.last = f
}

func (l *idleList) remove(f *Flow) {
	if !l.holds(f) {
		return
	}
	if f.prev == nil {
		l.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		l.last = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.prev, f.next = nil, nil
}

// all yields the flows of tenants, then those of pools.
func (p *Policy) all() iter.Seq[*Flow] {
	return func(yield func(*Flow) bool) {
		for _, f := range p.flows {
			if !yield(f) {
				return
			}
		}
		for _, f := range p.pools {
			if !yield(f) {
				return
			}
		}
	}
}
