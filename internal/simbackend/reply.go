package simbackend

import (
	"net/http"
	"time"
)

// End is how a raw reply ends.
type End int

// The ends.
const (
	EndClean End = iota // the reply is complete for HTTP
	EndAbort            // the connection is closed inside the reply
	EndReset            // the connection is reset inside the reply
	EndHang             // nothing more comes, the connection stays open
)

// Chunk is a piece of a raw reply; each is flushed on its own.
type Chunk struct {
	Data []byte
	// Delay is waited before the chunk, in real time; then Until, if set, has to be closed.
	Delay time.Duration
	Until <-chan struct{}
}

// RawReply is an answer byte for byte.
type RawReply struct {
	// Status defaults to 200.
	Status int
	// Header is sent as it is; Content-Type defaults to application/json.
	Header http.Header
	Chunks []Chunk
	End    End
}

// Chunks makes one chunk of each text.
func Chunks(texts ...string) []Chunk {
	out := make([]Chunk, len(texts))
	for i, t := range texts {
		out[i] = Chunk{Data: []byte(t)}
	}
	return out
}

// Reply queues raw answers for the next requests to the path, one each, whatever they ask. They go before faults and
// need neither slot nor key.
func (s *Server) Reply(path string, replies ...RawReply) {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	s.replies[path] = append(s.replies[path], replies...)
}

func (s *Server) nextReply(path string) (RawReply, bool) {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	queue := s.replies[path]
	if len(queue) == 0 {
		return RawReply{}, false
	}
	s.replies[path] = queue[1:]
	return queue[0], true
}

// replay sends a raw reply.
func (x *exchange) replay(reply RawReply) {
	x.outcome = OutcomeScripted
	for name, values := range reply.Header {
		x.w.Header()[name] = values
	}
	if len(reply.Header.Values("Content-Type")) == 0 {
		x.w.Header().Set("Content-Type", "application/json")
	}
	status := reply.Status
	setDefault(&status, http.StatusOK)
	x.header(status)
	x.flush()
	for _, c := range reply.Chunks {
		err := x.sleep(c.Delay, c.Until)
		if err == nil {
			err = x.write(c.Data)
		}
		if err != nil {
			x.outcome = OutcomePending
			return
		}
	}
	switch reply.End {
	case EndAbort:
		x.abort()
	case EndReset:
		x.reset()
	case EndHang:
		x.outcome = OutcomePending
		<-x.ctx.Done()
	}
}

// sleep waits for d and then for until, if any.
func (x *exchange) sleep(d time.Duration, until <-chan struct{}) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}
	if until != nil {
		select {
		case <-until:
		case <-x.ctx.Done():
		}
	}
	return x.ctx.Err()
}
