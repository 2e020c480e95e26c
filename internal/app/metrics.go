package app

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mindrouter/internal/audit"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// metrics are what Prometheus scrapes. Labels are bounded: models, backends, endpoints, outcomes, codes; never users.
type metrics struct {
	handler http.Handler

	http       *prometheus.HistogramVec
	finished   *prometheus.CounterVec
	refused    *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	queue      *prometheus.HistogramVec
	firstToken *prometheus.HistogramVec
	attempts   *prometheus.CounterVec
}

var seconds = []float64{0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 600}

func newMetrics(reg *prometheus.Registry, s *server) *metrics {
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(&stateCollector{s: s})
	f := promauto.With(reg)
	f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mindrouter_build_info", Help: "1, with the version as label.",
	}, []string{"version", "commit"}).WithLabelValues(Version, Commit).Set(1)
	return &metrics{
		handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}),
		http: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mindrouter_http_request_duration_seconds", Help: "Time to answer, by route and status.", Buckets: seconds,
		}, []string{"route", "method", "status"}),
		finished: f.NewCounterVec(prometheus.CounterOpts{
			Name: "mindrouter_requests_total", Help: "Requests on record that have ended.",
		}, []string{"endpoint", "model", "backend", "outcome"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "mindrouter_refusals_total", Help: "Requests refused before they were on record.",
		}, []string{"endpoint", "code"}),
		tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "mindrouter_tokens_total", Help: "Tokens, by kind: input, cached_input, output.",
		}, []string{"model", "kind"}),
		queue: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mindrouter_queue_seconds", Help: "Time from arrival to the slot.", Buckets: seconds,
		}, []string{"model"}),
		firstToken: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mindrouter_time_to_first_token_seconds", Help: "Time from arrival to the first event of the answer.", Buckets: seconds,
		}, []string{"model"}),
		attempts: f.NewCounterVec(prometheus.CounterOpts{
			Name: "mindrouter_attempts_total", Help: "Tries on backends, by outcome.",
		}, []string{"backend", "outcome"}),
	}
}

// Finished implements gateway.Metrics.
func (m *metrics) Finished(f audit.Finish, endpoint string) {
	m.finished.WithLabelValues(endpoint, f.Model, f.Backend, string(f.Outcome)).Inc()
	for _, a := range f.Attempts {
		m.attempts.WithLabelValues(a.Backend, a.Outcome).Inc()
	}
	if f.Model == "" {
		return
	}
	m.tokens.WithLabelValues(f.Model, "input").Add(float64(f.Usage.Input))
	m.tokens.WithLabelValues(f.Model, "cached_input").Add(float64(f.Usage.CachedInput))
	m.tokens.WithLabelValues(f.Model, "output").Add(float64(f.Usage.Output))
	m.queue.WithLabelValues(f.Model).Observe(f.Queue.Seconds())
	if f.FirstToken > 0 {
		m.firstToken.WithLabelValues(f.Model).Observe(f.FirstToken.Seconds())
	}
}

// Refused implements gateway.Metrics.
func (m *metrics) Refused(code llm.Code, endpoint string) {
	m.refused.WithLabelValues(endpoint, string(code)).Inc()
}

func (m *metrics) httpRequest(r *http.Request, status int, took time.Duration) {
	route := "other"
	if rc := chi.RouteContext(r.Context()); rc != nil && rc.RoutePattern() != "" {
		route = rc.RoutePattern()
	}
	m.http.WithLabelValues(route, knownMethod(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
}

// knownMethod keeps the label bounded: a client may send any word as its method.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	default:
		return "other"
	}
}

// stateCollector reads gauges from the parts that own the state, when they are scraped.
type stateCollector struct{ s *server }

var (
	descWaiting  = prometheus.NewDesc("mindrouter_requests_waiting", "Requests that wait for a slot.", nil, nil)
	descLeases   = prometheus.NewDesc("mindrouter_backend_in_flight", "Requests in flight on a backend.", []string{"backend"}, nil)
	descSlots    = prometheus.NewDesc("mindrouter_backend_slots", "Slots of a backend.", []string{"backend"}, nil)
	descUp       = prometheus.NewDesc("mindrouter_backend_up", "1 if the backend is healthy and in service.", []string{"backend"}, nil)
	descReserved = prometheus.NewDesc("mindrouter_reserved_tokens", "Tokens that running requests have reserved.", nil, nil)
	descAuditErr = prometheus.NewDesc("mindrouter_audit_write_failures_total", "Audit entries that could not be written.", nil, nil)
	descUnrow    = prometheus.NewDesc("mindrouter_refusals_without_row_total", "Refusals that were counted only, because the same key was refused for the same reason many times a minute.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descWaiting, descLeases, descSlots, descUp, descReserved, descAuditErr, descUnrow} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	snap := c.s.scheduler.Snapshot()
	gauge(descWaiting, float64(snap.Waiting))
	gauge(descReserved, float64(c.s.meter.Reserved()))
	counter(descAuditErr, float64(c.s.recorder.Failures()))
	counter(descUnrow, float64(c.s.recorder.Refused()))
	for _, b := range c.s.fleet.View().Backends {
		up := 0.0
		if b.Health == routing.HealthUp && b.Intent == routing.IntentEnabled {
			up = 1
		}
		gauge(descLeases, float64(snap.InFlight[b.ID]), string(b.ID))
		gauge(descSlots, float64(b.Slots), string(b.ID))
		gauge(descUp, up, string(b.ID))
	}
}
