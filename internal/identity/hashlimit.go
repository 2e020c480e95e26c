package identity

import (
	"context"
	"sync"
)

// hashLimiter bounds how many slow hashes run at once, and lets one address use at most one of the places, so that a
// flood from one address leaves the others free.
type hashLimiter struct {
	places chan struct{}

	mu   sync.Mutex
	busy map[string]*addrTurn
}

type addrTurn struct {
	turn  chan struct{} // holds one token
	users int
}

func newHashLimiter(n int) *hashLimiter {
	return &hashLimiter{places: make(chan struct{}, n), busy: map[string]*addrTurn{}}
}

// acquire waits for the address's turn and a place. The caller must call release.
func (l *hashLimiter) acquire(ctx context.Context, addr string) (release func(), err error) {
	t := l.join(addr)
	select {
	case <-t.turn:
	case <-ctx.Done():
		l.leave(addr, t)
		return nil, ctx.Err()
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		t.turn <- struct{}{}
		l.leave(addr, t)
		return nil, ctx.Err()
	}
	return func() {
		<-l.places
		t.turn <- struct{}{}
		l.leave(addr, t)
	}, nil
}

func (l *hashLimiter) join(addr string) *addrTurn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.busy[addr]
	if t == nil {
		t = &addrTurn{turn: make(chan struct{}, 1)}
		t.turn <- struct{}{}
		l.busy[addr] = t
	}
	t.users++
	return t
}

func (l *hashLimiter) leave(addr string, t *addrTurn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(l.busy, addr)
	}
}
