package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mindrouter/internal/simbackend"
	"mindrouter/internal/simbackend/timing"
)

// SimBackendOptions describe a simulated model server.
type SimBackendOptions struct {
	Engine     string
	Addr       string
	Models     string
	Slots      int
	PrefillTPS float64
	DecodeTPS  float64
	LoadDelay  time.Duration
	TimeScale  float64
	Seed       uint64
	Faults     string
	APIKey     string
}

// errSimUsage marks options that make no sense.
var errSimUsage = errors.New("simulated backend")

// IsUsage reports whether err blames the options of SimBackend.
func IsUsage(err error) bool { return errors.Is(err, errSimUsage) }

// SimBackend serves as a simulated model server until ctx ends. When it listens it writes "url: ..." to out.
func SimBackend(ctx context.Context, o SimBackendOptions, out io.Writer) error {
	models, err := simbackend.ParseModels(o.Models)
	if err != nil {
		return fmt.Errorf("%w: %w", errSimUsage, err)
	}
	faults, err := simbackend.ParseFaults(o.Faults)
	if err != nil {
		return fmt.Errorf("%w: %w", errSimUsage, err)
	}
	cfg := simbackend.Config{
		Dialect: simbackend.Dialect(o.Engine), Models: models, Slots: o.Slots, TimeScale: o.TimeScale, Seed: o.Seed,
		Faults: faults, APIKey: o.APIKey,
		Timing: timing.Model{PrefillTPS: o.PrefillTPS, DecodeTPS: o.DecodeTPS, LoadDelay: o.LoadDelay},
	}
	if _, err := simbackend.New(cfg); err != nil {
		return fmt.Errorf("%w: %w", errSimUsage, err)
	}
	return simbackend.Run(ctx, cfg, o.Addr, out)
}
