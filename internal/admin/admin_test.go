package admin_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/routing"
	"mindrouter/internal/secret"
	"mindrouter/internal/store"
)

// now is when everything happens.
var now = time.Date(2031, 5, 17, 12, 30, 45, 0, time.UTC)

// bench is the service on a database of its own.
type bench struct {
	*admin.Service
	t     *testing.T
	store *store.Store
	ring  *secret.Ring
	// secrets is what references resolve to.
	secrets map[string]string
}

var operator = admin.Operator("root")

func newBench(t *testing.T) *bench {
	t.Helper()
	key, err := secret.Generate()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := secret.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{
		URL: "sqlite:" + filepath.Join(t.TempDir(), "test.db"), Sealer: ring, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, store: s, ring: ring, secrets: map[string]string{}}
	b.Service = b.service(s)
	return b
}

// service is an admin service on any store.
func (b *bench) service(s admin.Store) *admin.Service {
	return admin.New(admin.Config{
		Store: s, MAC: b.ring.MAC(secret.PurposeKeyTag), Now: func() time.Time { return now },
		ReadSecret: func(ref string) (string, error) {
			if v, ok := b.secrets[ref]; ok {
				return v, nil
			}
			return "", fmt.Errorf("nothing at %s", ref)
		},
	})
}

// user makes a user in the group students.
func (b *bench) user(name string, role identity.Role) identity.User {
	b.t.Helper()
	u, err := b.CreateUser(b.t.Context(), operator, admin.NewUser{Name: name, Group: "students", Role: role})
	if err != nil {
		b.t.Fatal(err)
	}
	return u
}

// read runs fn on what is stored.
func (b *bench) read(fn func(context.Context, admin.Reader) error) {
	b.t.Helper()
	if err := b.store.View(b.t.Context(), func(r admin.Reader) error { return fn(b.t.Context(), r) }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) stored(name string) identity.User {
	b.t.Helper()
	var u identity.User
	b.read(func(ctx context.Context, r admin.Reader) (err error) {
		u, err = r.UserByName(ctx, name)
		return err
	})
	return u
}

func (b *bench) catalog() backend.Catalog {
	b.t.Helper()
	c, err := b.Catalog(b.t.Context(), operator)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// change is a recorded change.
type change struct{ actor, via, action, target, detail string }

func (b *bench) changes() []change {
	b.t.Helper()
	db, err := sql.Open("sqlite", "file:"+store.SQLitePath(b.store.URL()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(b.t.Context(), "SELECT actor, via, action, target, detail FROM changes ORDER BY id")
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []change
	for rows.Next() {
		var c change
		if err := rows.Scan(&c.actor, &c.via, &c.action, &c.target, &c.detail); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// wantField asks for a *FieldError of a field and a reason; nil for a value that could never be right.
func wantField(t *testing.T, what string, err error, field string, reason error) {
	t.Helper()
	var fe *admin.FieldError
	if !errors.As(err, &fe) || fe.Field != field || !errors.Is(fe.Err, reason) {
		t.Errorf("%s: error %v; want one of the field %s because of %v", what, err, field, reason)
	}
}

func actor(role identity.Role) admin.Actor {
	return admin.Actor{Name: "somebody", Role: role, Via: "api"}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	const user, auditor, helpdesk, keys, models, all = identity.RoleUser, identity.RoleAuditor, identity.RoleHelpdesk,
		identity.RoleKeyManager, identity.RoleModelOperator, identity.RoleAdmin
	roles := []identity.Role{user, auditor, helpdesk, keys, models, all}
	readers := []identity.Role{auditor, helpdesk, keys, models, all}
	n := 0 // names must be fresh
	for _, c := range []struct {
		what string
		may  []identity.Role
		do   func(ctx context.Context, b *bench, a admin.Actor) error
	}{
		{"list users", readers, func(ctx context.Context, b *bench, a admin.Actor) error { _, err := b.Users(ctx, a); return err }},
		{"list keys", readers, func(ctx context.Context, b *bench, a admin.Actor) error { _, err := b.Keys(ctx, a); return err }},
		{"read the catalog", readers, func(ctx context.Context, b *bench, a admin.Actor) error { _, err := b.Catalog(ctx, a); return err }},
		{"export", readers, func(ctx context.Context, b *bench, a admin.Actor) error { _, err := b.Export(ctx, a); return err }},
		{"create a user", []identity.Role{helpdesk, all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			n++
			_, err := b.CreateUser(ctx, a, admin.NewUser{Name: fmt.Sprint("user", n), Group: "students", Role: user})
			return err
		}},
		{"create an admin", []identity.Role{all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			n++
			_, err := b.CreateUser(ctx, a, admin.NewUser{Name: fmt.Sprint("user", n), Group: "students", Role: all})
			return err
		}},
		{"disable a user", []identity.Role{helpdesk, all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			return b.DisableUser(ctx, a, "alice")
		}},
		{"enable a user", []identity.Role{helpdesk, all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			return b.EnableUser(ctx, a, "alice")
		}},
		{"disable an auditor", []identity.Role{all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			return errors.Join(b.DisableUser(ctx, a, "auditor"), b.EnableUser(ctx, operator, "auditor"))
		}},
		{"set the password of an admin", []identity.Role{all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			return b.SetPassword(ctx, a, "boss", "a long enough password")
		}},
		{"create a key", []identity.Role{keys, all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			_, _, err := b.CreateKey(ctx, a, admin.NewKey{User: "bob", Label: "x"})
			return err
		}},
		{"create a key that speaks for an admin", []identity.Role{all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			_, _, err := b.CreateKey(ctx, a, admin.NewKey{User: "boss", Label: "x", Scopes: []identity.Scope{identity.ScopeAdmin}})
			return err
		}},
		{"revoke a key", []identity.Role{keys, all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			_, key, err := b.CreateKey(ctx, operator, admin.NewKey{User: "bob", Label: "x"})
			return errors.Join(err, b.RevokeKey(ctx, a, key.Prefix))
		}},
		{"drain a backend", []identity.Role{models, all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			return b.SetIntent(ctx, a, "gpu01", routing.IntentDraining)
		}},
		{"apply", []identity.Role{all}, func(ctx context.Context, b *bench, a admin.Actor) error {
			p, err := admin.ParseCluster("x", nil)
			if err != nil {
				return err
			}
			_, err = b.Apply(ctx, a, p, admin.ApplyOptions{})
			return err
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBench(t)
			b.user("alice", user)
			b.user("bob", user)
			b.user("auditor", auditor)
			b.user("boss", all)
			b.apply("backends: [{name: gpu01, engine: vllm, url: 'http://gpu01'}]")
			for _, role := range roles {
				err := c.do(t.Context(), b, actor(role))
				want := false
				for _, r := range c.may {
					want = want || r == role
				}
				switch {
				case want && err != nil:
					t.Errorf("%s as %s: %v", c.what, role, err)
				case !want && !errors.Is(err, admin.ErrForbidden):
					t.Errorf("%s as %s: error %v, want ErrForbidden", c.what, role, err)
				}
			}
		})
	}
}

// brokenStore cannot record changes.
type brokenStore struct{ *store.Store }

type brokenTx struct{ admin.Tx }

var errBroken = errors.New("broken")

func (brokenTx) RecordChange(context.Context, admin.Change) error { return errBroken }

func (s brokenStore) InTx(ctx context.Context, fn func(admin.Tx) error) error {
	return s.Store.InTx(ctx, func(tx admin.Tx) error { return fn(brokenTx{tx}) })
}

func TestNoChangeWithoutItsRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	_, key, err := b.CreateKey(t.Context(), operator, admin.NewKey{User: "alice", Label: "x"})
	if err != nil {
		t.Fatal(err)
	}
	b.apply("backends: [{name: gpu01, engine: vllm, url: 'http://gpu01'}]")
	before, version := b.dump(), b.version()
	broken := b.service(brokenStore{b.store})
	file := b.parse("groups: [{name: new, weight: 1}]")
	for what, err := range map[string]error{
		"create a user":  second(broken.CreateUser(t.Context(), operator, admin.NewUser{Name: "bob", Group: "students", Role: identity.RoleUser})),
		"disable a user": broken.DisableUser(t.Context(), operator, "alice"),
		"set a password": broken.SetPassword(t.Context(), operator, "alice", "a long enough password"),
		"create a key":   third(broken.CreateKey(t.Context(), operator, admin.NewKey{User: "alice", Label: "y"})),
		"revoke a key":   broken.RevokeKey(t.Context(), operator, key.Prefix),
		"drain":          broken.SetIntent(t.Context(), operator, "gpu01", routing.IntentDraining),
		"apply":          second(broken.Apply(t.Context(), operator, file, admin.ApplyOptions{})),
	} {
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: error %v, want that of the record", what, err)
		}
	}
	if after := b.dump(); after != before {
		t.Errorf("something was changed without a record\nbefore %s\nafter  %s", before, after)
	}
	if v := b.version(); v != version {
		t.Errorf("catalog version %d, want still %d", v, version)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// dump is everything that is stored, in words.
func (b *bench) dump() string {
	b.t.Helper()
	var s strings.Builder
	b.read(func(ctx context.Context, r admin.Reader) error {
		groups, err1 := r.Groups(ctx)
		users, err2 := r.Users(ctx)
		keys, err3 := r.Keys(ctx, "")
		c, err4 := r.Catalog(ctx)
		c.Version = 0
		fmt.Fprintf(&s, "%+v\n%+v\n%+v\n%+v", groups, users, keys, c)
		return errors.Join(err1, err2, err3, err4)
	})
	return s.String()
}

func (b *bench) version() uint64 {
	b.t.Helper()
	v, err := b.store.CatalogVersion(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func TestChangesAreRecordedWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	boss := admin.Actor{Name: "boss", Role: identity.RoleAdmin, Via: "web"}
	const password = "correct horse battery"
	b.secrets["env:KEY"] = "sk-very-secret"
	_, err := b.CreateUser(ctx, boss, admin.NewUser{Name: "alice", Email: "a@example.edu", Group: "staff", Role: identity.RoleUser, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	key, info, err := b.CreateKey(ctx, boss, admin.NewKey{User: "alice", Label: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	file := b.parse("backends: [{name: gpu01, engine: vllm, url: 'http://gpu01', api_key: 'env:KEY'}]")
	if err := errors.Join(
		b.SetPassword(ctx, boss, "alice", password+"2"),
		b.DisableUser(ctx, boss, "alice"), b.DisableUser(ctx, boss, "alice"), // the second changes nothing
		b.EnableUser(ctx, boss, "alice"),
		b.RevokeKey(ctx, boss, info.Prefix), b.RevokeKey(ctx, boss, info.Prefix),
		second(b.Apply(ctx, boss, file, admin.ApplyOptions{})), second(b.Apply(ctx, boss, file, admin.ApplyOptions{})),
		b.SetIntent(ctx, boss, "gpu01", routing.IntentDraining), b.SetIntent(ctx, boss, "gpu01", routing.IntentDraining),
	); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user.create user/alice", "key.create key/" + info.Prefix, "user.reset-password user/alice", "user.disable user/alice",
		"user.enable user/alice", "key.revoke key/" + info.Prefix, "cluster.apply cluster", "backend.draining backend/gpu01",
	}
	got := b.changes()
	if len(got) != len(want) {
		t.Fatalf("%d changes are recorded, want %d: %+v", len(got), len(want), got)
	}
	for i, c := range got {
		if c.action+" "+c.target != want[i] || c.actor != "boss" || c.via != "web" {
			t.Errorf("change %d is %+v, want %s by boss via web", i, c, want[i])
		}
		for _, s := range []string{password, key, key[len("mr2_")+identity.PrefixLen:], "sk-very-secret", "argon2"} {
			if strings.Contains(c.detail, s) {
				t.Errorf("the record of %s holds a secret: %s", c.action, c.detail)
			}
		}
	}
}

func TestIntent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply("backends: [{name: gpu01, engine: vllm, url: 'http://gpu01'}]")
	for _, intent := range []routing.Intent{routing.IntentDraining, routing.IntentDisabled, routing.IntentEnabled} {
		if err := b.SetIntent(t.Context(), operator, "gpu01", intent); err != nil {
			t.Fatal(err)
		}
		if got := b.catalog().Backends[0].Intent; got != intent {
			t.Errorf("intent %s, want %s", got, intent)
		}
	}
	wantField(t, "unknown backend", b.SetIntent(t.Context(), operator, "gpu02", routing.IntentEnabled), "backend", identity.ErrNotFound)
	wantField(t, "unknown intent", b.SetIntent(t.Context(), operator, "gpu01", "asleep"), "intent", nil)
}
