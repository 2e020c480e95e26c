package gateway

import (
	"context"
	"time"

	"mindrouter/internal/llm"
)

// Generate serves a generation request. It returns when the answer has begun; the caller consumes the stream and closes
// it. Errors are *llm.Error, or the cause of the context's end.
func (g *Gateway) Generate(ctx context.Context, call Call) (*Stream, error) {
	req := call.Request
	r := g.newRun(call.Principal, call.Meta, req.Model, call.Notes)
	r.stream = req.Stream
	r.effortAsked = req.Thinking.Effort

	// a. May this caller use that name, does it stand for anything, is there balance at all?
	if err := r.resolve(ctx); err != nil {
		return nil, r.refuse(ctx, err)
	}
	if err := r.fetchImages(ctx, req); err != nil {
		return nil, r.refuse(ctx, err)
	}
	r.need.Capabilities = needs(req)
	// e. How long is the prompt, and how long may the answer be?
	if err := r.measure(ctx, req); err != nil {
		return nil, r.refuse(ctx, err)
	}
	// f. Take request, tokens and budget in one step.
	if err := r.reserve(ctx, r.input+r.outputBound(req)); err != nil {
		return nil, r.refuse(ctx, err)
	}
	// g. From here on the request is on record.
	if err := r.begin(ctx, contentOf(req)); err != nil {
		return nil, err
	}
	// h, i. A fair turn and a slot, then the call, until the answer begins or no attempt is left.
	up, err := attempt(ctx, r, func(ctx context.Context, t target) (*upstream, error) { return r.open(ctx, t, req) })
	if err != nil {
		return nil, r.fail(ctx, err)
	}
	return &Stream{run: r, up: up, req: req, began: time.Now()}, nil
}

// needs lists what a model must be able to do for req.
func needs(req *llm.Request) []llm.Capability {
	if req.Raw != nil {
		return []llm.Capability{llm.CapCompletion}
	}
	caps := []llm.Capability{llm.CapChat}
	if len(req.Tools) > 0 && req.ToolChoice.Mode != llm.ToolNone {
		caps = append(caps, llm.CapTools)
	}
	if req.Format.Kind == llm.FormatSchema {
		caps = append(caps, llm.CapJSONSchema)
	}
	for _, m := range req.Messages {
		if hasImage(m.Blocks) {
			return append(caps, llm.CapVision)
		}
	}
	return caps
}

func hasImage(blocks []llm.Block) bool {
	for _, b := range blocks {
		if b.Kind == llm.BlockImage || (b.ToolResult != nil && hasImage(b.ToolResult.Content)) {
			return true
		}
	}
	return false
}
