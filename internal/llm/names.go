package llm

import "strings"

// IsPattern reports whether the name of an alias, or of a model in a list of those allowed, stands for many names.
func IsPattern(name string) bool { return strings.Contains(name, "*") }

// MatchName reports whether name is pattern, in which each * stands for any text, also none.
func MatchName(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}
