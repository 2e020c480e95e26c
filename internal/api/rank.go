package api

import (
	"net/http"
	"time"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

func (a *API) rerank(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	var reply openai.RankReply
	decode := func(body []byte) (req *llm.RankRequest, notes []llm.Note, err error) {
		req, reply, notes, err = openai.DecodeRerank(body)
		return req, notes, err
	}
	return a.rank(w, r, p, decode, func(resp *llm.RankResponse, req *llm.RankRequest, o openai.RankReply) []byte {
		o.TopN, o.Documents = reply.TopN, reply.Documents
		return openai.EncodeRerank(resp, req, o)
	})
}

func (a *API) score(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.rank(w, r, p, openai.DecodeScore, func(resp *llm.RankResponse, _ *llm.RankRequest, o openai.RankReply) []byte {
		return openai.EncodeScore(resp, o)
	})
}

func (a *API) rank(w http.ResponseWriter, r *http.Request, p identity.Principal,
	decode func([]byte) (*llm.RankRequest, []llm.Note, error),
	encode func(*llm.RankResponse, *llm.RankRequest, openai.RankReply) []byte,
) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := decode(body)
	if err != nil {
		return err
	}
	resp, facts, err := a.cfg.Gateway.Rank(r.Context(), gateway.RankCall{Principal: p, Request: req, Notes: notes, Meta: meta})
	if err != nil {
		return err
	}
	setFacts(w.Header(), facts)
	openAI.headers(w.Header(), requestID(w), time.Since(meta.Arrived))
	a.json(w, encode(resp, req, openai.RankReply{RequestID: requestID(w), Model: req.Model, Created: meta.Arrived}))
	return nil
}

// tokenize counts a prompt, plain or of a chat, and tells the context that it must fit.
func (a *API) tokenize(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := openai.DecodeTokenizeRequest(body)
	if err != nil {
		return err
	}
	n, notes, err := a.cfg.Gateway.CountTokens(r.Context(), gateway.Call{Principal: p, Request: req, Notes: notes, Meta: meta})
	if err != nil {
		return err
	}
	length := 0
	for _, l := range a.cfg.Gateway.Models(p) {
		if l.Name == req.Model {
			length = l.ContextLength
		}
	}
	setWarnings(w.Header(), notes)
	openAI.headers(w.Header(), requestID(w), time.Since(meta.Arrived))
	a.json(w, openai.EncodeTokenized(n, length))
	return nil
}
