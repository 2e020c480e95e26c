package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"mindrouter/internal/app"
)

type applyCmd struct {
	File   string `short:"f" required:"" placeholder:"FILE" help:"Cluster file in YAML; - for standard input."`
	DryRun bool   `help:"Print what would change and change nothing."`
	Prune  bool   `help:"Delete what the lists of groups, nodes, backends, models and aliases in the file do not name. Users stay."`
	JSON   bool   `name:"json" help:"Print the difference as JSON."`
}

// Help implements kong.HelpProvider.
func (applyCmd) Help() string {
	return `The file is YAML; its schema is docs/cluster.schema.json, also served at /schema/cluster.json. It is applied whole or not
at all, and a second time it changes nothing. What it does not name is left alone; with --prune, entries that its lists do
not name are deleted, and lists that it does not have are left alone all the same. docs/cluster.md has an example. Keys that have
no effect yet are told as warnings on standard error. A running server follows within a second.

Examples:

  mindrouter apply -f cluster.yaml --dry-run

  mindrouter export | ssh other mindrouter apply -f -`
}

// Run implements the command.
func (c *applyCmd) Run(ctx context.Context, e *env) error {
	var file []byte
	var err error
	name := c.File
	if name == "-" {
		name = "standard input"
		file, err = io.ReadAll(e.stdin)
	} else {
		file, err = os.ReadFile(c.File)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return e.with(ctx, func(cmd *app.Commands) error {
		diff, err := cmd.Apply(ctx, name, file, app.ApplyOptions{
			DryRun: c.DryRun, Prune: c.Prune,
			Warn: func(line string) { _, _ = fmt.Fprintln(e.stderr, "warning: "+line) }, // nowhere else to say it
		})
		if err != nil {
			return err
		}
		if c.JSON {
			if diff == nil {
				diff = []app.Difference{}
			}
			return printJSON(e.stdout, diff)
		}
		return printDiff(e.stdout, diff, c.DryRun)
	})
}

func printDiff(w io.Writer, diff []app.Difference, dry bool) error {
	for _, d := range diff {
		if _, err := fmt.Fprintln(w, d); err != nil {
			return err
		}
	}
	word := "changes"
	if len(diff) == 1 {
		word = "change"
	}
	var err error
	switch {
	case len(diff) == 0:
		_, err = fmt.Fprintln(w, "No changes.")
	case dry:
		_, err = fmt.Fprintf(w, "%d %s; nothing was done (--dry-run).\n", len(diff), word)
	default:
		_, err = fmt.Fprintf(w, "%d %s applied.\n", len(diff), word)
	}
	return err
}

type exportCmd struct{}

// Help implements kong.HelpProvider.
func (exportCmd) Help() string {
	return `What it prints applies to where it came from without any change, and to an empty database. Secrets appear as the
references that they were read from. Passwords, API keys of users, and locks of accounts are not in it.`
}

// Run implements the command.
func (c *exportCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error {
		text, err := cmd.Export(ctx)
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(text)
		return err
	})
}
