package simbackend

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what a vLLM server reports at /metrics. Gauges are read from the engine when they are asked for, so that
// they are exact.
type metrics struct {
	s       *Server
	handler http.Handler

	promptTokens, generationTokens  *prometheus.CounterVec
	prefixQueries, prefixHits       *prometheus.CounterVec
	success                         *prometheus.CounterVec
	firstToken, interToken, e2e     *prometheus.HistogramVec
	queueTime, prefillTime, decTime *prometheus.HistogramVec

	running, waiting, kvUsage, kvUsageOld *prometheus.Desc
}

// engineLabel is the value of the label that numbers the engine processes of a server.
const engineLabel = "0"

func newMetrics(s *Server) *metrics {
	labels := []string{"model_name", "engine"}
	registry := prometheus.NewRegistry()
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels[:2:2], more...))
		registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, labels)
		registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, labels, nil) }
	m := &metrics{
		s:                s,
		promptTokens:     counter("vllm:prompt_tokens_total", "Number of prefill tokens processed."),
		generationTokens: counter("vllm:generation_tokens_total", "Number of generation tokens processed."),
		prefixQueries:    counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in tokens."),
		prefixHits:       counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in tokens."),
		success:          counter("vllm:request_success_total", "Count of processed requests.", "finished_reason"),
		firstToken:       histogram("vllm:time_to_first_token_seconds", "Time to first token."),
		interToken:       histogram("vllm:inter_token_latency_seconds", "Time between tokens."),
		e2e:              histogram("vllm:e2e_request_latency_seconds", "Time from arrival to end."),
		queueTime:        histogram("vllm:request_queue_time_seconds", "Time spent waiting."),
		prefillTime:      histogram("vllm:request_prefill_time_seconds", "Time spent reading the prompt."),
		decTime:          histogram("vllm:request_decode_time_seconds", "Time spent writing."),
		running:          gauge("vllm:num_requests_running", "Number of requests in execution."),
		waiting:          gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed."),
		kvUsage:          gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
		kvUsageOld:       gauge("vllm:gpu_cache_usage_perc", "Deprecated name of vllm:kv_cache_usage_perc."),
	}
	registry.MustRegister(m)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.running
	ch <- m.waiting
	ch <- m.kvUsage
	ch <- m.kvUsageOld
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.s.engine.mu.Lock()
	loads := map[string]load{}
	for name, l := range m.s.engine.loads {
		loads[name] = *l
	}
	m.s.engine.mu.Unlock()
	usageDesc := m.kvUsage
	if versionBelow(m.s.cfg.Version, 0, 9) {
		usageDesc = m.kvUsageOld
	}
	for name, l := range loads {
		send := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name, engineLabel)
		}
		send(m.running, float64(l.running))
		send(m.waiting, float64(l.waiting))
		send(usageDesc, m.s.cfg.Timing.KVUsage(l.tokens))
	}
}

func (m *metrics) prompt(model string, u usage) {
	m.promptTokens.WithLabelValues(model, engineLabel).Add(float64(u.prompt))
	if m.s.prefixes != nil {
		m.prefixQueries.WithLabelValues(model, engineLabel).Add(float64(u.prompt))
		m.prefixHits.WithLabelValues(model, engineLabel).Add(float64(u.cached))
	}
}

func (m *metrics) token(model string, first bool, sinceArrival, sinceLast time.Duration) {
	m.generationTokens.WithLabelValues(model, engineLabel).Inc()
	if first {
		m.firstToken.WithLabelValues(model, engineLabel).Observe(sinceArrival.Seconds())
		return
	}
	m.interToken.WithLabelValues(model, engineLabel).Observe(sinceLast.Seconds())
}

func (m *metrics) done(model string, reason finishReason) {
	if reason == finishCalls {
		reason = finishStop
	}
	m.success.WithLabelValues(model, engineLabel, string(reason)).Inc()
}

func (m *metrics) times(model string, u usage) {
	m.e2e.WithLabelValues(model, engineLabel).Observe(u.total.Seconds())
	m.queueTime.WithLabelValues(model, engineLabel).Observe(u.queue.Seconds())
	m.prefillTime.WithLabelValues(model, engineLabel).Observe(u.prefill.Seconds())
	m.decTime.WithLabelValues(model, engineLabel).Observe(u.decode.Seconds())
}
