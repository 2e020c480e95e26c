package api

import (
	"log/slog"
	"net/http"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

func (a *API) chatCompletions(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.generate(w, r, p, openAI, openai.Chat{})
}

func (a *API) completions(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.generate(w, r, p, openAI, openai.Completions{})
}

// generate serves a generation in any dialect.
func (a *API) generate(w http.ResponseWriter, r *http.Request, p identity.Principal, s surface, codec dialect.Codec) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := codec.DecodeChat(body)
	if err != nil {
		return err
	}
	asked := req.Model
	if n, ok := codec.(namingCodec); ok {
		req.Model = n.Model(asked, a.modelNames(p))
	}
	call := gateway.Call{Principal: p, Request: req, Notes: notes, Meta: meta}
	s.headers(w.Header(), requestID(w), 0)
	reply := dialect.Reply{
		RequestID: requestID(w), Model: asked, Created: meta.Arrived, Request: req, ReasoningField: p.Key.ReasoningField,
	}
	if l, ok := codec.(localCodec); ok {
		if resp, ok := l.Local(req); ok {
			return a.local(w, r, call, codec.NewEncoder(w, reply), resp)
		}
	}
	if req.Stream {
		return a.stream(w, r, call, codec, reply)
	}
	return a.whole(w, r, call, s, codec, reply)
}

// localCodec is a codec of a protocol in which some requests need no model.
type localCodec interface {
	Local(req *llm.Request) (*llm.Response, bool)
}

// namingCodec is a codec of a protocol in which a model has several names.
type namingCodec interface {
	Model(asked string, known []string) string
}

// local answers a request that needs no model. Whether the caller may use it is checked all the same.
func (a *API) local(w http.ResponseWriter, r *http.Request, call gateway.Call, enc dialect.Encoder, resp *llm.Response) error {
	if err := a.cfg.Gateway.Check(r.Context(), call); err != nil {
		return err
	}
	w.Header().Set("Content-Type", enc.ContentType())
	if !call.Request.Stream {
		return a.delivered(w, enc.EncodeResponse(resp))
	}
	for ev, err := range llm.Events(resp) {
		if err == nil {
			err = enc.Encode(ev)
		}
		if err != nil {
			return a.delivered(w, err)
		}
	}
	return a.delivered(w, enc.Close())
}

// delivered notes an answer that did not reach the client; there is nobody left to tell.
func (a *API) delivered(w http.ResponseWriter, err error) error {
	if err != nil {
		a.cfg.Log.Debug("answer not delivered", slog.String("request_id", requestID(w)), slog.Any("error", err))
	}
	return nil
}

// whole answers with one body.
func (a *API) whole(w http.ResponseWriter, r *http.Request, call gateway.Call, sf surface, codec dialect.Codec, reply dialect.Reply) error {
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
	setFacts(w.Header(), s.Facts())
	sf.headers(w.Header(), reply.RequestID, time.Since(call.Meta.Arrived))
	w.Header().Set("Content-Type", enc.ContentType())
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	err = enc.EncodeResponse(resp)
	if e := llm.AsError(err); e != nil { // the protocol has no place for what the model said; nothing was written
		return e
	}
	return a.delivered(w, err)
}

func (a *API) embeddings(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, body, err := a.receive(w, r)
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
	if err := dialect.CheckWidth(resp.Vectors, req.Dimensions); err != nil {
		return err
	}
	out, err := openai.EncodeEmbed(resp, req)
	if err != nil {
		return err
	}
	setFacts(w.Header(), facts)
	openAI.headers(w.Header(), requestID(w), time.Since(meta.Arrived))
	a.json(w, out)
	return nil
}

func (a *API) listModels(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	var cards []openai.ModelCard
	for _, l := range a.cfg.Gateway.Models(p) {
		cards = append(cards, openai.ModelCard{ID: l.Name, Created: epoch.Unix(), OwnedBy: "mindrouter", ContextLength: l.ContextLength})
	}
	if r.URL.Query().Has("client_version") {
		a.json(w, openai.EncodeAgentModels(cards))
		return nil
	}
	a.json(w, openai.EncodeModels(cards))
	return nil
}

// epoch stands for the unknown time of a model's making; clients demand one.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (a *API) showModel(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	name := restOfPath(r)
	for _, l := range a.cfg.Gateway.Models(p) {
		if l.Name == name {
			a.json(w, openai.EncodeModel(openai.ModelCard{
				ID: l.Name, Created: epoch.Unix(), OwnedBy: "mindrouter", ContextLength: l.ContextLength,
			}))
			return nil
		}
	}
	return unknownModel(name)
}

func (a *API) json(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(body) //nolint:gosec // JSON, and its type says so
	_ = a.delivered(w, err)
}
