package main

import (
	"context"
	"fmt"
	"time"

	"mindrouter/internal/app"
)

type simBackendCmd struct {
	Engine     string        `required:"" enum:"vllm,ollama,openai" placeholder:"ENGINE" help:"vllm, ollama or openai."`
	Models     string        `placeholder:"NAME[:CAP+CAP][@CONTEXT],..." help:"Models to serve; by default those of the demonstration."`
	Slots      int           `default:"16" help:"Requests that run at once; on ollama for each model."`
	PrefillTPS float64       `name:"prefill-tps" default:"8000" help:"Prompt tokens per second."`
	DecodeTPS  float64       `name:"decode-tps" default:"40" help:"Answer tokens per second of a single stream."`
	LoadDelay  time.Duration `default:"0s" help:"Time to load a model that is not in memory (ollama)."`
	TimeScale  float64       `default:"1" help:"Multiplies every delay; 0 means none."`
	Seed       uint64        `default:"1" help:"Varies answers and the choice of requests that fail."`
	Fault      string        `placeholder:"RULE,..." help:"hang, reset, malformed, 5xx, cut or slow, each with @N (the Nth request), @N% (that part of them) or neither (all)."`
	APIKey     string        `name:"api-key" env:"SIM_BACKEND_API_KEY" placeholder:"KEY" help:"Demand this key."`
}

// Run implements the command.
func (c *simBackendCmd) Run(ctx context.Context, e *env) error {
	addr := "127.0.0.1:0" // any free port; --addr is the flag of the whole program
	if e.flags.Addr != nil {
		addr = *e.flags.Addr
	}
	err := app.SimBackend(ctx, app.SimBackendOptions{
		Engine: c.Engine, Addr: addr, Models: c.Models, Slots: c.Slots, PrefillTPS: c.PrefillTPS, DecodeTPS: c.DecodeTPS,
		LoadDelay: c.LoadDelay, TimeScale: c.TimeScale, Seed: c.Seed, Faults: c.Fault, APIKey: c.APIKey,
	}, e.stdout)
	if app.IsUsage(err) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}
