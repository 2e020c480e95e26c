package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/responses"
)

// keepTimeout bounds the storing of an answer whose client may have gone.
const keepTimeout = 5 * time.Second

func (a *API) responseRoutes(r chi.Router) {
	r.Post("/responses", a.caller(openAI, a.createResponse))
	r.Post("/responses/input_tokens", a.caller(openAI, a.responseInputTokens))
	r.Get("/responses/{id}", a.caller(openAI, a.getResponse))
	r.Delete("/responses/{id}", a.caller(openAI, a.deleteResponse))
	r.Get("/responses/{id}/input_items", a.caller(openAI, a.responseInputItems))
	for _, path := range []string{"/responses/{id}/cancel", "/responses/compact"} {
		r.Post(path, a.caller(openAI, func(http.ResponseWriter, *http.Request, identity.Principal) error {
			return llm.Errorf(llm.CodeNotFound, "Responses in the background are not offered here.")
		}))
	}
}

// responsesCodec is the codec for one caller: what is sealed opens for the same tenant only, and what is stored is seen by
// its owner only.
func (a *API) responsesCodec(ctx context.Context, p identity.Principal) openai.Responses {
	owner := p.Tenant()
	codec := openai.Responses{}
	if a.cfg.Seal != nil && a.cfg.Open != nil {
		codec.Seal = func(plain []byte) (string, bool) { return a.cfg.Seal(owner, plain) }
		codec.Open = func(sealed string) ([]byte, bool) { return a.cfg.Open(owner, sealed) }
	}
	if a.cfg.Responses == nil {
		return codec
	}
	codec.Previous = func(id string) ([]json.RawMessage, error) {
		items, err := a.cfg.Responses.Conversation(ctx, owner, id)
		return items, storedFault(err)
	}
	codec.Item = func(id string) (json.RawMessage, error) {
		item, err := a.cfg.Responses.Item(ctx, owner, id)
		return item, storedFault(err)
	}
	codec.Keep = func(r openai.Record) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
		defer cancel()
		return storedFault(a.cfg.Responses.Keep(ctx, responses.Stored{
			ID: r.ID, Owner: owner, Previous: r.Previous, Input: r.Input, Output: r.Output, Response: r.Response, Failed: r.Failed,
		}))
	}
	return codec
}

// storedFault turns an error of the stored responses into one for the client.
func storedFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, responses.ErrNotFound):
		return &llm.Error{Code: llm.CodeNotFound, Message: "There is no such response or item; it may have expired.", Err: err}
	case errors.Is(err, responses.ErrFailed):
		return llm.Errorf(llm.CodeInvalidRequest, "That response ended with an error and cannot be continued.")
	case errors.Is(err, responses.ErrTooLong):
		return llm.Errorf(llm.CodeTooLarge, "The stored conversation is too long to be continued.")
	default:
		return &llm.Error{Code: llm.CodeUnavailable, Message: "Stored responses cannot be reached now.", RetryAfter: retryAfterOutage, Err: err}
	}
}

func (a *API) createResponse(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.generate(w, r, p, openAI, a.responsesCodec(r.Context(), p))
}

func (a *API) responseInputTokens(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := a.responsesCodec(r.Context(), p).DecodeInputTokens(body)
	if err != nil {
		return err
	}
	n, notes, err := a.cfg.Gateway.CountTokens(r.Context(), gateway.Call{Principal: p, Request: req, Notes: notes, Meta: meta})
	if err != nil {
		return err
	}
	setWarnings(w.Header(), notes)
	openAI.headers(w.Header(), requestID(w), time.Since(meta.Arrived))
	a.json(w, openai.EncodeInputTokens(n))
	return nil
}

func (a *API) storedResponse(r *http.Request, p identity.Principal) (responses.Stored, error) {
	if a.cfg.Responses == nil {
		return responses.Stored{}, storedFault(responses.ErrNotFound)
	}
	s, err := a.cfg.Responses.Get(r.Context(), p.Tenant(), chi.URLParam(r, "id"))
	return s, storedFault(err)
}

func (a *API) getResponse(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	s, err := a.storedResponse(r, p)
	if err != nil {
		return err
	}
	if on := r.URL.Query().Get("stream"); on == "true" || on == "1" {
		return llm.Errorf(llm.CodeUnsupported, "A stored response is read whole; stream is not offered here.")
	}
	a.json(w, append(slices.Clone(s.Response), '\n'))
	return nil
}

func (a *API) deleteResponse(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	s, err := a.storedResponse(r, p)
	if err != nil {
		return err
	}
	if err := a.cfg.Responses.Delete(r.Context(), p.Tenant(), s.ID); err != nil {
		return storedFault(err)
	}
	body, err := json.Marshal(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{s.ID, "response.deleted", true})
	if err != nil {
		return err
	}
	a.json(w, append(body, '\n'))
	return nil
}

// Bounds of a page of items.
const (
	defaultItems = 20
	maxItems     = 100
)

// responseInputItems lists the items of a request, newest first unless asked otherwise, a page at a time.
func (a *API) responseInputItems(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	s, err := a.storedResponse(r, p)
	if err != nil {
		return err
	}
	items, q := slices.Clone(s.Input), r.URL.Query()
	switch q.Get("order") {
	case "", "desc":
		slices.Reverse(items)
	case "asc":
	default:
		return llm.Invalid("order", "must be asc or desc")
	}
	limit := defaultItems
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxItems {
			return llm.Invalid("limit", "must be between 1 and %d", maxItems)
		}
	}
	if after := q.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(item json.RawMessage) bool { return responses.ItemID(item) == after })
		if at < 0 {
			return llm.Invalid("after", "is no item of this response")
		}
		items = items[at+1:]
	}
	more := len(items) > limit
	if more {
		items = items[:limit]
	}
	page := struct {
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
		First  *string           `json:"first_id"`
		Last   *string           `json:"last_id"`
		More   bool              `json:"has_more"`
	}{Object: "list", Data: items, More: more}
	if len(items) > 0 {
		first, last := responses.ItemID(items[0]), responses.ItemID(items[len(items)-1])
		page.First, page.Last = &first, &last
	} else {
		page.Data = []json.RawMessage{}
	}
	body, err := json.Marshal(page)
	if err != nil {
		return err
	}
	a.json(w, append(body, '\n'))
	return nil
}
