package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mindrouter/internal/admin"
	"mindrouter/internal/api"
	"mindrouter/internal/llm"
	"mindrouter/internal/web"
	"mindrouter/views"
)

func (s *server) listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --addr", err)
	}
	return l, nil
}

func (s *server) scheme() string {
	if s.cfg.TLS != nil {
		return "https"
	}
	return "http"
}

func (s *server) withTLS(l net.Listener) net.Listener {
	if s.cfg.TLS == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		Certificates: []tls.Certificate{*s.cfg.TLS},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	})
}

func (s *server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// handler is the main address: the JSON protocols, the health endpoints and the pages.
func (s *server) handler() http.Handler {
	r := chi.NewRouter()
	r.Use(s.observe)
	s.api.Routes(r)
	r.Get("/livez", s.livez)
	r.Get("/readyz", s.readyz)
	r.Get("/metrics", s.guardedMetrics)
	r.Get("/schema/cluster.json", serveSchema)
	r.Get("/openapi.json", serveOpenAPI())
	web.New(web.Config{
		Fleet: s.fleet, Assets: s.assets, Version: Version, PublicURL: s.cfg.PublicURL, Simulated: s.cfg.Simulated,
		Interface: describeInterface(), NotFound: api.NotFound,
	}).Routes(r)
	return r
}

func serveSchema(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(admin.ClusterSchema()) // the client may have gone
}

func serveOpenAPI() http.HandlerFunc {
	doc := api.OpenAPI(Version)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(doc) // the client may have gone
	}
}

// describeInterface groups what programs are served for the page about it.
func describeInterface() web.Interface {
	var out web.Interface
	bases := map[string]string{"OpenAI": "/v1", "Anthropic": "/anthropic", "Ollama": "/"}
	for _, op := range api.Operations {
		if n := len(out.Groups); n == 0 || out.Groups[n-1].Name != op.Tag {
			out.Groups = append(out.Groups, views.OperationGroup{ID: strings.ToLower(op.Tag), Name: op.Tag, Base: bases[op.Tag]})
		}
		g := &out.Groups[len(out.Groups)-1]
		g.Operations = append(g.Operations, views.Operation{
			Method: op.Method, Path: op.Path, Summary: op.Summary, Details: op.Details, Public: op.Public,
		})
	}
	for _, h := range api.RequestHeaders {
		out.Headers = append(out.Headers, views.Header(h))
	}
	return out
}

// sane is what a client may send as its own request id: it ends up in logs and headers.
var sane = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// observe gives the request its id, recovers from panics, and writes the access log.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		s.inFlight.Add(1)
		s.handlers.Add(1)
		defer func() { s.inFlight.Add(-1); s.handlers.Done() }()
		id := uuid.Must(uuid.NewV7()).String()
		w.Header().Set(api.RequestIDHeader, id)
		for _, name := range []string{api.ClientRequestIDHeader, api.RequestIDHeader} {
			if own := r.Header.Get(name); sane.MatchString(own) {
				w.Header().Set(api.ClientRequestIDHeader, own)
				break
			}
		}
		rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			v := recover()
			if v == any(http.ErrAbortHandler) {
				defer panic(http.ErrAbortHandler) // a handler breaks its answer off
			} else if v != nil {
				s.log.Error("panic", slog.String("request_id", id), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
				if rec.begun {
					defer panic(http.ErrAbortHandler) // the client must not take what it has for the whole
				} else {
					api.WriteError(rec, r, llm.Errorf(llm.CodeInternal, "Something went wrong on our side."))
				}
			}
			if rec.begun || r.Context().Err() == nil {
				s.metrics.httpRequest(r, rec.status, time.Since(started))
			} else {
				rec.status = statusClientGone
			}
			s.log.LogAttrs(context.WithoutCancel(r.Context()), accessLevel(r), "request",
				slog.String("request_id", id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes),
				slog.Float64("duration_ms", float64(time.Since(started).Microseconds())/1000),
				slog.String("ip", s.cfg.clientIP(r)))
		}()
		next.ServeHTTP(rec, r)
	})
}

// statusClientGone stands in logs for a request whose client left before an answer.
const statusClientGone = 499

// accessLevel keeps the questions of load balancers out of the log.
func accessLevel(r *http.Request) slog.Level {
	switch r.URL.Path {
	case "/livez", "/readyz", "/metrics":
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

// statusRecorder remembers what was answered.
type statusRecorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	begun  bool
}

func (r *statusRecorder) WriteHeader(status int) {
	if !r.begun {
		r.status, r.begun = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) Write(b []byte) (int, error) {
	r.begun = true
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// clientIP is the address of the client: the peer, or, if the peer is a trusted proxy, the last address in
// X-Forwarded-For that is not one.
func (c Config) clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	peer, err := netip.ParseAddr(host)
	if err != nil || !c.proxyTrusted(peer) {
		return host
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		if !c.proxyTrusted(addr) {
			return addr.Unmap().String()
		}
	}
	return host
}
