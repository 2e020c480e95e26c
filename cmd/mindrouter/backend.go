package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mindrouter/internal/app"
)

type backendCmd struct {
	List    backendListCmd    `cmd:"" help:"List the configured backends and what each answers now."`
	Probe   backendProbeCmd   `cmd:"" help:"Say what kind of server answers at an address, and what it serves."`
	Drain   backendDrainCmd   `cmd:"" help:"Send no new requests to a backend; those running end."`
	Enable  backendEnableCmd  `cmd:"" help:"Take a backend into service."`
	Disable backendDisableCmd `cmd:"" help:"Take a backend out of service."`
}

type backendListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

type backendLine struct {
	Name          string   `json:"name"`
	Engine        string   `json:"engine"`
	URL           string   `json:"url"`
	Intent        string   `json:"intent"`
	Answers       bool     `json:"answers"`
	Error         string   `json:"error,omitempty"`
	Version       string   `json:"version,omitempty"`
	Models        []string `json:"models"`
	MaxConcurrent int      `json:"max_concurrent"`
	Boundary      string   `json:"boundary"`
}

// Run implements the command.
func (c *backendListCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error {
		states, err := cmd.Backends(ctx)
		if err != nil {
			return err
		}
		lines, rows := []backendLine{}, [][]string{}
		for _, s := range states {
			l := backendLine{
				Name: s.Backend.Name, Engine: string(s.Backend.Engine), URL: s.Backend.URL, Intent: string(s.Backend.Intent),
				Answers: s.Err == nil, Error: app.ProbeReason(s.Err), Version: s.Probe.Version, Models: []string{},
				MaxConcurrent: s.Backend.MaxConcurrent, Boundary: s.Backend.Boundary,
			}
			for _, m := range s.Probe.Models {
				l.Models = append(l.Models, m.Name)
			}
			answer := "yes"
			if s.Err != nil {
				answer = l.Error
			}
			lines = append(lines, l)
			rows = append(rows, []string{l.Name, l.Engine, l.URL, l.Intent, answer, strconv.Itoa(l.MaxConcurrent), strings.Join(l.Models, ",")})
		}
		if c.JSON {
			return printJSON(e.stdout, lines)
		}
		return printTable(e.stdout, []string{"NAME", "ENGINE", "URL", "INTENT", "ANSWERS", "SLOTS", "MODELS"}, rows)
	})
}

type backendProbeCmd struct {
	URL    string `arg:"" name:"url" help:"Address of the server, such as http://gpu01:8000."`
	KeyEnv string `placeholder:"NAME" help:"Environment variable that holds the server's API key."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

type probeLine struct {
	Engine  string      `json:"engine"`
	Version string      `json:"version,omitempty"`
	Models  []modelLine `json:"models"`
}

type modelLine struct {
	Name          string   `json:"name"`
	ContextLength int      `json:"context_length,omitempty"`
	Capabilities  []string `json:"capabilities,omitempty"` // absent: the server does not say
}

// Help implements kong.HelpProvider.
func (backendProbeCmd) Help() string {
	return `Examples:

  mindrouter backend probe http://gpu01:8000

  mindrouter backend probe https://models.example.com --key-env EXAMPLE_KEY --json`
}

// Run implements the command.
func (c *backendProbeCmd) Run(ctx context.Context, e *env) error {
	key := ""
	if c.KeyEnv != "" {
		if key = e.lookup(c.KeyEnv); key == "" {
			return fmt.Errorf("%w: --key-env: the environment has no %s", errUsage, c.KeyEnv)
		}
	}
	p, err := app.ProbeBackend(ctx, c.URL, key)
	if err != nil {
		return err
	}
	out := probeLine{Engine: string(p.Engine), Version: p.Version, Models: []modelLine{}}
	var rows [][]string
	for _, m := range p.Models {
		l := modelLine{Name: m.Name, ContextLength: m.ContextLength}
		for _, can := range m.Capabilities {
			l.Capabilities = append(l.Capabilities, string(can))
		}
		out.Models = append(out.Models, l)
		context, caps := "not reported", "not reported"
		if l.ContextLength > 0 {
			context = strconv.Itoa(l.ContextLength)
		}
		if len(l.Capabilities) > 0 {
			caps = strings.Join(l.Capabilities, ",")
		}
		rows = append(rows, []string{l.Name, context, caps})
	}
	if c.JSON {
		return printJSON(e.stdout, out)
	}
	if _, err := fmt.Fprintln(e.stdout, strings.TrimSpace("engine: "+out.Engine+" "+out.Version)); err != nil {
		return err
	}
	return printTable(e.stdout, []string{"MODEL", "CONTEXT", "CAPABILITIES"}, rows)
}

type backendDrainCmd struct {
	Name string `arg:"" help:"Name of the backend."`
}

// Run implements the command.
func (c *backendDrainCmd) Run(ctx context.Context, e *env) error {
	return e.setIntent(ctx, c.Name, "draining")
}

type backendEnableCmd struct {
	Name string `arg:"" help:"Name of the backend."`
}

// Run implements the command.
func (c *backendEnableCmd) Run(ctx context.Context, e *env) error {
	return e.setIntent(ctx, c.Name, "enabled")
}

type backendDisableCmd struct {
	Name string `arg:"" help:"Name of the backend."`
}

// Run implements the command.
func (c *backendDisableCmd) Run(ctx context.Context, e *env) error {
	return e.setIntent(ctx, c.Name, "disabled")
}

func (e *env) setIntent(ctx context.Context, name string, intent app.Intent) error {
	return e.with(ctx, func(cmd *app.Commands) error { return cmd.SetIntent(ctx, name, intent) })
}
