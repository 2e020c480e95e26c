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
	Prune  bool   `help:"Delete groups, nodes, backends, models and aliases that the file does not name. Users stay."`
	JSON   bool   `name:"json" help:"Print the difference as JSON."`
}

// Run implements the command.
func (c *applyCmd) Run(ctx context.Context, e *env) error {
	var file []byte
	var err error
	if c.File == "-" {
		file, err = io.ReadAll(e.stdin)
	} else {
		file, err = os.ReadFile(c.File)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return e.with(ctx, func(cmd *app.Commands) error {
		diff, err := cmd.Apply(ctx, c.File, file, app.ApplyOptions{DryRun: c.DryRun, Prune: c.Prune})
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
