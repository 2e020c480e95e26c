package scheduler

import (
	"maps"
	"time"
)

// mergePolicies returns a policy with the flows of others, which have the same epoch, and without their requests. A flow
// keeps its distance from the clock; one that is in several gets the sum.
func mergePolicies(set Settings, epoch time.Time, from []*Policy, now time.Time) *Policy {
	p := NewPolicy(set, epoch)
	p.tick(now)
	for i, src := range from {
		src.tick(now)
		if i == 0 || src.clock.v > p.clock.v {
			*p.clock = *src.clock
			p.quantum, p.hold = src.quantum, src.hold
		}
		maps.Copy(p.output, src.output)
	}
	for _, src := range from {
		d := p.clock.v - src.clock.v
		for _, f := range src.pools {
			if to := p.pools[f.id.Pool]; to != nil {
				to.v += f.v - src.clock.v
				continue
			}
			to := p.poolFlow(f.id.Pool)
			to.weight, to.v, to.started = f.weight, f.v+d, f.started
			*to.inner = *f.inner
			to.served, f.served = f.served, 0
		}
		for _, f := range src.flows {
			p.adoptFlow(f, src, d)
		}
	}
	return p
}

func (p *Policy) adoptFlow(f *Flow, src *Policy, d float64) {
	clock := src.clock.v
	if f.pool != nil {
		clock, d = f.pool.inner.v, p.pools[f.id.Pool].inner.v-f.pool.inner.v
	}
	to := p.flows[f.id]
	if to != nil {
		to.v += f.v - clock
	} else {
		to = &Flow{id: f.id, weight: f.weight, v: f.v + d, started: f.started, output: map[string]float64{}}
		if f.pool != nil {
			to.pool = p.pools[f.id.Pool]
			to.pool.members++
			p.idle.remove(to.pool)
		}
		p.flows[f.id] = to
	}
	to.served += f.served
	f.served = 0
	maps.Copy(to.output, f.output)
	p.rest(to)
}

// adopt lets a running request be paid by the flow of the same name here.
func (p *Policy) adopt(c *Charge) {
	id := c.flow.id
	f := p.flows[id]
	if f == nil {
		f = p.Flow(id, c.weight, c.poolWeight, p.epoch) // a moment long past: time does not move
	}
	c.flow = f
	p.idle.remove(f)
	f.running++
	if f.pool != nil {
		f.pool.running++
		p.idle.remove(f.pool)
	}
}

// moveClock returns the clock of a backend that comes from a policy merged into p, at the same distance from the domain's;
// a new backend has the domain's.
func (p *Policy) moveClock(c *Clock, from *domain) *Clock {
	if c == nil || from == nil {
		return p.NewClock()
	}
	moved := *c
	moved.shift(p.clock.v - from.policy.clock.v)
	return &moved
}
