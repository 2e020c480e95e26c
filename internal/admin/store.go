package admin

import (
	"context"
	"errors"
	"time"

	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/routing"
)

// Errors of a Store. Callers branch with errors.Is.
var (
	// ErrInUse says that something cannot be deleted because other things refer to it.
	ErrInUse = errors.New("is in use")
)

// Reader reads the configuration. Methods that return one thing return identity.ErrNotFound if it is not there; lists
// are sorted by name.
type Reader interface {
	Groups(ctx context.Context) ([]identity.Group, error)
	GroupByName(ctx context.Context, name string) (identity.Group, error)
	Users(ctx context.Context) ([]identity.User, error)
	UserByName(ctx context.Context, name string) (identity.User, error)
	// Keys returns keys newest first, those of one user if user is not empty.
	Keys(ctx context.Context, user identity.UserID) ([]identity.Key, error)
	KeysByPrefix(ctx context.Context, prefix string) ([]identity.Key, error)
	Catalog(ctx context.Context) (backend.Catalog, error)
}

// Tx is one transaction. Save methods insert or replace by ID and return identity.ErrExists if another has the name.
type Tx interface {
	Reader
	SaveGroup(ctx context.Context, g identity.Group) error
	DeleteGroup(ctx context.Context, id identity.GroupID) error // ErrInUse if it has users or service keys
	SaveUser(ctx context.Context, u identity.User) error
	SaveKey(ctx context.Context, k identity.Key) error
	SaveNode(ctx context.Context, n backend.Node) error
	DeleteNode(ctx context.Context, id string) error
	SaveBackend(ctx context.Context, b backend.Config) error
	DeleteBackend(ctx context.Context, id string) error
	SaveModel(ctx context.Context, m backend.ModelConfig) error // by name
	DeleteModel(ctx context.Context, name string) error
	SaveAlias(ctx context.Context, a routing.Alias) error // by name
	DeleteAlias(ctx context.Context, name string) error
	SaveSettings(ctx context.Context, s backend.Settings) error
	RecordChange(ctx context.Context, c Change) error
}

// Store is the database as this package needs it.
type Store interface {
	// View runs fn on a consistent snapshot.
	View(ctx context.Context, fn func(Reader) error) error
	// InTx runs fn in one transaction: all of it is committed, or nothing if fn fails. A commit raises the catalog
	// version, which every running server notices within a second.
	InTx(ctx context.Context, fn func(Tx) error) error
}

// Change is the record of one change of configuration.
type Change struct {
	ID     string
	At     time.Time
	Actor  string // name of the user, or of the operating-system account at the command line
	Via    string // cli, api, web
	Action string // such as user.create
	Target string // such as user/alice
	// Detail is what changed, in words or JSON, without secrets.
	Detail string
}
