package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/store"
)

func version(t *testing.T, s *store.Store) uint64 {
	t.Helper()
	v, err := s.CatalogVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// touch makes some change and returns the version after it.
func touch(t *testing.T, s *store.Store) uint64 {
	t.Helper()
	change(t, s, func(ctx context.Context, tx admin.Tx) error {
		return tx.SaveSettings(ctx, backend.Settings{})
	})
	return version(t, s)
}

// watch starts a watcher for the test and returns what it tells.
func watch(t *testing.T, s *store.Store) <-chan uint64 {
	t.Helper()
	told := make(chan uint64, 1000) // more than any test changes: the watcher never waits
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(v uint64) error { told <- v; return nil }) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("watch ended with %v", err)
			}
		case <-time.After(deadline):
			t.Error("watch did not end with its context")
		}
	})
	return told
}

// await waits until the watcher tells of version want; versions must grow.
func await(t *testing.T, told <-chan uint64, want uint64) {
	t.Helper()
	timeout := time.After(deadline)
	last := uint64(0)
	for {
		select {
		case v := <-told:
			if v <= last {
				t.Errorf("told of version %d after %d", v, last)
			}
			if last = v; v >= want {
				return
			}
		case <-timeout:
			t.Fatalf("not told of version %d; last was %d", want, last)
		}
	}
}

var versionTests = []test{
	migrated("a version that could not be taken is told again", func(t *testing.T, s *store.Store) {
		told := make(chan uint64, 10)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			first := true
			ended <- s.Watch(ctx, func(v uint64) error {
				told <- v
				if first {
					first = false
					return errors.New("busy")
				}
				return nil
			})
		}()
		for range 2 {
			select {
			case v := <-told:
				if v != version(t, s) {
					t.Errorf("told %d", v)
				}
			case <-time.After(deadline):
				t.Fatal("not told again")
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}),
	migrated("every commit raises the version, seen through every store", func(t *testing.T, s *store.Store) {
		other := another(t, s, ringOf(t, newKey(t)))
		v := version(t, s)
		for i := range 3 {
			touch(t, []*store.Store{s, other}[i%2])
			next := version(t, s)
			if next <= v || version(t, other) != next {
				t.Errorf("version %d after %d; the other store says %d", next, v, version(t, other))
			}
			v = next
		}
		c := backend.Catalog{}
		view(t, s, func(ctx context.Context, r admin.Reader) (err error) { c, err = r.Catalog(ctx); return err })
		if c.Version != v {
			t.Errorf("catalog says version %d, want %d", c.Version, v)
		}
	}),
	migrated("a watcher is told of changes by anybody", func(t *testing.T, s *store.Store) {
		other := another(t, s, ringOf(t, newKey(t)))
		told := watch(t, s)
		await(t, told, version(t, s))
		await(t, told, touch(t, s))
		await(t, told, touch(t, other))
	}),
	migrated("a watcher begins with the version that it finds", func(t *testing.T, s *store.Store) {
		// Who read the catalog before it began to watch must learn of what happened in between.
		v := touch(t, s)
		await(t, watch(t, s), v)
	}),
	migrated("a watcher is not told of what was rolled back", func(t *testing.T, s *store.Store) {
		told := watch(t, s)
		await(t, told, version(t, s))
		broken := errors.New("broken")
		err := s.InTx(t.Context(), func(tx admin.Tx) error {
			return errors.Join(tx.SaveSettings(t.Context(), backend.Settings{}), broken)
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		v := touch(t, s)
		if got := <-told; got != v {
			t.Errorf("told of version %d, want %d alone", got, v)
		}
	}),
	migrated("a watcher ends with its context", func(t *testing.T, s *store.Store) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := s.Watch(ctx, func(uint64) error { return nil }); err != nil {
			t.Errorf("watch on a context that has ended: %v", err)
		}
	}),
	migrated("the clock is that of the database", func(t *testing.T, s *store.Store) {
		at, err := s.Now(t.Context())
		if err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("now is %v, %v; ours is %v", at, err, time.Now())
		}
	}),
}
