// Package testenv hands tests the servers and programs that the test run has started or found.
//
// `make test` starts PostgreSQL and Redis on free loopback ports, finds a browser, and tells the tests
// through the environment. A plain `go test` has none of this: a test that asks is skipped, and its
// skip says what to run instead. Tests of one run share the servers, never the data: each call hands
// out an empty database of its own, so every test may run in parallel.
package testenv

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The variables that `make test` sets.
const (
	postgresVariable = "MINDROUTER_TEST_POSTGRES_URL"
	redisVariable    = "MINDROUTER_TEST_REDIS_URL"
	chromiumVariable = "MINDROUTER_TEST_CHROMIUM"
	longVariable     = "MINDROUTER_TEST_LONG"
)

// redisDatabases is the number of databases that `make test` configures.
const redisDatabases = 4096

// setupTimeout bounds every conversation with a server outside the test itself.
const setupTimeout = 30 * time.Second

// Postgres returns the URL of an empty database that belongs to the test and is dropped at its end,
// with whatever connections are still open.
func Postgres(t testing.TB) string {
	t.Helper()
	server := variable(t, postgresVariable)
	name := "test_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })

	database, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", postgresVariable, err)
	}
	database.Path = "/" + name
	return database.String()
}

// execute runs one statement on a connection of its own. It is used after the test's context ended.
func execute(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
	defer cancel()
	connection, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect to the test PostgreSQL: %v", err)
	}
	defer func() { _ = connection.Close(ctx) }()
	if _, err := connection.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Redis returns the URL of an empty Redis or Valkey database that belongs to the test. Channels of
// publish and subscribe are not divided by database: tests that use them need names of their own.
func Redis(t testing.TB) string {
	t.Helper()
	server := variable(t, redisVariable)
	address := strings.TrimPrefix(server, "redis://")
	// Database 0 holds the counter alone.
	count, err := strconv.Atoi(strings.TrimPrefix(redisCommands(t, address, "INCR databases"), ":"))
	if err != nil {
		t.Fatalf("count the test databases of Redis: %v", err)
	}
	database := 1 + count%(redisDatabases-1)
	redisCommands(t, address, fmt.Sprintf("SELECT %d", database), "FLUSHDB")
	return fmt.Sprintf("%s/%d", server, database)
}

// redisCommands sends inline commands on one connection and returns the last reply, which must be a
// single line.
func redisCommands(t testing.TB, address string, commands ...string) string {
	t.Helper()
	dialer := net.Dialer{Timeout: setupTimeout}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("connect to the test Redis: %v", err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(setupTimeout)); err != nil {
		t.Fatalf("set a deadline for the test Redis: %v", err)
	}
	replies := bufio.NewReader(connection)
	var reply string
	for _, command := range commands {
		if _, err := fmt.Fprintf(connection, "%s\r\n", command); err != nil {
			t.Fatalf("send %s: %v", command, err)
		}
		reply, err = replies.ReadString('\n')
		if err != nil || strings.HasPrefix(reply, "-") {
			t.Fatalf("%s: reply %q, error %v", command, reply, err)
		}
	}
	return strings.TrimSpace(reply)
}

// Chromium returns the path of the browser. As root it needs the flag --no-sandbox.
func Chromium(t testing.TB) string {
	t.Helper()
	return variable(t, chromiumVariable)
}

// Long tells whether this run wants the long form of a test (`make test-long`). The short form runs
// otherwise; a test that has only a long form does not exist.
func Long() bool {
	return os.Getenv(longVariable) != ""
}

// variable returns a setting of the test run, or skips the test where there is none.
func variable(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("%s is not set: run the tests with `make test`, which starts what they need", name)
	}
	return value
}
