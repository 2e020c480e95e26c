package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mindrouter/internal/audit"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// decision is the part of the record that the scheduler and the placement wrote.
type decision struct {
	Mode          string      `json:"mode"`
	Candidates    []candidate `json:"candidates"`
	Class         string      `json:"class"`
	Weight        float64     `json:"weight"`
	WaitMS        int64       `json:"wait_ms"`
	Position      int         `json:"position"`
	Waiting       int         `json:"waiting"`
	Parked        bool        `json:"parked"`
	BySlack       bool        `json:"by_slack"`
	DeficitBefore float64     `json:"deficit_before"`
	DeficitAfter  float64     `json:"deficit_after"`
}

type candidate struct {
	Backend  string             `json:"backend"`
	Model    string             `json:"model,omitempty"`
	Chosen   bool               `json:"chosen"`
	Score    float64            `json:"score"`
	Terms    map[string]float64 `json:"terms,omitempty"`
	Excluded *struct {
		Reason string `json:"reason"`
		Value  string `json:"value,omitempty"`
		Limit  string `json:"limit,omitempty"`
	} `json:"excluded,omitempty"`
}

// explain tells why one of the caller's own requests was served where and when it was. A key of scope admin may ask about
// every request.
func (a *API) explain(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	id, err := uuid.Parse(chi.URLParam(r, "id"))
	if err != nil {
		return llm.Invalid("id", "is not the id of a request; x-request-id of its answer is")
	}
	e, err := a.cfg.Record.Explained(r.Context(), audit.ID(id.String()))
	switch {
	case errors.Is(err, audit.ErrUnknownRequest), err == nil && e.User != p.User.ID && !p.Has(identity.ScopeAdmin):
		return llm.Errorf(llm.CodeNotFound, "There is no record of this request.") // whether it is another's is not told
	case err != nil:
		return &llm.Error{Code: llm.CodeUnavailable, Message: "The record cannot be read now.", RetryAfter: retryAfterOutage, Err: err}
	}
	var d decision
	if err := json.Unmarshal(e.Decision, &d); err != nil {
		return fmt.Errorf("decision of %s: %w", e.ID, err)
	}
	body, err := json.Marshal(explanation(e, d))
	if err != nil {
		return fmt.Errorf("explain %s: %w", e.ID, err)
	}
	a.json(w, append(body, '\n'))
	return nil
}

func explanation(e audit.Explained, d decision) map[string]any {
	type object = map[string]any
	attempts := []object{}
	for _, t := range e.Attempts {
		attempts = append(attempts, object{"backend": t.Backend, "outcome": t.Outcome, "error": t.Error, "ms": t.Took.Milliseconds()})
	}
	candidates := d.Candidates
	if candidates == nil {
		candidates = []candidate{}
	}
	dropped := e.Dropped
	if dropped == nil {
		dropped = []string{}
	}
	return object{
		"id": e.ID, "model": e.ModelAsked, "resolved_model": e.Model, "outcome": e.Outcome, "words": words(e, d),
		"queue": object{
			"position": d.Position, "wait_ms": e.Queue.Milliseconds(), "ahead": max(0, d.Position-1), "class": d.Class, "weight": d.Weight,
			"deficit_before": d.DeficitBefore, "deficit_after": d.DeficitAfter,
		},
		"mode": d.Mode, "candidates": candidates, "attempts": attempts, "dropped": dropped,
		"effort": object{"asked": e.EffortAsked, "effective": e.EffortEffective},
	}
}

// words says it in sentences.
func words(e audit.Explained, d decision) string {
	var s []string
	say := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	if e.ModelResolved != "" && e.ModelResolved != e.ModelAsked {
		say("The name %s stood for %s.", e.ModelAsked, e.ModelResolved)
	}
	switch {
	case e.Running && e.Backend == "":
		say("The request is still running, or waits.")
		return strings.Join(s, " ")
	case e.Backend == "":
		say("It never got a slot.")
		return strings.Join(s, " ")
	}
	switch wait := e.Queue.Milliseconds(); {
	case wait < 5:
		say("A slot was free at once.")
	case d.Parked:
		say("It waited %d ms, at first because as many requests of the caller ran as are allowed at once.", wait)
	case d.Waiting > 0:
		say("It waited %d ms for a slot; %d others waited when it came.", wait, d.Waiting)
	default:
		say("It waited %d ms for a slot.", wait)
	}
	if d.BySlack {
		say("It was taken a little before its turn because it suited the free slot best.")
	}
	if d.DeficitBefore > 0 {
		say("Its caller had had less than its share before.")
	} else if d.DeficitBefore < 0 {
		say("Its caller had had more than its share before.")
	}
	chosen, others := "", 0
	reasons := map[string]int{}
	for _, c := range d.Candidates {
		switch {
		case c.Chosen:
			chosen = c.Backend
			if best := bestTerms(c.Terms); best != "" {
				chosen += " (" + best + ")"
			}
		case c.Excluded != nil:
			reasons[c.Excluded.Reason]++
		default:
			others++
		}
	}
	if chosen == "" {
		chosen = e.Backend
	}
	switch {
	case others > 0:
		say("%s was chosen before %d others that could have served it.", chosen, others)
	case len(d.Candidates) > 1:
		say("%s was the only one that could serve it then.", chosen)
	default:
		say("%s served it.", chosen)
	}
	names := make([]string, 0, len(reasons))
	for reason := range reasons {
		names = append(names, reason)
	}
	sort.Strings(names)
	for _, reason := range names {
		say("%d passed over: %s.", reasons[reason], reason)
	}
	if n := len(e.Attempts); n > 1 {
		say("It took %d attempts; the first failed on %s (%s).", n, e.Attempts[0].Backend, e.Attempts[0].Error)
	}
	if len(e.Dropped) > 0 {
		say("Not carried over as asked: %s.", strings.Join(e.Dropped, ", "))
	}
	return strings.Join(s, " ")
}

// bestTerms names what spoke most for a candidate.
func bestTerms(terms map[string]float64) string {
	name, best := "", 0.0
	for k, v := range terms {
		if v > best || (v == best && name != "" && k < name) {
			name, best = k, v
		}
	}
	return name
}
