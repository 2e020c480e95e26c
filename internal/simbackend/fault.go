package simbackend

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// FaultKind is a way to misbehave.
type FaultKind string

// The kinds of faults.
const (
	FaultHang      FaultKind = "hang"      // goes silent for good, connection open
	FaultReset     FaultKind = "reset"     // resets the TCP connection
	FaultMalformed FaultKind = "malformed" // sends text that is not JSON, then ends the reply
	FaultError     FaultKind = "5xx"       // answers an error; in a running stream an error event
	FaultCut       FaultKind = "cut"       // ends the reply early, without what ends a complete one
	FaultSlow      FaultKind = "slow"      // writes every token Factor times slower
	FaultPause     FaultKind = "pause"     // waits for Until, then goes on as if nothing had been
)

// Stage is when a fault strikes.
type Stage int

// The stages.
const (
	// BeforeHeaders is on arrival: no slot is held, nothing is sent.
	BeforeHeaders Stage = iota
	// AfterHeaders is when the slot is held and the status has been sent, before the first token.
	AfterHeaders
	// AfterTokens is after Fault.Tokens tokens of the answer, or at its end if it is shorter. Before that point a
	// stream is correct; a reply that is not streamed has sent nothing.
	AfterTokens
)

// Fault is one misbehaviour of one request.
type Fault struct {
	Kind  FaultKind
	Stage Stage
	// Tokens is for stage AfterTokens.
	Tokens int
	// Status and Message are for FaultError. Default 500 and a sentence.
	Status  int
	Message string
	// Factor is for FaultSlow. Default 10.
	Factor float64
	// Abort makes FaultCut end the connection inside the reply, which HTTP shows as an unexpected end, instead of
	// ending the reply as if it were complete.
	Abort bool
	// Until is for FaultPause: the request goes on when it is closed.
	Until <-chan struct{}
}

// FaultRule hits some inference requests: the Nth since the start, or Percent of them, or all if both are zero.
type FaultRule struct {
	Fault   Fault
	Nth     int
	Percent float64
}

const (
	defaultSlowFactor   = 10
	defaultFaultTokens  = 3
	defaultFaultMessage = "simulated internal error"
)

// ParseFaults reads a comma-separated list of rules:
//
//	hang|reset|malformed|5xx|cut|slow[:ARG][@N[%]]
//
// @N hits the Nth inference request, @N% that percentage of them, neither hits all. ARG is the number of tokens after
// which hang, reset, malformed or cut strike (default: hang and reset on arrival, the others after 3), the status of 5xx
// (default 500), or the factor of slow (default 10).
func ParseFaults(list string) ([]FaultRule, error) {
	var rules []FaultRule
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		rule, err := parseFault(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func parseFault(text string) (FaultRule, error) {
	bad := func(what string) (FaultRule, error) {
		return FaultRule{}, fmt.Errorf("fault %q: %s, want hang|reset|malformed|5xx|cut|slow[:ARG][@N[%%]]", text, what)
	}
	head, when, hasWhen := strings.Cut(text, "@")
	kind, arg, hasArg := strings.Cut(head, ":")
	rule := FaultRule{Fault: Fault{Kind: FaultKind(kind)}}
	f := &rule.Fault
	switch f.Kind {
	case FaultMalformed, FaultCut:
		f.Stage, f.Tokens = AfterTokens, defaultFaultTokens
	case FaultHang, FaultReset, FaultError, FaultSlow:
	default:
		return bad("unknown kind")
	}
	if hasArg {
		n, err := strconv.ParseFloat(arg, 64)
		if err != nil || n < 0 || n > 1e9 {
			return bad("argument is not a number")
		}
		switch f.Kind {
		case FaultError:
			f.Status = int(n)
		case FaultSlow:
			f.Factor = n
		default:
			f.Stage, f.Tokens = AfterTokens, int(n)
		}
	}
	if hasWhen {
		number, percent := strings.CutSuffix(when, "%")
		n, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil || n <= 0:
			return bad("N is not a positive number")
		case percent:
			rule.Percent = n
		case n != float64(int(n)):
			return bad("N is not a whole number")
		default:
			rule.Nth = int(n)
		}
	}
	if err := rule.validate(); err != nil {
		return bad(err.Error())
	}
	return rule, nil
}

func (r FaultRule) validate() error {
	f := r.Fault
	switch {
	case r.Nth < 0 || r.Percent < 0 || r.Percent > 100:
		return errors.New("its number is out of range")
	case f.Kind == FaultError && f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return errors.New("status is not an error status")
	case f.Kind == FaultSlow && f.Factor < 0:
		return errors.New("factor is negative")
	case f.Kind == FaultPause && f.Until == nil:
		return errors.New("a pause without an end")
	}
	return nil
}

// SetFaults replaces the rules for requests that arrive from now on. The first rule that hits a request applies.
func (s *Server) SetFaults(rules ...FaultRule) error {
	var errs []error
	for _, r := range rules {
		errs = append(errs, r.validate())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	s.faults = append([]FaultRule(nil), rules...)
	return nil
}

// Script has choose decide the fault of every inference request from now on; nil from it means none. It replaces the
// rules until Script(nil). choose gets the record with the body, before the request is decoded, and may be called
// concurrently.
func (s *Server) Script(choose func(Request) *Fault) {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	s.choose = choose
}

// faultFor decides the fault of a request.
func (s *Server) faultFor(r Request) *Fault {
	s.faultMu.Lock()
	choose, rules := s.choose, s.faults
	s.faultMu.Unlock()
	if choose != nil {
		return choose(r)
	}
	for i, rule := range rules {
		switch {
		case rule.Nth > 0 && rule.Nth != r.Inference:
			continue
		case rule.Percent > 0 && dice(s.cfg.Seed, r.Inference, i) >= rule.Percent:
			continue
		}
		f := rule.Fault
		return &f
	}
	return nil
}

// dice returns a number in [0, 100) that depends on nothing but its arguments.
func dice(seed uint64, request, rule int) float64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%d/%d", seed, request, rule)
	// The low bits of FNV of similar inputs are alike; the multiplication spreads them.
	return float64((h.Sum64()*0x9e3779b97f4a7c15)>>40) / (1 << 24) * 100
}
