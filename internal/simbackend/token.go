package simbackend

import (
	"iter"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxPiece is how many bytes of text, white space before it not counted, make one token at most.
const maxPiece = 8

// imageTokens is what one image adds to a prompt.
const imageTokens = 256

// pieces yields the tokens of a text; joined they are the text.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := pieceLen(text)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// countTokens returns how many tokens the text has.
func countTokens(text string) int {
	n := 0
	for range pieces(text) {
		n++
	}
	return n
}

func pieceLen(text string) int {
	n := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	for size := 0; n < len(text); {
		r, width := utf8.DecodeRuneInString(text[n:])
		if unicode.IsSpace(r) || size+width > maxPiece {
			break
		}
		size += width
		n += width
	}
	return n
}

// vocabulary gives tokens numbers and finds them back. It is safe for concurrent use.
type vocabulary struct {
	mu    sync.Mutex
	ids   map[string]int
	words []string
}

// maxVocabulary bounds the memory of a long-lived server; later new tokens share the number 0, the unknown token.
const maxVocabulary = 1 << 20

func newVocabulary() *vocabulary {
	return &vocabulary{ids: map[string]int{}, words: []string{"<unk>"}}
}

func (v *vocabulary) encode(text string) []int {
	v.mu.Lock()
	defer v.mu.Unlock()
	ids := []int{}
	for p := range pieces(text) {
		id, ok := v.ids[p]
		if !ok && len(v.words) < maxVocabulary {
			id = len(v.words)
			v.ids[p] = id
			v.words = append(v.words, p)
		}
		ids = append(ids, id)
	}
	return ids
}

// decode returns the text of the tokens. A number that was never given is the unknown token.
func (v *vocabulary) decode(ids []int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	for _, id := range ids {
		if id > 0 && id < len(v.words) {
			b.WriteString(v.words[id])
		} else {
			b.WriteString(" " + v.words[0])
		}
	}
	return b.String()
}
