// Package secret holds the server's key ring: it seals secrets at rest and makes keyed digests.
//
// A ring has one current key, which everything new is made with, and any number of older ones, which only open what they
// sealed. Each use derives its own subkey by HKDF, so that no two purposes share key material. Values carry the id of
// their key, so a ring can be rotated at any time and old values are sealed anew at leisure.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Purpose separates the subkeys of a ring.
type Purpose string

// Purposes.
const (
	PurposeSeal    Purpose = "seal"    // secrets at rest
	PurposeKeyTag  Purpose = "key-tag" // tags of API keys and the cache of verified ones
	PurposeSession Purpose = "session" // browser sessions
	PurposeAudit   Purpose = "audit"   // chain of the audit record
	PurposeContent Purpose = "content" // sealed reasoning and signatures given to clients
	PurposeTenant  Purpose = "tenant"  // per-tenant cache salts
	keyBytes               = 32
	idBytes                = 4
)

// ErrLostKey says that a value was sealed with a key that the ring does not hold any more.
var ErrLostKey = errors.New("sealed with a key that is not in the key ring")

// Ring is an ordered set of keys, the current one first. It is immutable and safe for concurrent use.
type Ring struct {
	keys []ringKey
}

type ringKey struct {
	id  string
	raw []byte
}

// Generate returns a fresh key in the text form that [Parse] reads.
func Generate() (string, error) {
	raw := make([]byte, keyBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("random secret key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// Parse reads a ring: keys of 32 bytes in base64 or base64url, the current one first, separated by commas or white
// space.
func Parse(text string) (*Ring, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' || r == '\t' })
	if len(fields) == 0 {
		return nil, errors.New("no key; want 32 bytes in base64")
	}
	r := &Ring{}
	for i, f := range fields {
		raw, err := decode(f)
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("key %d: want 32 bytes in base64", i+1)
		}
		sum := sha256.Sum256(raw)
		id := base64.RawURLEncoding.EncodeToString(sum[:idBytes])
		r.keys = append(r.keys, ringKey{id: id, raw: raw})
	}
	return r, nil
}

func decode(s string) ([]byte, error) {
	s = strings.TrimRight(s, "=")
	if strings.ContainsAny(s, "+/") {
		return base64.RawStdEncoding.DecodeString(s)
	}
	return base64.RawURLEncoding.DecodeString(s)
}

// Current is the id of the key that new values are made with.
func (r *Ring) Current() string { return r.keys[0].id }

func (r *Ring) find(id string) (ringKey, bool) {
	for _, k := range r.keys {
		if k.id == id {
			return k, true
		}
	}
	return ringKey{}, false
}

func (k ringKey) derive(p Purpose) []byte {
	sub, err := hkdf.Key(sha256.New, k.raw, nil, "mindrouter/"+string(p), keyBytes)
	if err != nil {
		panic(err) // only for absurd lengths
	}
	return sub
}

// Seal encrypts plain under the current key with AES-256-GCM and binds it to context, which Open must be given again:
// a value cannot be moved to another row.
func (r *Ring) Seal(plain []byte, context string) (string, error) {
	key := r.keys[0]
	aead, err := newGCM(key.derive(PurposeSeal))
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("nonce: %w", err)
	}
	box := aead.Seal(nonce, nonce, plain, []byte(context))
	return key.id + "." + base64.RawURLEncoding.EncodeToString(box), nil
}

// Open decrypts what Seal made. It returns ErrLostKey if the key has left the ring.
func (r *Ring) Open(sealed, context string) ([]byte, error) {
	id, text, ok := strings.Cut(sealed, ".")
	if !ok {
		return nil, errors.New("sealed value is malformed")
	}
	key, ok := r.find(id)
	if !ok {
		return nil, ErrLostKey
	}
	box, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("sealed value: %w", err)
	}
	aead, err := newGCM(key.derive(PurposeSeal))
	if err != nil {
		return nil, err
	}
	if len(box) < aead.NonceSize() {
		return nil, errors.New("sealed value is too short")
	}
	plain, err := aead.Open(nil, box[:aead.NonceSize()], box[aead.NonceSize():], []byte(context))
	if err != nil {
		return nil, errors.New("sealed value does not open: wrong key, or it was changed")
	}
	return plain, nil
}

// Stale reports whether sealed was made with a key that is not the current one.
func (r *Ring) Stale(sealed string) bool { return !strings.HasPrefix(sealed, r.Current()+".") }

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// MAC makes keyed digests for one purpose. It is safe for concurrent use.
type MAC struct {
	ids  []string
	keys map[string][]byte
}

// MAC returns the ring's digests for purpose p.
func (r *Ring) MAC(p Purpose) *MAC {
	m := &MAC{keys: map[string][]byte{}}
	for _, k := range r.keys {
		m.ids = append(m.ids, k.id)
		m.keys[k.id] = k.derive(p)
	}
	return m
}

// Sum returns HMAC-SHA256 of data under the current key, and that key's id.
func (m *MAC) Sum(data []byte) (sum [32]byte, keyID string) {
	return digest(m.keys[m.ids[0]], data), m.ids[0]
}

// SumWith returns the digest under the key named keyID; false if the ring does not hold it.
func (m *MAC) SumWith(keyID string, data []byte) ([32]byte, bool) {
	key, ok := m.keys[keyID]
	if !ok {
		return [32]byte{}, false
	}
	return digest(key, data), true
}

func digest(key, data []byte) (out [32]byte) {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	h.Sum(out[:0])
	return out
}
