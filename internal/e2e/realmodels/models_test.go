package realmodels

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/fs/gguf"
)

// TestModelFilesReadBack reads the generated files with Ollama's own reader.
func TestModelFilesReadBack(t *testing.T) {
	t.Parallel()
	for _, model := range Models() {
		t.Run(model.Name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, model.GGUF, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := gguf.Open(path)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer func() { _ = file.Close() }()

			tokens := file.KeyValue("tokenizer.ggml.tokens").Strings()
			if types := file.KeyValue("tokenizer.ggml.token_type").Ints(); len(types) != len(tokens) {
				t.Errorf("%d token types for %d tokens", len(types), len(tokens))
			}
			if size := file.KeyValue("vocab_size").Uint(); size != uint64(len(tokens)) {
				t.Errorf("vocabulary size %d, want %d", size, len(tokens))
			}
			sorted := slices.Sorted(slices.Values(tokens))
			if distinct := slices.Compact(slices.Clone(sorted)); len(distinct) != len(tokens) {
				t.Errorf("%d tokens, of which %d are distinct", len(tokens), len(distinct))
			}
			if pooled := file.KeyValue("pooling_type").Valid(); pooled != slices.Contains(model.Capabilities, "embedding") {
				t.Errorf("pooling type present: %t, capabilities %v", pooled, model.Capabilities)
			}

			const perLayer, outside = 9, 3
			if count := file.NumTensors(); count != layers*perLayer+outside {
				t.Errorf("%d tensors, want %d", count, layers*perLayer+outside)
			}
			for _, info := range file.TensorInfos() {
				if !info.Valid() || info.Offset%ggufAlignment != 0 {
					t.Errorf("tensor %+v is not valid or not aligned", info)
				}
			}
			embedding, data, err := file.TensorReader("output_norm.weight")
			if err != nil {
				t.Fatalf("read a tensor: %v", err)
			}
			first := make([]byte, 4)
			if _, err := data.Read(first); err != nil || !bytes.Equal(first, []byte{0, 0, 0x80, 0x3f}) {
				t.Errorf("%s starts with % x, error %v, want 1 as float32", embedding.Name, first, err)
			}
		})
	}
}

func TestModelsAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	first, second := Models(), Models()
	for i := range first {
		if !bytes.Equal(first[i].GGUF, second[i].GGUF) {
			t.Errorf("%s differs between two generations", first[i].Name)
		}
	}
}

// TestTableSpeaksItsTexts follows the most likely successor as a server does at temperature 0.
func TestTableSpeaksItsTexts(t *testing.T) {
	t.Parallel()
	texts := []scriptedText{{"<|a|>", "aaaa aaaa aaaa, repeated words, repeated words: 東京 🙂."}, {"<|b|>", "Another one, aaaa."}}
	m, chains := newScripted(texts, stops)
	for i, text := range texts {
		token := m.vocabulary.id(text.after)
		var said strings.Builder
		steps := 0
		for ; steps <= len(chains[i]); steps++ {
			token = m.likeliest(token)
			if token == m.vocabulary.id(endToken) {
				break
			}
			said.WriteString(m.vocabulary.tokens[token])
		}
		if said.String() != visible(text.says) || steps != len(chains[i]) {
			t.Errorf("after %s the model says %q in %d tokens, want %q in %d",
				text.after, said.String(), steps, visible(text.says), len(chains[i]))
		}
	}
}

func (m *transformer) likeliest(last int) int {
	best := 0
	for next := range m.vocabulary.tokens {
		if m.output.data[next*m.width+last] > m.output.data[best*m.width+last] {
			best = next
		}
	}
	return best
}

func TestVisibleBytesAreDistinct(t *testing.T) {
	t.Parallel()
	// The first and last of each range, from the vocabulary of GPT-2.
	for text, want := range map[string]string{" ": "Ġ", "\n": "Ċ", "!": "!", "~": "~", "\x7f": "ġ", "\xad": "Ń", "\xff": "ÿ", "é": "Ã©"} {
		if got := visible(text); got != want {
			t.Errorf("visible(%q) = %q, want %q", text, got, want)
		}
	}
	seen := map[rune]byte{}
	for b := range 256 {
		r := visibleByte(byte(b))
		if other, ok := seen[r]; ok {
			t.Errorf("bytes %#x and %#x are both %q", other, b, r)
		}
		seen[r] = byte(b)
	}
}

func TestWriteReportsErrorOfWriter(t *testing.T) {
	t.Parallel()
	err := writeGGUF(refusing{}, nil, []tensor{newTensor("a", 1<<12)})
	if err == nil || !strings.Contains(err.Error(), errRefused.Error()) {
		t.Errorf("got %v, want %v", err, errRefused)
	}
}

var errRefused = fmt.Errorf("refused")

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errRefused }
