package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/routing"
	"mindrouter/internal/store"
)

var schemaTests = []test{
	{"migrating twice is harmless", func(t *testing.T, s *store.Store) {
		before, err := s.Migrations(t.Context())
		if err != nil || len(before) == 0 {
			t.Fatalf("migrations of an empty database: %v, %v", before, err)
		}
		if slices.ContainsFunc(before, func(m store.Migration) bool { return m.Applied }) {
			t.Errorf("an empty database has applied migrations: %v", before)
		}
		first, err := s.Migrate(t.Context())
		if err != nil || len(first) != len(before) {
			t.Fatalf("first run applied %v, %v; want all %d", first, err, len(before))
		}
		if second, err := s.Migrate(t.Context()); err != nil || len(second) != 0 {
			t.Errorf("second run applied %v, %v; want nothing", second, err)
		}
		after, err := s.Migrations(t.Context())
		if err != nil || slices.ContainsFunc(after, func(m store.Migration) bool { return !m.Applied }) {
			t.Errorf("after migrating: %v, %v; want all applied", after, err)
		}
	}},
	{"servers that migrate at once all succeed", func(t *testing.T, s *store.Store) {
		const servers = 4
		stores := []*store.Store{s}
		for range servers - 1 {
			stores = append(stores, another(t, s, ringOf(t, newKey(t))))
		}
		var wg sync.WaitGroup
		applied := make([]int, servers)
		for i, st := range stores {
			wg.Go(func() {
				steps, err := st.Migrate(t.Context())
				if err != nil {
					t.Errorf("server %d: %v", i, err)
				}
				applied[i] = len(steps)
			})
		}
		wg.Wait()
		all, err := s.Migrations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range applied {
			sum += n
		}
		if sum != len(all) {
			t.Errorf("the servers applied %v steps, %d together; want each of %d once", applied, sum, len(all))
		}
	}},
	migrated("the seeded groups are there", func(t *testing.T, s *store.Store) {
		view(t, s, func(ctx context.Context, r admin.Reader) error {
			groups, err := r.Groups(ctx)
			got := map[string]float64{}
			for _, g := range groups {
				got[g.Name] = g.Weight
				if g.Limits != (identity.Limits{}) || g.KeyExpiryDays != 90 || g.MaxKeys != 16 || g.BudgetPeriodDays != 30 {
					t.Errorf("group %s is seeded as %+v", g.Name, g)
				}
				same(t, "models of "+g.Name, g.Models, []string{"*"})
			}
			same(t, "weights", got, map[string]float64{
				"administrators": 10, "faculty": 5, "researchers": 5, "staff": 2, "students": 1,
			})
			return err
		})
	}),
}

// catalogOf reads the catalog without its version.
func catalogOf(t *testing.T, s *store.Store) backend.Catalog {
	t.Helper()
	var c backend.Catalog
	view(t, s, func(ctx context.Context, r admin.Reader) error {
		var err error
		c, err = r.Catalog(ctx)
		return err
	})
	c.Version = 0
	return c
}

var configTests = []test{
	migrated("a group keeps every field", func(t *testing.T, s *store.Store) {
		g := full[identity.Group](t)
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveGroup(ctx, g) })
		got, err := s.Group(t.Context(), g.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "group by id", got, g)
		view(t, s, func(ctx context.Context, r admin.Reader) error {
			byName, err := r.GroupByName(ctx, g.Name)
			same(t, "group by name", byName, g)
			return err
		})
		// What is saved again replaces all columns, also by zero values.
		g = identity.Group{ID: g.ID, Name: "other"}
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveGroup(ctx, g) })
		if got, err = s.Group(t.Context(), g.ID); err != nil {
			t.Fatal(err)
		}
		same(t, "group saved again", got, g)
	}),
	migrated("a user keeps every field", func(t *testing.T, s *store.Store) {
		u := full[identity.User](t)
		u.GroupID = somebody(t, s, "bob").GroupID
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveUser(ctx, u) })
		got, err := s.User(t.Context(), u.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "user by id", got, u)
		u = identity.User{ID: u.ID, Name: "other", GroupID: u.GroupID}
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveUser(ctx, u) })
		view(t, s, func(ctx context.Context, r admin.Reader) error {
			byName, err := r.UserByName(ctx, u.Name)
			same(t, "user saved again", byName, u)
			return err
		})
	}),
	migrated("a key keeps every field", func(t *testing.T, s *store.Store) {
		k := full[identity.Key](t)
		k.UserID = somebody(t, s, "bob").ID
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveKey(ctx, k) })
		got, err := s.KeysByPrefix(t.Context(), k.Prefix)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "keys by prefix", got, []identity.Key{k})
		k = identity.Key{ID: k.ID, Prefix: k.Prefix, UserID: k.UserID}
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveKey(ctx, k) })
		if got, err = s.KeysByPrefix(t.Context(), k.Prefix); err != nil {
			t.Fatal(err)
		}
		same(t, "key saved again", got, []identity.Key{k})
	}),
	migrated("keys are listed newest first, of one user or of all", func(t *testing.T, s *store.Store) {
		alice, bob := somebody(t, s, "alice"), somebody(t, s, "bob")
		for i, u := range []identity.User{alice, bob, alice} {
			k := identity.Key{
				ID: identity.KeyID(fmt.Sprint("key-", i)), Prefix: fmt.Sprint("prefix-", i), UserID: u.ID,
				CreatedAt: now.Add(time.Duration(i) * time.Hour),
			}
			change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.SaveKey(ctx, k) })
		}
		view(t, s, func(ctx context.Context, r admin.Reader) error {
			for _, c := range []struct {
				user identity.UserID
				want []identity.KeyID
			}{{"", []identity.KeyID{"key-2", "key-1", "key-0"}}, {alice.ID, []identity.KeyID{"key-2", "key-0"}}} {
				keys, err := r.Keys(ctx, c.user)
				if err != nil {
					return err
				}
				var got []identity.KeyID
				for _, k := range keys {
					got = append(got, k.ID)
				}
				same(t, "keys of "+string(c.user), got, c.want)
			}
			return nil
		})
	}),
	migrated("the fleet keeps every field and is sorted by name", func(t *testing.T, s *store.Store) {
		want := full[backend.Catalog](t)
		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			var errs []error
			for i := range slices.Backward(want.Nodes) {
				errs = append(errs, tx.SaveNode(ctx, want.Nodes[i]))
			}
			for i := range slices.Backward(want.Backends) {
				errs = append(errs, tx.SaveBackend(ctx, want.Backends[i]))
			}
			for i := range slices.Backward(want.Models) {
				errs = append(errs, tx.SaveModel(ctx, want.Models[i]))
			}
			for i := range slices.Backward(want.Aliases) {
				errs = append(errs, tx.SaveAlias(ctx, want.Aliases[i]))
			}
			return errors.Join(append(errs, tx.SaveSettings(ctx, want.Settings))...)
		})
		got := catalogOf(t, s)
		same(t, "nodes", got.Nodes, want.Nodes)
		same(t, "backends", got.Backends, want.Backends)
		same(t, "models", got.Models, want.Models)
		same(t, "aliases", got.Aliases, want.Aliases)
		same(t, "settings", got.Settings, want.Settings)

		// Saved again, everything is replaced.
		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			b, n, m, a := &want.Backends[0], &want.Nodes[0], &want.Models[0], &want.Aliases[0]
			*b = backend.Config{ID: b.ID, Name: b.Name}
			*n = backend.Node{ID: n.ID, Name: n.Name}
			*m = backend.ModelConfig{Name: m.Name}
			*a = routing.Alias{Name: a.Name}
			want.Settings = backend.Settings{}
			return errors.Join(tx.SaveBackend(ctx, *b), tx.SaveNode(ctx, *n), tx.SaveModel(ctx, *m), tx.SaveAlias(ctx, *a),
				tx.SaveSettings(ctx, want.Settings))
		})
		same(t, "catalog saved again", catalogOf(t, s), want)

		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			return errors.Join(tx.DeleteBackend(ctx, want.Backends[0].ID), tx.DeleteNode(ctx, want.Nodes[0].ID),
				tx.DeleteModel(ctx, want.Models[0].Name), tx.DeleteAlias(ctx, want.Aliases[0].Name))
		})
		want.Backends, want.Nodes, want.Models, want.Aliases = want.Backends[1:], want.Nodes[1:], want.Models[1:], want.Aliases[1:]
		same(t, "catalog after deletions", catalogOf(t, s), want)
	}),
	migrated("an empty catalog reads as empty", func(t *testing.T, s *store.Store) {
		c := catalogOf(t, s)
		if len(c.Nodes)+len(c.Backends)+len(c.Models)+len(c.Aliases) != 0 {
			t.Errorf("catalog of a fresh database: %+v", c)
		}
		same(t, "settings", c.Settings, backend.Settings{})
	}),
	migrated("what is not there is ErrNotFound", func(t *testing.T, s *store.Store) {
		for what, read := range map[string]func(context.Context, admin.Tx) error{
			"group":          func(ctx context.Context, tx admin.Tx) error { _, err := tx.GroupByName(ctx, "nobody"); return err },
			"user":           func(ctx context.Context, tx admin.Tx) error { _, err := tx.UserByName(ctx, "nobody"); return err },
			"group by id":    func(ctx context.Context, _ admin.Tx) error { _, err := s.Group(ctx, "nobody"); return err },
			"user by id":     func(ctx context.Context, _ admin.Tx) error { _, err := s.User(ctx, "nobody"); return err },
			"delete group":   func(ctx context.Context, tx admin.Tx) error { return tx.DeleteGroup(ctx, "nobody") },
			"delete node":    func(ctx context.Context, tx admin.Tx) error { return tx.DeleteNode(ctx, "nobody") },
			"delete backend": func(ctx context.Context, tx admin.Tx) error { return tx.DeleteBackend(ctx, "nobody") },
			"delete model":   func(ctx context.Context, tx admin.Tx) error { return tx.DeleteModel(ctx, "nobody") },
			"delete alias":   func(ctx context.Context, tx admin.Tx) error { return tx.DeleteAlias(ctx, "nobody") },
		} {
			err := s.InTx(t.Context(), func(tx admin.Tx) error { return read(t.Context(), tx) })
			if !errors.Is(err, identity.ErrNotFound) {
				t.Errorf("%s: %v, want ErrNotFound", what, err)
			}
		}
		for _, prefix := range []string{"nobody", "", "a\x00b", "\xff\xfe"} { // whatever a caller sends
			if keys, err := s.KeysByPrefix(t.Context(), prefix); err != nil || len(keys) != 0 {
				t.Errorf("keys of the prefix %q: %v, %v; want none and no error", prefix, keys, err)
			}
		}
	}),
	migrated("a name taken by another is ErrExists", func(t *testing.T, s *store.Store) {
		u := somebody(t, s, "alice")
		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			return errors.Join(tx.SaveNode(ctx, backend.Node{ID: "n1", Name: "taken"}),
				tx.SaveBackend(ctx, backend.Config{ID: "b1", Name: "taken"}))
		})
		for what, save := range map[string]func(context.Context, admin.Tx) error{
			"group": func(ctx context.Context, tx admin.Tx) error {
				return tx.SaveGroup(ctx, identity.Group{ID: "g2", Name: "students"})
			},
			"user": func(ctx context.Context, tx admin.Tx) error {
				return tx.SaveUser(ctx, identity.User{ID: "u2", Name: "alice", GroupID: u.GroupID})
			},
			"node": func(ctx context.Context, tx admin.Tx) error {
				return tx.SaveNode(ctx, backend.Node{ID: "n2", Name: "taken"})
			},
			"backend": func(ctx context.Context, tx admin.Tx) error {
				return tx.SaveBackend(ctx, backend.Config{ID: "b2", Name: "taken"})
			},
		} {
			err := s.InTx(t.Context(), func(tx admin.Tx) error { return save(t.Context(), tx) })
			if !errors.Is(err, identity.ErrExists) {
				t.Errorf("%s: %v, want ErrExists", what, err)
			}
		}
	}),
	migrated("a group in use cannot be deleted", func(t *testing.T, s *store.Store) {
		u := somebody(t, s, "alice")
		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			return errors.Join(tx.SaveGroup(ctx, identity.Group{ID: "service", Name: "service"}),
				tx.SaveGroup(ctx, identity.Group{ID: "free", Name: "free"}),
				tx.SaveKey(ctx, identity.Key{ID: "k", Prefix: "p", UserID: u.ID, GroupID: "service", Service: true}))
		})
		for _, id := range []identity.GroupID{u.GroupID, "service"} {
			err := s.InTx(t.Context(), func(tx admin.Tx) error { return tx.DeleteGroup(t.Context(), id) })
			if !errors.Is(err, admin.ErrInUse) {
				t.Errorf("delete group %s: %v, want ErrInUse", id, err)
			}
		}
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.DeleteGroup(ctx, "free") })
	}),
	migrated("a transaction that fails leaves nothing behind", func(t *testing.T, s *store.Store) {
		u := somebody(t, s, "alice")
		before := catalogOf(t, s)
		version, err := s.CatalogVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		err = s.InTx(t.Context(), func(tx admin.Tx) error {
			ctx := t.Context()
			if err := errors.Join(
				tx.SaveGroup(ctx, identity.Group{ID: "g", Name: "g"}),
				tx.SaveUser(ctx, identity.User{ID: "u", Name: "u", GroupID: "g"}),
				tx.SaveKey(ctx, identity.Key{ID: "k", Prefix: "p", UserID: u.ID}),
				tx.SaveBackend(ctx, backend.Config{ID: "b", Name: "b"}),
				tx.SaveModel(ctx, backend.ModelConfig{Name: "m"}),
				tx.RecordChange(ctx, admin.Change{ID: "c"}),
			); err != nil {
				t.Error(err)
			}
			// The transaction itself sees what it did.
			if _, err := tx.UserByName(ctx, "u"); err != nil {
				t.Errorf("user within the transaction: %v", err)
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Fatalf("error %v, want that of the function", err)
		}
		same(t, "catalog", catalogOf(t, s), before)
		for _, table := range []string{"changes", "api_keys"} {
			if rows := look(t, s).texts("SELECT id FROM " + table); len(rows) != 0 {
				t.Errorf("%s holds %v", table, rows)
			}
		}
		for what, err := range map[string]error{
			"group": second(s.Group(t.Context(), "g")), "user": second(s.User(t.Context(), "u")),
		} {
			if !errors.Is(err, identity.ErrNotFound) {
				t.Errorf("%s: %v, want ErrNotFound", what, err)
			}
		}
		if v, err := s.CatalogVersion(t.Context()); err != nil || v != version {
			t.Errorf("version %d, %v; want still %d", v, err, version)
		}
	}),
	migrated("a change record keeps every field", func(t *testing.T, s *store.Store) {
		c := full[admin.Change](t)
		change(t, s, func(ctx context.Context, tx admin.Tx) error { return tx.RecordChange(ctx, c) })
		same(t, "changes", look(t, s).texts("SELECT id, at, actor, via, action, target, detail FROM changes"),
			[][]string{{c.ID, fmt.Sprint(c.At.UnixMicro()), c.Actor, c.Via, c.Action, c.Target, c.Detail}})
	}),
	migrated("a view sees one state", func(t *testing.T, s *store.Store) {
		other := another(t, s, ringOf(t, newKey(t)))
		view(t, s, func(ctx context.Context, r admin.Reader) error {
			before, err := r.Groups(ctx)
			if err != nil {
				return err
			}
			change(t, other, func(ctx context.Context, tx admin.Tx) error {
				return tx.SaveGroup(ctx, identity.Group{ID: "late", Name: "late"})
			})
			after, err := r.Groups(ctx)
			same(t, "groups within one view", after, before)
			return err
		})
	}),
	migrated("transactions see one another's results", func(t *testing.T, s *store.Store) {
		// Each adds one to what it read: with anything less than one after the other, some additions are lost. This is
		// what keeps two admins from removing each other at the same moment.
		stores := []*store.Store{s, another(t, s, ringOf(t, newKey(t)))}
		const each = 10
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range each {
					err := stores[i%2].InTx(t.Context(), func(tx admin.Tx) error {
						c, err := tx.Catalog(t.Context())
						if err != nil {
							return err
						}
						c.Settings.Retry.Attempts++
						return tx.SaveSettings(t.Context(), c.Settings)
					})
					if err != nil {
						t.Errorf("writer %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
		if got := catalogOf(t, s).Settings.Retry.Attempts; got != 4*each {
			t.Errorf("after %d additions the sum is %d", 4*each, got)
		}
	}),
}

func second[T any](_ T, err error) error { return err }
