package realmodels

import (
	"fmt"
	"strings"
)

// Token types of GGUF metadata.
const (
	normalToken  = int32(1)
	controlToken = int32(3)
)

// Control tokens of every vocabulary.
const (
	endToken  = "<|end|>"  // ends a reply
	turnToken = "<|turn|>" // starts a message of the prompt
)

// pieceBytes is the length at which a scripted text is cut. Being no divisor of anything in particular
// it also cuts through characters of several bytes, as real tokenizers do.
const pieceBytes = 3

// vocabulary is a byte-level BPE vocabulary: one token per byte, merged tokens, control tokens, and the
// pieces of scripted texts, which no prompt is ever tokenized into because no merge makes them.
type vocabulary struct {
	tokens []string // as in the file, see visible
	types  []int32
	merges []string
	ids    map[string]int
}

func newVocabulary(controls ...string) *vocabulary {
	v := &vocabulary{ids: map[string]int{}}
	for b := range 256 {
		v.add(visible(string([]byte{byte(b)})), normalToken)
	}
	for _, pair := range [][2]string{{"t", "h"}, {"th", "e"}, {" ", "a"}} {
		v.add(visible(pair[0]+pair[1]), normalToken)
		v.merges = append(v.merges, visible(pair[0])+" "+visible(pair[1]))
	}
	for _, control := range append([]string{endToken, turnToken}, controls...) {
		v.add(control, controlToken)
	}
	return v
}

// add returns the number of the new token.
func (v *vocabulary) add(token string, kind int32) int {
	if _, ok := v.ids[token]; ok {
		panic(fmt.Sprintf("token %q is already there", token))
	}
	id := len(v.tokens)
	v.tokens = append(v.tokens, token)
	v.types = append(v.types, kind)
	v.ids[token] = id
	return id
}

// id returns the number of a token that is known to exist.
func (v *vocabulary) id(token string) int {
	id, ok := v.ids[token]
	if !ok {
		panic(fmt.Sprintf("no token %q", token))
	}
	return id
}

// byteID returns the number of the token of one byte.
func (v *vocabulary) byteID(b byte) int { return int(b) }

// addText cuts a text into new tokens and returns their numbers in order. Every token is used once, so
// that its successor is unambiguous: a piece is longer where the vocabulary has the shorter one.
func (v *vocabulary) addText(text string) []int {
	var pieces []int
	for start := 0; start < len(text); {
		end := min(start+pieceBytes, len(text))
		for end < len(text) && (v.has(text[start:end]) || len(text)-end < pieceBytes) {
			end++
		}
		pieces = append(pieces, v.add(visible(text[start:end]), normalToken))
		start = end
	}
	return pieces
}

func (v *vocabulary) has(text string) bool {
	_, ok := v.ids[visible(text)]
	return ok
}

// fill adds unused tokens until the size is a multiple of n.
func (v *vocabulary) fill(n int) {
	for i := 0; len(v.tokens)%n != 0; i++ {
		v.add(fmt.Sprintf("<|unused%d|>", i), controlToken)
	}
}

// visible writes bytes the way byte-level BPE vocabularies do: printable bytes of Latin-1 stand for
// themselves and the other 68, space included, for the characters from U+0100 on.
// Source: bytes_to_unicode in openai/gpt-2, encoder.py.
func visible(text string) string {
	var out strings.Builder
	for i := range len(text) {
		out.WriteRune(visibleByte(text[i]))
	}
	return out.String()
}

func visibleByte(b byte) rune {
	shifted := rune(0x100)
	for other := range 256 {
		printable := other >= '!' && other <= '~' || other >= 0xA1 && other <= 0xAC || other >= 0xAE
		switch {
		case other == int(b) && printable:
			return rune(b)
		case other == int(b):
			return shifted
		case !printable:
			shifted++
		}
	}
	panic("unreachable")
}
