package simbackend

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody is the largest request body that is read, in bytes.
const maxBody = 64 << 20

// Server is a simulated model server. It is an [http.Handler] and safe for concurrent use.
type Server struct {
	cfg      Config
	dialect  dialect
	engine   *engine
	metrics  *metrics
	vocab    *vocabulary
	prefixes *prefixCache
	recorder recorder
	born     time.Time
	ids      atomic.Uint64

	faultMu sync.Mutex
	faults  []FaultRule
	choose  func(Request) *Fault
	replies map[string][]RawReply

	flightMu sync.Mutex
	closed   bool
	flights  map[*exchange]context.CancelFunc
}

// dialect is what differs between the kinds of servers.
type dialect struct {
	routes []route
	// keyed reports whether the path asks for the key.
	keyed func(path string) bool
	// errorJSON is the body of an error, alone or as an event of a stream.
	errorJSON func(*refusal) []byte
	// missing is the reply to an unknown path (404) or method (405).
	missing func(x *exchange, status int)
	// streamType is the content type of streams; frame makes data one event; afterError follows an error event.
	streamType string
	frame      func(data []byte) []byte
	afterError []byte
	// eager dialects send the status of a stream before the first token is there.
	eager bool
}

// route is one path. HEAD is served where GET is.
type route struct {
	method, path string
	inference    bool
	handle       func(x *exchange)
}

// refusal is an error reply.
type refusal struct {
	status  int
	message string
	kind    string // the error type, where the dialect has one and the status does not say
	param   string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

// New returns a server that is ready to serve. The error names every setting that is wrong. The server runs no
// goroutine of its own; [Server.Close] ends the requests in flight.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("simulated backend: %w", err)
	}
	s := &Server{
		cfg:      cfg,
		engine:   newEngine(cfg),
		vocab:    newVocabulary(),
		prefixes: newPrefixCache(cfg.PrefixCacheTokens),
		recorder: recorder{limit: cfg.RecordLimit, maxBytes: cfg.RecordBytes},
		born:     time.Now(),
		faults:   cfg.Faults,
		replies:  map[string][]RawReply{},
		flights:  map[*exchange]context.CancelFunc{},
	}
	s.metrics = newMetrics(s)
	switch cfg.Dialect {
	case DialectVLLM:
		s.dialect = s.vllmDialect()
	case DialectOllama:
		s.dialect = s.ollamaDialect()
	case DialectOpenAI:
		s.dialect = s.openAIDialect()
	}
	return s, nil
}

// Close ends the requests in flight, those that a fault hangs included, and refuses new ones by closing their
// connections. It does not wait; use [Server.WaitIdle].
func (s *Server) Close() {
	s.flightMu.Lock()
	defer s.flightMu.Unlock()
	s.closed = true
	for _, cancel := range s.flights {
		cancel()
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	x := &exchange{s: s, w: w, r: r, ctx: ctx, slow: 1, record: s.recorder.open(r)}
	if !s.takeOff(x, cancel) {
		cancel()
		x.finish()
		x.abort()
	}
	defer s.land(x, cancel)

	rt, status := s.find(r)
	inference := rt != nil && rt.inference
	if inference {
		s.engine.count(func(st *State) {
			st.Received++
			st.InFlight++
			st.MostInFlight = max(st.MostInFlight, st.InFlight)
		})
		defer func() { s.engine.count(func(st *State) { st.InFlight--; st.Ended++; st.outcome(x.finish()) }) }()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		x.refuse(refuse(http.StatusRequestEntityTooLarge, "request body could not be read"))
		return
	}
	x.body = body
	s.recorder.body(x.record, body, inference)

	if reply, ok := s.nextReply(r.URL.Path); ok {
		x.replay(reply)
		return
	}
	if rt == nil {
		x.outcome = OutcomeRejected
		s.dialect.missing(x, status)
		return
	}
	if s.cfg.APIKey != "" && s.dialect.keyed(r.URL.Path) && !s.keyFits(r) {
		x.refuse(&refusal{status: http.StatusUnauthorized, message: "Invalid API Key"})
		return
	}
	if inference {
		if err := x.arm(); err != nil {
			return
		}
	}
	rt.handle(x)
}

// arm decides the fault of the request and carries it out if it strikes on arrival.
func (x *exchange) arm() error {
	x.fault = x.s.faultFor(x.s.recorder.read(x.record))
	if x.fault == nil {
		return nil
	}
	f := *x.fault
	x.s.recorder.update(x.record, func(q *Request) { q.Fault = &f })
	if f.Kind == FaultSlow {
		x.slow = f.Factor
		setDefault(&x.slow, defaultSlowFactor)
	}
	return x.strike(BeforeHeaders, 0)
}

func (s *Server) find(r *http.Request) (*route, int) {
	status := http.StatusNotFound
	for i, rt := range s.dialect.routes {
		if rt.path != r.URL.Path {
			continue
		}
		if rt.method == r.Method || (rt.method == http.MethodGet && r.Method == http.MethodHead) {
			return &s.dialect.routes[i], 0
		}
		status = http.StatusMethodNotAllowed
	}
	return nil, status
}

func (s *Server) keyFits(r *http.Request) bool {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(s.cfg.APIKey)) == 1
}

func (s *Server) takeOff(x *exchange, cancel context.CancelFunc) bool {
	s.flightMu.Lock()
	defer s.flightMu.Unlock()
	if s.closed {
		return false
	}
	s.flights[x] = cancel
	return true
}

func (s *Server) land(x *exchange, cancel context.CancelFunc) {
	x.finish()
	cancel()
	s.flightMu.Lock()
	delete(s.flights, x)
	s.flightMu.Unlock()
	q := s.recorder.read(x.record)
	s.cfg.Log.LogAttrs(context.WithoutCancel(x.ctx), slog.LevelInfo, "simulated request",
		slog.String("path", q.Path), slog.String("model", q.Model), slog.String("outcome", string(q.Outcome)),
		slog.Int("status", q.Status), slog.Int("prompt_tokens", q.PromptTokens), slog.Int("tokens", q.Tokens),
		slog.Int64("total_ms", q.Ended.Sub(q.Started).Milliseconds()))
}

// finish closes the record, once, and returns the outcome.
func (x *exchange) finish() Outcome {
	gone := x.ctx.Err() != nil
	var out Outcome
	x.s.recorder.update(x.record, func(q *Request) {
		if q.Ended.IsZero() {
			q.Ended = time.Now()
			q.Outcome = x.outcome
			if gone {
				q.Cancelled = q.Ended
			}
			if q.Outcome == OutcomePending {
				q.Outcome = OutcomeDone
				if gone {
					q.Outcome = OutcomeCancelled
				}
			}
		}
		out = q.Outcome
	})
	return out
}

func (e *engine) count(change func(*State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.state)
	e.changedLocked()
}

func (st *State) outcome(o Outcome) {
	switch o {
	case OutcomeCancelled:
		st.Cancelled++
	case OutcomeFault:
		st.Faulted++
	case OutcomeRejected:
		st.Rejected++
	default:
		st.Done++
	}
}
