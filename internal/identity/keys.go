package identity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Store is what the package reads. Every method returns ErrNotFound if there is nothing.
type Store interface {
	// KeysByPrefix returns all keys with the prefix, revoked ones too; usually one. None is not an error.
	KeysByPrefix(ctx context.Context, prefix string) ([]Key, error)
	User(ctx context.Context, id UserID) (User, error)
	Group(ctx context.Context, id GroupID) (Group, error)
}

// MAC is a keyed digest with the id of the key that made it. secret's ring implements it.
type MAC interface {
	// Sum returns the digest of data under the current key, and that key's id.
	Sum(data []byte) (sum [32]byte, keyID string)
	// SumWith returns the digest under the key named keyID; false if the ring has lost it.
	SumWith(keyID string, data []byte) ([32]byte, bool)
}

// KeysConfig configures [NewKeys].
type KeysConfig struct {
	Store Store
	MAC   MAC
	// Version returns a number that grows with every change of users, groups and keys. A verified key is read again
	// when it has grown.
	Version func() uint64
	// Hashers bounds how many slow hashes run at once.
	Hashers int
}

// Keys checks API keys. It is safe for concurrent use.
type Keys struct {
	store   Store
	mac     MAC
	version func() uint64
	hashers *hashLimiter

	mu       sync.RWMutex
	verified map[[32]byte]verifiedKey
}

type verifiedKey struct {
	id        KeyID
	version   uint64
	principal Principal
}

// maxVerified bounds the cache of verified keys: at 100,000 keys it holds a few dozen MiB.
const maxVerified = 100_000

// NewKeys returns a checker of API keys.
func NewKeys(cfg KeysConfig) *Keys {
	return &Keys{
		store:    cfg.Store,
		mac:      cfg.MAC,
		version:  cfg.Version,
		hashers:  newHashLimiter(max(1, cfg.Hashers)),
		verified: map[[32]byte]verifiedKey{},
	}
}

// Authenticate returns the principal of a key's secret. addr is the client's address, by which slow hashes are shared
// out fairly. The error is ErrUnauthenticated for anything that is not a live key of a live account, or what the store
// said. A key that was verified before goes on working while the store is down.
func (k *Keys) Authenticate(ctx context.Context, secret, addr string) (Principal, error) {
	prefix, err := parseSecret(secret)
	if err != nil {
		return Principal{}, ErrUnauthenticated
	}
	version := k.version()
	sum, _ := k.mac.Sum([]byte(secret))
	known, ok := k.lookup(sum)
	if ok && known.version == version {
		return check(known.principal)
	}
	p, err := k.read(ctx, secret, prefix, addr, known.id)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		k.forget(sum)
		return Principal{}, err
	case err != nil && ok && known.principal.Key.ID != "" && ctx.Err() == nil:
		return check(known.principal) // the store is down; what was true last goes on
	case err != nil:
		return Principal{}, err
	}
	k.remember(sum, verifiedKey{id: p.Key.ID, version: version, principal: p})
	return check(p)
}

func check(p Principal) (Principal, error) {
	if !p.Key.Live(time.Now()) || p.User.Disabled || p.Group.Disabled {
		return Principal{}, ErrUnauthenticated
	}
	return p, nil
}

// read finds the key of secret in the store. known is the key that this secret was verified for before, if any.
func (k *Keys) read(ctx context.Context, secret, prefix, addr string, known KeyID) (Principal, error) {
	keys, err := k.store.KeysByPrefix(ctx, prefix)
	if err != nil {
		return Principal{}, fmt.Errorf("read keys: %w", err)
	}
	for _, key := range keys {
		if key.ID != known {
			match, err := k.matches(ctx, key, secret, addr)
			if err != nil {
				return Principal{}, err
			}
			if !match {
				continue
			}
		}
		return k.principal(ctx, key)
	}
	return Principal{}, ErrUnauthenticated
}

// unread is the version of a secret that is known to fit its key, while whose the key is must still be read.
const unread = math.MaxUint64

func (k *Keys) matches(ctx context.Context, key Key, secret, addr string) (bool, error) {
	sum, ok := k.mac.SumWith(key.TagKey, []byte(secret))
	if ok && tagOf(sum) != key.Tag {
		return false, nil
	}
	release, err := k.hashers.acquire(ctx, addr)
	if err != nil {
		return false, err
	}
	defer release()
	// Of many requests that come with a fresh key at once, the first has verified it while the others waited.
	current, _ := k.mac.Sum([]byte(secret))
	if known, ok := k.lookup(current); ok && known.id == key.ID {
		return true, nil
	}
	match, err := verify(digest(secret), key.Hash)
	if match {
		k.remember(current, verifiedKey{id: key.ID, version: unread})
	}
	return match, err
}

func (k *Keys) principal(ctx context.Context, key Key) (Principal, error) {
	user, err := k.store.User(ctx, key.UserID)
	if err != nil {
		return Principal{}, accountErr(err)
	}
	groupID := user.GroupID
	if key.Service {
		groupID = key.GroupID
	}
	group, err := k.store.Group(ctx, groupID)
	if err != nil {
		return Principal{}, accountErr(err)
	}
	return Principal{User: user, Group: group, Key: key}, nil
}

func accountErr(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrUnauthenticated
	}
	return fmt.Errorf("read account: %w", err)
}

func (k *Keys) lookup(sum [32]byte) (verifiedKey, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok := k.verified[sum]
	return v, ok
}

func (k *Keys) remember(sum [32]byte, v verifiedKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.verified) >= maxVerified {
		for s := range k.verified { // any one: the next use reads it again
			delete(k.verified, s)
			break
		}
	}
	k.verified[sum] = v
}

func (k *Keys) forget(sum [32]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.verified, sum)
}

func tagOf(sum [32]byte) uint16 { return uint16(sum[0])<<8 | uint16(sum[1]) }

// Issue fills in the secret parts of key and returns the secret, which is nowhere else. The caller stores the key.
func Issue(key Key, mac MAC) (Key, string, error) {
	secret, prefix, err := newSecret()
	if err != nil {
		return Key{}, "", err
	}
	h, err := hash(digest(secret), keyCost)
	if err != nil {
		return Key{}, "", err
	}
	sum, tagKey := mac.Sum([]byte(secret))
	if key.ID == "" {
		key.ID = KeyID(uuid.Must(uuid.NewV7()).String())
	}
	key.Prefix, key.Tag, key.TagKey, key.Hash = prefix, tagOf(sum), tagKey, h
	return key, secret, nil
}
