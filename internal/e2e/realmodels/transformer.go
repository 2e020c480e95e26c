package realmodels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
)

// Dimensions common to all generated models.
const (
	layers        = 2
	feedForward   = 32
	contextLength = 8192
	// headSize is the length of queries, keys and values of the one attention head.
	headSize   = 32
	rmsEpsilon = 1e-6
)

// certain is the logit of the one successor that a scripted model knows; all others have 0. Against
// some four hundred others even a temperature of 2 leaves less than one chance in a thousand.
const certain = 40

// impossible is the logit of a token that is only typed where a grammar leaves no other.
const impossible = -30

// transformer is a model of the llama architecture with all weights at zero.
type transformer struct {
	vocabulary *vocabulary
	width      int // length of an embedding
	head       int // length of queries, keys and values
	pooled     bool

	embedding tensor
	output    tensor
	values    tensor // of the first layer
	attention tensor // output of the first layer's attention
}

// newTransformer returns a model that embeds tokens in vectors of the given width.
func newTransformer(v *vocabulary, width, head int) *transformer {
	w, h, tokens := uint64(width), uint64(head), uint64(len(v.tokens))
	return &transformer{
		vocabulary: v,
		width:      width,
		head:       head,
		embedding:  newTensor("token_embd.weight", w, tokens),
		output:     newTensor("output.weight", w, tokens),
		values:     newTensor("blk.0.attn_v.weight", w, h),
		attention:  newTensor("blk.0.attn_output.weight", h, w),
	}
}

// newTable returns a model whose logits for the next token depend on the last one alone: each token has
// a dimension of its own. The caller fills in logits with setLogit.
func newTable(v *vocabulary) *transformer {
	v.fill(headSize)
	m := newTransformer(v, len(v.tokens), headSize)
	for token := range v.tokens {
		m.embedding.data[token*m.width+token] = 1
	}
	return m
}

// setLogit says how likely next follows last. Normalisation multiplies the single 1 of an embedding by
// the root of its length, which is divided out here.
func (m *transformer) setLogit(last, next int, logit float64) {
	m.output.data[next*m.width+last] = float32(logit / math.Sqrt(float64(m.width)))
}

// newScripted returns a model that says the texts, each after its control token, and the first one after
// any other token that no text is made of. At the end of a text it follows ending. It also returns the
// tokens of each text.
func newScripted(texts []scriptedText, ending ending) (*transformer, [][]int) {
	var controls []string
	for _, text := range texts {
		controls = append(controls, text.after)
	}
	v := newVocabulary(controls...)
	chains := make([][]int, len(texts))
	for i, text := range texts {
		chains[i] = v.addText(text.says)
	}
	m := newTable(v)
	successor := make([]int, len(v.tokens))
	for token := range successor {
		successor[token] = chains[0][0]
	}
	for i, text := range texts {
		chain := chains[i]
		successor[v.id(text.after)] = chain[0]
		for j := range len(chain) - 1 {
			successor[chain[j]] = chain[j+1]
		}
		switch last := chain[len(chain)-1]; ending {
		case stops:
			successor[last] = v.id(endToken)
		case startsOver:
			successor[last] = chain[0]
		}
	}
	for last, next := range successor {
		m.setLogit(last, next, certain)
	}
	return m, chains
}

// scriptedText is what a scripted model says after one control token.
type scriptedText struct {
	after string
	says  string
}

// ending is what a scripted model does at the end of a text.
type ending int

const (
	stops ending = iota
	startsOver
)

// newTyping returns a model that, after the control tokens or any other, types random letters and digits
// and likes to close what a grammar lets it close, so that strings, numbers and arrays stay short.
func newTyping(controls ...string) *transformer {
	v := newVocabulary(controls...)
	m := newTable(v)
	logits := map[int]float64{v.id(endToken): 2}
	for b := byte('a'); b <= 'z'; b++ {
		logits[v.byteID(b)] = 0
	}
	for b := byte('0'); b <= '9'; b++ {
		logits[v.byteID(b)] = 0
	}
	for b, logit := range map[byte]float64{'"': 3, '}': 1, ']': 1, ',': 0, ':': 0, '{': 1, '[': 1, '.': -2, '-': -2} {
		logits[v.byteID(b)] = logit
	}
	random := rand.New(rand.NewPCG(1, 2))
	for last := range v.tokens {
		for next := range v.tokens {
			logit, ok := logits[next]
			if !ok {
				logit = impossible
			}
			m.setLogit(last, next, logit+random.NormFloat64())
		}
	}
	for _, control := range controls {
		m.setLogit(v.id(control), v.id(endToken), impossible) // an answer has at least one character
	}
	return m
}

// newEmbedding returns a model that embeds a text near the mean of its bytes' vectors, which are random
// signs. Queries and keys are zero, so attention weighs all tokens alike; values and the attention's
// output pass the vectors through, amplified against the last token's own.
func newEmbedding() *transformer {
	const (
		width     = 64
		amplified = 16
	)
	m := newTransformer(newVocabulary(), width, width)
	m.pooled = true
	random := rand.New(rand.NewPCG(3, 4))
	for i := range m.embedding.data {
		m.embedding.data[i] = float32(2*random.IntN(2) - 1)
	}
	for i := range width {
		m.values.data[i*width+i] = 1
		m.attention.data[i*width+i] = amplified
	}
	return m
}

// file returns the model as a GGUF file.
func (m *transformer) file(name string) []byte {
	v := m.vocabulary
	metadata := []pair{
		{"general.architecture", "llama"},
		{"general.name", name},
		{"general.file_type", uint32(0)},
		{"llama.vocab_size", uint32(len(v.tokens))},
		{"llama.context_length", uint32(contextLength)},
		{"llama.embedding_length", uint32(m.width)},
		{"llama.block_count", uint32(layers)},
		{"llama.feed_forward_length", uint32(feedForward)},
		{"llama.attention.head_count", uint32(1)},
		{"llama.attention.head_count_kv", uint32(1)},
		{"llama.attention.key_length", uint32(m.head)},
		{"llama.attention.value_length", uint32(m.head)},
		{"llama.attention.layer_norm_rms_epsilon", float32(rmsEpsilon)},
		{"llama.rope.dimension_count", uint32(m.head)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "gpt-2"},
		{"tokenizer.ggml.tokens", v.tokens},
		{"tokenizer.ggml.token_type", v.types},
		{"tokenizer.ggml.merges", v.merges},
		{"tokenizer.ggml.bos_token_id", uint32(v.id(endToken))},
		{"tokenizer.ggml.eos_token_id", uint32(v.id(endToken))},
		{"tokenizer.ggml.add_bos_token", false},
	}
	if m.pooled {
		// Its presence tells Ollama that the model embeds; 1 is the mean.
		metadata = append(metadata, pair{"llama.pooling_type", uint32(1)})
	}
	var out bytes.Buffer
	if err := writeGGUF(&out, metadata, m.tensors()); err != nil {
		panic(err) // memory does not refuse a write
	}
	return out.Bytes()
}

func (m *transformer) tensors() []tensor {
	w, h := uint64(m.width), uint64(m.head)
	all := []tensor{m.embedding, m.output, ones("output_norm.weight", w)}
	for layer := range layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, part) }
		values, attention := m.values, m.attention
		if layer > 0 {
			values, attention = newTensor(name("attn_v"), w, h), newTensor(name("attn_output"), h, w)
		}
		all = append(all,
			ones(name("attn_norm"), w),
			newTensor(name("attn_q"), w, h),
			newTensor(name("attn_k"), w, h),
			values,
			attention,
			ones(name("ffn_norm"), w),
			newTensor(name("ffn_gate"), w, feedForward),
			newTensor(name("ffn_up"), w, feedForward),
			newTensor(name("ffn_down"), feedForward, w),
		)
	}
	return all
}

func ones(name string, size uint64) tensor {
	t := newTensor(name, size)
	for i := range t.data {
		t.data[i] = 1
	}
	return t
}
