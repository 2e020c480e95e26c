package simbackend

import (
	"container/list"
	"hash/maphash"
	"slices"
	"sync"
)

// prefixBlock is how many tokens the prefix cache keeps or forgets together.
const prefixBlock = 16

// prefixCache remembers which prompts were read: as chains of blocks of tokens, each block known by everything up to
// its end. What was used least recently goes first, and of one prompt its end. A nil cache remembers nothing.
type prefixCache struct {
	seed   maphash.Seed
	blocks int

	mu    sync.Mutex
	known map[uint64]*list.Element
	order list.List // of uint64, youngest first
}

func newPrefixCache(tokens int) *prefixCache {
	if tokens < prefixBlock {
		return nil
	}
	return &prefixCache{
		seed: maphash.MakeSeed(), blocks: tokens / prefixBlock, known: map[uint64]*list.Element{},
	}
}

// visit returns how many tokens at the start of the prompt are known, and remembers all of it. Prompts of different
// models or salts share nothing. The last token is never known, because it has to be computed to go on.
func (c *prefixCache) visit(model, salt, prompt string) int {
	if c == nil {
		return 0
	}
	keys, tokens := c.chain(model, salt, prompt)
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := 0
	for _, key := range keys {
		if _, ok := c.known[key]; !ok {
			break
		}
		cached += prefixBlock
	}
	for _, key := range slices.Backward(keys) {
		if e, ok := c.known[key]; ok {
			c.order.MoveToFront(e)
			continue
		}
		c.known[key] = c.order.PushFront(key)
		if c.order.Len() > c.blocks {
			delete(c.known, c.order.Remove(c.order.Back()).(uint64))
		}
	}
	return min(cached, max(tokens-1, 0))
}

// chain returns the keys of the full blocks of a prompt and how many tokens it has.
func (c *prefixCache) chain(model, salt, prompt string) (keys []uint64, tokens int) {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(model + "\x00" + salt + "\x00")
	for p := range pieces(prompt) {
		h.WriteString(p)
		h.WriteByte(0)
		if tokens++; tokens%prefixBlock == 0 {
			keys = append(keys, h.Sum64())
		}
	}
	return keys, tokens
}
