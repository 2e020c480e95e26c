package scheduler

import (
	"math"
	"time"

	"mindrouter/internal/llm"
)

// Policy decides whose request is next in one domain. It is a value machine: no lock, no goroutine, no clock; now is an
// argument, and a moment before the last one counts as the last one. It knows neither backends nor slots: its caller says
// which lanes a free slot could serve, takes the request that the policy names and tells what it cost. The package
// comment has the algorithm.
type Policy struct {
	set   Settings
	epoch time.Time
	now   float64 // seconds since epoch
	beta  float64 // the bonus clock: the bonus rate, integrated; a rate that changes changes no order
	seq   uint64

	clock *Clock // the domain's: the furthest of the backends'
	flows map[FlowID]*Flow
	pools map[string]*Flow
	phi   float64 // weights of flows at the top with work in a heap
	idle  idleList

	quantum average // cost of a request, Q
	hold    average // seconds that a request holds its slot
	output  map[string]float64

	near []node[*entry] // scratch of Near
}

// Bounds of Q in token-equivalents.
const (
	minQuantum   = 500
	firstQuantum = 2000
	maxQuantum   = 20_000
)

// NewPolicy returns the policy of a domain without flows.
func NewPolicy(set Settings, now time.Time) *Policy {
	return &Policy{
		set: set.withDefaults(), epoch: now, clock: newClock(0, 0), flows: map[FlowID]*Flow{}, pools: map[string]*Flow{},
		output: map[string]float64{},
	}
}

// SetSettings replaces the knobs. Orders among requests that wait already stay.
func (p *Policy) SetSettings(set Settings) { p.set = set.withDefaults() }

// NewClock returns the clock of a backend that joins the domain.
func (p *Policy) NewClock() *Clock { return newClock(p.clock.v, p.now) }

// NewLane returns a lane that the backends with these clocks may serve.
func (p *Policy) NewLane(clocks ...*Clock) *Lane { return &Lane{clocks: clocks} }

// SetClocks tells that other backends may serve the lane now.
func (p *Policy) SetClocks(l *Lane, clocks []*Clock) { l.clocks = clocks }

// DropLane forgets a lane in which nobody waits.
func (p *Policy) DropLane(l *Lane) {
	for f := range p.all() {
		f.forget(l)
	}
}

// Clock is the domain's virtual time in token-equivalents per unit of weight.
func (p *Policy) Clock() float64 { return p.clock.v }

// Quantum is Q, the average cost of a request in token-equivalents, within 500 to 20,000.
func (p *Policy) Quantum() float64 {
	if p.quantum.n == 0 {
		return firstQuantum
	}
	return min(max(p.quantum.mean, minQuantum), maxQuantum)
}

// Credit is K, Bonus is B and Slack is sigma, in token-equivalents per unit of weight.
func (p *Policy) Credit() float64 {
	return orDefault(p.set.Credit, orDefault(p.set.CreditFactor, creditInQ)*p.Quantum())
}

// Bonus is B; see [Policy.Credit].
func (p *Policy) Bonus() float64 {
	return orDefault(p.set.Bonus, orDefault(p.set.BonusFactor, bonusInQ)*p.Quantum())
}

// Slack is sigma; see [Policy.Credit].
func (p *Policy) Slack() float64 {
	return orDefault(p.set.Slack, orDefault(p.set.SlackFactor, slackInQ)*p.Quantum())
}

func (p *Policy) tick(now time.Time) float64 {
	if t := now.Sub(p.epoch).Seconds(); t > p.now {
		p.beta += p.Bonus() / p.set.Age.Seconds() * (t - p.now)
		p.now = t
	}
	return p.now
}

// Push queues w, which is new or was set aside.
func (p *Policy) Push(w *Waiter, now time.Time) {
	p.tick(now)
	if w.seq == 0 {
		p.seq++
		w.seq = p.seq
		w.arrived = min(p.now, w.Arrival.Sub(p.epoch).Seconds())
		age := min(p.now-w.arrived, p.set.Age.Seconds())
		w.stamp = p.beta - p.Bonus()*age/p.set.Age.Seconds()
	}
	f := w.Flow
	if w.aside {
		w.aside = false
		f.aside--
	}
	p.idle.remove(f)
	f.waiting++
	if f.pool != nil {
		f.pool.waiting++
		p.idle.remove(f.pool)
	}
	e := f.entry(w.Lane)
	w.entry = e
	e.queue.push(w, w.order())
	switch {
	case f.parked:
	case e.index < 0:
		p.enter(e, w.Class)
	case w.index == 0:
		p.rekey(e)
	}
}

// Remove takes w out without serving it, also if it was set aside.
func (p *Policy) Remove(w *Waiter, now time.Time) {
	p.tick(now)
	if w.aside {
		w.aside = false
		w.Flow.aside--
	} else {
		p.unlink(w)
	}
	p.rest(w.Flow)
}

// SetAside takes w out of its queue until it is pushed again. It keeps its place in its flow.
func (p *Policy) SetAside(w *Waiter, now time.Time) {
	p.tick(now)
	p.unlink(w)
	w.aside = true
	w.Flow.aside++
}

func (p *Policy) unlink(w *Waiter) {
	e := w.entry
	wasHead := w.index == 0
	e.queue.remove(w.index)
	w.entry = nil
	w.Flow.waiting--
	if w.Flow.pool != nil {
		w.Flow.pool.waiting--
	}
	switch {
	case e.index < 0:
	case e.empty():
		p.leave(e)
	case wasHead:
		p.rekey(e)
	}
}

// enter puts an entry with work into the heap where it competes, and its pool's after it.
func (p *Policy) enter(e *entry, class llm.Class) {
	f := e.flow
	p.activate(e, class)
	if f.active++; f.active == 1 && f.pool == nil {
		p.phi += f.weight
	}
	if f.pool == nil {
		e.lane.heap.push(e, p.order(e))
		return
	}
	pe := f.pool.entry(e.lane)
	pe.inner.push(e, p.order(e))
	switch {
	case f.pool.parked:
	case pe.index < 0:
		p.enter(pe, class)
	default:
		p.rekey(pe)
	}
}

func (p *Policy) leave(e *entry) {
	f := e.flow
	if f.active--; f.active == 0 && f.pool == nil {
		if p.phi -= f.weight; p.phi < 1e-9 {
			p.phi = 0
		}
	}
	if f.pool == nil {
		e.lane.heap.remove(e.index)
		return
	}
	pe := f.pool.entry(e.lane)
	pe.inner.remove(e.index)
	switch {
	case pe.index < 0:
	case pe.empty():
		p.leave(pe)
	default:
		p.rekey(pe)
	}
}

func (p *Policy) order(e *entry) order {
	w := e.head()
	return order{at: e.position() + w.stamp, seq: w.seq}
}

// rekey restores the heaps after a change of e's head or position.
func (p *Policy) rekey(e *entry) {
	if e.index < 0 {
		return
	}
	if e.flow.pool == nil {
		e.lane.heap.fix(e.index, p.order(e))
		return
	}
	pe := e.flow.pool.entry(e.lane)
	pe.inner.fix(e.index, p.order(e))
	p.rekey(pe)
}

// activate bounds credit and debt of a flow that gets work where it had none: it starts at most Credit behind the clock
// and not before where the clock was a window ago, and at most as far ahead as the clock came in a window, or Credit.
//
// The bounds that hold for the whole domain move the counter. A backend that is scarcer than the domain has a clock of
// its own, which falls back; where only that bounds the debt, the flow is moved in this lane and nowhere else, so that
// nobody earns credit on the busy side by a detour over the slow one.
func (p *Policy) activate(e *entry, class llm.Class) {
	f := e.flow
	clock, old := p.laneClock(e)
	k := p.Credit()
	debt := k // the least debt that stays: a clock that has hardly moved says nothing about its age
	if rank(class) == rank(llm.ClassBatch) {
		k = 0
	}
	floor := max(old, clock-k)
	if lift := floor - f.v; lift > 0 {
		for _, other := range f.entries {
			other.off -= lift // they keep their place
		}
	}
	if f.v < floor || !f.started {
		f.v, f.started = floor, true
	}
	ceiling := clock + max(clock-old, debt)
	domain := ceiling
	if f.pool == nil {
		domain = p.clock.v + max(p.clock.v-p.clock.before(p.now, p.set.Window.Seconds()), debt)
	}
	if f.active == 0 {
		f.v = min(f.v, domain)
	}
	e.off = min(0, ceiling-min(f.v, domain))
}

// laneClock is the furthest clock among the backends of the lane, now and a window ago; in a pool, the pool's.
func (p *Policy) laneClock(e *entry) (clock, old float64) {
	ago := p.set.Window.Seconds()
	if e.flow.pool != nil {
		c := e.flow.pool.inner
		return c.v, c.before(p.now, ago)
	}
	clock, old = math.Inf(-1), math.Inf(-1)
	for _, c := range e.lane.clocks {
		clock, old = max(clock, c.v), max(old, c.before(p.now, ago))
	}
	if len(e.lane.clocks) == 0 {
		return p.clock.v, p.clock.before(p.now, ago)
	}
	return clock, old
}

// Head returns the request with the smallest key in the lane and that key.
func (p *Policy) Head(l *Lane, now time.Time) (*Waiter, float64, bool) {
	p.tick(now)
	for len(l.heap) > 0 {
		w := l.heap[0].item.head()
		if !p.refresh(w) {
			return w, l.heap[0].at, true
		}
	}
	return nil, 0, false
}

// Peek returns the request with the smallest key in the lanes, or nil.
func (p *Policy) Peek(lanes []*Lane, now time.Time) *Waiter {
	var best *Waiter
	var least order
	for _, l := range lanes {
		w, key, ok := p.Head(l, now)
		if o := (order{at: key, seq: seqOf(w)}); ok && (best == nil || o.before(least)) {
			best, least = w, o
		}
	}
	return best
}

func seqOf(w *Waiter) uint64 {
	if w == nil {
		return 0
	}
	return w.seq
}

// refresh keeps the bonus of a request that waits for very long bounded. It leaves a tenth of the bonus to grow, so that
// a request is moved at most once in a tenth of Age.
func (p *Policy) refresh(w *Waiter) bool {
	b := p.Bonus()
	if b == 0 || p.beta-w.stamp <= b*(1+1e-9) {
		return false
	}
	w.stamp = p.beta - 0.9*b
	p.rekey(w.entry)
	return true
}

// nearest is how many requests compete for a slot by how well it suits them.
const nearest = 8

// Near appends to dst the requests, at most eight and one of each flow, whose keys are at most Slack after the smallest
// in the lanes, smallest first.
func (p *Policy) Near(dst []*Waiter, lanes []*Lane) []*Waiter {
	limit := math.Inf(1)
	front := p.near[:0]
	for _, l := range lanes {
		if len(l.heap) > 0 {
			front = append(front, l.heap[0])
			limit = min(limit, l.heap[0].at)
		}
	}
	limit += p.Slack()
	for n := 0; n < nearest && len(front) > 0; n++ {
		least := 0
		for i := range front {
			if front[i].before(front[least].order) {
				least = i
			}
		}
		at := front[least]
		if at.at > limit {
			break
		}
		front[least] = front[len(front)-1]
		front = front[:len(front)-1]
		dst = append(dst, at.item.head())
		h := at.item.lane.heap
		for c := 4*at.item.index + 1; c < len(h) && c <= 4*at.item.index+4; c++ {
			if h[c].at <= limit {
				front = append(front, h[c])
			}
		}
	}
	clear(front[:cap(front)])
	p.near = front[:0]
	return dst
}

// Park takes a flow, or a pool with all its members, out of the competition; its requests go on waiting.
func (p *Policy) Park(f *Flow, now time.Time) {
	p.tick(now)
	if f.parked {
		return
	}
	for _, e := range f.entries {
		if e.index >= 0 {
			p.leave(e)
		}
	}
	f.parked = true
}

// Unpark is the reverse of Park. Credit and debt are bounded as after an absence.
func (p *Policy) Unpark(f *Flow, now time.Time) {
	p.tick(now)
	if !f.parked {
		return
	}
	f.parked = false
	for _, e := range f.entries {
		if !e.empty() {
			p.enter(e, e.head().Class)
		}
	}
	p.rest(f)
}
