package api

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

func (a *API) chatCompletions(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.generate(w, r, p, openai.Chat{})
}

// generate serves a generation in any dialect.
func (a *API) generate(w http.ResponseWriter, r *http.Request, p identity.Principal, codec dialect.Codec) error {
	meta, err := a.meta(w, r)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	req, notes, err := codec.DecodeChat(body)
	if err != nil {
		return err
	}
	call := gateway.Call{Principal: p, Request: req, Notes: notes, Meta: meta}
	reply := dialect.Reply{
		RequestID: requestID(w), Model: req.Model, Created: meta.Arrived, Request: req, ReasoningField: p.Key.ReasoningField,
	}
	if req.Stream {
		return a.stream(w, r, call, codec, reply)
	}
	return a.whole(w, r, call, codec, reply)
}

// whole answers with one body.
func (a *API) whole(w http.ResponseWriter, r *http.Request, call gateway.Call, codec dialect.Codec, reply dialect.Reply) error {
	ctx := r.Context()
	s, err := a.cfg.Gateway.Generate(ctx, call)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	resp, err := llm.Collect(s.Events(ctx))
	if err != nil {
		return err
	}
	enc := codec.NewEncoder(w, reply)
	setFacts(w.Header(), s.Facts(), call.Meta.Arrived)
	w.Header().Set("Content-Type", enc.ContentType())
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if err := enc.EncodeResponse(resp); err != nil {
		a.cfg.Log.Debug("answer not delivered", slog.String("request_id", reply.RequestID), slog.Any("error", err))
	}
	return nil
}

func (a *API) embeddings(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, err := a.meta(w, r)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	req, notes, err := openai.DecodeEmbed(body)
	if err != nil {
		return err
	}
	resp, facts, err := a.cfg.Gateway.Embed(r.Context(), gateway.EmbedCall{Principal: p, Request: req, Notes: notes, Meta: meta})
	if err != nil {
		return err
	}
	out, err := openai.EncodeEmbed(resp, req)
	if err != nil {
		return err
	}
	setFacts(w.Header(), facts, meta.Arrived)
	a.json(w, out)
	return nil
}

func (a *API) listModels(w http.ResponseWriter, _ *http.Request, p identity.Principal) error {
	var cards []openai.ModelCard
	for _, l := range a.cfg.Gateway.Models(p) {
		cards = append(cards, openai.ModelCard{ID: l.Name, Created: epochSeconds, OwnedBy: "mindrouter", ContextLength: l.ContextLength})
	}
	a.json(w, openai.EncodeModels(cards))
	return nil
}

// epochSeconds stands for the unknown time of a model's making; clients demand a number.
var epochSeconds = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

func (a *API) showModel(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	name := chi.URLParam(r, "*")
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	for _, l := range a.cfg.Gateway.Models(p) {
		if l.Name == name {
			a.json(w, openai.EncodeModel(openai.ModelCard{
				ID: l.Name, Created: epochSeconds, OwnedBy: "mindrouter", ContextLength: l.ContextLength,
			}))
			return nil
		}
	}
	return &llm.Error{Code: llm.CodeModelNotFound, Message: "The model " + truncate(name, 128) + " does not exist or this key may not use it."}
}

func (a *API) json(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		a.cfg.Log.Debug("answer not delivered", slog.String("request_id", requestID(w)), slog.Any("error", err))
	}
}
