package tokens

import (
	"sync"

	"mindrouter/internal/llm"
)

// Counter counts prompts with a vocabulary that is part of the program (o200k) and corrects the result by what the
// servers reported for the same model. The vocabulary takes some 60 MB and a fraction of a second to load; that
// happens once, when the first prompt is counted. Safe for concurrent use.
type Counter struct {
	words words

	mu      sync.Mutex
	factors map[string]float64 // reported tokens per counted token, by model
}

// NewCounter returns a counter without experience.
func NewCounter() *Counter { return &Counter{factors: map[string]float64{}} }

// Limits of what is learned.
const (
	maxModels    = 1024
	minFactor    = 0.5
	maxFactor    = 2.0
	learningRate = 0.2
	leastTokens  = 64 // below, the template outweighs the text
)

// Count returns the number of tokens of the prompt of r, as well as it can be known here.
func (c *Counter) Count(r *llm.Request) int {
	n := 8
	if r.Raw != nil {
		n += rawTokens(r.Raw)
	}
	for text := range texts(r) {
		n += c.words.count(text)
	}
	for text := range toolTexts(r) {
		n += c.words.count(text)
	}
	for _, m := range r.Messages {
		n += 4*max(1, len(m.Blocks)) + media(m.Blocks)
	}
	return int(float64(n)*c.factor(r.Model) + 0.5)
}

// CountText returns the number of tokens of a text.
func (c *Counter) CountText(text string) int { return c.words.count(text) }

// Learn takes notice that a prompt for which Count had said counted had reported tokens on a server. Later counts for
// the model move towards that.
func (c *Counter) Learn(model string, counted, reported int) {
	if counted < leastTokens || reported < leastTokens {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.factors[model]
	if !ok {
		if len(c.factors) >= maxModels {
			return
		}
		old = 1
	}
	seen := old * float64(reported) / float64(counted) // counted contains the old factor
	c.factors[model] = min(max(old+learningRate*(seen-old), minFactor), maxFactor)
}

func (c *Counter) factor(model string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.factors[model]; ok {
		return f
	}
	return 1
}
