package gateway

import (
	"context"
	"encoding/json"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/tokens"
)

// Embed serves an embedding request. It takes the same steps as Generate. Errors are *llm.Error, or the cause of the
// context's end.
func (g *Gateway) Embed(ctx context.Context, call EmbedCall) (*llm.EmbedResponse, Facts, error) {
	req := call.Request
	r := g.newRun(call.Principal, call.Meta, req.Model, call.Notes)
	if err := r.resolve(ctx); err != nil {
		return nil, Facts{}, r.refuse(ctx, err)
	}
	r.need.Capabilities = []llm.Capability{llm.CapEmbedding}
	r.input, r.estimated = tokens.EstimateInputs(req), true
	if err := r.reserve(ctx, r.input); err != nil {
		return nil, Facts{}, r.refuse(ctx, err)
	}
	content := func() json.RawMessage {
		return marshal(struct {
			Inputs []llm.EmbedInput `json:"inputs"`
		}{req.Inputs})
	}
	if err := r.begin(ctx, content); err != nil {
		return nil, Facts{}, err
	}
	retry := r.view.Settings().Retry
	resp, err := attempt(ctx, r, func(ctx context.Context, t target) (*llm.EmbedResponse, error) {
		ctx, watch := newWatchdog(ctx, retry.FirstOutput, retry.Idle)
		defer watch.close()
		watch.wait(errFirstOutput)
		sent := *req
		sent.Model = t.model.Name
		resp, notes, err := t.client.Embed(ctx, &sent, t.model)
		if err != nil {
			return nil, err
		}
		if r.meta.Strict {
			if err := refuseLosses(notes); err != nil {
				return nil, err
			}
		}
		r.notes = append(r.notes, notes...)
		return resp, nil
	})
	if err != nil {
		return nil, Facts{}, r.fail(ctx, err)
	}
	g.cfg.Fleet.Succeeded(r.lease.Backend().ID)
	facts := Facts{Backend: string(r.lease.Backend().ID), Model: r.lease.Model().Name, Queue: r.queue, Notes: r.notes}
	if resp.Usage == (llm.Usage{}) {
		resp.Usage = llm.Usage{Input: r.input, Estimated: true}
	}
	r.finish(ctx, end{answered: true, usage: resp.Usage, stop: llm.StopEnd, firstToken: time.Since(r.meta.Arrived)})
	resp.Model = req.Model
	return resp, facts, nil
}
