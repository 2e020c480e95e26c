package routing

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Strategy says how an alias spreads requests over its targets.
type Strategy string

// Strategies of aliases.
const (
	StrategyPriority     Strategy = "priority"      // in order; the next only if the one before is unavailable
	StrategyWeighted     Strategy = "weighted"      // at random, by weight
	StrategyRoundRobin   Strategy = "round_robin"   // in turn
	StrategyLeastLatency Strategy = "least_latency" // the lowest measured time to first token
	StrategyLeastBusy    Strategy = "least_busy"    // the lowest share of slots taken
	StrategyCheapest     Strategy = "cheapest"      // the lowest price
	StrategyFair         Strategy = "fair"          // one pool: whichever has a free slot
)

// Strategies lists all strategies.
var strategies = []Strategy{
	StrategyPriority, StrategyWeighted, StrategyRoundRobin, StrategyLeastLatency, StrategyLeastBusy, StrategyCheapest, StrategyFair,
}

// Valid reports whether s is a strategy.
func (s Strategy) Valid() bool { return slices.Contains(strategies, s) }

// Target is one model behind an alias.
type Target struct {
	Model  string
	Weight float64 // for StrategyWeighted; 0 counts as 1
}

// Alias is a name that stands for an ordered list of models.
type Alias struct {
	Name       string
	Targets    []Target
	Strategy   Strategy
	FallbackOn []string // unavailable, context
}

// Standing is what is known of a target at the moment of a choice.
type Standing struct {
	Available bool    // some backend could serve it, now or after a wait
	Load      float64 // slots taken over slots
	Latency   float64 // milliseconds to the first token; 0 if not measured
	Price     float64 // per million tokens, input and output added
}

// Resolve orders the targets of a by its strategy. turn counts the requests of the alias, for StrategyRoundRobin; roll
// is a random number in [0,1), for StrategyWeighted. Targets that are not available go to the end, in their order: they
// are what is asked for if nothing else is left.
func (a Alias) Resolve(standing func(model string) Standing, turn uint64, roll float64) []string {
	var live, dead []Target
	for _, t := range a.Targets {
		if standing(t.Model).Available {
			live = append(live, t)
		} else {
			dead = append(dead, t)
		}
	}
	by := func(key func(Standing) float64) {
		slices.SortStableFunc(live, func(x, y Target) int {
			return cmp.Compare(key(standing(x.Model)), key(standing(y.Model)))
		})
	}
	switch a.Strategy {
	case StrategyWeighted:
		rotateTo(live, pick(live, roll))
	case StrategyRoundRobin:
		if len(live) > 0 {
			rotateTo(live, int(turn%uint64(len(live))))
		}
	case StrategyLeastLatency:
		by(func(s Standing) float64 { return s.Latency })
	case StrategyLeastBusy:
		by(func(s Standing) float64 { return s.Load })
	case StrategyCheapest:
		by(func(s Standing) float64 { return s.Price })
	}
	names := make([]string, 0, len(a.Targets))
	for _, t := range append(live, dead...) {
		names = append(names, t.Model)
	}
	return names
}

// Roll returns a random number for Resolve.
func Roll() float64 { return rand.Float64() }

func pick(ts []Target, roll float64) int {
	var sum float64
	for _, t := range ts {
		sum += weight(t)
	}
	roll *= sum
	for i, t := range ts {
		if roll -= weight(t); roll < 0 {
			return i
		}
	}
	return 0
}

func weight(t Target) float64 {
	if t.Weight <= 0 {
		return 1
	}
	return t.Weight
}

func rotateTo(ts []Target, first int) {
	rotated := append(slices.Clone(ts[min(first, len(ts)):]), ts[:min(first, len(ts))]...)
	copy(ts, rotated)
}
