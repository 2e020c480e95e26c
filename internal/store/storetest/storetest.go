// Package storetest is the conformance suite of the database: what every domain's Store interface promises, run on each
// kind of database that the product offers. Whatever passes here may carry a server.
package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/identity"
	"mindrouter/internal/secret"
	"mindrouter/internal/store"
)

// deadline bounds every wait; what the product promises within a second may take ten on a machine under load.
const deadline = 10 * time.Second

// Run runs the suite. open returns a store on an empty database of its own, which the test closes.
func Run(t *testing.T, open func(t *testing.T) *store.Store) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Schema", schemaTests},
		{"Configuration", configTests},
		{"Secrets", secretTests},
		{"Version", versionTests},
		{"Record", recordTests},
		{"Responses", responseTests},
		{"Lost", lostTests},
		{"Counters", counterTests},
		{"Load", loadTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.tests {
				t.Run(c.rule, func(t *testing.T) {
					t.Parallel()
					c.run(t, open(t))
				})
			}
		})
	}
}

// test protects one rule on a database that is empty: not even migrated.
type test struct {
	rule string
	run  func(t *testing.T, s *store.Store)
}

// migrated is a test on an up-to-date schema.
func migrated(rule string, run func(t *testing.T, s *store.Store)) test {
	return test{rule, func(t *testing.T, s *store.Store) {
		t.Helper()
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, s)
	}}
}

// another opens a second store on the database of s, as another process would.
func another(t *testing.T, s *store.Store, ring *secret.Ring) *store.Store {
	t.Helper()
	other, err := store.Open(t.Context(), store.Config{URL: s.URL(), Sealer: ring, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, other) })
	return other
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// newKey is a key for a ring.
func newKey(t *testing.T) string {
	t.Helper()
	key, err := secret.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ringOf is a ring of keys, the current one first.
func ringOf(t *testing.T, keys ...string) *secret.Ring {
	t.Helper()
	ring, err := secret.Parse(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// raw is a connection that knows nothing of the store, to see what really lies in the database.
type raw struct {
	t    *testing.T
	db   *sql.DB
	kind store.Kind
}

func look(t *testing.T, s *store.Store) raw {
	t.Helper()
	driver, dsn := "pgx", s.URL()
	if s.Kind() == store.SQLite {
		driver, dsn = "sqlite", "file:"+(&url.URL{Path: store.SQLitePath(s.URL())}).EscapedPath()+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return raw{t, db, s.Kind()}
}

// texts returns the columns of all rows of a query as text; NULL is "<null>".
func (r raw) texts(query string, args ...any) [][]string {
	r.t.Helper()
	if r.kind == store.Postgres {
		for i := range args {
			query = strings.Replace(query, "?", "$"+strconv.Itoa(i+1), 1)
		}
	}
	rows, err := r.db.QueryContext(r.t.Context(), query, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		r.t.Fatal(err)
	}
	var out [][]string
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			r.t.Fatal(err)
		}
		line := make([]string, len(columns))
		for i, v := range values {
			line[i] = text(v)
		}
		out = append(out, line)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "<null>"
	case []byte:
		return string(v)
	case bool:
		if v {
			return "1"
		}
		return "0"
	default:
		return fmt.Sprint(v)
	}
}

// change runs fn in a transaction that must succeed.
func change(t *testing.T, s *store.Store, fn func(context.Context, admin.Tx) error) {
	t.Helper()
	if err := s.InTx(t.Context(), func(tx admin.Tx) error { return fn(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// view runs fn on a snapshot; it must succeed.
func view(t *testing.T, s *store.Store, fn func(context.Context, admin.Reader) error) {
	t.Helper()
	if err := s.View(t.Context(), func(r admin.Reader) error { return fn(t.Context(), r) }); err != nil {
		t.Fatal(err)
	}
}

// somebody makes a user in the group students.
func somebody(t *testing.T, s *store.Store, name string) identity.User {
	t.Helper()
	var u identity.User
	change(t, s, func(ctx context.Context, tx admin.Tx) error {
		g, err := tx.GroupByName(ctx, "students")
		if err != nil {
			return err
		}
		u = identity.User{ID: identity.UserID("id-" + name), Name: name, GroupID: g.ID, Role: identity.RoleUser, CreatedAt: now}
		return tx.SaveUser(ctx, u)
	})
	return u
}

// now is when everything happens; databases keep microseconds.
var now = time.Date(2031, 5, 17, 12, 30, 45, 123456000, time.UTC)

// full returns a T in which every field has a value of its own, so that a forgotten column shows.
func full[T any](t *testing.T) T {
	t.Helper()
	var v T
	n := 0
	fill(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(now.Add(time.Duration(*n) * time.Second)))
		return
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8: // raw JSON
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %04d ü", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint16:
		v.SetUint(uint64(60000 + *n))
	case reflect.Uint64: // the catalog's version, which is not stored from here
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.25)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	default:
		t.Fatalf("cannot fill a %v", v.Type())
	}
}

// same compares what was read with what was written.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngot  %+v\nwant %+v", what, got, want)
	}
}
