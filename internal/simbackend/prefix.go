package simbackend

import (
	"container/list"
	"hash/maphash"
	"sync"
)

// prefixBlock is how many tokens the prefix cache keeps or forgets together.
const prefixBlock = 16

// prefixCache remembers which prompts were read: as chains of blocks of tokens, each block known by everything up to
// its end. The blocks used least recently go first. A nil cache remembers nothing.
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
	c.mu.Lock()
	defer c.mu.Unlock()
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(model + "\x00" + salt + "\x00")
	n, cached := 0, 0
	unbroken := true
	for p := range pieces(prompt) {
		h.WriteString(p)
		h.WriteByte(0)
		if n++; n%prefixBlock != 0 {
			continue
		}
		key := h.Sum64()
		if e, ok := c.known[key]; ok {
			c.order.MoveToFront(e)
			if unbroken {
				cached = n
			}
			continue
		}
		unbroken = false
		c.known[key] = c.order.PushFront(key)
		if c.order.Len() > c.blocks {
			delete(c.known, c.order.Remove(c.order.Back()).(uint64))
		}
	}
	return min(cached, max(n-1, 0))
}
