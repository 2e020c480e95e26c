package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"mindrouter/internal/llm"
)

// Client talks to one backend. Errors are *llm.Error, or the cause of the context's end.
type Client interface {
	// Chat starts a generation. It returns when the backend has accepted it; the events arrive as they are consumed.
	Chat(ctx context.Context, call Call) (*Answer, error)
	// Embed makes embeddings.
	Embed(ctx context.Context, req *llm.EmbedRequest, model llm.Model) (*llm.EmbedResponse, []llm.Note, error)
	// Rank orders documents or scores pairs.
	Rank(ctx context.Context, req *llm.RankRequest, model llm.Model) (*llm.RankResponse, error)
	// Speak, Transcribe and Draw start an answer of media, as Chat does. An error that wraps ErrUnsupported says that the
	// server has no such endpoint, or not for the model; another backend may.
	Speak(ctx context.Context, req *llm.SpeechRequest, model llm.Model) (*MediaAnswer, error)
	Transcribe(ctx context.Context, req *llm.TranscriptionRequest, model llm.Model) (*MediaAnswer, error)
	Draw(ctx context.Context, req *llm.ImageRequest, model llm.Model) (*MediaAnswer, error)
	// CountTokens counts the prompt exactly. ErrUnsupported says that the engine cannot.
	CountTokens(ctx context.Context, req *llm.Request, model llm.Model) (int, error)
	// Probe asks what the server is and what it serves.
	Probe(ctx context.Context) (Probe, error)
}

// ErrUnsupported says that an engine has no such endpoint.
var ErrUnsupported = errors.New("not supported by the engine")

// Call is a generation on a chosen backend.
type Call struct {
	Request *llm.Request
	Model   llm.Model
	// InputTokens is our own count of the prompt; it stands in where the backend reports none.
	InputTokens int
	// CacheSalt separates the prefix caches of tenants; empty for none.
	CacheSalt string
}

// Answer is a generation that a backend has accepted.
type Answer struct {
	Notes  []llm.Note // losses in translation
	Events llm.Stream
	close  func()
}

// Close ends the upstream call. It is needed where Events is not consumed to its end, and harmless otherwise.
func (a *Answer) Close() { a.close() }

// Probe is what a server said of itself.
type Probe struct {
	Engine  Engine      `json:"engine"`
	Version string      `json:"version"`
	Models  []llm.Model `json:"models"`
	// Resident are the models in memory; nil if the server does not say.
	Resident []string `json:"resident"`
}

// Limits on what is read from a backend.
const (
	maxErrorBody = 64 << 10
	maxJSONBody  = 64 << 20 // embeddings of many inputs are large
	dialTimeout  = 5 * time.Second
)

// transport returns the connections to one backend. Each backend has a pool of its own, so that one that hangs stalls
// nobody else.
func transport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // nothing to gain inside a machine room
		ForceAttemptHTTP2:     false,
	}
}

// server is the HTTP side of a client.
type server struct {
	base string
	key  string
	http *http.Client
	// decodeError reads a reply that is not 200.
	decodeError func(status int, h http.Header, body []byte) *llm.Error
}

func newServer(base, key string, rt http.RoundTripper, decodeError func(int, http.Header, []byte) *llm.Error) server {
	return server{
		base: strings.TrimRight(base, "/"),
		key:  key,
		http: &http.Client{
			Transport:     rt,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		decodeError: decodeError,
	}
}

// do sends a request and returns the response if its status is 200. The caller closes the body.
func (s server) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, r)
	if err != nil {
		return nil, &llm.Error{Code: llm.CodeInternal, Message: "The request could not be sent to the model server.", Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		// Generation has no lasting effect: on a kept-alive connection that turns out to be dead it may be sent once
		// more. The entry without value tells the transport so and is not sent.
		req.Header["X-Idempotency-Key"] = nil
	}
	return s.send(req)
}

// send sends a request and returns the response if its status is 200. The caller closes the body.
func (s server) send(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := s.http.Do(req) //nolint:gosec // the address is what admins configured
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer closeBody(resp.Body)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, s.decodeError(resp.StatusCode, resp.Header, text)
}

// json sends a request and reads a JSON reply whole.
func (s server) json(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	resp, err := s.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer closeBody(resp.Body)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJSONBody+1))
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	if len(text) > maxJSONBody {
		return nil, upstream(fmt.Errorf("reply to %s is larger than %d bytes", path, maxJSONBody))
	}
	return text, nil
}

// stream sends a request and decodes its reply while it arrives.
func (s server) stream(ctx context.Context, path string, body []byte, decode func(io.Reader) llm.Stream) (*Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := s.do(ctx, http.MethodPost, path, body) //nolint:bodyclose // closeAll does
	if err != nil {
		cancel()
		return nil, err
	}
	closeAll := func() {
		cancel()
		closeBody(resp.Body)
	}
	events := func(yield func(llm.Event, error) bool) {
		defer closeAll()
		for ev, err := range decode(resp.Body) {
			if err != nil {
				err = s.fault(ctx, err)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
		drain(resp.Body, cancel)
	}
	return &Answer{Events: events, close: closeAll}, nil
}

// Bounds on what may follow the end of an answer.
const (
	drainBytes   = 64 << 10
	drainTimeout = 250 * time.Millisecond
)

// drain reads what follows the end of an answer, usually nothing but the end of the body. Only then is the backend done
// with the request, and its connection free for the next. A backend that keeps the body open is left alone.
func drain(body io.Reader, cancel func()) {
	timer := time.AfterFunc(drainTimeout, cancel)
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(body, drainBytes)) // the answer is complete whatever comes
}

// fault classifies an error of the connection. An error that is classified already, and the end of the context, pass.
func (s server) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e := llm.AsError(err); e != nil {
		return e
	}
	return upstream(err)
}

func upstream(err error) *llm.Error {
	return &llm.Error{Code: llm.CodeUpstream, Message: "The model server did not answer properly.", Err: err}
}

// closeBody closes a body that is not wanted any more; the connection is given up with it if anything is left.
func closeBody(b io.Closer) {
	_ = b.Close() // nothing depends on it
}
