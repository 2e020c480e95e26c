// Package timing is the pure timing model of a simulated model server: how long a prompt takes to be read, how fast a
// batch of streams is written, how long a model takes to load and how many tokens fit its memory.
//
// It holds numbers only: no clock, no goroutine, no I/O. The HTTP simulator sleeps for the durations that it returns;
// a discrete-event simulator adds them to its own clock.
//
// # The model
//
// A server with continuous batching runs one step after another. A step writes one token for each of the b streams that
// decode, and reads a chunk of c prompt tokens at most:
//
//	step(b, c) = base + slope*b + c/PrefillTPS        (base only if b > 0)
//
// base is the time to read the weights once, whatever the batch; slope is what one more stream adds (its part of
// attention, sampling and network). The model takes two measurable numbers instead of base and slope: DecodeTPS, the
// speed of one stream alone, and SaturationTPS, the total speed that a growing batch approaches:
//
//	slope = 1/SaturationTPS
//	base  = 1/DecodeTPS - slope
//	interval(b) = 1/DecodeTPS + (b-1)/SaturationTPS
//	total(b)    = b/interval(b)  ->  SaturationTPS
//
// The total reaches half of SaturationTPS at b = SaturationTPS/DecodeTPS - 1 streams. So one stream gets slower with
// every rival, while the server as a whole gets faster: the shape that every published batch-size sweep shows.
package timing

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Defaults of a [Model], roughly a 30-billion-parameter model on one data-centre GPU.
const (
	DefaultPrefillTPS  = 8000.0
	DefaultDecodeTPS   = 40.0
	DefaultKVTokens    = 262_144
	DefaultChunkTokens = 1024

	// defaultSaturation is SaturationTPS in units of DecodeTPS.
	defaultSaturation = 40.0
)

// Model holds the parameters. Its zero value means the defaults after [Model.WithDefaults].
type Model struct {
	// PrefillTPS is how many prompt tokens are read per second.
	PrefillTPS float64
	// DecodeTPS is how many tokens per second one stream gets that has the server for itself.
	DecodeTPS float64
	// SaturationTPS is the total of tokens per second that a growing batch approaches. Default 40 x DecodeTPS.
	SaturationTPS float64
	// LoadDelay is how long the weights take into memory. Zero: no delay.
	LoadDelay time.Duration
	// KVTokens is how many tokens of context fit the memory of the server, all streams together.
	KVTokens int
	// ChunkTokens is the most prompt tokens that one step reads (chunked prefill).
	ChunkTokens int
}

// WithDefaults returns m with every zero parameter replaced by its default.
func (m Model) WithDefaults() Model {
	if m.PrefillTPS == 0 {
		m.PrefillTPS = DefaultPrefillTPS
	}
	if m.DecodeTPS == 0 {
		m.DecodeTPS = DefaultDecodeTPS
	}
	if m.SaturationTPS == 0 {
		m.SaturationTPS = defaultSaturation * m.DecodeTPS
	}
	if m.KVTokens == 0 {
		m.KVTokens = DefaultKVTokens
	}
	if m.ChunkTokens == 0 {
		m.ChunkTokens = DefaultChunkTokens
	}
	return m
}

// FromSteps returns the model whose step takes base + perStream*b + perPrompt*c, the form in which a fit to a real
// server is usually given. The other parameters keep their zero value.
func FromSteps(base, perStream, perPrompt time.Duration) Model {
	return Model{
		PrefillTPS:    1 / perPrompt.Seconds(),
		DecodeTPS:     1 / (base + perStream).Seconds(),
		SaturationTPS: 1 / perStream.Seconds(),
	}
}

// Validate reports every parameter that makes no sense.
func (m Model) Validate() error {
	var errs []error
	positive := func(name string, v float64) {
		if !(v > 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("%s is %v, want a positive number", name, v))
		}
	}
	positive("prefill tokens per second", m.PrefillTPS)
	positive("decode tokens per second", m.DecodeTPS)
	positive("saturation tokens per second", m.SaturationTPS)
	positive("context tokens in memory", float64(m.KVTokens))
	positive("prefill chunk tokens", float64(m.ChunkTokens))
	if m.SaturationTPS < m.DecodeTPS {
		errs = append(errs, fmt.Errorf("saturation %v is below the speed of one stream %v", m.SaturationTPS, m.DecodeTPS))
	}
	if m.LoadDelay < 0 {
		errs = append(errs, fmt.Errorf("load delay is %v, want zero or more", m.LoadDelay))
	}
	return errors.Join(errs...)
}

// PrefillTime returns how long reading tokens prompt tokens takes when nothing else is read.
func (m Model) PrefillTime(tokens int) time.Duration {
	return seconds(float64(max(tokens, 0)) / m.PrefillTPS)
}

// TokenInterval returns the time between two tokens of one stream while batch streams decode, the stream itself
// included. A batch below 1 counts as 1.
func (m Model) TokenInterval(batch int) time.Duration {
	return seconds(1/m.DecodeTPS + float64(max(batch, 1)-1)/m.SaturationTPS)
}

// StepTime returns the length of one step that writes a token for each of decoding streams and reads prefill prompt
// tokens. prefill above ChunkTokens counts as ChunkTokens: the rest belongs to later steps.
func (m Model) StepTime(decoding, prefill int) time.Duration {
	d := m.PrefillTime(min(prefill, m.ChunkTokens))
	if decoding > 0 {
		d += m.TokenInterval(decoding)
	}
	return d
}

// TotalTPS returns the tokens per second of a batch of streams, all together.
func (m Model) TotalTPS(batch int) float64 {
	return float64(max(batch, 0)) / m.TokenInterval(batch).Seconds()
}

// DecodeTime returns how long tokens tokens take in a batch that keeps its size.
func (m Model) DecodeTime(tokens, batch int) time.Duration {
	return time.Duration(max(tokens, 0)) * m.TokenInterval(batch)
}

// KVUsage returns the share of the memory for context, 0 to 1, that tokens tokens fill.
func (m Model) KVUsage(tokens int) float64 {
	return min(1, float64(max(tokens, 0))/float64(m.KVTokens))
}

func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s * float64(time.Second)))
}
