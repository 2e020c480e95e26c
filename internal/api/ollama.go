package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

var ollamaAPI = surface{ollama.WriteError, func(http.Header, string, time.Duration) {}}

func (a *API) ollamaRoutes(r chi.Router) {
	r.Post("/chat", a.caller(ollamaAPI, a.ollamaChat))
	r.Post("/generate", a.caller(ollamaAPI, a.ollamaGenerate))
	r.Post("/embed", a.caller(ollamaAPI, a.ollamaEmbed(ollama.DecodeEmbed, ollama.EncodeEmbed)))
	r.Post("/embeddings", a.caller(ollamaAPI, a.ollamaEmbed(ollama.DecodeEmbeddings,
		func(resp *llm.EmbedResponse, _ *llm.EmbedRequest, _ time.Duration) []byte {
			return ollama.EncodeEmbeddings(resp)
		})))
	r.Post("/show", a.caller(ollamaAPI, a.ollamaShow))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r.Method(method, "/tags", a.caller(ollamaAPI, a.ollamaTags))
		r.Method(method, "/ps", a.caller(ollamaAPI, a.ollamaRunning))
		r.Method(method, "/version", http.HandlerFunc(a.ollamaVersion))
	}
	for _, path := range []string{"/pull", "/push", "/create", "/copy", "/delete", "/blobs/{digest}"} {
		r.HandleFunc(path, a.caller(ollamaAPI, func(http.ResponseWriter, *http.Request, identity.Principal) error {
			return llm.Errorf(llm.CodeForbidden, "Models are managed by the administrators of this service.")
		}))
	}
}

// ollamaCodec answers what needs no model by itself.
type ollamaCodec struct{ dialect.Codec }

func (ollamaCodec) Local(r *llm.Request) (*llm.Response, bool) { return ollama.Local(r) }

func (a *API) ollamaChat(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.generate(w, r, p, ollamaAPI, ollamaCodec{ollama.Chat{}})
}

func (a *API) ollamaGenerate(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.generate(w, r, p, ollamaAPI, ollamaCodec{ollama.Generate{}})
}

// Model finds the name that a client of this protocol means: it may have a tag more or less, and other letters.
func (ollamaCodec) Model(asked string, known []string) string { return ollamaName(asked, known) }

func ollamaName(asked string, known []string) string {
	found := asked
	for _, name := range known {
		if name == asked {
			return asked
		}
		if ollama.SameName(name, asked) {
			found = name
		}
	}
	return found
}

func (a *API) modelNames(p identity.Principal) []string {
	var names []string
	for _, l := range a.cfg.Gateway.Models(p) {
		names = append(names, l.Name)
	}
	return names
}

type (
	embedDecoder func(body []byte) (*llm.EmbedRequest, []llm.Note, error)
	embedEncoder func(*llm.EmbedResponse, *llm.EmbedRequest, time.Duration) []byte
)

func (a *API) ollamaEmbed(decode embedDecoder, encode embedEncoder) handler {
	return func(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
		meta, body, err := a.receive(w, r)
		if err != nil {
			return err
		}
		req, notes, err := decode(body)
		if err != nil {
			return err
		}
		asked := *req
		req.Model = ollamaName(req.Model, a.modelNames(p))
		resp, facts, err := a.cfg.Gateway.Embed(r.Context(), gateway.EmbedCall{Principal: p, Request: req, Notes: notes, Meta: meta})
		if err != nil {
			return err
		}
		if err := dialect.CheckWidth(resp.Vectors, req.Dimensions); err != nil {
			return err
		}
		setFacts(w.Header(), facts)
		a.json(w, encode(resp, &asked, time.Since(meta.Arrived)))
		return nil
	}
}

func (a *API) ollamaCards(p identity.Principal) []ollama.ModelCard {
	var cards []ollama.ModelCard
	for _, l := range a.cfg.Gateway.Models(p) {
		cards = append(cards, ollama.ModelCard{
			Name: l.Name, Modified: epoch, ContextLength: l.ContextLength, Capabilities: l.Capabilities, Running: l.Available,
		})
	}
	return cards
}

func (a *API) ollamaTags(w http.ResponseWriter, _ *http.Request, p identity.Principal) error {
	a.json(w, ollama.EncodeTags(a.ollamaCards(p)))
	return nil
}

func (a *API) ollamaRunning(w http.ResponseWriter, _ *http.Request, p identity.Principal) error {
	a.json(w, ollama.EncodeRunning(a.ollamaCards(p), time.Now()))
	return nil
}

func (a *API) ollamaVersion(w http.ResponseWriter, _ *http.Request) {
	a.json(w, ollama.EncodeServedVersion())
}

func (a *API) ollamaShow(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	name, err := ollama.DecodeShowRequest(body)
	if err != nil {
		return err
	}
	for _, c := range a.ollamaCards(p) {
		if ollama.SameName(c.Name, name) {
			a.json(w, ollama.EncodeShown(c))
			return nil
		}
	}
	return llm.Errorf(llm.CodeModelNotFound, "model '%s' not found", truncate(name, 128))
}
