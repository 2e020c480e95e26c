package simbackend

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"mindrouter/internal/simbackend/timing"
)

// errQueueFull is returned by admit when no more requests may wait.
var errQueueFull = errors.New("server busy, please try again.  maximum pending requests exceeded")

// engine decides when requests run. It owns slots, models in memory and the pace of tokens; it knows nothing of HTTP.
// All counting happens under one mutex, so that a snapshot of the gauges is always consistent.
type engine struct {
	timing     timing.Model
	scale      float64
	slots      int
	queueLimit int
	residency  residency

	mu      sync.Mutex
	state   State
	changed chan struct{}
	gates   map[string]*gate
	loads   map[string]*load
}

// load is what one model has to do now.
type load struct {
	running, waiting, tokens int
}

// gate is a set of slots with its queue. All models of a server share one, except on Ollama.
type gate struct {
	running  int
	decoding int
	queue    list.List // of *ticket
	reading  *semaphore.Weighted
}

// ticket is a place in the queue of a gate. ready is closed when the slot is given.
type ticket struct {
	model string
	ready chan struct{}
	given bool
}

func newEngine(cfg Config) *engine {
	e := &engine{
		timing:     cfg.Timing,
		scale:      cfg.TimeScale,
		slots:      cfg.Slots,
		queueLimit: cfg.QueueLimit,
		gates:      map[string]*gate{},
		loads:      map[string]*load{},
	}
	for _, m := range cfg.Models {
		e.loads[m.Name] = &load{}
	}
	if cfg.Dialect == DialectOllama {
		e.residency = residency{limit: cfg.MaxResident, keepAlive: cfg.KeepAlive, models: map[string]*resident{}}
	}
	return e
}

// demand is what a request needs to run.
type demand struct {
	model     string
	numCtx    int            // Ollama: the context to have the model loaded with
	keepAlive *time.Duration // Ollama: overrides the default
}

// lease is the right to run. It must be released exactly once.
type lease struct {
	e        *engine
	g        *gate
	resident *resident
	model    string
	tokens   int
	decoding bool
	timer    *time.Timer
	next     time.Time

	loaded  time.Duration // time until the model was in memory
	started time.Time     // when the slot was got
	read    time.Time     // when the prompt had been read
}

// admit waits for the model and then, in arrival order, for a slot. It returns errQueueFull at once if too many wait,
// and the error of ctx if that ends first.
func (e *engine) admit(ctx context.Context, d demand) (*lease, error) {
	arrived := time.Now()
	e.mu.Lock()
	q := waiter{e: e, model: d.model}
	r, err := e.memoryLocked(ctx, d, &q)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	l := &lease{e: e, resident: r, model: d.model, loaded: time.Since(arrived)}
	l.g = e.gateLocked(d.model)
	if l.g.running < e.slots && l.g.queue.Len() == 0 {
		q.endLocked()
		e.runLocked(l.g, d.model)
		e.mu.Unlock()
		l.started = time.Now()
		return l, nil
	}
	if err := q.beginLocked(); err != nil {
		e.leaveLocked(r)
		e.mu.Unlock()
		return nil, err
	}
	t := &ticket{model: d.model, ready: make(chan struct{})}
	place := l.g.queue.PushBack(t)
	e.mu.Unlock()

	select {
	case <-t.ready:
		l.started = time.Now()
		return l, nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.given {
		e.stopLocked(l.g, d.model)
	} else {
		l.g.queue.Remove(place)
		q.endLocked()
	}
	e.leaveLocked(r)
	return nil, ctx.Err()
}

// release gives the slot to the next in the queue.
func (l *lease) release() {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if l.decoding {
		l.g.decoding--
	}
	l.e.loads[l.model].tokens -= l.tokens
	l.e.stopLocked(l.g, l.model)
	l.e.leaveLocked(l.resident)
	if l.timer != nil {
		l.timer.Stop()
	}
}

// prefill reads the prompt: prompt tokens fill memory, of which uncached have to be computed. Prompts are read one
// after another. The stream counts as decoding from then on.
func (l *lease) prefill(ctx context.Context, prompt, uncached int) error {
	l.e.mu.Lock()
	l.tokens += prompt
	l.e.loads[l.model].tokens += prompt
	l.e.mu.Unlock()
	if err := l.g.reading.Acquire(ctx, 1); err != nil {
		return err
	}
	err := l.sleepUntil(ctx, time.Now().Add(l.e.scaled(l.e.timing.PrefillTime(uncached))))
	l.g.reading.Release(1)
	if err != nil {
		return err
	}
	l.read = time.Now()
	l.next = l.read
	l.e.mu.Lock()
	l.g.decoding++
	l.e.mu.Unlock()
	l.decoding = true
	return nil
}

// pace waits until the next tokens are due, slow times later than usual: one for each of the streams of the request. A
// late reader of the stream is not waited for: the schedule goes on, as on a real server.
func (l *lease) pace(ctx context.Context, slow float64, tokens int) error {
	l.e.mu.Lock()
	batch := l.g.decoding
	l.tokens += tokens
	l.e.loads[l.model].tokens += tokens
	l.e.mu.Unlock()
	interval := l.e.timing.TokenInterval(batch)
	l.next = l.next.Add(l.e.scaled(time.Duration(float64(interval) * slow)))
	return l.sleepUntil(ctx, l.next)
}

func (l *lease) sleepUntil(ctx context.Context, t time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	if l.timer == nil {
		l.timer = time.NewTimer(d)
	} else {
		l.timer.Reset(d)
	}
	select {
	case <-l.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *engine) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * e.scale)
}

func (e *engine) gateLocked(model string) *gate {
	if e.residency.models == nil {
		model = ""
	}
	g := e.gates[model]
	if g == nil {
		g = &gate{reading: semaphore.NewWeighted(1)}
		e.gates[model] = g
	}
	return g
}

func (e *engine) runLocked(g *gate, model string) {
	g.running++
	e.state.Running++
	e.loads[model].running++
	e.changedLocked()
}

// stopLocked frees a slot and hands it on in the same breath, so that no snapshot shows it free while somebody waits.
func (e *engine) stopLocked(g *gate, model string) {
	g.running--
	e.state.Running--
	e.loads[model].running--
	for g.running < e.slots && g.queue.Len() > 0 {
		t := g.queue.Remove(g.queue.Front()).(*ticket)
		t.given = true
		close(t.ready)
		e.state.Waiting--
		e.loads[t.model].waiting--
		e.runLocked(g, t.model)
	}
	e.changedLocked()
}

// waiter counts one request in the waiting gauge, at most once.
type waiter struct {
	e     *engine
	model string
	in    bool
}

func (w *waiter) beginLocked() error {
	if w.in {
		return nil
	}
	if w.e.queueLimit > 0 && w.e.state.Waiting >= w.e.queueLimit {
		return errQueueFull
	}
	w.in = true
	w.e.state.Waiting++
	w.e.loads[w.model].waiting++
	w.e.changedLocked()
	return nil
}

func (w *waiter) endLocked() {
	if !w.in {
		return
	}
	w.in = false
	w.e.state.Waiting--
	w.e.loads[w.model].waiting--
	w.e.changedLocked()
}
