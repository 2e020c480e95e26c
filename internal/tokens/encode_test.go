package tokens

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCountingByWordsEqualsCountingWhole(t *testing.T) {
	t.Parallel()
	var w words
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\v", "\u2028", "'s", "'LL", "it's", "...", "//", "123", "45678", "{\"a\":1}", "Word", "word", "\u4e16\u754c", "e\u0301", "\U0001f600", "="}),
		rapid.StringN(0, 6, -1),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		if got, want := w.count(text), len(vocabulary().EncodeOrdinary(text)); got != want {
			t.Fatalf("count(%q) = %d, want %d", text, got, want)
		}
	})
}

func TestRememberedWordsAreBounded(t *testing.T) {
	t.Parallel()
	w := words{counts: map[string]int{}}
	for i := range maxWords {
		w.counts[strings.Repeat("x", i%40)+string(rune(i))] = 1
	}
	w.count("a new word arrives")
	if len(w.counts) > maxWords {
		t.Errorf("%d words are kept, want at most %d", len(w.counts), maxWords)
	}
}
