package dialect

import (
	"strconv"
	"strings"
)

// Version is the first three numbers of a server's version.
type Version [3]int

// ParseVersion reads a version such as 0.11.1rc2.dev3+gabc. It reports false without at least a major and a minor.
func ParseVersion(s string) (Version, bool) {
	var v Version
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 4)
	for i := range v {
		if i >= len(parts) {
			return v, i > 1
		}
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return v, i > 1
		}
		v[i] = n
	}
	return v, true
}

// Before reports whether v is older than major.minor.patch.
func (v Version) Before(major, minor, patch int) bool {
	w := Version{major, minor, patch}
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}
