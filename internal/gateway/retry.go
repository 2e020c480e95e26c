package gateway

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"time"

	"mindrouter/internal/audit"
	"mindrouter/internal/backend"
	"mindrouter/internal/llm"
	"mindrouter/internal/scheduler"
)

// target is where an attempt goes.
type target struct {
	client backend.Client
	model  llm.Model
}

// attempt takes a slot and tries, on another backend after each fault, until try succeeds, the fault is not the
// backend's, or no attempt is left. A retry keeps the first arrival, so it does not go to the end of the queue. On
// success r.lease is held; on failure it is released and the error of the last attempt is returned.
func attempt[T any](ctx context.Context, r *run, try func(context.Context, target) (T, error)) (T, error) {
	var zero T
	var last error
	settings := r.view.Settings()
	for n := range settings.Retry.Attempts {
		lease, err := r.acquire(ctx, settings.Scheduler.CapacityWait, n)
		if err != nil {
			if last != nil && errors.Is(err, scheduler.ErrNoBackend) {
				return zero, last // nothing else could serve it: the reason is the first fault
			}
			return zero, err
		}
		got, err := tryOn(ctx, r, lease, try)
		if err == nil {
			return got, nil
		}
		last = err
		if !retryable(err) {
			return zero, err
		}
		lease.Release(scheduler.Actual{Refund: true})
		r.need.Avoid = append(r.need.Avoid, lease.Backend().ID)
	}
	return zero, last
}

func (r *run) acquire(ctx context.Context, maxWait time.Duration, attempts int) (*scheduler.Lease, error) {
	if r.meta.Deadline > 0 {
		maxWait = min(maxWait, r.meta.Deadline)
	}
	if attempts > 0 { // the time of earlier attempts is not a wait for a slot
		maxWait += time.Since(r.meta.Arrived) - r.queue
	}
	started := time.Now()
	pool, poolWeight := r.principal.Pool()
	lease, err := r.g.cfg.Scheduler.Acquire(ctx, scheduler.Job{
		Tenant: r.principal.Tenant(), Weight: r.principal.Weight(), Pool: pool, PoolWeight: poolWeight, Class: r.meta.Class,
		Input: r.input, MaxTokens: r.maxTokens, Need: r.need, Limits: limits(r.principal), Bytes: r.bytes,
		Arrival: r.meta.Arrived, MaxWait: maxWait, Attempts: attempts,
	})
	if err != nil {
		return nil, err
	}
	r.lease = lease
	r.queue += time.Since(started)
	return lease, nil
}

func tryOn[T any](ctx context.Context, r *run, lease *scheduler.Lease, try func(context.Context, target) (T, error)) (T, error) {
	started := time.Now()
	id := lease.Backend().ID
	var got T
	client, ok := r.g.cfg.Fleet.View().Client(id)
	err := error(llm.Errorf(llm.CodeNoBackend, "The model server was removed."))
	if ok {
		got, err = try(ctx, target{client: client, model: lease.Model()})
	}
	a := audit.Attempt{Backend: string(id), Model: lease.Model().Name, Outcome: "ok", Took: time.Since(started)}
	switch {
	case err == nil:
		r.g.cfg.Fleet.Began(id, a.Model, a.Took)
	case ctx.Err() != nil:
		a.Outcome = "cancelled"
	default:
		a.Outcome, a.Error = "error", string(llm.CodeOf(err))
		if blamesBackend(err) {
			r.g.cfg.Fleet.Failed(id)
		}
		words := "" // what the server said is left out: it may quote the prompt
		var broken net.Error
		if e := llm.AsError(err); e != nil && retryable(err) {
			words = e.Message
			if errors.As(err, &broken) { // the connection's own words hold nothing of the request
				words = backend.ReasonOf(err)
			}
		}
		r.g.cfg.Log.Warn("attempt failed", slog.String("request_id", string(r.meta.ID)), slog.Any("backend", id),
			slog.String("model", a.Model), slog.String("error_code", a.Error), slog.String("error", words))
	}
	r.attempts = append(r.attempts, a)
	return got, err
}

// Causes of the end of an upstream call that we decided.
var (
	errFirstOutput = &llm.Error{Code: llm.CodeTimeout, Message: "The model server did not begin to answer in time."}
	errIdle        = &llm.Error{Code: llm.CodeTimeout, Message: "The model server stopped in the middle of the answer."}
)

// upstream is an answer that has begun. Events before and including the first semantic one are in head.
type upstream struct {
	head  []llm.Event
	next  func() (llm.Event, error, bool)
	stop  func()
	watch *watchdog
	began time.Duration // from the start of the attempt to the first semantic event
}

// open calls the backend and pulls until the first semantic event. Until then nothing has reached the client, so a
// failure may be tried elsewhere.
func (r *run) open(ctx context.Context, t target, req *llm.Request) (*upstream, error) {
	started := time.Now()
	retry := r.view.Settings().Retry
	ctx, watch := newWatchdog(ctx, retry.FirstOutput, retry.Idle)
	watch.wait(errFirstOutput)

	sent := r.rewrite(req, t.model)
	answer, err := t.client.Chat(ctx, backend.Call{
		Request: sent, Model: t.model, InputTokens: r.input, CacheSalt: r.g.cfg.TenantSalt(r.principal.Tenant()),
	})
	if err != nil {
		watch.close()
		return nil, err
	}
	if r.meta.Strict {
		if err := refuseLosses(answer.Notes); err != nil {
			answer.Close()
			watch.close()
			return nil, err
		}
	}
	next, stop := iter.Pull2(answer.Events)
	up := &upstream{next: next, stop: func() { stop(); answer.Close(); watch.close() }, watch: watch}
	for {
		ev, err, ok := next()
		switch {
		case !ok:
			err = &llm.Error{Code: llm.CodeUpstream, Message: "The model server sent an empty answer."}
			fallthrough
		case err != nil:
			up.stop()
			return nil, err
		}
		up.head = append(up.head, ev)
		if ev.Semantic() {
			watch.pause()
			up.began = time.Since(started)
			r.notes = append(r.notes, answer.Notes...)
			return up, nil
		}
	}
}

// watchdog ends an upstream call that is silent for too long. Only the time in which we wait for the backend counts; a
// slow client does not make a backend look dead.
type watchdog struct {
	idle   time.Duration
	first  time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
	cause  error
}

func newWatchdog(ctx context.Context, first, idle time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watchdog{idle: idle, first: first, cancel: cancel}
}

// wait starts the time of the first output.
func (w *watchdog) wait(cause error) {
	w.timer = time.AfterFunc(w.first, func() { w.cancel(cause) })
}

// pause stops the clock while we do not wait for the backend. A timer that has fired already has ended the call.
func (w *watchdog) pause() { w.timer.Stop() }

// resume starts the idle time.
func (w *watchdog) resume() {
	if w.cause == nil {
		// From here on silence has another cause; the timer of the first output is stopped.
		w.cause = errIdle
		w.timer = time.AfterFunc(w.idle, func() { w.cancel(errIdle) })
		return
	}
	w.timer.Reset(w.idle)
}

func (w *watchdog) close() {
	w.timer.Stop()
	w.cancel(nil)
}
