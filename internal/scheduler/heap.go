package scheduler

// order is what heaps sort by: the smallest rank, then the smallest at, then the first to come.
type order struct {
	rank int8
	at   float64
	seq  uint64
}

func (a order) before(b order) bool {
	switch {
	case a.rank != b.rank:
		return a.rank < b.rank
	case a.at != b.at:
		return a.at < b.at
	default:
		return a.seq < b.seq
	}
}

// placed is something that knows its index in the heap that holds it; -1 is outside.
type placed interface{ place(index int) }

type node[T placed] struct {
	order
	item T
}

// heap is a 4-ary indexed min-heap. The order of an item lies beside it, so that sifting follows no pointers.
type heap[T placed] []node[T]

func (h *heap[T]) push(item T, o order) {
	*h = append(*h, node[T]{o, item})
	h.up(len(*h) - 1)
}

// remove takes the item at index i out.
func (h *heap[T]) remove(i int) {
	old := *h
	last := len(old) - 1
	old[i].item.place(-1)
	moved := old[last]
	old[last] = node[T]{}
	*h = old[:last]
	if i < last {
		old[i] = moved
		h.restore(i)
	}
}

// fix gives the item at index i a new order.
func (h *heap[T]) fix(i int, o order) {
	(*h)[i].order = o
	h.restore(i)
}

func (h *heap[T]) restore(i int) {
	if i > 0 && (*h)[i].before((*h)[(i-1)/4].order) {
		h.up(i)
	} else {
		h.down(i)
	}
}

func (h *heap[T]) up(i int) {
	s := *h
	n := s[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !n.before(s[parent].order) {
			break
		}
		s[i] = s[parent]
		s[i].item.place(i)
		i = parent
	}
	s[i] = n
	n.item.place(i)
}

func (h *heap[T]) down(i int) {
	s := *h
	n := s[i]
	for {
		least := -1
		for c := 4*i + 1; c < len(s) && c <= 4*i+4; c++ {
			if least < 0 || s[c].before(s[least].order) {
				least = c
			}
		}
		if least < 0 || !s[least].before(n.order) {
			break
		}
		s[i] = s[least]
		s[i].item.place(i)
		i = least
	}
	s[i] = n
	n.item.place(i)
}
