package gateway

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"mindrouter/internal/backend"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
	"mindrouter/internal/tokens"
)

const (
	// maxAnswer bounds every answer, in tokens.
	maxAnswer = 65_536
	// defaultReserve is what is reserved for an answer without explicit bound; it is topped up while it streams.
	defaultReserve = 4096
	// exactTimeout and exactParallel bound the exact counting of a prompt by a backend.
	exactTimeout  = 250 * time.Millisecond
	exactParallel = 4
)

// measure counts the prompt and checks that some candidate has room for it. A cheap bound is enough where it proves the
// result; only otherwise the prompt is counted, by the backend if it can, else by our own vocabulary.
func (r *run) measure(ctx context.Context, req *llm.Request) error {
	largest, known := r.largestContext()
	bound := tokens.UpperBound(req)
	fits := func(input int) bool {
		room, _ := llm.Model{ContextLength: largest}.Room(input)
		return !known || (room > 0 && (req.MaxTokens == nil || *req.MaxTokens <= room))
	}
	if fits(bound) { // what is reserved by the estimate is settled by what the server reports
		r.input, r.estimated = tokens.Estimate(req), true
		r.need.Input = 0 // proved
		return nil
	}
	r.countPrompt(ctx, req)
	r.need.Input = r.input
	return nil
}

// countPrompt counts the prompt by a backend that can, else with our own vocabulary.
func (r *run) countPrompt(ctx context.Context, req *llm.Request) {
	if n, ok := r.countExactly(ctx, req); ok {
		r.input = n
		return
	}
	r.input, r.estimated, r.counted = r.g.cfg.Counter.Count(req), true, true
	r.notes = append(r.notes, llm.Note{Field: "input_tokens", What: "estimated"})
}

// largestContext is the largest context of the candidates; false if one of them does not say.
func (r *run) largestContext() (int, bool) {
	largest, known := 0, true
	r.candidates(func(_ routing.Backend, m llm.Model) bool {
		if m.ContextLength == 0 {
			known = false
		}
		largest = max(largest, m.ContextLength)
		return true
	})
	return largest, known && largest > 0
}

// candidates calls yield with every backend in service that serves a model of the request.
func (r *run) candidates(yield func(routing.Backend, llm.Model) bool) {
	for _, name := range r.need.Models {
		for _, b := range r.view.Backends {
			if m, ok := b.Models[name]; ok && b.Intent == routing.IntentEnabled && !yield(b, m) {
				return
			}
		}
	}
}

// outputBound is how many tokens the answer may have: what was asked, or what is reserved at first.
func (r *run) outputBound(req *llm.Request) int {
	bound := maxAnswer
	if largest, known := r.largestContext(); known {
		if room, _ := (llm.Model{ContextLength: largest}).Room(r.input); room > 0 {
			bound = min(bound, room)
		}
	}
	if req.MaxTokens != nil {
		r.explicit = true
		bound = min(bound, *req.MaxTokens)
	} else {
		bound = min(bound, defaultReserve)
	}
	r.maxTokens = bound
	answers := 1
	if req.N != nil {
		answers = max(1, *req.N)
	}
	if req.Raw != nil {
		answers *= 1 + len(req.Raw.More)
	}
	return bound * answers
}

// rewrite returns the request as the chosen model gets it: with its own name and a bound that fits its context and the
// reservation.
func (r *run) rewrite(req *llm.Request, m llm.Model) *llm.Request {
	sent := *req
	sent.Model = m.Name
	bound := maxAnswer
	room, known := m.Room(r.input)
	if known {
		bound = min(bound, max(1, room))
	}
	switch {
	case r.explicit:
		bound = min(bound, r.maxTokens)
		if bound < *req.MaxTokens {
			r.notes = append(r.notes, llm.Note{Field: "max_tokens", What: "clamped", Detail: strconv.Itoa(bound)})
		}
	case !known:
		return &sent // the backend knows its own limit
	}
	sent.MaxTokens = &bound
	return &sent
}

// countExactly asks a backend that serves the model. It takes no slot, is not counted against the backend's health, and
// gives up soon.
func (r *run) countExactly(ctx context.Context, req *llm.Request) (count int, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, exactTimeout)
	defer cancel()
	r.candidates(func(b routing.Backend, m llm.Model) bool {
		client, found := r.view.Client(b.ID)
		if !found || b.Health != routing.HealthUp {
			return true
		}
		release, free := r.g.exact.try(b.ID)
		if !free {
			return true
		}
		n, err := client.CountTokens(ctx, r.rewriteForCount(req, m), m)
		release()
		if err == nil {
			count, ok = n, true
			return false
		}
		return errors.Is(err, backend.ErrUnsupported) && ctx.Err() == nil
	})
	return count, ok
}

func (r *run) rewriteForCount(req *llm.Request, m llm.Model) *llm.Request {
	sent := *req
	sent.Model = m.Name
	return &sent
}

// exactLimiter bounds the exact counts that run at once on each backend.
type exactLimiter struct {
	mu      sync.Mutex
	running map[routing.BackendID]int
}

// try takes a place on a backend, or reports that none is free.
func (l *exactLimiter) try(id routing.BackendID) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = map[routing.BackendID]int{}
	}
	if l.running[id] >= exactParallel {
		return nil, false
	}
	l.running[id]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running[id]--
	}, true
}
