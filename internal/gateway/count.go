package gateway

import (
	"context"

	"mindrouter/internal/llm"
)

// Check tells whether the caller may use the model of a request, without doing anything else. It is for requests that
// need no model, such as one that only warms a cache. Errors are *llm.Error, or the cause of the context's end.
func (g *Gateway) Check(ctx context.Context, call Call) error {
	r := g.newRun(call.Principal, call.Meta, call.Request.Model, call.Notes)
	if err := r.resolve(ctx); err != nil {
		return r.refuse(ctx, err)
	}
	return nil
}

// CountTokens counts the prompt of a request without answering it: by a backend that serves the model if one can count,
// else with our own vocabulary, which the notes tell. It takes no slot, costs nothing and leaves no record, because
// clients call it before every turn. Errors are *llm.Error, or the cause of the context's end.
func (g *Gateway) CountTokens(ctx context.Context, call Call) (int, []llm.Note, error) {
	r := g.newRun(call.Principal, call.Meta, call.Request.Model, call.Notes)
	if err := r.resolve(ctx); err != nil {
		return 0, nil, r.refuse(ctx, err)
	}
	r.countPrompt(ctx, call.Request)
	return r.input, r.notes, nil
}
