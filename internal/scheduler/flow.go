package scheduler

import (
	"slices"
	"time"

	"mindrouter/internal/llm"
)

// FlowID names a flow: a tenant, alone or inside a pool that counts as one to the outside.
type FlowID struct{ Pool, Tenant string }

// Flow is the requests of one tenant in one domain, all its keys and sessions together, or a pool of tenants. It belongs
// to a [Policy].
type Flow struct {
	id      FlowID
	weight  float64
	v       float64 // counter: token-equivalents charged per unit of weight, lifted to the clock after an absence
	started bool    // v means something: the flow has had work
	pool    *Flow   // the pool that it is in; nil at the top

	entries []*entry // by lane; those without waiters stay for reuse
	active  int      // entries in a heap
	waiting int
	aside   int // requests that wait outside of the queues
	running int
	parked  bool

	inner   *Clock // of a pool: the clock of its members
	members int

	served float64            // token-equivalents charged, refunds taken off
	output map[string]float64 // average answer in tokens, by model

	idleSince  float64 // seconds; meaningful while the flow is in the idle list
	prev, next *Flow   // neighbours in the idle list
}

// ID names the flow.
func (f *Flow) ID() FlowID { return f.id }

// Weight is the flow's share.
func (f *Flow) Weight() float64 { return f.weight }

// Served is the token-equivalents that the flow was charged.
func (f *Flow) Served() float64 { return f.served }

// Counter is the flow's service so far in token-equivalents per unit of weight.
func (f *Flow) Counter() float64 { return f.v }

// Waiting is the number of requests that wait, those set aside included.
func (f *Flow) Waiting() int { return f.waiting + f.aside }

func (f *Flow) idle() bool {
	return f.waiting == 0 && f.aside == 0 && f.running == 0 && f.members == 0 && !f.parked
}

// top is the flow that competes with those of others: the pool, or the flow itself.
func (f *Flow) top() *Flow {
	if f.pool != nil {
		return f.pool
	}
	return f
}

func (f *Flow) entry(l *Lane) *entry {
	for _, e := range f.entries {
		if e.lane == l {
			return e
		}
	}
	e := &entry{flow: f, lane: l, index: -1}
	f.entries = append(f.entries, e)
	return e
}

// forget drops what the flow keeps about a lane that is gone.
func (f *Flow) forget(l *Lane) {
	f.entries = slices.DeleteFunc(f.entries, func(e *entry) bool { return e.lane == l })
}

// before counts the requests of the flow's tenant that wait and come before a new one of that rank and arrival, in seconds
// of the policy. f may be nil.
func (f *Flow) before(rank int8, arrived float64) int {
	if f == nil {
		return 0
	}
	n := 0
	for _, e := range f.entries {
		for i := range e.queue {
			if at := &e.queue[i].order; at.rank < rank || at.rank == rank && at.at <= arrived {
				n++
			}
		}
	}
	return n
}

// Lane is the queue of the requests that the same backends may serve: if one of them finds no free slot, none does.
type Lane struct {
	clocks []*Clock
	heap   heap[*entry] // of flows at the top
}

// Waiting reports whether a request waits in the lane whose flow is not parked.
func (l *Lane) Waiting() bool { return len(l.heap) > 0 }

// entry is a flow's place in a lane.
type entry struct {
	flow  *Flow
	lane  *Lane
	index int // in the lane's heap, or in that of the pool's entry
	// off moves the flow in this lane only; see Policy.activate.
	off   float64
	queue heap[*Waiter] // of a tenant
	inner heap[*entry]  // of a pool
}

func (e *entry) place(index int) { e.index = index }

func (e *entry) empty() bool { return len(e.queue) == 0 && len(e.inner) == 0 }

// head is the request that the flow would send next.
func (e *entry) head() *Waiter {
	for e.flow.inner != nil {
		e = e.inner[0].item
	}
	return e.queue[0].item
}

// position is where the flow stands in the time of the lane.
func (e *entry) position() float64 { return e.flow.v + e.off }

// Waiter is a request that waits for its turn.
type Waiter struct {
	Flow    *Flow
	Lane    *Lane
	Class   llm.Class
	Arrival time.Time // a retry keeps the first
	Value   any       // the caller's

	arrived float64 // seconds of the policy
	stamp   float64 // the bonus clock at arrival
	seq     uint64
	index   int
	entry   *entry // nil while not queued
	aside   bool
}

func (w *Waiter) place(index int) { w.index = index }

// order sorts the requests of one flow: its own urgent ones first, then by arrival.
func (w *Waiter) order() order { return order{rank(w.Class), w.arrived, w.seq} }

func rank(c llm.Class) int8 {
	switch c {
	case llm.ClassInteractive:
		return 0
	case llm.ClassBatch:
		return 2
	default:
		return 1
	}
}
