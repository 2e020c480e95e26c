package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// A key reads mr2_ + 43 characters of base62 + 6 characters of checksum. 43 characters hold 256 bits. The checksum lets
// junk be refused without a look-up.
const (
	keyScheme   = "mr2_"
	secretLen   = 43
	checksumLen = 6
	// PrefixLen is how many characters after mr2_ are stored in the clear.
	PrefixLen = 8

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

var errMalformed = errors.New("not an API key")

// newSecret returns a fresh key in full and its prefix.
func newSecret() (full, prefix string, err error) {
	limit := big.NewInt(int64(len(base62)))
	var b strings.Builder
	for range secretLen {
		n, err := rand.Int(rand.Reader, limit)
		if err != nil {
			return "", "", fmt.Errorf("random key: %w", err)
		}
		b.WriteByte(base62[n.Int64()])
	}
	body := b.String()
	return keyScheme + body + checksum(body), body[:PrefixLen], nil
}

// parseSecret checks form and checksum and returns the prefix. It takes no time that depends on stored keys.
func parseSecret(full string) (prefix string, err error) {
	body, ok := strings.CutPrefix(full, keyScheme)
	if !ok || len(body) != secretLen+checksumLen {
		return "", errMalformed
	}
	if checksum(body[:secretLen]) != body[secretLen:] {
		return "", errMalformed
	}
	return body[:PrefixLen], nil
}

// checksum is CRC-32C in base62. It finds typing errors; it is no protection.
func checksum(body string) string {
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	var out [checksumLen]byte
	for i := range out {
		out[checksumLen-1-i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// digest is what the slow hash runs over, so that its cost does not depend on the length of the input.
func digest(full string) []byte {
	d := sha256.Sum256([]byte(full))
	return d[:]
}
