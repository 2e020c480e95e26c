package routing

import "mindrouter/internal/llm"

// Terms of [Points] and their weights where the settings say nothing.
const (
	TermResident        = "resident"
	TermUtilisation     = "utilisation"
	TermLatency         = "latency"
	TermQueue           = "queue"
	TermTokensPerSecond = "tokens_per_second"
	TermPreference      = "preference"
)

// DefaultPoints are the weights of the terms of [Points].
var DefaultPoints = map[string]float64{
	TermResident: 100, TermUtilisation: 50, TermLatency: 40, TermQueue: 30, TermTokensPerSecond: 20, TermPreference: 10,
}

const (
	// latencyHalf is the time to the first token, in milliseconds, at which its points have halved.
	latencyHalf = 5000
	// maxPreference bounds what admins' preference may add or take: it breaks ties and outweighs no loaded model.
	maxPreference = 50
)

// Points returns the profile that adds points: for a model that is loaded, for free slots, for fast first tokens, for
// admins' preference. weights override [DefaultPoints]; zero switches a term off. Utilisation is leases over slots. The
// queue inside a server and its speed are not measured yet, so their terms count as not reported.
func Points(weights map[string]float64) Profile {
	w := func(term string) float64 {
		if v, ok := weights[term]; ok {
			return v
		}
		return DefaultPoints[term]
	}
	never := func(Backend, llm.Model) bool { return false }
	return Profile{Mode: "points", Filters: Filters(), Scorers: []Scorer{
		{
			Name:  TermResident,
			Known: func(b Backend, _ llm.Model) bool { return b.Resident != nil },
			Score: func(_ Need, b Backend, m llm.Model) float64 {
				if b.Resident[m.Name] {
					return w(TermResident)
				}
				return 0
			},
		},
		{Name: TermUtilisation, Score: func(_ Need, b Backend, _ llm.Model) float64 { return w(TermUtilisation) * (1 - load(b)) }},
		{
			Name:  TermLatency,
			Known: func(b Backend, _ llm.Model) bool { return b.Latency > 0 },
			Score: func(_ Need, b Backend, _ llm.Model) float64 { return w(TermLatency) / (1 + b.Latency/latencyHalf) },
		},
		{Name: TermQueue, Known: never},
		{Name: TermTokensPerSecond, Known: never},
		{Name: TermPreference, Score: func(_ Need, b Backend, _ llm.Model) float64 {
			return min(maxPreference, max(-maxPreference, w(TermPreference)*float64(b.Priority)))
		}},
	}}
}
