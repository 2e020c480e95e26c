// Package store keeps everything durable, on SQLite or PostgreSQL, behind the Store interfaces that the domain packages
// declare. gorm is confined to this package: explicit columns, no hooks, no soft delete, no automatic migration.
//
// SQLite has one writer connection, because several only wait for one another, and a pool of readers. Secrets are sealed
// on their way in and opened on their way out.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/pressly/goose/v3"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"mindrouter/migrations"
)

// Sealer seals secrets at rest. context binds a value to its place.
type Sealer interface {
	Seal(plain []byte, context string) (string, error)
	Open(sealed, context string) ([]byte, error)
}

// Config configures [Open].
type Config struct {
	// URL is sqlite:PATH or postgres://...
	URL    string
	Sealer Sealer
	Log    *slog.Logger
	// PowerSafe makes a commit survive a loss of power on SQLite, not just of the process.
	PowerSafe bool
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	write  *gorm.DB
	read   *gorm.DB
	sealer Sealer
	log    *slog.Logger
	url    string
	bodies *bodyCodec

	recordMu    sync.Mutex
	recordStmts *recordSQL // nil until they are used
}

// Kind is the kind of a database: sqlite or postgres.
type Kind string

// Kinds of databases.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
)

// KindOf returns the kind that a database URL names.
func KindOf(databaseURL string) (Kind, error) {
	switch {
	case strings.HasPrefix(databaseURL, "sqlite:"):
		if path := SQLitePath(databaseURL); path == "" || strings.HasPrefix(path, ":memory:") {
			return "", errors.New("want sqlite:PATH with a file: what is only in memory is lost at the end")
		}
		return SQLite, nil
	case strings.HasPrefix(databaseURL, "postgres://"), strings.HasPrefix(databaseURL, "postgresql://"):
		return Postgres, nil
	default:
		return "", errors.New("want sqlite:PATH or postgres://USER@HOST/NAME")
	}
}

// SQLitePath is the file of a sqlite: URL.
func SQLitePath(databaseURL string) string { return strings.TrimPrefix(databaseURL, "sqlite:") }

// Open connects. It does not migrate.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	kind, err := KindOf(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	bodies, err := newBodyCodec()
	if err != nil {
		return nil, err
	}
	s := &Store{sealer: cfg.Sealer, log: cfg.Log, url: cfg.URL, bodies: bodies}
	if kind == Postgres {
		err = s.openPostgres(cfg.URL)
	} else {
		err = s.openSQLite(SQLitePath(cfg.URL), cfg.PowerSafe)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s database: %w", kind, err)
	}
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reach %s database: %w", kind, err), s.Close())
	}
	return s, nil
}

func gormConfig() *gorm.Config {
	return &gorm.Config{
		Logger:                 logger.Discard,
		SkipDefaultTransaction: true,
		PrepareStmt:            true,
		TranslateError:         true,
	}
}

func (s *Store) openPostgres(dsn string) error {
	db, err := gorm.Open(postgres.Open(dsn), gormConfig())
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	pool.SetMaxOpenConns(16)
	pool.SetMaxIdleConns(8)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	s.write, s.read = db, db
	return nil
}

func (s *Store) openSQLite(path string, powerSafe bool) error {
	synchronous := "NORMAL"
	if powerSafe {
		synchronous = "FULL"
	}
	// SQLite gives its other files the mode of the first. The file holds people's words: only its owner reads it.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	write, err := openSQLite(path, 1, "_txlock=immediate", "_pragma=synchronous("+synchronous+")",
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", checkpointPages))
	if err != nil {
		return err
	}
	read, err := openSQLite(path, max(2, runtime.GOMAXPROCS(0)), "_pragma=query_only(1)")
	if err != nil {
		return errors.Join(err, closeDB(write))
	}
	s.write, s.read = write, read
	return nil
}

// checkpointPages is the size of the write-ahead log, in pages of 4 KiB, above which a commit moves it into the database
// by itself. [Store.Maintain] does that before, so that no request waits for it.
const checkpointPages = 16 << 10

// checkpointEvery is how often the write-ahead log is moved into the database.
const checkpointEvery = 2 * time.Second

// Maintain keeps the database in shape until ctx ends. On SQLite it moves the write-ahead log into the database on a
// connection of its own, beside the writer; PostgreSQL looks after itself.
func (s *Store) Maintain(ctx context.Context) error {
	if s.Kind() == Postgres {
		return nil
	}
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.read.WithContext(ctx).Exec("PRAGMA wal_checkpoint(PASSIVE)").Error; err != nil && ctx.Err() == nil {
			s.log.Warn("checkpoint failed", slog.Any("error", err))
		}
	}
}

func openSQLite(path string, conns int, params ...string) (*gorm.DB, error) {
	params = append([]string{"_pragma=busy_timeout(5000)", "_pragma=journal_mode(WAL)", "_pragma=foreign_keys(1)"}, params...)
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&")
	db, err := gorm.Open(sqlite.Open(dsn), gormConfig())
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return db, nil
}

// Kind is the kind of the database.
func (s *Store) Kind() Kind {
	k, _ := KindOf(s.url) // Open has checked it
	return k
}

// URL is what the store was opened with.
func (s *Store) URL() string { return s.url }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	db, err := s.read.DB()
	if err != nil {
		return err
	}
	return db.PingContext(ctx)
}

// Close closes all connections.
func (s *Store) Close() error {
	err := closeDB(s.write)
	if s.read != s.write {
		err = errors.Join(err, closeDB(s.read))
	}
	return err
}

func closeDB(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// Migration is one step of the schema.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Migrate brings the schema up to date and returns what it applied. Several servers may call it at once.
func (s *Store) Migrate(ctx context.Context) (out []Migration, err error) {
	p, err := s.provider()
	if err != nil {
		return nil, err
	}
	unlock, err := s.lockMigration(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("lock for migration: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	results, err := p.Up(ctx)
	for _, r := range results {
		out = append(out, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: r.Error == nil})
	}
	if err != nil {
		return out, fmt.Errorf("migrate: %w", err)
	}
	return out, nil
}

// Migrations lists all steps and whether they are applied.
func (s *Store) Migrations(ctx context.Context) ([]Migration, error) {
	p, err := s.provider()
	if err != nil {
		return nil, err
	}
	statuses, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	var out []Migration
	for _, st := range statuses {
		out = append(out, Migration{Version: st.Source.Version, Name: st.Source.Path, Applied: st.State == goose.StateApplied})
	}
	return out, nil
}

func (s *Store) provider() (*goose.Provider, error) {
	db, err := s.write.DB()
	if err != nil {
		return nil, err
	}
	dialect, dir := goose.DialectSQLite3, "sqlite"
	var opts []goose.ProviderOption
	if s.Kind() == Postgres {
		dialect, dir = goose.DialectPostgres, "postgres"
		locker, err := newLocker()
		if err != nil {
			return nil, err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	sub, err := fs.Sub(migrations.FS, dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db, sub, opts...)
}

// inTx runs fn in a write transaction.
func (s *Store) inTx(ctx context.Context, fn func(*gorm.DB) error) error {
	return s.write.WithContext(ctx).Transaction(fn)
}

// snapshot runs fn in a read transaction that sees one state of the database.
func (s *Store) snapshot(ctx context.Context, fn func(*gorm.DB) error) error {
	return s.read.WithContext(ctx).Transaction(fn, &sql.TxOptions{Isolation: s.snapshotLevel(), ReadOnly: s.Kind() == Postgres})
}

func (s *Store) snapshotLevel() sql.IsolationLevel {
	if s.Kind() == Postgres {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}
