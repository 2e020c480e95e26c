package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"mindrouter/internal/backend"
	"mindrouter/internal/routing"
	"mindrouter/internal/store"
)

// Finding is one line of the doctor.
type Finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Words string `json:"words"`
	Hint  string `json:"hint,omitempty"` // what to do next
}

const (
	// lowDisk is when the doctor complains about the data directory's file system, in bytes.
	lowDisk = 1 << 30
	// clockSkew is how far the database's clock may be from ours.
	clockSkew = 5 * time.Second
	// certificateWarning is how long before its end a certificate is worth a line.
	certificateWarning = 14 * 24 * time.Hour
)

// Doctor checks everything that the service depends on. It makes and changes nothing. configErr is what LoadConfig said.
func Doctor(ctx context.Context, cfg Config, configErr error, log *slog.Logger) []Finding {
	d := doctor{now: time.Now(), freeBytes: freeBytes}
	d.run(ctx, cfg, configErr, log)
	return d.findings
}

type doctor struct {
	now       time.Time
	freeBytes func(dir string) (uint64, error)
	findings  []Finding
}

func (d *doctor) run(ctx context.Context, cfg Config, configErr error, log *slog.Logger) {
	if configErr != nil {
		for _, err := range unjoin(configErr) {
			d.bad("configuration", err.Error(), "mindrouter serve --print-config shows where each value comes from")
		}
		return
	}
	if len(cfg.Warnings) == 0 {
		d.good("configuration", "every setting is understood")
	}
	for _, w := range cfg.Warnings {
		d.bad("configuration", w, "remove it or correct its name")
	}
	d.certificate(cfg)
	if !d.dataDir(cfg) || !d.secretKey(cfg) || !d.databaseFile(cfg) {
		return // what follows would make what is missing
	}
	db, err := connect(ctx, cfg, log)
	if err != nil {
		d.bad("database", err.Error(), "check database_url, and that the server runs and lets this machine in")
		return
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.Warn("close database", slog.Any("error", err))
		}
	}()
	if d.database(ctx, db) {
		d.clock(ctx, db)
		d.secrets(ctx, db)
		d.backends(ctx, cfg, db)
	}
}

// unjoin is the list of errors that were joined.
func unjoin(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	return []error{err}
}

func (d *doctor) good(check, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, OK: true, Words: fmt.Sprintf(format, args...)})
}

func (d *doctor) bad(check, words, hint string) {
	d.findings = append(d.findings, Finding{Check: check, Words: words, Hint: hint})
}

func (d *doctor) certificate(cfg Config) {
	if cfg.TLS == nil {
		return
	}
	leaf, err := x509.ParseCertificate(cfg.TLS.Certificate[0])
	if err != nil {
		d.bad("certificate", err.Error(), "set tls.cert to a certificate chain in PEM")
		return
	}
	end := leaf.NotAfter.Format(time.DateOnly)
	switch left := leaf.NotAfter.Sub(d.now); {
	case left <= 0:
		d.bad("certificate", "has ended on "+end, "put a new one in its place and restart the server")
	case left < certificateWarning:
		d.bad("certificate", "ends on "+end, "put a new one in its place and restart the server")
	case d.now.Before(leaf.NotBefore):
		d.bad("certificate", "begins on "+leaf.NotBefore.Format(time.DateOnly)+" only", "check the clock of this machine")
	default:
		d.good("certificate", "holds until %s", end)
	}
}

// openToOthers reports whether people beside the owner may read a file.
func openToOthers(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 // there the modes mean nothing
}

// dataDir reports whether there is a data directory.
func (d *doctor) dataDir(cfg Config) bool {
	const check = "data directory"
	dir := filepath.Clean(cfg.DataDir)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.bad(check, dir+" is not there", "start the server once, which makes it, or set data_dir")
		return false
	case err != nil:
		d.bad(check, err.Error(), "set data_dir to a directory of this account")
		return false
	case !info.IsDir():
		d.bad(check, dir+" is no directory", "set data_dir to a directory of this account")
		return false
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	switch {
	case err != nil:
		d.bad(check, err.Error(), "let this account write there, or run the doctor as the server's account")
	case openToOthers(info):
		d.bad(check, fmt.Sprintf("%s has mode %o: others may look into it", dir, info.Mode().Perm()), "chmod 700 "+dir)
	default:
		d.good(check, "%s can be written", dir)
	}
	free, err := d.freeBytes(dir)
	switch {
	case err != nil:
		d.bad("disk", err.Error(), "see whether the file system is mounted")
	case free < lowDisk:
		d.bad("disk", fmt.Sprintf("%d MiB free in %s", free>>20, dir), "make room: the record needs it")
	default:
		d.good("disk", "%d GiB free in %s", free>>30, dir)
	}
	return true
}

// secretKey reports whether there is a key ring, so that none has to be made.
func (d *doctor) secretKey(cfg Config) bool {
	const check = "secret key"
	if cfg.SecretKey != "" {
		d.good(check, "is set from outside")
		return true
	}
	path := cfg.SecretKeyFile()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.bad(check, path+" is not there", "start the server once, which makes it; if there was one, bring it back from your backup")
		return false
	case err != nil:
		d.bad(check, err.Error(), "let this account read it")
		return false
	}
	if _, err := openRing(cfg); err != nil {
		d.bad(check, err.Error(), "bring the file back from your backup")
		return false
	}
	if openToOthers(info) {
		d.bad(check, fmt.Sprintf("%s has mode %o: others may read it", path, info.Mode().Perm()), "chmod 600 "+path)
		return true
	}
	d.good(check, "%s is in order", path)
	return true
}

// databaseFile reports whether there is a database to look at.
func (d *doctor) databaseFile(cfg Config) bool {
	if kind, err := store.KindOf(cfg.DatabaseURL); err != nil || kind != store.SQLite {
		return true
	}
	path := store.SQLitePath(cfg.DatabaseURL)
	if _, err := os.Stat(path); err != nil {
		d.bad("database", path+" is not there", "start the server once, which makes it, or set database_url")
		return false
	}
	return true
}

// database reports whether the schema is there.
func (d *doctor) database(ctx context.Context, db *database) bool {
	const check = "database"
	steps, err := db.Migrations(ctx)
	if err != nil {
		d.bad(check, err.Error(), "restore it from your backup if the file is damaged")
		return false
	}
	pending := 0
	for _, m := range steps {
		if !m.Applied {
			pending++
		}
	}
	if pending > 0 {
		d.bad(check, fmt.Sprintf("%s answers; %d migrations are missing", db.Kind(), pending), "mindrouter migrate up, or start the server")
		return false
	}
	d.good(check, "%s answers; the schema is up to date", db.Kind())
	return true
}

func (d *doctor) clock(ctx context.Context, db interface {
	Now(ctx context.Context) (time.Time, error)
},
) {
	asked := time.Now()
	now, err := db.Now(ctx)
	if err != nil {
		d.bad("clock", err.Error(), "see whether the database is in good health")
		return
	}
	if skew := now.Sub(asked).Abs(); skew > clockSkew {
		d.bad("clock", fmt.Sprintf("the database's clock is %v from ours", skew.Round(time.Second)), "run a time service on both machines")
		return
	}
	d.good("clock", "agrees with the database's")
}

func (d *doctor) secrets(ctx context.Context, db *database) {
	lost, err := db.LostSecrets(ctx)
	switch {
	case err != nil:
		d.bad("secrets", err.Error(), "see whether the database is in good health")
	case len(lost) > 0:
		d.bad("secrets", "do not open with this secret key: "+strings.Join(lost, ", "),
			"bring the old key back, after the present one, or give them anew with mindrouter apply")
	default:
		d.good("secrets", "all that are stored open")
	}
}

func (d *doctor) backends(ctx context.Context, cfg Config, db *database) {
	states, err := newCommands(cfg, db).Backends(ctx)
	if err != nil {
		d.bad("backends", err.Error(), "see whether the database is in good health")
		return
	}
	if len(states) == 0 {
		d.bad("backends", "there are none", "add one with mindrouter apply; mindrouter backend probe URL says what a server offers")
	}
	for _, b := range states {
		check := "backend " + b.Backend.Name
		switch {
		case b.Backend.Intent == routing.IntentDisabled:
			d.good(check, "an admin has it disabled")
		case b.Err != nil:
			d.bad(check, backend.ReasonOf(b.Err), "is the server at "+b.Backend.URL+" running, and may this machine reach it?")
		case b.Backend.Intent != routing.IntentEnabled:
			d.good(check, "answers; an admin has it %s", b.Backend.Intent)
		case len(b.Probe.Models) == 0:
			d.bad(check, "answers and serves no model", "load one there")
		default:
			d.good(check, "%s with %d models", strings.TrimSpace(string(b.Probe.Engine)+" "+b.Probe.Version+" answers"), len(b.Probe.Models))
		}
	}
}
