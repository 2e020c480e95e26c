package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/store"
)

// saveSecrets puts a backend's key and a node's secret into the database.
func saveSecrets(t *testing.T, s *store.Store) {
	t.Helper()
	change(t, s, func(ctx context.Context, tx admin.Tx) error {
		return errors.Join(
			tx.SaveBackend(ctx, backend.Config{ID: "b1", Name: "gpu01", APIKey: "sk-plain-backend", APIKeyRef: "env:GPU01_KEY"}),
			tx.SaveNode(ctx, backend.Node{ID: "n1", Name: "node01", SidecarSecret: "plain-sidecar", SidecarSecretRef: "file:/x"}),
		)
	})
}

var secretTests = []test{
	migrated("secrets are sealed in the database and open for who reads them", func(t *testing.T, s *store.Store) {
		saveSecrets(t, s)
		for column, table := range map[string]string{"api_key": "backends", "sidecar_secret": "nodes"} {
			rows := look(t, s).texts("SELECT " + column + " FROM " + table)
			if len(rows) != 1 || rows[0][0] == "" || strings.Contains(rows[0][0], "plain") {
				t.Errorf("%s.%s holds %q", table, column, rows)
			}
		}
		c := catalogOf(t, s)
		if got := c.Backends[0].APIKey; got != "sk-plain-backend" {
			t.Errorf("API key %q", got)
		}
		if got := c.Nodes[0].SidecarSecret; got != "plain-sidecar" {
			t.Errorf("sidecar secret %q", got)
		}
	}),
	migrated("a sealed secret belongs to its row", func(t *testing.T, s *store.Store) {
		saveSecrets(t, s)
		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			return tx.SaveBackend(ctx, backend.Config{ID: "b2", Name: "gpu02", APIKey: "other"})
		})
		r := look(t, s)
		if _, err := r.db.ExecContext(t.Context(),
			"UPDATE backends SET api_key = (SELECT api_key FROM backends WHERE id = 'b1') WHERE id = 'b2'"); err != nil {
			t.Fatal(err)
		}
		lost, err := s.LostSecrets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "lost secrets", lost, []string{"api_key of backend gpu02"})
	}),
	migrated("secrets sealed under an old key open under the rotated ring", func(t *testing.T, s *store.Store) {
		old, fresh := newKey(t), newKey(t)
		saveSecrets(t, another(t, s, ringOf(t, old)))
		rotated := another(t, s, ringOf(t, fresh, old))
		if got := catalogOf(t, rotated).Backends[0].APIKey; got != "sk-plain-backend" {
			t.Errorf("under the rotated ring the API key is %q", got)
		}
		if lost, err := rotated.LostSecrets(t.Context()); err != nil || len(lost) != 0 {
			t.Errorf("lost under the rotated ring: %v, %v", lost, err)
		}
		// What is saved now is sealed under the new key alone.
		saveSecrets(t, rotated)
		if got := catalogOf(t, another(t, s, ringOf(t, fresh))).Nodes[0].SidecarSecret; got != "plain-sidecar" {
			t.Errorf("under the new key alone the sidecar secret is %q", got)
		}
	}),
	migrated("a lost key costs the secrets and nothing else", func(t *testing.T, s *store.Store) {
		saveSecrets(t, s)
		stranger := another(t, s, ringOf(t, newKey(t)))
		c := catalogOf(t, stranger)
		if len(c.Backends) != 1 || c.Backends[0].Name != "gpu01" || c.Backends[0].APIKey != "" || c.Backends[0].APIKeyRef != "env:GPU01_KEY" {
			t.Errorf("backends without the key: %+v", c.Backends)
		}
		if len(c.Nodes) != 1 || c.Nodes[0].SidecarSecret != "" {
			t.Errorf("nodes without the key: %+v", c.Nodes)
		}
		lost, err := stranger.LostSecrets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "lost secrets", lost, []string{"api_key of backend gpu01", "sidecar_secret of node node01"})
		saveSecrets(t, stranger) // the way out: give them anew
		if lost, err := stranger.LostSecrets(t.Context()); err != nil || len(lost) != 0 {
			t.Errorf("after they were given anew: %v, %v", lost, err)
		}
	}),
	migrated("no secret is no sealed value", func(t *testing.T, s *store.Store) {
		change(t, s, func(ctx context.Context, tx admin.Tx) error {
			return tx.SaveBackend(ctx, backend.Config{ID: "b", Name: "b"})
		})
		same(t, "column", look(t, s).texts("SELECT api_key FROM backends"), [][]string{{""}})
	}),
}
