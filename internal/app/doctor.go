package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"mindrouter/internal/backend"
	"mindrouter/internal/routing"
)

// Finding is one line of the doctor.
type Finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Words string `json:"words"`
	Hint  string `json:"hint,omitempty"` // what to do next
}

const (
	// lowDisk is when the doctor complains about the data directory's file system.
	lowDisk = 1 << 30
	// clockSkew is how far the database's clock may be from ours.
	clockSkew = 5 * time.Second
)

// Doctor checks everything that the service depends on. configErr is what LoadConfig said.
func Doctor(ctx context.Context, cfg Config, configErr error, log *slog.Logger) []Finding {
	d := doctor{}
	if configErr != nil {
		d.bad("configuration", configErr.Error(), "mindrouter serve --print-config shows where each value comes from")
		return d.findings
	}
	d.good("configuration", "every setting is understood")
	for _, w := range cfg.Warnings {
		d.bad("configuration", w, "remove it or correct its name")
	}
	d.disk(cfg)
	db, err := connect(ctx, cfg, log)
	if err != nil {
		d.bad("database", err.Error(), "check database_url, and that the server runs and lets this machine in")
		return d.findings
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.Warn("close database", "error", err)
		}
	}()
	d.database(ctx, db)
	d.backends(ctx, cfg, db)
	return d.findings
}

type doctor struct{ findings []Finding }

func (d *doctor) good(check, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, OK: true, Words: fmt.Sprintf(format, args...)})
}

func (d *doctor) bad(check, words, hint string) {
	d.findings = append(d.findings, Finding{Check: check, Words: words, Hint: hint})
}

func (d *doctor) disk(cfg Config) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		d.bad("data directory", err.Error(), "set data_dir to a directory that this account may write")
		return
	}
	f, err := os.CreateTemp(cfg.DataDir, ".doctor-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		d.bad("data directory", err.Error(), "let this account write there")
		return
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(cfg.DataDir, &fs); err != nil {
		d.bad("disk", err.Error(), "")
		return
	}
	free := fs.Bavail * uint64(fs.Bsize) //nolint:gosec // a block size is positive
	if free < lowDisk {
		d.bad("disk", fmt.Sprintf("%d MiB free in %s", free>>20, filepath.Clean(cfg.DataDir)), "make room: the record needs it")
		return
	}
	d.good("disk", "%d GiB free in %s", free>>30, filepath.Clean(cfg.DataDir))
}

func (d *doctor) database(ctx context.Context, db *database) {
	steps, err := db.Migrations(ctx)
	if err != nil {
		d.bad("database", err.Error(), "")
		return
	}
	pending := 0
	for _, m := range steps {
		if !m.Applied {
			pending++
		}
	}
	if pending > 0 {
		d.bad("database", fmt.Sprintf("%s answers; %d migrations are missing", db.Kind(), pending), "mindrouter migrate up, or start the server")
		return
	}
	d.good("database", "%s answers; the schema is up to date", db.Kind())
	now, err := db.Now(ctx)
	if err != nil {
		d.bad("clock", err.Error(), "")
		return
	}
	if skew := time.Since(now).Abs(); skew > clockSkew {
		d.bad("clock", fmt.Sprintf("the database's clock is %v from ours", skew.Round(time.Second)), "run a time service on both machines")
		return
	}
	d.good("clock", "agrees with the database's")
}

func (d *doctor) backends(ctx context.Context, cfg Config, db *database) {
	states, err := newCommands(cfg, db).Backends(ctx)
	if err != nil {
		d.bad("backends", err.Error(), "")
		return
	}
	if len(states) == 0 {
		d.bad("backends", "there are none", "add one with mindrouter apply; mindrouter backend probe URL says what a server offers")
	}
	for _, b := range states {
		check := "backend " + b.Backend.Name
		switch {
		case b.Err != nil:
			d.bad(check, backend.ReasonOf(b.Err), "is the server at "+b.Backend.URL+" running, and may this machine reach it?")
		case b.Backend.Intent != routing.IntentEnabled:
			d.good(check, "answers; an admin has it %s", b.Backend.Intent)
		default:
			d.good(check, "%s %s answers with %d models", b.Probe.Engine, b.Probe.Version, len(b.Probe.Models))
		}
	}
}
