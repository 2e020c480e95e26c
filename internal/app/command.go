package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
	"mindrouter/internal/secret"
	"mindrouter/internal/store"
)

// Types of other packages that commands need: they import only this one.
type (
	NewUser      = admin.NewUser
	NewKey       = admin.NewKey
	ApplyOptions = admin.ApplyOptions
	Difference   = admin.Difference
	UserInfo     = admin.UserInfo
	KeyInfo      = admin.KeyInfo
	FieldError   = admin.FieldError
	Role         = identity.Role
	Scope        = identity.Scope
	Limits       = identity.Limits
	Class        = llm.Class
	Boundary     = llm.Boundary
	Migration    = store.Migration
	Backend      = backend.Config
	Probe        = backend.Probe
	Intent       = routing.Intent
)

// Commands does what the command line offers, on the database alone, with or without a running server. Close it.
type Commands struct {
	cfg   Config
	db    *database
	admin *admin.Service
	actor admin.Actor
}

// OpenCommands opens the database, and migrates it.
func OpenCommands(ctx context.Context, cfg Config, log *slog.Logger) (*Commands, error) {
	db, err := openDatabase(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	return newCommands(cfg, db), nil
}

func newCommands(cfg Config, db *database) *Commands {
	return &Commands{cfg: cfg, db: db, admin: newAdmin(db), actor: admin.Operator(operatorName())}
}

func newAdmin(db *database) *admin.Service {
	return admin.New(admin.Config{
		Store: db, MAC: db.ring.MAC(secret.PurposeKeyTag), Now: time.Now, ReadSecret: readSecretRef,
	})
}

// operatorName is who the record of a change names.
func operatorName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "operator"
}

// readSecretRef resolves env:NAME and file:PATH.
func readSecretRef(ref string) (string, error) {
	kind, what, _ := strings.Cut(ref, ":")
	switch kind {
	case "env":
		v, ok := os.LookupEnv(what)
		if !ok {
			return "", fmt.Errorf("the environment has no %s", what)
		}
		return v, nil
	case "file":
		content, err := os.ReadFile(what)
		if err != nil {
			var pe *fs.PathError
			if errors.As(err, &pe) {
				return "", fmt.Errorf("read %s: %w", what, pe.Err)
			}
			return "", err
		}
		return strings.TrimSpace(string(content)), nil
	default:
		return "", errors.New("want env:NAME or file:PATH")
	}
}

// Close closes the database.
func (c *Commands) Close() error { return c.db.Close() }

// CreateUser makes an account.
func (c *Commands) CreateUser(ctx context.Context, n NewUser) error {
	_, err := c.admin.CreateUser(ctx, c.actor, n)
	return err
}

// Users lists accounts.
func (c *Commands) Users(ctx context.Context) ([]UserInfo, error) { return c.admin.Users(ctx, c.actor) }

// DisableUser locks an account.
func (c *Commands) DisableUser(ctx context.Context, name string) error {
	return c.admin.DisableUser(ctx, c.actor, name)
}

// EnableUser unlocks an account.
func (c *Commands) EnableUser(ctx context.Context, name string) error {
	return c.admin.EnableUser(ctx, c.actor, name)
}

// SetPassword replaces a password.
func (c *Commands) SetPassword(ctx context.Context, name, password string) error {
	return c.admin.SetPassword(ctx, c.actor, name, password)
}

// CreateKey makes a key and returns its secret.
func (c *Commands) CreateKey(ctx context.Context, n NewKey) (string, error) {
	text, _, err := c.admin.CreateKey(ctx, c.actor, n)
	return text, err
}

// UnknownModels are those of names that no model and no alias of the configuration has. Models that servers report need no
// entry, so they may exist all the same.
func (c *Commands) UnknownModels(ctx context.Context, names []string) ([]string, error) {
	var unknown []string
	err := c.db.View(ctx, func(r admin.Reader) error {
		catalog, err := r.Catalog(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if llm.IsPattern(name) ||
				slices.ContainsFunc(catalog.Models, func(m backend.ModelConfig) bool { return m.Name == name }) ||
				slices.ContainsFunc(catalog.Aliases, func(a routing.Alias) bool { return a.Name == name }) {
				continue
			}
			unknown = append(unknown, name)
		}
		return nil
	})
	return unknown, err
}

// Keys lists keys.
func (c *Commands) Keys(ctx context.Context) ([]KeyInfo, error) { return c.admin.Keys(ctx, c.actor) }

// RevokeKey ends a key.
func (c *Commands) RevokeKey(ctx context.Context, prefix string) error {
	return c.admin.RevokeKey(ctx, c.actor, prefix)
}

// Apply makes the configuration as the cluster file says. name is what errors call the file.
func (c *Commands) Apply(ctx context.Context, name string, file []byte, o ApplyOptions) ([]Difference, error) {
	parsed, err := admin.ParseCluster(name, file)
	if err != nil {
		return nil, err
	}
	return c.admin.Apply(ctx, c.actor, parsed, o)
}

// Export returns the configuration as a cluster file.
func (c *Commands) Export(ctx context.Context) ([]byte, error) { return c.admin.Export(ctx, c.actor) }

// BackendState is a backend as configured and as it answers now.
type BackendState struct {
	Backend Backend
	Probe   Probe
	Err     error // why the probe failed; nil if it answered
}

// maxProbes is how many backends are asked at once; one that is away takes seconds.
const maxProbes = 16

// Backends lists the configured backends and asks each what it serves.
func (c *Commands) Backends(ctx context.Context) ([]BackendState, error) {
	catalog, err := c.admin.Catalog(ctx, c.actor)
	if err != nil {
		return nil, err
	}
	out := make([]BackendState, len(catalog.Backends))
	var asking errgroup.Group
	asking.SetLimit(maxProbes)
	for i, b := range catalog.Backends {
		asking.Go(func() error {
			p, err := backend.ProbeConfigured(ctx, b)
			out[i] = BackendState{Backend: b, Probe: p, Err: err}
			return nil
		})
	}
	_ = asking.Wait() // each result has its own error
	return out, ctx.Err()
}

// SetIntent enables, drains or disables a backend.
func (c *Commands) SetIntent(ctx context.Context, name string, intent Intent) error {
	return c.admin.SetIntent(ctx, c.actor, name, intent)
}

// ProbeBackend finds out what server answers at an address. key may be empty.
func ProbeBackend(ctx context.Context, address, key string) (Probe, error) {
	return backend.ProbeAddress(ctx, address, key)
}

// Migrate brings the schema up to date.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger) (applied []Migration, err error) {
	db, err := connect(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Migrate(ctx)
}

// Migrations lists the steps of the schema.
func Migrations(ctx context.Context, cfg Config, log *slog.Logger) (steps []Migration, err error) {
	db, err := connect(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Migrations(ctx)
}

// ProbeReason says in words why a probe failed; empty if it did not.
func ProbeReason(err error) string {
	if err == nil {
		return ""
	}
	return backend.ReasonOf(err)
}
