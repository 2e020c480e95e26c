package simbackend

import "context"

// State is a consistent snapshot of a server's gauges and counters. It counts inference requests only: chat,
// completions, generate, embeddings, rerank, score, audio and images.
type State struct {
	// Received and Ended count requests since the start; InFlight = Received - Ended.
	Received, Ended, InFlight int
	// MostInFlight is the highest InFlight ever.
	MostInFlight int
	// Running requests hold a slot; Waiting requests wait for a slot or for a model to load. The rest of InFlight is
	// being decoded, refused or held by a fault.
	Running, Waiting int
	// Done, Cancelled, Faulted and Rejected are the outcomes of the ended requests.
	Done, Cancelled, Faulted, Rejected int
	// Loads counts model loads (Ollama).
	Loads int
}

// State returns the gauges and counters now.
func (s *Server) State() State {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.engine.state
}

// InFlight returns how many inference requests have arrived and not ended.
func (s *Server) InFlight() int { return s.State().InFlight }

// Running returns how many requests hold a slot.
func (s *Server) Running() int { return s.State().Running }

// Waiting returns how many requests wait inside the server for a slot or a model.
func (s *Server) Waiting() int { return s.State().Waiting }

// WaitFor blocks until cond holds for the state, and returns the error of ctx if that ends first. cond is called once at
// the start and after every change, never concurrently. A state between two changes that follow each other closely may
// be skipped, so cond should hold for good or at least until the caller acts.
func (s *Server) WaitFor(ctx context.Context, cond func(State) bool) error {
	for {
		s.engine.mu.Lock()
		state, changed := s.engine.state, s.engine.watchLocked()
		s.engine.mu.Unlock()
		if cond(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitIdle blocks until no inference request is in flight.
func (s *Server) WaitIdle(ctx context.Context) error {
	return s.WaitFor(ctx, func(st State) bool { return st.InFlight == 0 })
}

// WaitStarted blocks until n inference requests have arrived since the start of the server.
func (s *Server) WaitStarted(ctx context.Context, n int) error {
	return s.WaitFor(ctx, func(st State) bool { return st.Received >= n })
}

// WaitRunning blocks until at least n requests hold a slot.
func (s *Server) WaitRunning(ctx context.Context, n int) error {
	return s.WaitFor(ctx, func(st State) bool { return st.Running >= n })
}

// WaitWaiting blocks until at least n requests wait inside the server.
func (s *Server) WaitWaiting(ctx context.Context, n int) error {
	return s.WaitFor(ctx, func(st State) bool { return st.Waiting >= n })
}

// WaitCancelled blocks until n requests have been given up by their clients.
func (s *Server) WaitCancelled(ctx context.Context, n int) error {
	return s.WaitFor(ctx, func(st State) bool { return st.Cancelled >= n })
}

// changedLocked wakes everybody who watches the state.
func (e *engine) changedLocked() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// watchLocked returns a channel that is closed at the next change.
func (e *engine) watchLocked() <-chan struct{} {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}
