package simbackend

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// residency is which models an Ollama holds in memory. It is guarded by the engine's mutex. On other dialects models is
// nil and every model is always there.
//
// Loads happen one after another. A load goes on when the request that caused it is given up; nothing runs for it, the
// model is simply there from readyAt on. A model that is in use is never evicted: a request for another one waits until
// some model is idle, and then the idle model that was used least recently goes.
type residency struct {
	limit     int
	keepAlive time.Duration
	models    map[string]*resident
	loadFree  time.Time // when the last load ends
}

// resident is a model that is loading or loaded.
type resident struct {
	model     string
	numCtx    int
	readyAt   time.Time
	users     int
	lastUsed  time.Time
	keepAlive time.Duration
}

// forever is a keep-alive that never ends.
const forever = time.Duration(1<<63 - 1)

func (r *resident) expiresAt(now time.Time) time.Time {
	from := r.lastUsed
	if r.users > 0 {
		from = now
	}
	return from.Add(min(r.keepAlive, 100*365*24*time.Hour))
}

// memoryLocked returns once the model is in memory and counted as used. It unlocks the mutex while it waits and holds
// it again when it returns. On success w may still be counted as waiting; on error it is not.
func (e *engine) memoryLocked(ctx context.Context, d demand, w *waiter) (*resident, error) {
	if e.residency.models == nil {
		return nil, nil
	}
	for {
		r := e.claimLocked(d, time.Now())
		if r != nil && !time.Now().Before(r.readyAt) {
			return r, nil
		}
		if err := w.beginLocked(); err != nil {
			e.leaveLocked(r)
			return nil, err
		}
		if err := e.awaitLocked(ctx, r); err != nil {
			e.leaveLocked(r)
			w.endLocked()
			return nil, err
		}
		if r != nil {
			return r, nil
		}
	}
}

// awaitLocked waits until r is loaded, or for the next change if r is nil, with the mutex unlocked meanwhile.
func (e *engine) awaitLocked(ctx context.Context, r *resident) error {
	var loaded <-chan time.Time
	var changed <-chan struct{}
	if r != nil {
		timer := time.NewTimer(time.Until(r.readyAt))
		defer timer.Stop()
		loaded = timer.C
	} else {
		changed = e.watchLocked()
	}
	e.mu.Unlock()
	defer e.mu.Lock()
	select {
	case <-loaded:
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claimLocked returns the model with one user more, loading it if there is room. It returns nil if there is none now.
func (e *engine) claimLocked(d demand, now time.Time) *resident {
	e.expireLocked(now)
	r := e.residency.models[d.model]
	if r != nil && r.numCtx != d.numCtx {
		// Another context length needs another load, which has to wait for those who use the present one.
		if r.users > 0 {
			return nil
		}
		delete(e.residency.models, d.model)
		r = nil
	}
	if r == nil {
		if len(e.residency.models) >= e.residency.limit && !e.evictLocked() {
			return nil
		}
		start := now
		if e.residency.loadFree.After(start) {
			start = e.residency.loadFree
		}
		e.residency.loadFree = start.Add(e.scaled(e.timing.LoadDelay))
		r = &resident{
			model: d.model, numCtx: d.numCtx, readyAt: e.residency.loadFree, keepAlive: e.residency.keepAlive,
		}
		e.residency.models[d.model] = r
		e.state.Loads++
		e.changedLocked()
	}
	if d.keepAlive != nil {
		r.keepAlive = *d.keepAlive
	}
	r.users++
	return r
}

// evictLocked removes the idle model that was used least recently and reports whether there was one.
func (e *engine) evictLocked() bool {
	var victim *resident
	for _, r := range e.residency.models {
		if r.users == 0 && (victim == nil || r.lastUsed.Before(victim.lastUsed)) {
			victim = r
		}
	}
	if victim == nil {
		return false
	}
	delete(e.residency.models, victim.model)
	return true
}

func (e *engine) expireLocked(now time.Time) {
	for name, r := range e.residency.models {
		if r.users == 0 && !r.expiresAt(now).After(now) {
			delete(e.residency.models, name)
		}
	}
}

// leaveLocked ends one use of r, which may be nil.
func (e *engine) leaveLocked(r *resident) {
	if r == nil {
		return
	}
	now := time.Now()
	r.users--
	r.lastUsed = now
	e.expireLocked(now)
	e.changedLocked()
}

// unload removes a model from memory, at once or when its last user leaves.
func (e *engine) unload(model string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.residency.models[model]; r != nil {
		r.keepAlive = 0
		e.expireLocked(time.Now())
		e.changedLocked()
	}
}

// loadedModel is one line of what is in memory.
type loadedModel struct {
	model     string
	numCtx    int
	expiresAt time.Time
}

// loaded lists the models in memory, the one that stays longest first.
func (e *engine) loaded() []loadedModel {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.expireLocked(now)
	var out []loadedModel
	for _, r := range e.residency.models {
		if !now.Before(r.readyAt) {
			out = append(out, loadedModel{model: r.model, numCtx: r.numCtx, expiresAt: r.expiresAt(now)})
		}
	}
	slices.SortFunc(out, func(a, b loadedModel) int {
		return cmp.Or(b.expiresAt.Compare(a.expiresAt), cmp.Compare(a.model, b.model))
	})
	return out
}
