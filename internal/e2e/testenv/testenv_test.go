package testenv_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mindrouter/internal/e2e/testenv"
)

func TestPostgresDatabaseIsEmptyOwnAndDropped(t *testing.T) {
	t.Parallel()
	var first string
	t.Run("use", func(t *testing.T) {
		first = testenv.Postgres(t)
		second := testenv.Postgres(t)
		if first == second {
			t.Fatalf("two calls returned the same database %q", first)
		}
		a, b := connect(t, first), connect(t, second)
		if _, err := a.Exec(t.Context(), "CREATE TABLE mine (id int)"); err != nil {
			t.Fatal(err)
		}
		var tables int
		err := b.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables)
		if err != nil || tables != 0 {
			t.Errorf("second database has %d tables, error %v, want none", tables, err)
		}
		// The connections stay open: dropping the databases must not depend on them.
	})
	connection, err := pgx.Connect(t.Context(), first)
	if err == nil {
		_ = connection.Close(t.Context())
		t.Fatal("the database is still there after its test")
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "3D000" {
		t.Fatalf("connect after the test: %v, want database does not exist", err)
	}
}

func connect(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = connection.Close(context.Background()) })
	return connection
}

func TestRedisDatabasesDiffer(t *testing.T) {
	t.Parallel()
	first, second := testenv.Redis(t), testenv.Redis(t)
	if first == second {
		t.Fatalf("two calls returned the same database %q", first)
	}
	for _, address := range []string{first, second} {
		if !strings.HasPrefix(address, "redis://127.0.0.1:") {
			t.Errorf("got %q, want a loopback URL", address)
		}
	}
}

func TestChromiumStarts(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), testenv.Chromium(t), "--version").Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("chromium --version: %q, %v", out, err)
	}
}

func TestMissingServerSkipsAndNamesTheCommand(t *testing.T) {
	// Not parallel: it runs this test binary again without the variables.
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChromiumStarts$", "-test.v")
	command.Env = []string{"HOME=" + t.TempDir()}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("run without variables: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- SKIP") || !strings.Contains(string(out), "make test") {
		t.Errorf("got %s\nwant a skip that names make test", out)
	}
}
