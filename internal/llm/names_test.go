package llm_test

import (
	"testing"

	"mindrouter/internal/llm"
)

func TestMatchName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"*", "", true},
		{"*", "a/b:c", true},
		{"claude-*", "claude-haiku-4-5", true},
		{"claude-*", "claude-", true},
		{"claude-*", "my-claude-x", false},
		{"*-haiku-*", "claude-haiku-4", true},
		{"*-haiku-*", "claude-haiku", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "axxbyyc", true},
		{"a*b*c", "ac", false},
		{"ab*ba", "aba", false},
		{"a*b*b", "ab", false},
		{"", "a", false},
	} {
		if got := llm.MatchName(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.name, got)
		}
	}
}
