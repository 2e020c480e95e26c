package scheduler

import (
	"math"
	"time"

	"mindrouter/internal/llm"
)

// average is a moving average that is exact for its first samples.
type average struct {
	mean float64
	n    int
}

// averageOver is how many samples an average remembers.
const averageOver = 50

func (a *average) add(x float64) {
	a.n = min(a.n+1, averageOver)
	a.mean += (x - a.mean) / float64(a.n)
}

// firstOutput is the answer in tokens that is expected of a model that has not answered yet.
const firstOutput = 500

// outputWeight is the part of the newest answer in a tenant's average.
const outputWeight = 0.1

// Prepay is what a request is charged when it takes its slot: its prompt and a part of the answer that the tenant's
// answers of that model lead to expect, at most maxTokens. Zero for maxTokens means no bound.
func (p *Policy) Prepay(f *Flow, model string, input, maxTokens int) float64 {
	out, known := f.output[model]
	if !known {
		out, known = p.output[model]
	}
	if !known {
		out = firstOutput
	}
	if maxTokens > 0 {
		out = min(out, float64(maxTokens))
	}
	return p.kappa(model) * (p.set.Prices.Input*float64(input) + p.set.Prepaid*p.set.Prices.Output*out)
}

// Learn remembers how long an answer was.
func (p *Policy) Learn(f *Flow, model string, output int) {
	learn := func(m map[string]float64) {
		old, known := m[model]
		if !known {
			old = float64(output)
		}
		m[model] = old + outputWeight*(float64(output)-old)
	}
	if f.output == nil {
		f.output = map[string]float64{}
	}
	learn(f.output)
	learn(p.output)
}

// Cost is the price of usage on a model.
func (p *Policy) Cost(model string, u llm.Usage) float64 {
	return p.kappa(model) * p.set.Prices.Cost(u)
}

// TimeCost is the price of holding a slot.
func (p *Policy) TimeCost(held time.Duration) float64 { return p.set.Prices.Second * held.Seconds() }

func (p *Policy) kappa(model string) float64 {
	if k := p.set.Kappa[model]; k > 0 {
		return k
	}
	return 1
}

// Estimate predicts how long a request of f would wait in lane l with ahead requests of its own flow before it, if the
// lane's backends have so many slots, and its place in the order of all. f may be nil: a tenant that was never here. It
// reports false while nothing has ended yet, so that nothing is known.
//
// It is the larger of two views. The fluid one: the flow's distance to the clock, and its own requests before this one,
// over the speed of the clock. The discrete one: every flow whose key is smaller is served once before. The rate of service
// is that of all slots at the average cost and duration of a request.
func (p *Policy) Estimate(f *Flow, l *Lane, weight float64, ahead, slots int, now time.Time) (wait time.Duration, position int, known bool) {
	p.tick(now)
	if p.hold.n == 0 || p.hold.mean <= 0 || slots <= 0 {
		return 0, 0, false
	}
	phi, lead, w := p.phi, -p.Credit(), weight
	if !(w > 0) {
		w = 1
	}
	if f != nil {
		f = f.top()
		w = f.weight
	}
	if f == nil || f.active == 0 {
		phi += w
	}
	if f != nil {
		lead = p.lead(f, l)
	}
	gap := p.hold.mean / float64(slots) // between two slots that get free
	rate := p.Quantum() / gap           // token-equivalents a second
	before := lead + float64(ahead)*p.Quantum()/w
	clock, _ := p.laneClock(&entry{flow: &Flow{}, lane: l})
	s := max(before*phi/rate, l.rank(clock+before+p.beta)*gap, 0) + gap
	return time.Duration(min(s, math.MaxInt32) * float64(time.Second)), max(1, int(math.Round(s/gap))), true
}

// ahead counts the requests of a job's own tenant that come before it.
func (p *Policy) ahead(f *Flow, job *Job) int {
	return f.before(rank(job.Class), job.Arrival.Sub(p.epoch).Seconds())
}

// rankSamples is how many flows rank looks at.
const rankSamples = 256

// rank is about how many flows of the lane have a smaller key; in a long queue it looks at a part.
func (l *Lane) rank(key float64) float64 {
	n := len(l.heap)
	step := max(1, n/rankSamples)
	smaller, looked := 0, 0
	for i := 0; i < n; i += step {
		looked++
		if l.heap[i].at < key {
			smaller++
		}
	}
	return float64(smaller) * float64(n) / float64(max(1, looked))
}

// lead is how far a flow at the top is ahead of the clock of the lane, or would be if it got work there.
func (p *Policy) lead(f *Flow, l *Lane) float64 {
	e := entry{flow: f, lane: l}
	clock, old := p.laneClock(&e)
	for _, at := range f.entries {
		if at.lane == l && at.index >= 0 {
			return at.position() - clock
		}
	}
	least := max(old-clock, -p.Credit())
	if !f.started {
		return least
	}
	return max(least, min(f.v-clock, max(clock-old, p.Credit())))
}
