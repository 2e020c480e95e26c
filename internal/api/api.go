// Package api serves the JSON protocols: it decodes, identifies the caller, calls the gateway and encodes. The web pages
// are not here, and these paths never read cookies.
package api

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"mindrouter/internal/audit"
	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/responses"
)

// MaxBody bounds a request body, decoded, in bytes.
const MaxBody = 32 << 20

// bodyTimeout is how long a client may take to send its body.
const bodyTimeout = 2 * time.Minute

// RequestIDHeader carries the request's id. The server sets it on the response before a handler runs.
const RequestIDHeader = "X-Request-Id"

// ClientRequestIDHeader echoes the client's own id, if it sent one.
const ClientRequestIDHeader = "X-Client-Request-Id"

// Config configures [New].
type Config struct {
	Keys    *identity.Keys
	Gateway *gateway.Gateway
	Record  audit.Reader
	// Responses keeps what clients ask to have stored; nil stores nothing.
	Responses *responses.Keeper
	Log       *slog.Logger
	// ClientIP returns the address of the client behind any trusted proxies.
	ClientIP func(*http.Request) string
	// KeepAlive is how long a stream may be silent before a sign of life is sent.
	KeepAlive time.Duration
	// Sign returns a digest of data that only this service can make, different for every tenant.
	Sign func(tenant string, data []byte) [32]byte
	// Seal encrypts data for a tenant, and Open undoes that; it reports false for what was not sealed for this tenant.
	Seal func(tenant string, plain []byte) (sealed string, ok bool)
	Open func(tenant, sealed string) (plain []byte, ok bool)
	// MaxBody bounds a body, decoded; 0 means [MaxBody].
	MaxBody int64
	// MaxAudio and MaxImages bound the files of an upload together; 0 means [MaxAudio] and [MaxImages].
	MaxAudio, MaxImages int64
	// SpoolDir is where files of an upload lie while their request runs; empty means the system's temporary directory. It
	// is made when it is first needed.
	SpoolDir string
}

// API holds the handlers.
type API struct {
	cfg Config
}

// New returns the handlers of the JSON protocols.
func New(cfg Config) *API {
	if cfg.MaxBody == 0 {
		cfg.MaxBody = MaxBody
	}
	if cfg.MaxAudio == 0 {
		cfg.MaxAudio = MaxAudio
	}
	if cfg.MaxImages == 0 {
		cfg.MaxImages = MaxImages
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = 15 * time.Second
	}
	return &API{cfg: cfg}
}

// Routes mounts every path of the package.
func (a *API) Routes(r chi.Router) {
	r.Route("/v1", func(r chi.Router) {
		r.Post("/chat/completions", a.caller(openAI, a.chatCompletions))
		r.Post("/completions", a.caller(openAI, a.completions))
		r.Post("/embeddings", a.caller(openAI, a.embeddings))
		r.Post("/rerank", a.caller(openAI, a.rerank))
		r.Post("/score", a.caller(openAI, a.score))
		r.Post("/tokenize", a.caller(openAI, a.tokenize))
		r.Post("/audio/speech", a.caller(openAI, a.speech))
		r.Post("/audio/transcriptions", a.caller(openAI, a.transcriptions))
		r.Post("/audio/translations", a.caller(openAI, a.translations))
		r.Post("/images/generations", a.caller(openAI, a.imageGenerations))
		r.Post("/images/edits", a.caller(openAI, a.imageEdits))
		r.Get("/models", a.either(a.listModels, a.listAnthropicModels))
		r.Get("/models/*", a.either(a.showModel, a.showAnthropicModel))
		a.responseRoutes(r)
		r.Get("/requests/{id}/explain", a.caller(openAI, a.explain))
		a.anthropicRoutes(r)
		r.NotFound(a.notFound)
		r.MethodNotAllowed(a.methodNotAllowed)
	})
	// Where clients of Jina, Cohere and vLLM look for them.
	for _, path := range []string{"/rerank", "/v2/rerank"} {
		r.Post(path, a.caller(openAI, a.rerank))
	}
	r.Post("/score", a.caller(openAI, a.score))
	r.Post("/tokenize", a.caller(openAI, a.tokenize))
	r.Route("/anthropic/v1", func(r chi.Router) {
		r.Get("/models", a.caller(anthropicAPI, a.listAnthropicModels))
		r.Get("/models/*", a.caller(anthropicAPI, a.showAnthropicModel))
		a.anthropicRoutes(r)
		r.NotFound(a.notFound)
		r.MethodNotAllowed(a.methodNotAllowed)
	})
	r.Route("/api", func(r chi.Router) {
		a.ollamaRoutes(r)
		r.NotFound(a.notFound)
		r.MethodNotAllowed(a.methodNotAllowed)
	})
	// What clients of Anthropic's protocol ask to see whether anybody is there.
	for _, path := range []string{"/api/hello", "/anthropic", "/anthropic/", "/anthropic/api/hello"} {
		r.Get(path, hello)
		r.Head(path, hello)
	}
}

func (a *API) anthropicRoutes(r chi.Router) {
	r.Post("/messages", a.caller(anthropicAPI, a.messages))
	r.Post("/messages/count_tokens", a.caller(anthropicAPI, a.countTokens))
	r.HandleFunc("/messages/batches", a.caller(anthropicAPI, notHere("Message batches")))
	r.HandleFunc("/messages/batches/*", a.caller(anthropicAPI, notHere("Message batches")))
	r.Post("/complete", a.caller(anthropicAPI, notHere("Text completions of the old kind")))
}

func hello(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// either serves a path that two protocols share, by the headers of the request.
func (a *API) either(openAIHandler, anthropicHandler handler) http.HandlerFunc {
	one, other := a.caller(openAI, openAIHandler), a.caller(anthropicAPI, anthropicHandler)
	return func(w http.ResponseWriter, r *http.Request) {
		if anthropic.Speaks(r.Header) {
			other(w, r)
		} else {
			one(w, r)
		}
	}
}

// handler serves a request of a known caller. An error that it returns is answered in the protocol's form; once it has
// begun to answer it deals with errors itself and returns nil.
type handler func(w http.ResponseWriter, r *http.Request, p identity.Principal) error

// caller identifies the caller and hands it to h.
func (a *API) caller(s surface, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := a.authenticate(r)
		if err == nil {
			err = h(w, r, p)
		}
		if err != nil {
			a.fail(w, r, s, err)
		}
	}
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, s surface, err error) {
	e := llm.AsError(err)
	if e == nil {
		e = &llm.Error{Code: llm.CodeInternal, Message: "Something went wrong on our side.", Err: err}
		if r.Context().Err() != nil {
			e = &llm.Error{Code: llm.CodeCancelled, Message: "The client closed the request.", Err: err}
		}
	}
	if e.Code == llm.CodeInternal {
		a.cfg.Log.Error("request failed", slog.String("request_id", requestID(w)), slog.Any("error", err))
	}
	s.writeError(w, e, requestID(w))
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	NotFound(w, r)
}

// NotFound answers a program that asks for a path at which nothing is, in the form of the protocol that it seems to speak,
// and says what is probably wrong with its base URL.
func NotFound(w http.ResponseWriter, r *http.Request) {
	msg := "There is no " + truncate(r.URL.Path, 256) + " here."
	if hint := pathHint(r.URL.Path); hint != "" {
		msg += " " + hint
	}
	WriteError(w, r, &llm.Error{Code: llm.CodeNotFound, Message: msg})
}

// pathHint finds the mistake in a path that clients make by a wrong base URL.
func pathHint(path string) string {
	if strings.Contains(path, "/v1/v1/") {
		return "The base URL of the client ends in /v1 once too often."
	}
	for _, known := range []struct{ suffix, path, base string }{
		{"/v1/messages", "/anthropic/v1/messages", "/anthropic"},
		{"/messages", "/anthropic/v1/messages", "/anthropic"},
		{"/messages/count_tokens", "/anthropic/v1/messages/count_tokens", "/anthropic"},
		{"/chat/completions", "/v1/chat/completions", "/v1"},
		{"/completions", "/v1/completions", "/v1"},
		{"/responses", "/v1/responses", "/v1"},
		{"/embeddings", "/v1/embeddings", "/v1"},
		{"/models", "/v1/models", "/v1"},
		{"/api/chat", "/api/chat", ""},
		{"/api/generate", "/api/generate", ""},
		{"/api/tags", "/api/tags", ""},
	} {
		if strings.HasSuffix(path, known.suffix) {
			if known.base == "" {
				return known.path + " is what you look for: the address of this service is the base URL, without a path."
			}
			return known.path + " is what you look for: the base URL must end in " + known.base + "."
		}
	}
	if strings.HasSuffix(path, "/") {
		return "The path ends in a slash too many."
	}
	return ""
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, surfaceOf(r), llm.Errorf(llm.CodeMethodNotAllowed, "%s does not take %s; a program sends it %s.", r.URL.Path, r.Method, otherMethod(r.Method)))
}

// otherMethod is what most paths take that do not take method.
func otherMethod(method string) string {
	if method == http.MethodPost {
		return http.MethodGet
	}
	return http.MethodPost
}

// receive reads what the headers say about a request, and then its body.
func (a *API) receive(w http.ResponseWriter, r *http.Request) (gateway.Meta, []byte, error) {
	meta, err := a.meta(w, r)
	if err != nil {
		return meta, nil, err
	}
	body, err := a.body(w, r)
	return meta, body, err
}

// body reads a request body whole: the reply may begin before a backend has read it.
func (a *API) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := a.cfg.MaxBody
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		err = rc.SetReadDeadline(time.Time{}) // from here on the connection is watched for the client's leaving
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, &llm.Error{Code: llm.CodeInvalidRequest, Message: "The body could not be read.", Err: err}
	}
	return decompress(body, r.Header.Get("Content-Encoding"), limit)
}

func tooLarge(limit int64) error {
	return llm.Errorf(llm.CodeTooLarge, "The body is larger than %d bytes.", limit)
}

func requestID(w http.ResponseWriter) string { return w.Header().Get(RequestIDHeader) }

// meta reads what the headers say about a request.
func (a *API) meta(w http.ResponseWriter, r *http.Request) (gateway.Meta, error) {
	m := gateway.Meta{
		ID:              audit.ID(requestID(w)),
		Arrived:         time.Now(),
		Endpoint:        r.URL.Path,
		IP:              a.cfg.ClientIP(r),
		UserAgent:       truncate(r.UserAgent(), 256),
		ClientRequestID: w.Header().Get(ClientRequestIDHeader),
		Strict:          r.Header.Get("X-Mindrouter-Strict") == "1",
	}
	switch class := llm.Class(r.Header.Get("X-Mindrouter-Class")); class {
	case "", llm.ClassInteractive, llm.ClassStandard, llm.ClassBatch:
		m.Class = class
	default:
		return m, llm.Invalid("x-mindrouter-class", "The class %q is none of interactive, standard, batch.", class)
	}
	switch b := llm.Boundary(r.Header.Get("X-Mindrouter-Boundary")); b {
	case "", llm.BoundaryAny, llm.BoundaryCampus:
		m.Boundary = b
	default:
		return m, llm.Invalid("x-mindrouter-boundary", "The boundary %q is none of any, campus.", b)
	}
	if s := r.Header.Get("X-Mindrouter-Deadline"); s != "" {
		seconds, err := strconv.ParseFloat(s, 64)
		if err != nil || !(seconds > 0 && seconds < 1e6) {
			return m, llm.Invalid("x-mindrouter-deadline", "The deadline %q is not a positive number of seconds.", truncate(s, 32))
		}
		m.Deadline = time.Duration(seconds * float64(time.Second))
	}
	return m, nil
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
