package admin

import (
	"context"
	"slices"

	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/routing"
)

// Catalog returns what is configured about the fleet.
func (s *Service) Catalog(ctx context.Context, a Actor) (backend.Catalog, error) {
	var c backend.Catalog
	err := s.view(ctx, a, func(r Reader) error {
		var err error
		c, err = r.Catalog(ctx)
		return err
	})
	return c, err
}

// SetIntent says what a backend shall do: serve, end what it runs, or nothing.
func (s *Service) SetIntent(ctx context.Context, a Actor, name string, intent routing.Intent) error {
	if !slices.Contains([]routing.Intent{routing.IntentEnabled, routing.IntentDraining, routing.IntentDisabled}, intent) {
		return invalid("intent", "%q is none of enabled, draining, disabled", intent)
	}
	return s.change(ctx, a, manageFleet, "backend."+string(intent), func(tx Tx) (string, any, error) {
		c, err := tx.Catalog(ctx)
		if err != nil {
			return "", nil, err
		}
		b, ok := find(c.Backends, func(b backend.Config) bool { return b.Name == name })
		if !ok {
			return "", nil, missing("backend", name, identity.ErrNotFound)
		}
		if b.Intent == intent {
			return "", nil, nil
		}
		before := b.Intent
		b.Intent = intent
		return "backend/" + name, map[string]any{"from": before, "to": intent}, tx.SaveBackend(ctx, b)
	})
}
