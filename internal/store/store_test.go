package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/e2e/testenv"
	"mindrouter/internal/secret"
	"mindrouter/internal/store"
	"mindrouter/internal/store/storetest"
	"mindrouter/migrations"
)

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	key, err := secret.Generate()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := secret.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{URL: url, Sealer: ring, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func openSQLite(t *testing.T) *store.Store {
	t.Helper()
	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
}

// postgres hands out empty databases that are used again and again: to make one costs more than most tests.
func postgres(t *testing.T) func(*testing.T) *store.Store {
	t.Helper()
	idle := make(chan string, 64) // more than tests run at once: nobody waits to give one back
	idle <- testenv.Postgres(t)
	return func(sub *testing.T) *store.Store {
		sub.Helper()
		var url string
		select {
		case url = <-idle:
		default:
			url = testenv.Postgres(t)
		}
		sub.Cleanup(func() {
			exec(t, url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
			idle <- url
		})
		return open(sub, url)
	}
}

// exec runs statements on a connection of their own.
func exec(t *testing.T, url, statements string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Error(err)
		return
	}
	_, err = db.ExecContext(context.WithoutCancel(t.Context()), statements)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Errorf("%s: %v", statements, err)
	}
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openSQLite)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	storetest.Run(t, postgres(t))
}

// TestPostgresWatcherSurvives is about PostgreSQL alone: SQLite is asked, it does not tell.
func TestPostgresWatcherSurvives(t *testing.T) {
	t.Parallel()
	newStore := postgres(t)
	for name, disturb := range map[string]string{
		// The connection that listens is cut while the configuration changes.
		"the loss of its connection": `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid();
			UPDATE catalog_state SET version = version + 1`,
		// A pooler, or a connection that is dead without knowing it, swallows the notification.
		"a notification that does not come": "UPDATE catalog_state SET version = version + 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			told := make(chan uint64, 10)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Watch(ctx, func(v uint64) error { told <- v; return nil }) }()
			<-told
			err := s.InTx(t.Context(), func(tx admin.Tx) error { return tx.SaveSettings(t.Context(), backend.Settings{}) })
			if err != nil {
				t.Fatal(err)
			}
			before := <-told // so it listens by now
			exec(t, s.URL(), disturb)
			select {
			case v := <-told:
				if v != before+1 {
					t.Errorf("told of version %d, want %d", v, before+1)
				}
			case <-time.After(20 * time.Second):
				t.Error("not told of the change")
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("watch ended with %v", err)
			}
		})
	}
}

// shape is the schema as it is in a database: tables, columns, whether they may be NULL, and the families of their
// types.
func shape(t *testing.T, s *store.Store, driver, dsn, query string) []string {
	t.Helper()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var table, column, kind string
		var nullable bool
		if err := rows.Scan(&table, &column, &kind, &nullable); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(table, "goose") {
			continue
		}
		family, ok := families[strings.ToLower(kind)]
		if !ok {
			t.Errorf("column %s.%s has type %q, which is in no family", table, column, kind)
		}
		out = append(out, fmt.Sprintf("%s.%s %s null=%t", table, column, family, nullable))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// families are types of both databases that hold the same values.
var families = map[string]string{
	"text": "text", "bigint": "integer", "integer": "integer", "double precision": "float", "boolean": "boolean",
	"blob": "bytes", "bytea": "bytes",
}

func TestBothDatabasesEndInTheSameTablesAndColumns(t *testing.T) {
	t.Parallel()
	lite, post := openSQLite(t), postgres(t)(t)
	a := shape(t, lite, "sqlite", "file:"+store.SQLitePath(lite.URL()), `
		SELECT m.name, c.name, c.type, c."notnull" = 0 AND c.pk = 0
		FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`)
	b := shape(t, post, "pgx", post.URL(), `
		SELECT table_name, column_name, data_type, is_nullable = 'YES'
		FROM information_schema.columns WHERE table_schema = 'public'`)
	if len(a) < 50 {
		t.Fatalf("only %d columns in SQLite: %v", len(a), a)
	}
	for _, c := range a {
		if !slices.Contains(b, c) {
			t.Errorf("only in SQLite: %s", c)
		}
	}
	for _, c := range b {
		if !slices.Contains(a, c) {
			t.Errorf("only in PostgreSQL: %s", c)
		}
	}
}

func TestBothDatabasesHaveTheSameMigrations(t *testing.T) {
	t.Parallel()
	names := func(dir string) []string {
		files, err := fs.Glob(migrations.FS, dir+"/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("migrations of %s: %v, %v", dir, files, err)
		}
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		return files
	}
	if a, b := names("sqlite"), names("postgres"); !slices.Equal(a, b) {
		t.Errorf("SQLite has %v, PostgreSQL %v", a, b)
	}
}

func TestOnlyTheOwnerReadsTheSQLiteFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes on Windows")
	}
	// The directory may be anybody's: the file guards itself.
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, "sqlite:"+filepath.Join(dir, "x.db"))
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v; want the database and its log", files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o", f.Name(), mode)
		}
	}
}

func TestPathsOfSQLiteFilesMayHoldAnything(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with space.db", "100%.db", "a?b#c.db", "ü&=+.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, "sqlite:"+path)
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: the file is elsewhere: %v", name, err)
		}
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]store.Kind{
		"sqlite:/x/y.db": store.SQLite, "sqlite:y.db": store.SQLite,
		"postgres://h/d": store.Postgres, "postgresql://h/d": store.Postgres,
		"": "", "sqlite:": "", "sqlite::memory:": "", "mysql://h/d": "", "/x/y.db": "",
	} {
		got, err := store.KindOf(url)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("KindOf(%q) = %q, %v; want %q", url, got, err, want)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://h/d": "database URL",
		"sqlite:" + filepath.Join(t.TempDir(), "no", "such", "x.db"): "sqlite database",
		"postgres://u:hidden@127.0.0.1:1/d?connect_timeout=1":        "postgres database",
	} {
		_, err := store.Open(t.Context(), store.Config{URL: url, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("Open(%q): %v; want an error about the %s without the password", url, err, want)
		}
	}
}
