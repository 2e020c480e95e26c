package tokens

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// vocabulary loads the offline vocabulary once for the process.
var vocabulary = sync.OnceValue(func() *tiktoken.Tiktoken {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	enc, err := tiktoken.GetEncoding(tiktoken.MODEL_O200K_BASE)
	if err != nil {
		panic("tokens: the embedded vocabulary is broken: " + err.Error())
	}
	return enc
})

// Bounds on the work for one text. Merging is quadratic in the length of a word, and a hostile prompt is one word;
// cutting a word makes the count too high by less than one token per piece.
const (
	maxRun    = 256     // bytes of one word or of white space
	maxSample = 1 << 20 // bytes that are encoded of one text; the rest is taken to be alike
)

// Bounds on the memory for words.
const (
	maxWord  = 32 // bytes
	maxWords = 1 << 16
)

// words remembers how many tokens a word has. The library takes a millisecond for a page of text, nearly all of it in
// its regular expression, and texts are made of the same words. The zero value is ready; safe for concurrent use.
type words struct {
	mu     sync.RWMutex
	counts map[string]int
}

// count returns the number of tokens of text.
//
// A space after something that is not white space always begins a token in this vocabulary, and what comes before it
// does not change what comes after. So the pieces between such spaces can be counted one by one.
func (w *words) count(text string) int {
	whole := len(text)
	text = text[:min(whole, maxSample)]
	n := 0
	var misses []string
	w.mu.RLock()
	for rest := text; rest != ""; {
		end := wordEnd(rest)
		if known, ok := w.counts[rest[:end]]; ok {
			n += known
		} else {
			misses = append(misses, rest[:end])
		}
		rest = rest[end:]
	}
	w.mu.RUnlock()
	n += w.learn(misses)
	if whole > maxSample {
		n = int(float64(n) * float64(whole) / maxSample)
	}
	return n
}

// learn encodes and remembers words and returns the number of their tokens together.
func (w *words) learn(misses []string) int {
	if len(misses) == 0 {
		return 0
	}
	fresh := map[string]int{}
	n := 0
	for _, word := range misses {
		count, ok := fresh[word]
		if !ok {
			count = len(vocabulary().EncodeOrdinary(word))
			fresh[word] = count
		}
		n += count
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil || len(w.counts)+len(fresh) > maxWords {
		w.counts = map[string]int{}
	}
	for word, count := range fresh {
		if len(word) <= maxWord && len(w.counts) < maxWords {
			w.counts[string([]byte(word))] = count // a copy: the word must not keep its text alive
		}
	}
	return n
}

// wordEnd returns the length of the first piece of text: up to a space that begins a token, and no longer than a run
// of maxRun bytes of one word or of white space.
func wordEnd(text string) int {
	run, inSpace := 0, false
	for i := range len(text) {
		c := text[i]
		space := c == ' ' || c == '\n' || c == '\t' || c == '\r'
		if i > 0 && c == ' ' && !inSpace && !endsInSpace(text[:i]) {
			return i
		}
		if space != inSpace {
			run, inSpace = 0, space
		}
		if run++; run > maxRun && utf8.RuneStart(c) {
			return i
		}
	}
	return len(text)
}

// endsInSpace reports whether the last rune of s is white space of any kind; the vocabulary's expression does not stop
// at ASCII.
func endsInSpace(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsSpace(r)
}
