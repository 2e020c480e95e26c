package store

import (
	"context"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// newLocker returns PostgreSQL's advisory lock, which lets one server migrate while others wait up to five minutes.
func newLocker() (lock.SessionLocker, error) {
	return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300), lock.WithUnlockTimeout(1, 60))
}

// lockMigration lets one process at a time migrate a SQLite file: a server and a command that start at the same moment on
// a fresh directory. On PostgreSQL the provider holds a lock of its own.
func (s *Store) lockMigration(ctx context.Context, p *goose.Provider) (unlock func() error, err error) {
	nothing := func() error { return nil }
	if s.Kind() != SQLite {
		return nothing, nil
	}
	// Without a table of versions there is no answer yet: then something is pending.
	if pending, err := p.HasPending(ctx); err == nil && !pending {
		return nothing, nil
	}
	l := flock.New(SQLitePath(s.url) + ".migrate.lock")
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, err
	}
	return l.Unlock, nil
}
