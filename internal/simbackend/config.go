package simbackend

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mindrouter/internal/simbackend/timing"
)

// Dialect names the kind of server that is simulated.
type Dialect string

// The dialects.
const (
	DialectVLLM   Dialect = "vllm"
	DialectOllama Dialect = "ollama"
	DialectOpenAI Dialect = "openai"
)

// Config describes a simulated server. The zero value of every field except Dialect is a working default.
type Config struct {
	// Dialect is required.
	Dialect Dialect
	// Models are what the server serves. Default [DefaultModels] of the dialect.
	Models []Model
	// Version is the reported version. Default "0.16.0" (vLLM) or "0.24.0" (Ollama). A vLLM below 0.16 names its
	// reasoning field reasoning_content, from 0.16 on reasoning.
	Version string
	// APIKey, if set, is required as a bearer token (vLLM and OpenAI: on /v1 paths only).
	APIKey string

	// Slots is how many requests run at once; on Ollama for each model. Default 16, on Ollama 4.
	Slots int
	// QueueLimit is how many requests may wait; one more is refused with 503. Default on Ollama 512, otherwise and
	// when negative no limit.
	QueueLimit int
	// Timing is the speed of the server. Zero parameters get the defaults of package timing.
	Timing timing.Model
	// TimeScale multiplies every simulated delay. 1 is real time, 0 means no delays at all.
	TimeScale float64
	// Seed varies the answers and the choice of requests that a percentage of faults hits.
	Seed uint64
	// PrefixCacheTokens is how many prompt tokens the prefix cache remembers. 0: no cache, and cached_tokens is absent.
	PrefixCacheTokens int
	// EmbeddingDims is the length of embedding vectors. Default 64.
	EmbeddingDims int

	// MaxResident is how many models an Ollama holds in memory. Default 3.
	MaxResident int
	// NumCtx is the context an Ollama loads a model with unless the request says otherwise. Default 4096.
	NumCtx int
	// KeepAlive is how long an idle model stays in memory on Ollama, in real time. Default 5 minutes.
	KeepAlive time.Duration

	// Faults are the rules in force from the start.
	Faults []FaultRule
	// RecordLimit and RecordBytes bound how many requests, and how many bytes of their bodies, are kept for
	// [Server.Requests]. Default 1024 and 64 MiB; a negative RecordLimit keeps none.
	RecordLimit int
	RecordBytes int
	// Log receives one line per request, without content. Default: discarded.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	switch c.Dialect {
	case DialectVLLM:
		setDefault(&c.Version, "0.16.0")
	case DialectOllama:
		setDefault(&c.Version, "0.24.0")
		setDefault(&c.Slots, 4)
		setDefault(&c.QueueLimit, 512)
	}
	setDefault(&c.Slots, 16)
	if len(c.Models) == 0 {
		c.Models = DefaultModels(c.Dialect)
	}
	c.Timing = c.Timing.WithDefaults()
	setDefault(&c.EmbeddingDims, 64)
	setDefault(&c.MaxResident, 3)
	setDefault(&c.NumCtx, 4096)
	setDefault(&c.KeepAlive, 5*time.Minute)
	setDefault(&c.RecordLimit, 1024)
	setDefault(&c.RecordBytes, 64<<20)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	switch c.Dialect {
	case DialectVLLM, DialectOllama, DialectOpenAI:
	default:
		errs = append(errs, fmt.Errorf("dialect %q is unknown, want vllm, ollama or openai", c.Dialect))
	}
	seen := map[string]bool{}
	for _, m := range c.Models {
		if m.Name == "" {
			errs = append(errs, errors.New("a model has no name"))
		}
		if m.Context < 1 {
			errs = append(errs, fmt.Errorf("model %q has context %d, want at least 1", m.Name, m.Context))
		}
		if seen[m.Name] {
			errs = append(errs, fmt.Errorf("model %q is listed twice", m.Name))
		}
		seen[m.Name] = true
	}
	if c.Slots < 1 {
		errs = append(errs, fmt.Errorf("slots is %d, want at least 1", c.Slots))
	}
	if !(c.TimeScale >= 0) {
		errs = append(errs, fmt.Errorf("time scale is %v, want 0 or more", c.TimeScale))
	}
	if c.EmbeddingDims < 1 || c.MaxResident < 1 || c.NumCtx < 1 {
		errs = append(errs, errors.New("embedding dimensions, resident models and num_ctx must be at least 1"))
	}
	for _, f := range c.Faults {
		errs = append(errs, f.validate())
	}
	errs = append(errs, c.Timing.Validate())
	return errors.Join(errs...)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
