package gateway

import (
	"context"
	"encoding/json"
	"time"

	"mindrouter/internal/llm"
)

// single is a call whose answer comes whole: embeddings, an order of documents. It takes the same steps as Generate.
type single[T any] struct {
	need    llm.Capability
	input   int // estimated tokens
	content func() json.RawMessage
	call    func(ctx context.Context, t target) (T, []llm.Note, error)
	usage   func(T) llm.Usage // what the backend counted; zero if nothing
}

// serve returns the answer and how it came about. Errors are *llm.Error, or the cause of the context's end.
func (s single[T]) serve(ctx context.Context, r *run) (T, Facts, error) {
	var zero T
	if err := r.resolve(ctx); err != nil {
		return zero, Facts{}, r.refuse(ctx, err)
	}
	r.need.Capabilities = []llm.Capability{s.need}
	r.input, r.estimated = s.input, true
	if err := r.reserve(ctx, r.input); err != nil {
		return zero, Facts{}, r.refuse(ctx, err)
	}
	if err := r.begin(ctx, s.content); err != nil {
		return zero, Facts{}, err
	}
	retry := r.view.Settings().Retry
	resp, err := attempt(ctx, r, func(ctx context.Context, t target) (T, error) {
		ctx, watch := newWatchdog(ctx, retry.FirstOutput, retry.Idle)
		defer watch.close()
		watch.wait(errFirstOutput)
		resp, notes, err := s.call(ctx, t)
		if err != nil {
			return zero, err
		}
		if r.meta.Strict {
			if err := refuseLosses(notes); err != nil {
				return zero, err
			}
		}
		r.notes = append(r.notes, notes...)
		return resp, nil
	})
	if err != nil {
		return zero, Facts{}, r.fail(ctx, err)
	}
	r.g.cfg.Fleet.Succeeded(r.lease.Backend().ID)
	facts := r.facts()
	usage := s.usage(resp)
	if usage == (llm.Usage{}) {
		usage = llm.Usage{Input: r.input, Estimated: true}
	}
	r.finish(ctx, end{answered: true, usage: usage, stop: llm.StopEnd, firstToken: time.Since(r.meta.Arrived)})
	return resp, facts, nil
}
