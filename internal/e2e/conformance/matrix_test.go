package conformance_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mindrouter/internal/simbackend"
)

// mode is how a client wants its answers.
type mode string

const (
	whole  mode = "whole"
	stream mode = "stream"
)

// engine is what the backend speaks.
type engine = simbackend.Dialect

const (
	vllm   engine = simbackend.DialectVLLM
	ollama engine = simbackend.DialectOllama
)

var (
	modes   = []mode{whole, stream}
	engines = []engine{vllm, ollama}
)

// rule is a row of the table.
type rule struct {
	name string
	not  excuses
	test func(c *cell)
}

// excuses say why a rule has nothing to say in some cells: those of a mode ("stream"), of a backend ("ollama"), or one
// ("stream/ollama").
type excuses map[string]string

func place(m mode, e engine) string { return string(m) + "/" + string(e) }

func (x excuses) of(m mode, e engine) string {
	for _, key := range []string{string(m), string(e), place(m, e)} {
		if why := x[key]; why != "" {
			return why
		}
	}
	return ""
}

func (x excuses) check() error {
	for key, why := range x {
		valid := slices.Contains(modes, mode(key)) || slices.Contains(engines, engine(key))
		for _, m := range modes {
			for _, e := range engines {
				valid = valid || key == place(m, e)
			}
		}
		if !valid {
			return fmt.Errorf("%q is no cell", key)
		}
		if len(strings.Fields(why)) < 3 {
			return fmt.Errorf("the excuse %q for %s is no reason", why, key)
		}
	}
	return nil
}

// table is every rule: those of the protocols; those that stand for faults which users of other gateways reported; and
// cheap ones beside.
func table() (protocol, reported, beside []rule) {
	protocol = slices.Concat(requestRules, callRules, framingRules, thinkingRules, historyRules, responsesRules, pathRules)
	reported = slices.Concat(reportedStreamRules, reportedTranslationRules, reportedLifecycleRules)
	return protocol, reported, besideRules
}

// Numbers of rules that the table must have, so that none is lost.
const (
	protocolRules = 60
	reportedRules = 40
)

func TestTable(t *testing.T) {
	t.Parallel()
	protocol, reported, beside := table()
	if len(protocol) != protocolRules || len(reported) != reportedRules {
		t.Errorf("%d rules of the protocols and %d of reports, want %d and %d", len(protocol), len(reported), protocolRules, reportedRules)
	}
	names := map[string]bool{}
	for _, r := range slices.Concat(protocol, reported, beside) {
		if names[r.name] {
			t.Errorf("two rules are called %q", r.name)
		}
		names[r.name] = true
		if r.test == nil || strings.Contains(r.name, "/") || len(strings.Fields(r.name)) < 4 {
			t.Errorf("%q is no sentence, or has no test", r.name)
		}
		if err := r.not.check(); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	for _, f := range known {
		if !names[f.rule] || len(strings.Fields(f.why)) < 3 {
			t.Errorf("known fault %q: no such rule, or no reason", f.rule)
		}
		if err := (excuses{f.cell: f.why}).check(); f.cell != "" && err != nil {
			t.Errorf("known fault %q: %v", f.rule, err)
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	protocol, reported, beside := table()
	rules := slices.Concat(reported, protocol, beside) // those that wait long are among the first
	rigs := map[engine]*rig{}
	for _, e := range engines {
		rigs[e] = newRig(t, e)
	}
	var done tally
	t.Run("cells", func(t *testing.T) {
		for _, r := range rules {
			for _, m := range modes {
				for _, e := range engines {
					if why := r.not.of(m, e); why != "" {
						done.add(r.name, m, e, excused)
						continue
					}
					t.Run(r.name+"/"+place(m, e), func(t *testing.T) {
						t.Parallel()
						done.add(r.name, m, e, r.run(t, rigs[e], m))
					})
				}
			}
		}
	})
	if f := flag.Lookup("test.run"); f != nil && strings.Contains(f.Value.String(), "/") {
		return // only some cells were wanted
	}
	for _, r := range rules {
		for _, m := range modes {
			for _, e := range engines {
				if done.cells[r.name+"/"+place(m, e)] == "" {
					t.Errorf("no cell %s/%s", r.name, place(m, e))
				}
			}
		}
	}
	t.Logf("cells: %s", done.String())
}

// state is what became of a cell.
type state string

const (
	passed  state = "passed"
	failed  state = "failed"
	excused state = "excused"
	faulty  state = "known faults"
)

type tally struct {
	mu    sync.Mutex
	cells map[string]state
}

func (d *tally) add(rule string, m mode, e engine, s state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cells == nil {
		d.cells = map[string]state{}
	}
	d.cells[rule+"/"+place(m, e)] = s
}

// String counts the cells.
func (d *tally) String() string {
	counts := map[state]int{}
	for _, s := range d.cells {
		counts[s]++
	}
	return fmt.Sprintf("%d passed, %d excused, %d known faults, %d failed", counts[passed], counts[excused], counts[faulty], counts[failed])
}

// run tries a rule in one cell.
func (r rule) run(t *testing.T, g *rig, m mode) state {
	c := &cell{t: t, rig: g, mode: m}
	defer c.release()
	c.try(r.test)
	if c.asked == 0 {
		c.errorf("the rule asks nothing here")
	}
	why := knownFault(r.name, m, g.engine)
	switch {
	case why != "" && len(c.failures) == 0:
		t.Errorf("the fault is gone: take it out of the table of known faults (%s)", why)
		return failed
	case why != "":
		t.Logf("known fault: %s\n%s", why, strings.Join(c.failures, "\n"))
		return faulty
	case len(c.failures) > 0:
		t.Error(strings.Join(c.failures, "\n"))
		return failed
	}
	return passed
}

// fault is a rule that the gateway is known to break, in one cell or, if cell is empty, in all.
type fault struct{ rule, cell, why string }

func knownFault(name string, m mode, e engine) string {
	for _, f := range known {
		if f.rule == name && (f.cell == "" || f.cell == string(m) || f.cell == string(e) || f.cell == place(m, e)) {
			return f.why
		}
	}
	return ""
}
