package scheduler

import "time"

// Turn is what a decision looked like in virtual time: token-equivalents per unit of weight, deficits in
// token-equivalents. A deficit above zero is owed to the tenant.
type Turn struct {
	Key          float64
	Counter      float64 // of the flow at the top, before the charge
	Clock        float64
	Deficit      float64 // before the charge
	DeficitAfter float64
	Weight       float64 // of the flow at the top
	Prepaid      float64 // token-equivalents

	position float64 // of the flow at the top in the time of the lane, before the charge
}

// Take serves w, which must be the head of its flow, on the backend with the clock at, and charges cost in advance. peers
// are the lanes that might have had this slot; the clock does not pass the first of those that wait there, so that a flow
// whose counter has just jumped takes nobody's place along.
func (p *Policy) Take(w *Waiter, cost float64, at *Clock, peers []*Lane, now time.Time) (Charge, Turn) {
	p.tick(now)
	f, top := w.Flow, w.Flow.top()
	te := top.entry(w.Lane)
	pos, memberAt := te.position(), f.v
	turn := Turn{Key: pos + w.stamp, Counter: top.v, Weight: top.weight}

	p.unlink(w)
	f.running++
	c := Charge{flow: f, weight: f.weight, poolWeight: top.weight}
	if f.pool != nil {
		f.pool.running++
	}
	p.Pay(&c, max(cost, p.set.MinCharge), now)

	turn.position = pos
	p.Advance(turn, at, peers)
	if f.pool != nil {
		v := memberAt
		if pe := f.pool.entry(w.Lane); len(pe.inner) > 0 {
			v = min(v, pe.inner[0].item.position())
		}
		f.pool.inner.moveTo(v, p.now)
	}
	turn.Clock, turn.Prepaid = p.clock.v, c.paid
	turn.Deficit, turn.DeficitAfter = (turn.Clock-turn.Counter)*top.weight, (turn.Clock-top.v)*top.weight
	return c, turn
}

// Advance moves another clock for a turn that Take has just made: that of a part of the backend which has slots of its own,
// such as a model, and which the request has used. peers are the lanes that compete for it.
func (p *Policy) Advance(t Turn, at *Clock, peers []*Lane) {
	v := t.position
	for _, l := range peers {
		if len(l.heap) > 0 {
			v = min(v, l.heap[0].item.position())
		}
	}
	at.moveTo(v, p.now)
	p.clock.moveTo(at.v, p.now)
}

// Sync moves a clock up to another.
func (p *Policy) Sync(c, to *Clock, now time.Time) {
	p.tick(now)
	c.moveTo(to.v, p.now)
}

// Charge is what a running request was charged. Its fields belong to the policy.
type Charge struct {
	flow               *Flow
	weight, poolWeight float64 // when it began: a refund goes back at the same rate
	paid               float64
}

// Flow is who pays.
func (c *Charge) Flow() *Flow { return c.flow }

// Paid is the token-equivalents charged so far.
func (c *Charge) Paid() float64 { return c.paid }

// Pay charges te more token-equivalents; a negative amount is a refund.
func (p *Policy) Pay(c *Charge, te float64, now time.Time) {
	p.tick(now)
	c.paid += te
	f := c.flow
	f.v += te / c.weight
	f.served += te
	for _, e := range f.entries {
		if e.index < 0 {
			continue
		}
		if f.pool == nil {
			e.lane.heap.fix(e.index, p.order(e))
		} else {
			f.pool.entry(e.lane).inner.fix(e.index, p.order(e))
		}
	}
	if f.pool == nil {
		return
	}
	f.pool.v += te / c.poolWeight
	f.pool.served += te
	for _, e := range f.pool.entries {
		p.rekey(e)
	}
}

// Settle ends a request that cost so much, at least MinCharge, and held its slot so long.
func (p *Policy) Settle(c *Charge, cost float64, held time.Duration, now time.Time) {
	cost = max(cost, p.set.MinCharge)
	p.quantum.add(cost)
	p.hold.add(held.Seconds())
	p.Pay(c, cost-c.paid, now)
	p.end(c)
}

// Refund ends a request for which its tenant pays nothing.
func (p *Policy) Refund(c *Charge, now time.Time) {
	p.Pay(c, -c.paid, now)
	p.end(c)
}

func (p *Policy) end(c *Charge) {
	c.flow.running--
	if c.flow.pool != nil {
		c.flow.pool.running--
	}
	p.rest(c.flow)
}
