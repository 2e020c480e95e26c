package gateway

import (
	"context"
	"encoding/json"

	"mindrouter/internal/llm"
	"mindrouter/internal/tokens"
)

// Embed serves an embedding request. Errors are *llm.Error, or the cause of the context's end.
func (g *Gateway) Embed(ctx context.Context, call EmbedCall) (*llm.EmbedResponse, Facts, error) {
	req := call.Request
	input := tokens.EstimateInputs(req)
	resp, facts, err := single[*llm.EmbedResponse]{
		need: llm.CapEmbedding, input: input,
		content: func() json.RawMessage {
			return marshal(struct {
				Inputs []llm.EmbedInput `json:"inputs"`
			}{req.Inputs})
		},
		call: func(ctx context.Context, t target) (*llm.EmbedResponse, []llm.Note, error) {
			sent := *req
			sent.Model = t.model.Name
			return t.client.Embed(ctx, &sent, t.model)
		},
		usage: func(resp *llm.EmbedResponse) llm.Usage { return resp.Usage },
	}.serve(ctx, g.newRun(call.Principal, call.Meta, req.Model, call.Notes))
	if err != nil {
		return nil, Facts{}, err
	}
	if resp.Usage == (llm.Usage{}) {
		resp.Usage = llm.Usage{Input: input, Estimated: true}
	}
	resp.Model = req.Model
	return resp, facts, nil
}

// Rank serves a request for an order of documents or for scores. Errors are *llm.Error, or the cause of the context's
// end.
func (g *Gateway) Rank(ctx context.Context, call RankCall) (*llm.RankResponse, Facts, error) {
	req := call.Request
	input := tokens.EstimateRank(req)
	resp, facts, err := single[*llm.RankResponse]{
		need: llm.CapRerank, input: input,
		content: func() json.RawMessage {
			return marshal(struct {
				Queries []string `json:"queries"`
				Texts   []string `json:"texts"`
			}{req.Queries, req.Texts})
		},
		call: func(ctx context.Context, t target) (*llm.RankResponse, []llm.Note, error) {
			sent := *req
			sent.Model = t.model.Name
			resp, err := t.client.Rank(ctx, &sent, t.model)
			return resp, nil, err
		},
		usage: func(resp *llm.RankResponse) llm.Usage { return resp.Usage },
	}.serve(ctx, g.newRun(call.Principal, call.Meta, req.Model, call.Notes))
	if err != nil {
		return nil, Facts{}, err
	}
	if resp.Usage == (llm.Usage{}) {
		resp.Usage = llm.Usage{Input: input, Estimated: true}
	}
	resp.Model = req.Model
	return resp, facts, nil
}
