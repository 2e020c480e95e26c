package scheduler

import "time"

// Bounds of the fairness window.
const (
	minWindow = 10 * time.Second
	maxWindow = 300 * time.Second
	// samples is how many seconds of its past a clock keeps.
	samples = int64(maxWindow/time.Second) + 2
)

// Clock is the virtual time of one backend, or of a part of it with slots of its own: how far the service there has come,
// in token-equivalents per unit of weight. It moves only when somebody is served, never backwards. It keeps one sample a
// second of the last five minutes.
type Clock struct {
	v    float64
	sec  int64 // the last second that has a sample
	past [samples]float64
}

func newClock(v, now float64) *Clock {
	c := &Clock{v: v, sec: int64(now)}
	for i := range c.past {
		c.past[i] = v
	}
	return c
}

// advance records the samples up to now. It is called before v moves.
func (c *Clock) advance(now float64) {
	sec := int64(now)
	for s := max(c.sec+1, sec-samples+1); s <= sec; s++ {
		c.past[s%samples] = c.v
	}
	c.sec = max(c.sec, sec)
}

func (c *Clock) moveTo(v, now float64) {
	c.advance(now)
	c.v = max(c.v, v)
}

// before returns the clock as it was ago seconds before now, to the second.
func (c *Clock) before(now, ago float64) float64 {
	c.advance(now)
	return c.past[max(0, int64(now-ago))%samples]
}

// shift moves the clock and its past by d.
func (c *Clock) shift(d float64) {
	c.v += d
	for i := range c.past {
		c.past[i] += d
	}
}
