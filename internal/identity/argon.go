package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// hashCost is a set of Argon2id parameters (RFC 9106).
type hashCost struct {
	memoryKiB uint32
	passes    uint32
}

var (
	// A key is 256 random bits: the hash only has to make a stolen table worthless.
	keyCost = hashCost{memoryKiB: 8 << 10, passes: 1}
	// A password is guessable: the hash has to be dear.
	passwordCost = hashCost{memoryKiB: 64 << 10, passes: 3}
)

const (
	argonLanes = 1
	saltLen    = 16
	hashLen    = 32
)

// hash returns the PHC string of input under cost.
func hash(input []byte, cost hashCost) (string, error) {
	salt := make([]byte, saltLen)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("salt: %w", err)
	}
	sum := argon2.IDKey(input, salt, cost.passes, cost.memoryKiB, argonLanes, hashLen)
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, cost.memoryKiB, cost.passes, argonLanes, enc(salt), enc(sum)), nil
}

var errHash = errors.New("stored hash is malformed")

// verify reports whether phc is the hash of input. It compares in constant time.
func verify(input []byte, phc string) (bool, error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errHash
	}
	var version int
	var memory, passes uint32
	var lanes uint8
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false, errHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &lanes); err != nil {
		return false, errHash
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, errHash
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(want) == 0 {
		return false, errHash
	}
	got := argon2.IDKey(input, salt, passes, memory, lanes, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// HashPassword returns the PHC string of a password.
func HashPassword(password string) (string, error) { return hash([]byte(password), passwordCost) }

// VerifyPassword reports whether password belongs to phc.
func VerifyPassword(password, phc string) (bool, error) { return verify([]byte(password), phc) }
