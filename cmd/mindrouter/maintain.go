package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"mindrouter/internal/app"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the database's schema up to date."`
	Status migrateStatusCmd `cmd:"" help:"List the steps of the schema and which are applied."`
}

type migrateUpCmd struct{}

// Help implements kong.HelpProvider.
func (migrateUpCmd) Help() string {
	return `The server does this when it starts, and so does every command that needs the database. Migrations only add, so a
running older server goes on. It is safe to run several at once.`
}

// Run implements the command.
func (c *migrateUpCmd) Run(ctx context.Context, e *env) error {
	cfg, log, err := e.config()
	if err != nil {
		return err
	}
	applied, err := app.Migrate(ctx, cfg, log)
	for _, m := range applied {
		if _, err := fmt.Fprintf(e.stdout, "applied %d %s\n", m.Version, m.Name); err != nil {
			return err
		}
	}
	if err == nil && len(applied) == 0 {
		_, err = fmt.Fprintln(e.stdout, "The schema is up to date.")
	}
	return err
}

type migrateStatusCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run implements the command.
func (c *migrateStatusCmd) Run(ctx context.Context, e *env) error {
	cfg, log, err := e.config()
	if err != nil {
		return err
	}
	steps, err := app.Migrations(ctx, cfg, log)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, steps)
	}
	var rows [][]string
	for _, m := range steps {
		state := "missing"
		if m.Applied {
			state = "applied"
		}
		rows = append(rows, []string{strconv.FormatInt(m.Version, 10), m.Name, state})
	}
	return printTable(e.stdout, []string{"VERSION", "NAME", "STATE"}, rows)
}

type doctorCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

var errUnhealthy = errors.New("something is broken")

// Help implements kong.HelpProvider.
func (doctorCmd) Help() string {
	return `It checks the settings, the certificate, the data directory and its disk, the secret key, the database and its clock, and
asks every backend. One line for each, with what to do next. It changes nothing.`
}

// Run implements the command.
func (c *doctorCmd) Run(ctx context.Context, e *env) error {
	cfg, configErr := app.LoadConfig(e.flags, e.environ)
	quiet := cfg
	quiet.Warnings = nil // they are findings
	findings := app.Doctor(ctx, cfg, configErr, app.NewLogger(quiet, e.stderr))
	broken := false
	for _, f := range findings {
		broken = broken || !f.OK
	}
	if c.JSON {
		if err := printJSON(e.stdout, findings); err != nil {
			return err
		}
	} else if err := printFindings(e, findings); err != nil {
		return err
	}
	if broken {
		return errUnhealthy
	}
	return nil
}

func printFindings(e *env, findings []app.Finding) error {
	for _, f := range findings {
		mark := "ok    "
		if !f.OK {
			mark = "broken"
		}
		line := mark + "  " + f.Check + ": " + f.Words
		if f.Hint != "" {
			line += " -> " + f.Hint
		}
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

type secretCmd struct {
	Rotate secretRotateCmd `cmd:"" help:"Put a fresh key in front of the key ring in the data directory."`
}

type secretRotateCmd struct{}

// Help implements kong.HelpProvider.
func (secretRotateCmd) Help() string {
	return `New secrets are sealed with the new key; the older ones stay in the file and go on opening what they sealed. Restart the
server afterwards. A key ring that is set from outside (--secret-key) is rotated there: put a new key in front, keep the
old ones after a comma.`
}

// Run implements the command.
func (c *secretRotateCmd) Run(_ context.Context, e *env) error {
	cfg, _, err := e.config()
	if err != nil {
		return err
	}
	path, err := app.RotateSecretKey(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "A fresh key is in front in %s. Restart the server.\n", path)
	return err
}
