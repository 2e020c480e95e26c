package main

import (
	"context"
	"fmt"
	"runtime"

	"mindrouter/internal/app"
)

type serveCmd struct {
	PrintConfig bool `help:"Print the settings in effect and where each comes from, secrets redacted, and exit."`
}

// Help implements kong.HelpProvider.
func (serveCmd) Help() string {
	return `Without any setting it serves on 127.0.0.1:8080 and keeps everything in ./data. Settings come from flags, then the
environment (MINDROUTER_ and the setting's path in capitals), then a YAML file.

Examples:

  mindrouter serve

  mindrouter serve --addr 0.0.0.0:8443 --tls-cert chain.pem --tls-key key.pem

  mindrouter serve --config /etc/mindrouter.yaml --print-config`
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, e *env) error {
	cfg, err := app.LoadConfig(e.flags, e.environ)
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

// Help implements kong.HelpProvider.
func (demoCmd) Help() string {
	return `It keeps to a database of its own, demo.db in the data directory, listens on loopback only, and prints an address,
accounts, a key and a curl command. Nothing leaves this machine.`
}

// Run implements the command.
func (c *demoCmd) Run(ctx context.Context, e *env) error {
	cfg, err := app.LoadConfig(e.flags, e.environ)
	if err != nil {
		return fmt.Errorf("%w:\n%w", errUsage, err)
	}
	return app.Demo(ctx, cfg, app.NewLogger(cfg, e.stderr), e.stdout)
}

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run implements the command.
func (c *versionCmd) Run(e *env) error {
	commit := app.CommitOrBuild()
	if c.JSON {
		return printJSON(e.stdout, map[string]string{"version": app.Version, "commit": commit, "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(e.stdout, "mindrouter %s %s %s\n", app.Version, commit, runtime.Version())
	return err
}
