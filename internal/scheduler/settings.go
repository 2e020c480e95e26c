package scheduler

import (
	"time"

	"mindrouter/internal/llm"
)

// Settings are the knobs of the policy. Amounts are in token-equivalents (TE); a zero value means the default, which for
// most follows Q, the average cost of a request in the domain. A negative amount means none.
type Settings struct {
	// Window is the fairness window: credit and debt that are older are forgotten. Default 60 s, within 10 s to 300 s.
	Window time.Duration
	// Age is the wait that earns the whole bonus; a request that waits longer gains no more. Default 150 s.
	Age time.Duration
	// Credit is how far behind the clock a tenant may start that comes back after an absence, per unit of weight.
	// Default 4 Q.
	Credit float64
	// Bonus is what a wait of Age is worth, per unit of weight. Default Q/2.
	Bonus float64
	// Slack is how much later in the order a request may be that is served first because it suits the free slot better,
	// per unit of weight. Default Q/2.
	Slack float64
	// CreditFactor, BonusFactor and SlackFactor are the same as multiples of Q. They count where Credit, Bonus and Slack are
	// zero; zero means the default, a negative factor none.
	CreditFactor, BonusFactor, SlackFactor float64
	// Prepaid is the part of the predicted answer that is charged when the slot is taken, 0 to 1. Default 0.5.
	Prepaid float64
	// MinCharge is what every request costs that was given a slot, however soon it was cancelled. Default 64.
	MinCharge float64
	// EarlyFill is the part of the tenant's queue bound below which no request is refused because of an estimate, 0 to 1.
	// Default 0.25.
	EarlyFill float64
	Prices    Prices
	// Kappa is the relative price of a model's tokens inside its domain; a missing model counts as 1.
	Kappa map[string]float64
}

// Prices of work in token-equivalents. Zero means the default: input 1, cached input 0.1, output 2, a second 0. A negative
// price means free.
type Prices struct {
	Input  float64 // per computed token of the prompt
	Cached float64 // per token of the prompt that the backend had in its cache
	Output float64 // per token of the answer
	// Second is the price of holding a slot for a second, for jobs where tokens mean nothing.
	Second float64
}

// Defaults of [Settings].
const (
	defaultWindow    = 60 * time.Second
	defaultPrepaid   = 0.5
	defaultMinCharge = 64
	defaultEarlyFill = 0.25

	creditInQ = 4
	bonusInQ  = 0.5
	slackInQ  = 0.5
)

// Prices of a token in token-equivalents.
const (
	inputPrice  = 1.0
	cachedPrice = 0.1
	outputPrice = 2.0
)

func (s Settings) withDefaults() Settings {
	if s.Window == 0 {
		s.Window = defaultWindow
	}
	s.Window = min(max(s.Window, minWindow), maxWindow)
	if s.Age <= 0 {
		s.Age = DefaultMaxWait
	}
	s.Prepaid = min(1, orDefault(s.Prepaid, defaultPrepaid))
	s.MinCharge = orDefault(s.MinCharge, defaultMinCharge)
	s.EarlyFill = orDefault(s.EarlyFill, defaultEarlyFill)
	s.Prices = s.Prices.withDefaults()
	return s
}

// orDefault is v, d if v is zero, and zero if v is negative.
func orDefault(v, d float64) float64 {
	if v == 0 {
		return d
	}
	return max(0, v)
}

func (p Prices) withDefaults() Prices {
	return Prices{
		Input: orDefault(p.Input, inputPrice), Cached: orDefault(p.Cached, cachedPrice),
		Output: orDefault(p.Output, outputPrice), Second: max(0, p.Second),
	}
}

// Cost is the price of usage in token-equivalents.
func (p Prices) Cost(u llm.Usage) float64 {
	cached := min(u.CachedInput, u.Input)
	return p.Input*float64(u.Input-cached) + p.Cached*float64(cached) + p.Output*float64(u.Output)
}

// Cost is the price of usage in token-equivalents at the default prices: computed input at 1, cached input at 0.1,
// output at 2.
func Cost(u llm.Usage) float64 { return Prices{}.withDefaults().Cost(u) }
