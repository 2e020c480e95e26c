package identity_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// plainMAC is a MAC without a key: enough to test with.
type plainMAC struct{}

func (plainMAC) Sum(data []byte) ([32]byte, string) { return sha256.Sum256(data), "test" }
func (plainMAC) SumWith(id string, data []byte) ([32]byte, bool) {
	return sha256.Sum256(data), id == "test"
}

type memory struct {
	keys   []identity.Key
	users  map[identity.UserID]identity.User
	groups map[identity.GroupID]identity.Group
	reads  atomic.Int64
	down   error
}

func (m *memory) KeysByPrefix(_ context.Context, prefix string) ([]identity.Key, error) {
	m.reads.Add(1)
	var out []identity.Key
	for _, k := range m.keys {
		if k.Prefix == prefix {
			out = append(out, k)
		}
	}
	return out, m.down
}

func (m *memory) User(_ context.Context, id identity.UserID) (identity.User, error) {
	u, ok := m.users[id]
	if !ok {
		return u, identity.ErrNotFound
	}
	return u, m.down
}

func (m *memory) Group(_ context.Context, id identity.GroupID) (identity.Group, error) {
	g, ok := m.groups[id]
	if !ok {
		return g, identity.ErrNotFound
	}
	return g, m.down
}

type world struct {
	*memory
	keys    *identity.Keys
	version atomic.Uint64
	secret  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{memory: &memory{
		users:  map[identity.UserID]identity.User{"u": {ID: "u", Name: "alice", GroupID: "g"}},
		groups: map[identity.GroupID]identity.Group{"g": {ID: "g", Name: "staff", Weight: 2, Models: []string{"*"}}},
	}}
	key, secret, err := identity.Issue(identity.Key{UserID: "u", Scopes: []identity.Scope{identity.ScopeInference}}, plainMAC{})
	if err != nil {
		t.Fatal(err)
	}
	w.memory.keys, w.secret = []identity.Key{key}, secret
	w.keys = identity.NewKeys(identity.KeysConfig{Store: w.memory, MAC: plainMAC{}, Version: w.version.Load, Hashers: 2})
	return w
}

func (w *world) authenticate(t *testing.T, secret string) (identity.Principal, error) {
	t.Helper()
	return w.keys.Authenticate(t.Context(), secret, "192.0.2.1")
}

func TestIssuedKeyAuthenticates(t *testing.T) {
	w := newWorld(t)
	p, err := w.authenticate(t, w.secret)
	if err != nil || p.User.Name != "alice" || p.Weight() != 2 {
		t.Fatalf("principal %+v, error %v", p, err)
	}
	if !strings.HasPrefix(w.secret, "mr2_") || len(w.secret) != 4+43+6 {
		t.Errorf("key %q has the wrong form", w.secret)
	}
	if k := w.memory.keys[0]; strings.Contains(fmt.Sprintf("%+v", k), w.secret[12:]) {
		t.Error("the stored key contains the secret")
	}
}

func TestJunkIsRefusedWithoutALookup(t *testing.T) {
	w := newWorld(t)
	flipped := []byte(w.secret)
	flipped[20] ^= 1
	for _, secret := range []string{"", "mr2_", "sk-something", w.secret + "x", w.secret[:30], string(flipped)} {
		if _, err := w.authenticate(t, secret); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%q: %v, want ErrUnauthenticated", secret, err)
		}
	}
	if n := w.reads.Load(); n != 0 {
		t.Errorf("%d look-ups for junk, want 0", n)
	}
}

func TestVerifiedKeyIsNotLookedUpAgainUntilSomethingChanges(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		if _, err := w.authenticate(t, w.secret); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.reads.Load(); n != 1 {
		t.Errorf("%d look-ups, want 1", n)
	}
	w.groups["g"] = identity.Group{ID: "g", Weight: 7}
	w.version.Add(1)
	p, err := w.authenticate(t, w.secret)
	if err != nil || p.Weight() != 7 {
		t.Errorf("weight %v (%v), want the new 7 at once", p.Weight(), err)
	}
}

func TestRevocationExpiryAndDisablingTakeEffect(t *testing.T) {
	for name, change := range map[string]func(*world){
		"revoked":         func(w *world) { w.memory.keys[0].RevokedAt = time.Now() },
		"key disabled":    func(w *world) { w.memory.keys[0].Disabled = true },
		"key deleted":     func(w *world) { w.memory.keys = nil },
		"expired":         func(w *world) { w.memory.keys[0].ExpiresAt = time.Now().Add(-time.Second) },
		"user disabled":   func(w *world) { w.users["u"] = identity.User{ID: "u", GroupID: "g", Disabled: true} },
		"user deleted":    func(w *world) { delete(w.users, "u") },
		"group disabled":  func(w *world) { w.groups["g"] = identity.Group{ID: "g", Disabled: true} },
		"secret replaced": func(w *world) { w.memory.keys[0].Tag++; w.memory.keys[0].ID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if _, err := w.authenticate(t, w.secret); err != nil {
				t.Fatal(err)
			}
			change(w)
			w.version.Add(1)
			if _, err := w.authenticate(t, w.secret); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("error %v, want ErrUnauthenticated", err)
			}
		})
	}
}

func TestVerifiedKeyWorksWhileTheStoreIsDown(t *testing.T) {
	w := newWorld(t)
	if _, err := w.authenticate(t, w.secret); err != nil {
		t.Fatal(err)
	}
	w.down = errors.New("database is away")
	w.version.Add(1)
	if _, err := w.authenticate(t, w.secret); err != nil {
		t.Errorf("known key: %v, want it to go on", err)
	}
	fresh := newWorld(t)
	fresh.down = w.down
	if _, err := fresh.authenticate(t, fresh.secret); err == nil || errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("unknown key: %v, want the store's error, not a refusal", err)
	}
}

func TestExpiryNeedsNoChangeOfVersion(t *testing.T) {
	w := newWorld(t)
	w.memory.keys[0].ExpiresAt = time.Now().Add(3 * time.Second) // longer than the slow hash of the first use
	if _, err := w.authenticate(t, w.secret); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		if _, err := w.authenticate(t, w.secret); errors.Is(err, identity.ErrUnauthenticated) {
			return
		}
	}
	t.Error("an expired key still works from the cache")
}

func TestPrincipalTakesTheNarrowest(t *testing.T) {
	p := identity.Principal{
		User:  identity.User{ID: "u", Limits: identity.Limits{RequestsPerMinute: 50, MaxConcurrent: 9}},
		Group: identity.Group{ID: "g", Models: []string{"a", "b"}, Boundary: llm.BoundaryCampus, Limits: identity.Limits{RequestsPerMinute: 20}},
		Key:   identity.Key{ID: "k", Models: []string{"b", "c"}},
	}
	for name, want := range map[string]bool{"a": false, "b": true, "c": false} {
		if p.Allows(name) != want {
			t.Errorf("Allows(%s) = %t, want %t", name, !want, want)
		}
	}
	if p.Boundary() != llm.BoundaryCampus {
		t.Errorf("boundary %s, want campus", p.Boundary())
	}
	for _, b := range p.Bounds() {
		if b.Subject.Scope == "user" && (b.Limits.RequestsPerMinute != 20 || b.Limits.MaxConcurrent != 9) {
			t.Errorf("user limits %+v, want the narrower of user and group", b.Limits)
		}
	}
}

func TestPasswordHash(t *testing.T) {
	h, err := identity.HashPassword("correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{"correct horse battery": true, "wrong": false, "": false} {
		if ok, err := identity.VerifyPassword(password, h); err != nil || ok != want {
			t.Errorf("VerifyPassword(%q) = %t, %v; want %t", password, ok, err, want)
		}
	}
	if _, err := identity.VerifyPassword("x", "$argon2id$broken"); err == nil {
		t.Error("a malformed hash was accepted")
	}
}

// TestAFreshKeyIsHashedOnce sends many requests with a key that nobody has used yet. It is not parallel: it counts memory,
// of which every hash takes 8 MiB.
func TestAFreshKeyIsHashedOnce(t *testing.T) {
	w := newWorld(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := w.authenticate(t, w.secret); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib < 8 || mib > 8*6 {
		t.Errorf("%d MiB for 50 requests with one key; want some of the 8 MiB of a hash, for the one or two that came first", mib)
	}
}
