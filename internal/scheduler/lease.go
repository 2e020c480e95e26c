package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// Lease is a slot on a backend. Its holder may have one request in flight there until Release.
type Lease struct {
	s       *Scheduler
	w       *waiter // settled: its job, claims and decision do not change any more
	model   llm.Model
	granted time.Time
	table   table

	// Under the scheduler's lock.
	slots      *slots
	domain     *domain
	charge     Charge
	prev, next *Lease

	output  atomic.Int64 // tokens told by Charge
	charged atomic.Int64 // tokens of output that the charge covers
	ended   atomic.Bool
}

// Backend is where the request shall go.
func (l *Lease) Backend() routing.Backend {
	b := l.table.fleet[l.table.chosen]
	b.InFlight = int(l.table.taken[l.table.chosen])
	return b
}

// Model is what it shall run there.
func (l *Lease) Model() llm.Model { return l.model }

// Wait is how long the request waited for the slot, from its arrival.
func (l *Lease) Wait() time.Duration { return max(0, l.granted.Sub(l.w.job.Arrival)) }

// Explain returns the table of the choice among the backends.
func (l *Lease) Explain() routing.Explanation { return l.table.explain(l.w.job.Need) }

// Decision returns why it was this request's turn.
func (l *Lease) Decision() Decision { return l.w.decision }

// Decision is why a request got its slot when it did. Counter, clock and key are in token-equivalents per unit of weight,
// deficits in token-equivalents.
type Decision struct {
	Class    llm.Class `json:"class"`
	Weight   float64   `json:"weight"`
	WaitMS   int64     `json:"wait_ms"`
	Position int       `json:"position,omitempty"` // when it came, as estimated; 0 if it did not wait or nothing was known
	// EstimateMS is the wait that was predicted when it came.
	EstimateMS int64 `json:"estimate_ms,omitempty"`
	Waiting    int   `json:"waiting"` // requests in the domain that waited when it came
	Parked     bool  `json:"parked,omitempty"`
	// BySlack says that a request with a smaller key was passed over because this one suited the slot better.
	BySlack bool `json:"by_slack,omitempty"`

	Key     float64 `json:"key"`
	Counter float64 `json:"counter"` // of the tenant, before the charge
	Clock   float64 `json:"clock"`   // after the decision
	// DeficitBefore and DeficitAfter the charge: above zero is owed to the tenant, below is ahead of its share.
	DeficitBefore float64 `json:"deficit_before"`
	DeficitAfter  float64 `json:"deficit_after"`
	Prepaid       float64 `json:"prepaid"`
}

// chargeStep is how many tokens of an answer may be unaccounted. The charge of a stream needs no lock in between.
const chargeStep = 64

// Charge tells that the answer has output tokens by now. What exceeds the prepayment is charged while the request runs,
// in steps of 64 tokens, so that a long answer cannot take more than its share before it ends. It may be called for each
// token; it is safe for concurrent use and does nothing after Release.
func (l *Lease) Charge(output int) {
	n := int64(output)
	for {
		old := l.output.Load()
		if n <= old {
			return
		}
		if l.output.CompareAndSwap(old, n) {
			break
		}
	}
	if n-l.charged.Load() >= chargeStep {
		l.s.charge(l)
	}
}

// Actual is what a request really used.
type Actual struct {
	Usage llm.Usage
	// Refund gives the whole charge back: the end was the backend's fault or ours, or nothing was sent.
	Refund bool
}

// Release gives the slot back, corrects the tenant's charge and hands the slot to the next waiter at once. A request
// that is not refunded costs at least Settings.MinCharge, whatever it used: a cancelled one too. Only the first call
// counts.
func (l *Lease) Release(a Actual) {
	if !l.ended.Swap(true) {
		l.s.release(l, a)
	}
}

// table is what the explanation of a choice is made of. Backends without a free slot are judged when somebody asks: at
// the moment of the choice only their number of leases is noted.
type table struct {
	profile routing.Profile
	fleet   []routing.Backend // as it was set; shared, not changed
	taken   []int32           // leases of each backend of fleet at that moment
	chosen  int               // index in fleet
	open    []routing.Candidate
	mode    string

	once sync.Once
	full routing.Explanation
}

func (t *table) explain(n routing.Need) routing.Explanation {
	t.once.Do(func() {
		t.full = routing.Explanation{Mode: t.mode, Candidates: make([]routing.Candidate, 0, len(t.fleet))}
		for i, b := range t.fleet {
			if at := t.find(b.ID); at >= 0 {
				t.full.Candidates = append(t.full.Candidates, t.open[at])
				continue
			}
			b.InFlight = int(t.taken[i])
			b.PerModel = b.ModelSlots // it was passed over because its slots, or those of the model, were taken
			_, ex, _ := t.profile.Choose(n, []routing.Backend{b})
			for _, c := range ex.Candidates {
				c.Chosen = false
				t.full.Candidates = append(t.full.Candidates, c)
			}
		}
	})
	return t.full
}

func (t *table) find(id routing.BackendID) int {
	for i, c := range t.open {
		if c.Backend == id {
			return i
		}
	}
	return -1
}
