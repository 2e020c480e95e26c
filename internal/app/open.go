package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"mindrouter/internal/secret"
	"mindrouter/internal/store"
)

// database is an open store with the keys that it needs.
type database struct {
	*store.Store
	ring *secret.Ring
}

// openDatabase makes the data directory and the key ring if they are missing, connects, and migrates.
func openDatabase(ctx context.Context, cfg Config, log *slog.Logger) (*database, error) {
	db, err := connect(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	applied, err := db.Migrate(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for _, m := range applied {
		log.Info("database migrated", slog.Int64("version", m.Version), slog.String("name", m.Name))
	}
	return db, nil
}

// connect is openDatabase without the migration.
func connect(ctx context.Context, cfg Config, log *slog.Logger) (*database, error) {
	if err := makeDirs(cfg); err != nil {
		return nil, err
	}
	ring, err := openRing(cfg)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, store.Config{URL: cfg.DatabaseURL, Sealer: ring, Log: log, PowerSafe: cfg.PowerSafe})
	if err != nil {
		return nil, err
	}
	return &database{Store: st, ring: ring}, nil
}

// makeDirs makes the data directory and the database file's.
func makeDirs(cfg Config) error {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	kind, err := store.KindOf(cfg.DatabaseURL)
	if err != nil || kind != store.SQLite {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(store.SQLitePath(cfg.DatabaseURL)), 0o700); err != nil {
		return fmt.Errorf("database directory: %w", err)
	}
	return nil
}

// ErrSecondServer says that a server runs on the database already.
var ErrSecondServer = errors.New("another server uses this database file; commands may run beside it, a second server may not")

// lockServer makes sure that one server at a time runs on a SQLite file. Several servers may share PostgreSQL.
func lockServer(cfg Config) (unlock func() error, err error) {
	kind, err := store.KindOf(cfg.DatabaseURL)
	if err != nil || kind != store.SQLite {
		return func() error { return nil }, err
	}
	if err := makeDirs(cfg); err != nil {
		return nil, err
	}
	lock := flock.New(store.SQLitePath(cfg.DatabaseURL) + ".lock")
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", store.SQLitePath(cfg.DatabaseURL), ErrSecondServer)
	}
	return lock.Unlock, nil
}
