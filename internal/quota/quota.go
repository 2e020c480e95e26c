// Package quota keeps callers within their requests per minute, tokens per minute and token budgets.
//
// A request reserves an upper bound of all of them in one atomic step before any GPU works for it, and settles to what it
// used when it ends, whatever the end. A refused request consumes nothing. Reservations are memory of this process; the
// budget's counter is written in the transaction that finishes the request's record, so a process that dies leaves no
// reservation behind.
package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// Kind names a limit.
type Kind string

// Kinds of limits.
const (
	KindRequests Kind = "requests_per_minute"
	KindTokens   Kind = "tokens_per_minute"
	KindBudget   Kind = "token_budget"
)

// Counter is the stored state of one subject.
type Counter struct {
	Subject   identity.Subject
	PeriodEnd time.Time // zero before the first charge of a period
	Used      int64     // tokens in the period that ends at PeriodEnd
	Lifetime  int64     // tokens ever; never falls
}

// Store reads counters. They are written with the audit record, see audit.Finish.
type Store interface {
	// Counter returns the counter of a subject; the zero counter with its Subject if there is none.
	Counter(ctx context.Context, s identity.Subject) (Counter, error)
}

// Window of the sliding request count and of the token bucket's refill.
const window = time.Minute

// Meter checks and counts. It is safe for concurrent use.
type Meter struct {
	store Store
	now   func() time.Time

	mu       sync.Mutex
	subjects map[identity.Subject]*subject
}

// NewMeter returns a meter that reads counters from store. now is the clock.
func NewMeter(store Store, now func() time.Time) *Meter {
	return &Meter{store: store, now: now, subjects: map[identity.Subject]*subject{}}
}

// subject is the live state of one subject.
type subject struct {
	counter  Counter
	reserved int64       // tokens of running requests
	starts   []time.Time // of requests within the window, oldest first
	bucket   float64     // tokens left of the minute's burst
	filled   time.Time   // when bucket was brought up to date
	touched  time.Time
}

// Reservation is what a running request holds. Settle it exactly once; further calls do nothing.
type Reservation struct {
	meter  *Meter
	bounds []identity.Bound
	period time.Duration
	at     time.Time
	tokens int64

	once    sync.Once
	charges []Charge
}

// Charge is what a settled reservation adds to a subject's counter.
type Charge struct {
	Subject   identity.Subject
	PeriodEnd time.Time
	Tokens    int64
}

// Reserve takes one request and tokens tokens from every limit that binds p, or from none. The error is an *llm.Error of
// code rate_limited or budget_spent that names the tightest limit and says when to come back, or what the store said.
func (m *Meter) Reserve(ctx context.Context, p identity.Principal, tokens int) (*Reservation, error) {
	bounds := p.Bounds()
	if err := m.load(ctx, bounds); err != nil {
		return nil, err
	}
	now := m.now()
	period := Period(p.Group)

	m.mu.Lock()
	defer m.mu.Unlock()
	var worst *llm.Error
	for _, b := range bounds {
		s := m.subjects[b.Subject]
		s.advance(now, b.Limits, period)
		if err := s.refuse(now, b, int64(tokens)); err != nil && (worst == nil || err.RetryAfter > worst.RetryAfter) {
			worst = err
		}
	}
	if worst != nil {
		return nil, worst
	}
	r := &Reservation{meter: m, bounds: bounds, period: period, at: now, tokens: int64(tokens)}
	for _, b := range bounds {
		m.subjects[b.Subject].take(now, b.Limits, int64(tokens))
	}
	return r, nil
}

// Check says whether p may make a request now, without taking anything: a cheap refusal before costly work. The error is
// as of Reserve.
func (m *Meter) Check(ctx context.Context, p identity.Principal) error {
	bounds := p.Bounds()
	if err := m.load(ctx, bounds); err != nil {
		return err
	}
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range bounds {
		s := m.subjects[b.Subject]
		s.advance(now, b.Limits, Period(p.Group))
		if err := s.refuse(now, b, 1); err != nil {
			return err
		}
	}
	return nil
}

// Settle replaces the reservation by what was used and returns the charges to record. The request itself stays counted.
func (r *Reservation) Settle(u llm.Usage) []Charge {
	r.once.Do(func() { r.charges = r.meter.settle(r, int64(u.Total())) })
	return r.charges
}

// Refund gives everything back, the request included: it was refused or failed before any backend worked for it.
func (r *Reservation) Refund() {
	r.once.Do(func() { r.meter.refund(r) })
}

// Tokens is the size of the reservation.
func (r *Reservation) Tokens() int { return int(r.tokens) }

// Extend raises the reservation by tokens, for an answer that goes on beyond its first bound. It reports whether every
// budget had room; if not, nothing is taken.
func (r *Reservation) Extend(tokens int) bool {
	m := r.meter
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range r.bounds {
		s := m.subjects[b.Subject]
		if left, limited := s.budgetLeft(b.Limits); limited && left < int64(tokens) {
			return false
		}
	}
	for _, b := range r.bounds {
		s := m.subjects[b.Subject]
		s.fill(now, b.Limits)
		s.hold(b.Limits, int64(tokens))
	}
	r.tokens += int64(tokens)
	return true
}

func (m *Meter) settle(r *Reservation, used int64) []Charge {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	charges := make([]Charge, 0, len(r.bounds))
	for _, b := range r.bounds {
		s := m.subjects[b.Subject]
		s.advance(now, b.Limits, r.period)
		s.hold(b.Limits, -r.tokens)
		if b.Limits.TokensPerMinute > 0 {
			s.bucket -= float64(used)
		}
		s.counter.Used += used
		s.counter.Lifetime += used
		charges = append(charges, Charge{Subject: b.Subject, PeriodEnd: s.counter.PeriodEnd, Tokens: used})
	}
	return charges
}

func (m *Meter) refund(r *Reservation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range r.bounds {
		s := m.subjects[b.Subject]
		s.hold(b.Limits, -r.tokens)
		for i := len(s.starts) - 1; i >= 0; i-- {
			if s.starts[i].Equal(r.at) {
				s.starts = append(s.starts[:i], s.starts[i+1:]...)
				break
			}
		}
	}
}

// load brings the counters of bounds into memory. The store is read without the lock.
func (m *Meter) load(ctx context.Context, bounds []identity.Bound) error {
	for _, b := range bounds {
		m.mu.Lock()
		s := m.subjects[b.Subject]
		if s != nil {
			s.touched = m.now()
		}
		m.mu.Unlock()
		if s != nil {
			continue
		}
		c, err := m.store.Counter(ctx, b.Subject)
		if err != nil {
			return fmt.Errorf("read counter of %s %s: %w", b.Subject.Scope, b.Subject.ID, err)
		}
		m.mu.Lock()
		if m.subjects[b.Subject] == nil {
			now := m.now()
			m.subjects[b.Subject] = &subject{counter: c, bucket: float64(b.Limits.TokensPerMinute), filled: now, touched: now}
		}
		m.mu.Unlock()
	}
	return nil
}

// Reserved is the sum of all reservations, in tokens; 0 when nothing runs.
func (m *Meter) Reserved() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum int64
	for _, s := range m.subjects {
		sum += s.reserved
	}
	return sum
}

// Period is the budget period of a group.
func Period(g identity.Group) time.Duration {
	days := g.BudgetPeriodDays
	if days <= 0 {
		days = 30
	}
	return time.Duration(days) * 24 * time.Hour
}
