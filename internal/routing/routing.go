// Package routing chooses a backend for a request. It is pure: values in, a choice and its explanation out; no clock, no
// I/O, no state. Hard filters say who cannot; scorers say who is best among the rest; everything they said is kept.
package routing

import (
	"cmp"
	"fmt"
	"slices"

	"mindrouter/internal/llm"
)

// BackendID names a backend; it is its configured name.
type BackendID string

// Backend is a snapshot of one backend at the moment of a choice.
type Backend struct {
	ID       BackendID
	Engine   string
	Boundary string // campus or external
	Priority int    // admins' preference
	Models   map[string]llm.Model

	Slots    int            // max_concurrent: requests in flight, all models together
	InFlight int            // leases held now
	PerModel map[string]int // leases held now, by model
	// ModelSlots bounds the leases of single models; a missing entry means Slots alone binds.
	ModelSlots map[string]int

	Health  Health
	Reason  string // why it is not healthy, in words
	Intent  Intent
	Latency float64 // moving average of the time to first token in milliseconds; 0 if not measured
	// Resident are the models that are loaded; nil if the server does not say.
	Resident map[string]bool
}

// Health is what was observed.
type Health string

// Observed states of a backend.
const (
	HealthUnknown Health = "unknown" // not probed yet
	HealthUp      Health = "up"
	HealthDown    Health = "down"
	HealthTripped Health = "tripped" // the breaker is open
)

// Intent is what admins want.
type Intent string

// Intents of admins.
const (
	IntentEnabled  Intent = "enabled"
	IntentDraining Intent = "draining" // no new requests; those running end
	IntentDisabled Intent = "disabled"
)

// Need is what a request demands of a backend.
type Need struct {
	// Models are the names that may serve it, in order of preference; served names, not aliases.
	Models       []string
	Capabilities []llm.Capability
	Input        int  // tokens of the prompt; 0 if not known
	CampusOnly   bool // external backends are no candidates
	Avoid        []BackendID
}

// Choice is a backend and the model that it shall run.
type Choice struct {
	Backend Backend
	Model   llm.Model
}

// Reasons of exclusions that callers tell apart.
const (
	ReasonModel      = "does not serve the model"
	ReasonCapability = "model lacks a capability"
	ReasonContext    = "prompt does not fit the context"
	ReasonBoundary   = "outside the data boundary"
)

// Exclusion says why a backend is no candidate.
type Exclusion struct {
	Reason string `json:"reason"`
	Value  string `json:"value,omitempty"`
	Limit  string `json:"limit,omitempty"`
	// Busy marks a reason that passes by itself: waiting helps.
	Busy bool `json:"busy,omitempty"`
}

// Candidate is one line of an explanation.
type Candidate struct {
	Backend BackendID          `json:"backend"`
	Model   string             `json:"model,omitempty"`
	Chosen  bool               `json:"chosen"`
	Score   float64            `json:"score"`
	Terms   map[string]float64 `json:"terms,omitempty"`
	// NotReported are terms that nothing is known about; each counts as 0.
	NotReported []string   `json:"not_reported,omitempty"`
	Excluded    *Exclusion `json:"excluded,omitempty"`
}

// Explanation is the table of a decision.
type Explanation struct {
	Mode       string      `json:"mode"`
	Candidates []Candidate `json:"candidates"`
}

// Hopeless reports whether no amount of waiting for a slot would help: every backend is excluded for a reason that
// does not pass by itself.
func (e Explanation) Hopeless() bool {
	for _, c := range e.Candidates {
		if c.Excluded == nil || c.Excluded.Busy {
			return false
		}
	}
	return true
}

// Filter is a hard condition. It returns nil if b with model m may serve n.
type Filter func(n Need, b Backend, m llm.Model) *Exclusion

// Scorer rates a candidate; the score of a candidate is the sum of its terms.
type Scorer struct {
	Name  string
	Score func(n Need, b Backend, m llm.Model) float64
	// Known, if not nil, reports whether anything is known; if not, the term is 0 and the explanation says so.
	Known func(b Backend, m llm.Model) bool
}

// Profile is a set of filters and scorers under a name.
type Profile struct {
	Mode    string
	Filters []Filter
	Scorers []Scorer
}

// Choose picks the best backend that passes all filters. Ties go to the least loaded, then to the first in the list.
func (p Profile) Choose(n Need, backends []Backend) (Choice, Explanation, bool) {
	ex := Explanation{Mode: p.Mode}
	best, bestAt := Choice{}, -1
	for _, b := range backends {
		m, c := p.judge(n, b)
		if c.Excluded == nil && (bestAt < 0 || better(c, b, ex.Candidates[bestAt], best.Backend)) {
			best, bestAt = Choice{Backend: b, Model: m}, len(ex.Candidates)
		}
		ex.Candidates = append(ex.Candidates, c)
	}
	if bestAt < 0 {
		return Choice{}, ex, false
	}
	ex.Candidates[bestAt].Chosen = true
	return best, ex, true
}

func better(c Candidate, b Backend, than Candidate, thanB Backend) bool {
	if c.Score != than.Score {
		return c.Score > than.Score
	}
	return load(b) < load(thanB)
}

func load(b Backend) float64 {
	return float64(b.InFlight) / float64(max(1, b.Slots))
}

// judge finds the first model of the need that b may serve, or the reason why none.
func (p Profile) judge(n Need, b Backend) (llm.Model, Candidate) {
	c := Candidate{Backend: b.ID}
	for rank, name := range n.Models {
		m, ok := b.Models[name]
		if !ok {
			continue
		}
		ex := p.exclusion(n, b, m)
		if ex != nil {
			if c.Excluded == nil || (ex.Busy && !c.Excluded.Busy) {
				c.Excluded, c.Model = ex, name
			}
			continue
		}
		c.Excluded, c.Model = nil, name
		c.Terms = map[string]float64{}
		for _, s := range p.Scorers {
			if s.Known != nil && !s.Known(b, m) {
				c.NotReported = append(c.NotReported, s.Name)
				continue
			}
			v := s.Score(n, b, m)
			c.Terms[s.Name] = v
			c.Score += v
		}
		if rank > 0 {
			c.Terms["rank"] = float64(-rank) * rankPenalty
			c.Score += c.Terms["rank"]
		}
		return m, c
	}
	if c.Excluded == nil {
		c.Excluded = &Exclusion{Reason: ReasonModel}
	}
	return llm.Model{}, c
}

// rankPenalty outweighs every scorer: a later model of the need is taken only if no earlier one can be.
const rankPenalty = 1000

func (p Profile) exclusion(n Need, b Backend, m llm.Model) *Exclusion {
	for _, f := range p.Filters {
		if ex := f(n, b, m); ex != nil {
			return ex
		}
	}
	return nil
}

// Filters returns the hard filters, in the order in which their reasons are told.
func Filters() []Filter {
	return []Filter{intent, boundary, health, avoid, capabilities, context, slots}
}

func intent(_ Need, b Backend, _ llm.Model) *Exclusion {
	if b.Intent == IntentEnabled {
		return nil
	}
	return &Exclusion{Reason: "an admin has taken it out of service", Value: string(b.Intent)}
}

func boundary(n Need, b Backend, _ llm.Model) *Exclusion {
	if n.CampusOnly && b.Boundary != "campus" {
		return &Exclusion{Reason: ReasonBoundary, Value: b.Boundary, Limit: "campus"}
	}
	return nil
}

func health(_ Need, b Backend, _ llm.Model) *Exclusion {
	if b.Health == HealthUp || b.Health == HealthUnknown {
		return nil
	}
	return &Exclusion{Reason: "not healthy", Value: string(b.Health) + ": " + b.Reason}
}

func avoid(n Need, b Backend, _ llm.Model) *Exclusion {
	if slices.Contains(n.Avoid, b.ID) {
		return &Exclusion{Reason: "failed this request before"}
	}
	return nil
}

func capabilities(n Need, _ Backend, m llm.Model) *Exclusion {
	for _, c := range n.Capabilities {
		if m.Capabilities != nil && !m.Can(c) { // nil: the engine does not say
			return &Exclusion{Reason: ReasonCapability, Value: string(c)}
		}
	}
	return nil
}

func context(n Need, _ Backend, m llm.Model) *Exclusion {
	if room, known := m.Room(n.Input); known && room <= 0 {
		return &Exclusion{Reason: ReasonContext, Value: fmt.Sprint(n.Input), Limit: fmt.Sprint(m.ContextLength)}
	}
	return nil
}

func slots(_ Need, b Backend, m llm.Model) *Exclusion {
	if b.InFlight >= b.Slots {
		return &Exclusion{Reason: "all slots are taken", Value: fmt.Sprint(b.InFlight), Limit: fmt.Sprint(b.Slots), Busy: true}
	}
	if limit, ok := b.ModelSlots[m.Name]; ok && limit > 0 && b.PerModel[m.Name] >= limit {
		return &Exclusion{Reason: "all slots of the model are taken", Value: fmt.Sprint(b.PerModel[m.Name]), Limit: fmt.Sprint(limit), Busy: true}
	}
	return nil
}

// Least returns the profile that spreads by free slots and honours admins' preference, bounded at 50 points.
func Least() Profile {
	return Profile{Mode: "least", Filters: Filters(), Scorers: []Scorer{
		{Name: "utilisation", Score: func(_ Need, b Backend, _ llm.Model) float64 { return 50 * (1 - load(b)) }},
		{Name: "preference", Score: func(_ Need, b Backend, _ llm.Model) float64 { return float64(min(50, 10*b.Priority)) }},
	}}
}

// Order sorts backends by name, so that explanations read the same every time.
func Order(backends []Backend) {
	slices.SortFunc(backends, func(a, b Backend) int { return cmp.Compare(a.ID, b.ID) })
}
