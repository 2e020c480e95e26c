package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// messagesCodec answers what needs no model by itself.
type messagesCodec struct{ anthropic.Messages }

func (messagesCodec) Local(r *llm.Request) (*llm.Response, bool) { return anthropic.Local(r) }

func (a *API) messages(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	codec := messagesCodec{}
	if a.cfg.Sign != nil {
		codec.Sign = func(data []byte) [32]byte { return a.cfg.Sign(p.Tenant(), data) }
	}
	return a.generate(w, r, p, anthropicAPI, codec)
}

// countTokens counts a prompt. It takes no slot and does not wait behind generation.
func (a *API) countTokens(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := anthropic.DecodeCount(body)
	if err != nil {
		return err
	}
	n, notes, err := a.cfg.Gateway.CountTokens(r.Context(), gateway.Call{Principal: p, Request: req, Notes: notes, Meta: meta})
	if err != nil {
		return err
	}
	anthropicAPI.headers(w.Header(), requestID(w), time.Since(meta.Arrived))
	setWarnings(w.Header(), notes)
	a.json(w, anthropic.EncodeCount(n))
	return nil
}

func (a *API) anthropicCards(p identity.Principal) []anthropic.ModelCard {
	var cards []anthropic.ModelCard
	for _, l := range a.cfg.Gateway.Models(p) {
		cards = append(cards, anthropic.ModelCard{ID: l.Name, DisplayName: l.Label, Created: epoch, ContextLength: l.ContextLength})
	}
	return cards
}

func (a *API) listAnthropicModels(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	page, err := anthropic.ReadPage(r.URL.Query())
	if err != nil {
		return err
	}
	anthropicAPI.headers(w.Header(), requestID(w), 0)
	a.json(w, anthropic.EncodeModels(a.anthropicCards(p), page))
	return nil
}

func (a *API) showAnthropicModel(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	name := restOfPath(r)
	for _, c := range a.anthropicCards(p) {
		if c.ID == name {
			anthropicAPI.headers(w.Header(), requestID(w), 0)
			a.json(w, anthropic.EncodeModel(c))
			return nil
		}
	}
	return unknownModel(name)
}

// restOfPath is the name of a model at the end of a path; it may hold slashes, as they are or percent-encoded.
func restOfPath(r *http.Request) string {
	name := chi.URLParam(r, "*")
	if decoded, err := url.PathUnescape(name); err == nil {
		return decoded
	}
	return name
}

func unknownModel(name string) error {
	return llm.Errorf(llm.CodeModelNotFound, "The model %q does not exist or this key may not use it.", truncate(name, 128))
}

// notHere answers for parts of the protocol that this service does not have.
func notHere(what string) handler {
	return func(http.ResponseWriter, *http.Request, identity.Principal) error {
		return llm.Errorf(llm.CodeNotFound, "%s are not offered here.", what)
	}
}
