package backend

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// Resolution is what a model's name stands for.
type Resolution struct {
	// Models are the served models in the order of preference; one, unless the name is an alias.
	Models []string
	Alias  bool
	// Known says that somebody configured the name or some backend reported it. Unknown names are 404, known ones that
	// nothing serves now are 503.
	Known bool
}

// Resolve finds out what name stands for. strategy overrides an alias's own if it is not empty; inFlight counts the
// leases of each backend and is asked for aliases only.
func (v *View) Resolve(name string, strategy routing.Strategy, inFlight func() map[routing.BackendID]int) Resolution {
	a, ok := v.alias(name)
	if !ok {
		return Resolution{Models: []string{name}, Known: v.Knows(name) || v.undiscovered}
	}
	if strategy != "" {
		a.Strategy = strategy
	}
	counter, _ := v.turns.LoadOrStore(a.Name, new(atomic.Uint64))
	turn := counter.(*atomic.Uint64).Add(1) - 1
	leases := inFlight()
	standing := func(model string) routing.Standing { return v.standing(model, leases) }
	return Resolution{Models: a.Resolve(standing, turn, routing.Roll()), Alias: true, Known: true}
}

// alias finds the alias of a name: one of just that name, else, if no model has it, the longest pattern that matches.
// Agents ask for models of their maker by names that change every few months; a pattern such as claude-* catches them.
func (v *View) alias(name string) (routing.Alias, bool) {
	if a, ok := v.aliases[name]; ok || v.Knows(name) {
		return a, ok
	}
	var best routing.Alias
	for _, a := range v.Catalog.Aliases {
		if llm.IsPattern(a.Name) && llm.MatchName(a.Name, name) && len(a.Name) > len(best.Name) {
			best = a
		}
	}
	return best, best.Name != ""
}

// Knows reports whether name is a model that somebody configured or some backend has reported.
func (v *View) Knows(name string) bool { return v.known[name] }

func (v *View) standing(model string, leases map[routing.BackendID]int) routing.Standing {
	var st routing.Standing
	for _, b := range v.Backends {
		m, ok := b.Models[model]
		if !ok || b.Intent != routing.IntentEnabled || b.Health == routing.HealthDown || b.Health == routing.HealthTripped {
			continue
		}
		load := float64(leases[b.ID]) / float64(max(1, b.Slots))
		if !st.Available || load < st.Load {
			st.Load = load
		}
		if !st.Available || b.Latency < st.Latency {
			st.Latency = b.Latency
		}
		st.Available = true
		if cfg, ok := v.models[m.Name]; ok {
			st.Price = cfg.InputPrice + cfg.OutputPrice
		}
	}
	return st
}

// Client returns the client of a backend.
func (v *View) Client(id routing.BackendID) (Client, bool) {
	c, ok := v.clients[id]
	return c, ok
}

// Status returns the state of every backend, by name.
func (v *View) Status() []Status { return v.status }

// Ready reports whether every backend in service has been asked at least once.
func (v *View) Ready() bool { return v.ready }

// Settings are the run-time settings, with defaults.
func (v *View) Settings() Settings { return v.Catalog.Settings.WithDefaults() }

// Listed is one line of the list of models.
type Listed struct {
	Name          string
	Label         string
	ContextLength int
	Capabilities  []llm.Capability
	Alias         bool
	Available     bool
}

// List returns every model and alias, by name. Of an Ollama model under two names it lists the shorter.
func (v *View) List() []Listed {
	found := map[string]Listed{}
	for _, b := range v.Backends {
		if b.Intent == routing.IntentDisabled {
			continue
		}
		for name, m := range b.Models {
			if short, ok := strings.CutSuffix(name, ":latest"); ok {
				if _, both := b.Models[short]; both {
					continue
				}
			}
			l := found[name]
			l.Name, l.Label = name, v.models[name].Label
			l.ContextLength = max(l.ContextLength, m.ContextLength)
			l.Capabilities = m.Capabilities
			l.Available = l.Available || (b.Intent == routing.IntentEnabled && b.Health == routing.HealthUp)
			found[name] = l
		}
	}
	for _, a := range v.Catalog.Aliases {
		if llm.IsPattern(a.Name) {
			continue // no name that one could ask for
		}
		l := Listed{Name: a.Name, Alias: true}
		for _, t := range a.Targets {
			target := found[t.Model]
			l.Available = l.Available || target.Available
			if l.ContextLength == 0 || (target.ContextLength > 0 && target.ContextLength < l.ContextLength) {
				l.ContextLength = target.ContextLength
			}
			if l.Capabilities == nil {
				l.Capabilities = target.Capabilities
			}
		}
		found[a.Name] = l
	}
	list := make([]Listed, 0, len(found))
	for _, l := range found {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Listed) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
