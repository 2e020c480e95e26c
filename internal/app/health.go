package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"mindrouter/internal/api"
	"mindrouter/internal/backend"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// health is the body of /readyz.
type health struct {
	Status  string   `json:"status"` // ok, degraded, starting, draining, unavailable
	Reasons []string `json:"reasons"`
}

// livez says that the process runs.
func (s *server) livez(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, health{Status: "ok", Reasons: []string{}})
}

const pingTimeout = 2 * time.Second

// readyz says whether requests should be sent here.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	h, status := s.health(r.Context())
	writeJSON(w, status, h)
}

func (s *server) health(ctx context.Context) (health, int) {
	if s.draining.Load() {
		return health{Status: "draining", Reasons: []string{"the server is stopping"}}, http.StatusServiceUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := s.db.Ping(ctx); err != nil {
		s.log.Warn("database does not answer", slog.Any("error", err))
		return health{Status: "unavailable", Reasons: []string{"the database does not answer"}}, http.StatusServiceUnavailable
	}
	if !s.fleet.View().Ready() {
		return health{Status: "starting", Reasons: []string{"not every backend has been asked yet"}}, http.StatusServiceUnavailable
	}
	h := health{Status: "ok", Reasons: []string{}}
	if !slices.ContainsFunc(s.fleet.View().Status(), func(b backend.Status) bool { return b.Health == routing.HealthUp }) {
		h.Reasons = append(h.Reasons, "no model server answers") // which no other copy of this server could mend
	}
	return h, http.StatusOK
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// guardedMetrics serves /metrics on the main address to keys of scope admin. Being on loopback is no reason to trust: a
// proxy on this machine makes everybody loopback.
func (s *server) guardedMetrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.MetricsAddr != "" {
		http.NotFound(w, r)
		return
	}
	if _, err := api.Authenticate(r, s.keys, s.cfg.clientIP(r), identity.ScopeAdmin); err != nil {
		e := llm.AsError(err)
		if e == nil {
			return // the client has gone
		}
		openai.WriteError(w, e, w.Header().Get(api.RequestIDHeader))
		return
	}
	s.metrics.handler.ServeHTTP(w, r)
}

// metricsHandler is the separate metrics address.
func (s *server) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.handler)
	return mux
}

// Healthcheck asks the server that runs with the same configuration whether it lives. It is for containers, whose image
// holds nothing that could ask.
func Healthcheck(ctx context.Context, cfg Config) error {
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host == "" || (err == nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	scheme, client := "http", &http.Client{Timeout: pingTimeout}
	if cfg.TLS != nil {
		scheme = "https"
		// The certificate names the public host; whoever answers on this address of ours is the one we mean.
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/livez", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	return nil
}
