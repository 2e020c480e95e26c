package backend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

const (
	pollEvery    = 5 * time.Second
	probeTimeout = 10 * time.Second
	// downAfter is how many polls in a row must fail before a backend that was up counts as down. Traffic notices
	// sooner, by the breaker.
	downAfter = 2
	// latencyWeight is the weight of a new measurement in the moving average of the time to first token.
	latencyWeight = 0.2
)

// FleetConfig configures [NewFleet].
type FleetConfig struct {
	Log *slog.Logger
	// OnChange is told of every change of the fleet. It must not call back into the fleet.
	OnChange func([]routing.Backend)
	// NewClient makes the client of a backend; nil means [NewClient].
	NewClient func(Config) Client
}

// Fleet knows every backend. It is safe for concurrent use: writers take the mutex, readers load a snapshot.
type Fleet struct {
	log       *slog.Logger
	onChange  func([]routing.Backend)
	newClient func(Config) Client
	view      atomic.Pointer[View]
	reconcile chan struct{} // capacity 1: the catalog has changed
	ready     chan struct{} // closed when every backend in service was asked once

	mu      sync.Mutex
	catalog Catalog
	members map[string]*member // by name
}

// member is one backend: its configuration, what was observed, and its client.
type member struct {
	cfg     Config
	client  Client
	breaker breaker

	probed   bool // at least once with success
	tried    bool // at least once with any result
	failures int  // polls in a row
	reason   string
	probe    Probe
	latency  float64
	since    time.Time     // when health last changed
	wake     chan struct{} // capacity 1: poll now
}

// View is an immutable snapshot of the fleet.
type View struct {
	Catalog  Catalog
	Backends []routing.Backend
	clients  map[routing.BackendID]Client
	status   []Status
	aliases  map[string]routing.Alias
	models   map[string]ModelConfig
	// known holds every model name that somebody configured or some backend has ever reported.
	known map[string]bool
	// undiscovered says that some backend in service has never said what it serves.
	undiscovered bool
	ready        bool
	turns        *sync.Map // alias name -> *atomic.Uint64
}

// Status is the state of one backend for people.
type Status struct {
	Config  Config
	Health  routing.Health
	Reason  string
	Since   time.Time
	Probe   Probe
	Latency float64 // milliseconds to the first token, moving average
}

// NewFleet returns an empty fleet. Set a catalog and Run it.
func NewFleet(cfg FleetConfig) *Fleet {
	f := &Fleet{
		log: cfg.Log, onChange: cfg.OnChange, newClient: cfg.NewClient,
		reconcile: make(chan struct{}, 1), ready: make(chan struct{}), members: map[string]*member{},
	}
	if f.newClient == nil {
		f.newClient = NewClient
	}
	f.view.Store(&View{turns: &sync.Map{}})
	return f
}

// SetCatalog replaces the configuration. Backends whose address has changed start anew.
func (f *Fleet) SetCatalog(c Catalog) {
	f.mu.Lock()
	f.catalog = c
	seen := map[string]bool{}
	for _, cfg := range c.Backends {
		seen[cfg.Name] = true
		m := f.members[cfg.Name]
		if m == nil || m.cfg.URL != cfg.URL || m.cfg.Engine != cfg.Engine || m.cfg.APIKey != cfg.APIKey || m.cfg.ID != cfg.ID {
			m = &member{client: f.newClient(cfg), since: time.Now(), wake: make(chan struct{}, 1)}
			f.members[cfg.Name] = m
		}
		m.cfg = cfg
	}
	maps.DeleteFunc(f.members, func(name string, _ *member) bool { return !seen[name] })
	f.publishAndUnlock(time.Now())
	select {
	case f.reconcile <- struct{}{}:
	default:
	}
}

// Run polls every backend until ctx ends, each by a goroutine of its own.
func (f *Fleet) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	running := map[*member]context.CancelFunc{}
	for {
		f.mu.Lock()
		members := slices.Collect(maps.Values(f.members))
		f.mu.Unlock()
		for m, stop := range running {
			if !slices.Contains(members, m) {
				stop()
				delete(running, m)
			}
		}
		for _, m := range members {
			if running[m] == nil {
				mctx, stop := context.WithCancel(ctx)
				running[m] = stop
				g.Go(func() error { f.poll(mctx, m); return nil })
			}
		}
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-f.reconcile:
		}
	}
}

func (f *Fleet) poll(ctx context.Context, m *member) {
	for {
		f.probe(ctx, m)
		timer := time.NewTimer(f.nextPoll(m))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-m.wake:
			timer.Stop()
		}
	}
}

// nextPoll is the poll interval, or less when the breaker turns half open before.
func (f *Fleet) nextPoll(m *member) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := pollEvery
	if until := time.Until(m.breaker.openUntil); until > 0 {
		wait = min(wait, until)
	}
	return wait
}

func (f *Fleet) probe(ctx context.Context, m *member) {
	pctx, cancel := context.WithTimeout(ctx, probeTimeout)
	p, err := m.client.Probe(pctx)
	cancel()
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	before := m.health(time.Now())
	m.tried = true
	if err != nil {
		m.failures++
		m.reason = ReasonOf(err)
	} else {
		m.probe, m.probed, m.failures, m.reason = p, true, 0, ""
	}
	after := m.health(time.Now())
	if before != after {
		m.since = time.Now()
	}
	name := m.cfg.Name
	f.publishAndUnlock(time.Now())
	if before != after {
		attrs := []slog.Attr{slog.String("backend", name), slog.Any("from", before), slog.Any("to", after)}
		if err != nil {
			attrs = append(attrs, slog.Any("error", err))
		}
		f.log.LogAttrs(context.Background(), slog.LevelInfo, "backend health changed", attrs...)
	}
}

// ReasonOf says in words why a probe failed.
func ReasonOf(err error) string {
	switch e := llm.AsError(err); {
	case errors.Is(err, context.DeadlineExceeded):
		return "does not answer in time"
	case e != nil && e.Err != nil:
		return "does not answer: " + lastCause(e.Err)
	case e != nil:
		return e.Message
	default:
		return "does not answer: " + err.Error()
	}
}

// lastCause is the innermost message, such as "connection refused", without addresses.
func lastCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

func (m *member) health(now time.Time) routing.Health {
	switch {
	case m.breaker.state(now) == breakerOpen:
		return routing.HealthTripped
	case !m.tried:
		return routing.HealthUnknown
	case m.failures >= downAfter, !m.probed:
		return routing.HealthDown
	default:
		return routing.HealthUp
	}
}

// publishAndUnlock builds a new snapshot, tells of it and unlocks. It is the end of every change.
func (f *Fleet) publishAndUnlock(now time.Time) {
	old := f.view.Load()
	v := &View{
		Catalog: f.catalog,
		clients: map[routing.BackendID]Client{},
		aliases: map[string]routing.Alias{},
		models:  map[string]ModelConfig{},
		known:   map[string]bool{},
		ready:   true,
		turns:   old.turns,
	}
	for _, a := range f.catalog.Aliases {
		v.aliases[a.Name] = a
	}
	for _, m := range f.catalog.Models {
		v.models[m.Name], v.known[m.Name] = m, true
	}
	for _, m := range f.members {
		b := m.snapshot(now, v.models)
		v.Backends = append(v.Backends, b)
		v.clients[b.ID] = m.client
		v.status = append(v.status, Status{
			Config: m.cfg, Health: b.Health, Reason: b.Reason, Since: m.since, Probe: m.probe, Latency: m.latency,
		})
		for name := range b.Models {
			v.known[name] = true
		}
		for _, limit := range m.cfg.Models {
			v.known[limit.Name] = true
		}
		if m.cfg.Intent != routing.IntentDisabled {
			v.ready = v.ready && m.tried
			v.undiscovered = v.undiscovered || (!m.probed && len(m.cfg.Models) == 0)
		}
	}
	routing.Order(v.Backends)
	slices.SortFunc(v.status, func(a, b Status) int { return cmp.Compare(a.Config.Name, b.Config.Name) })
	f.view.Store(v)
	if v.ready && !old.ready {
		select {
		case <-f.ready:
		default:
			close(f.ready)
		}
	}
	if f.onChange != nil {
		f.onChange(v.Backends) // the scheduler's lock is always taken after this one
	}
	f.mu.Unlock()
}

// snapshot is the backend as routing sees it.
func (m *member) snapshot(now time.Time, overrides map[string]ModelConfig) routing.Backend {
	b := routing.Backend{
		ID: routing.BackendID(m.cfg.Name), Engine: string(m.cfg.Engine), Boundary: m.cfg.Boundary, Priority: m.cfg.Priority,
		Models: map[string]llm.Model{}, Slots: m.cfg.MaxConcurrent, ModelSlots: map[string]int{},
		Health: m.health(now), Reason: m.reason, Intent: m.cfg.Intent, Latency: m.latency,
	}
	if m.probe.Resident != nil {
		b.Resident = map[string]bool{}
		for _, name := range m.probe.Resident {
			b.Resident[name] = true
		}
	}
	if b.Slots <= 0 {
		b.Slots = DefaultMaxConcurrent
	}
	switch m.breaker.state(now) {
	case breakerOpen:
		b.Reason = m.breaker.reason
	case breakerHalfOpen:
		b.Slots = 1 // one request tries whether it is well again
	}
	for _, found := range m.probe.Models {
		limit, listed := m.limit(found.Name)
		if len(m.cfg.Models) > 0 && !listed {
			continue
		}
		if listed && limit.MaxConcurrent > 0 {
			b.ModelSlots[found.Name] = limit.MaxConcurrent
		}
		names := []string{found.Name}
		if short, ok := strings.CutSuffix(found.Name, ":latest"); ok && m.cfg.Engine == EngineOllama {
			names = append(names, short)
		}
		for _, name := range names {
			b.Models[name] = describe(found, m.cfg.Engine, overrides, names)
		}
	}
	return b
}

func (m *member) limit(model string) (ModelLimit, bool) {
	for _, l := range m.cfg.Models {
		if l.Name == model || (m.cfg.Engine == EngineOllama && l.Name+":latest" == model) {
			return l, true
		}
	}
	return ModelLimit{}, false
}

// View returns the current snapshot. It is immutable.
func (f *Fleet) View() *View { return f.view.Load() }

// Ready is closed when every backend in service has been asked once.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Refresh polls every backend now.
func (f *Fleet) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

// Began tells that a backend has begun to answer with a model, after firstToken. The model is in its memory then.
func (f *Fleet) Began(id routing.BackendID, model string, firstToken time.Duration) {
	f.report(id, func(m *member, now time.Time, retry RetrySettings) {
		if m.probe.Resident != nil && !slices.Contains(m.probe.Resident, model) {
			m.probe.Resident = append(slices.Clone(m.probe.Resident), model)
		}
		m.breaker.began(now, retry.BreakerFailures)
		ms := float64(firstToken) / float64(time.Millisecond)
		if m.latency == 0 {
			m.latency = ms
		} else {
			m.latency += latencyWeight * (ms - m.latency)
		}
	})
}

// Succeeded tells that a backend has answered a request to its end.
func (f *Fleet) Succeeded(id routing.BackendID) {
	f.report(id, func(m *member, _ time.Time, _ RetrySettings) { m.breaker.success() })
}

// Failed tells that a backend has failed a request by its own fault.
func (f *Fleet) Failed(id routing.BackendID) {
	f.report(id, func(m *member, now time.Time, retry RetrySettings) {
		m.breaker.failure(now, "failed requests in a row", retry.BreakerFailures, retry.BreakerCooldown)
	})
}

// report changes what is known of a backend and publishes it if the breaker has moved; averages are published with the
// next poll.
func (f *Fleet) report(id routing.BackendID, change func(*member, time.Time, RetrySettings)) {
	f.mu.Lock()
	m := f.members[string(id)]
	if m == nil {
		f.mu.Unlock()
		return
	}
	now := time.Now()
	before := m.breaker.state(now)
	change(m, now, f.catalog.Settings.WithDefaults().Retry)
	after := m.breaker.state(now)
	if before == after {
		f.mu.Unlock()
		return
	}
	m.since = now
	select { // the poller keeps the time of the cooldown
	case m.wake <- struct{}{}:
	default:
	}
	f.log.Warn("backend breaker changed", slog.Any("backend", m.cfg.Name), slog.Bool("open", after == breakerOpen))
	f.publishAndUnlock(now)
}
