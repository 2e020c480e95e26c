package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"mindrouter/internal/app"
)

type serveCmd struct {
	PrintConfig bool `help:"Print the settings in effect and where each comes from, secrets redacted, and exit."`
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, e *env) error {
	cfg, err := app.LoadConfig(e.flags, os.Environ())
	if c.PrintConfig {
		for _, v := range cfg.Values {
			if _, err := fmt.Fprintf(e.stdout, "%s: %s  # %s\n", v.Path, v.Value, v.Source); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%w:\n%w", errUsage, err)
	}
	if c.PrintConfig {
		return nil
	}
	return app.Run(ctx, cfg, app.NewLogger(cfg, e.stderr), nil)
}

type demoCmd struct{}

// Run implements the command.
func (c *demoCmd) Run(ctx context.Context, e *env) error {
	cfg, err := app.LoadConfig(e.flags, os.Environ())
	if err != nil {
		return fmt.Errorf("%w:\n%w", errUsage, err)
	}
	return app.Demo(ctx, cfg, app.NewLogger(cfg, e.stderr), e.stdout)
}

type versionCmd struct{}

// Run implements the command.
func (c *versionCmd) Run(e *env) error {
	_, err := fmt.Fprintf(e.stdout, "mindrouter %s %s %s\n", app.Version, app.Commit, runtime.Version())
	return err
}
