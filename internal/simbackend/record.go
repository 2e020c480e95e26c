package simbackend

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Outcome says how a request ended.
type Outcome string

// The outcomes.
const (
	OutcomePending   Outcome = ""          // not ended yet
	OutcomeDone      Outcome = "done"      // answered completely
	OutcomeCancelled Outcome = "cancelled" // the client went away first
	OutcomeFault     Outcome = "fault"     // ended by a scripted fault
	OutcomeRejected  Outcome = "rejected"  // answered with an error of the protocol
	OutcomeScripted  Outcome = "scripted"  // answered by a raw reply
)

// Request is the record of one request. Header and Body belong to the server: do not change them.
type Request struct {
	// Seq counts all requests from 1; Inference counts inference requests from 1 and is 0 for others.
	Seq, Inference int
	Method, Path   string
	Query          string
	Header         http.Header
	Body           []byte
	// Model is the model's own name, once the request was understood.
	Model string
	// Stream tells whether a stream was asked for.
	Stream bool
	// Started is when the header had been read; FirstByte when the first byte of the reply's body was written; Ended
	// when the reply was over. Cancelled is when the server noticed that the client had gone. Zero: has not happened.
	Started, FirstByte, Ended, Cancelled time.Time
	Outcome                              Outcome
	// Status is the HTTP status of the reply, 0 if none was sent.
	Status int
	// PromptTokens and Tokens are what was counted; Tokens grows while the answer is written.
	PromptTokens, CachedTokens, Tokens int
	// Fault is what the request was hit by, or nil.
	Fault *Fault
}

// recorder keeps the last requests. The records in it are shared with the handlers that fill them, hence one mutex.
type recorder struct {
	mu        sync.Mutex
	limit     int
	maxBytes  int
	bytes     int
	seq       int
	inference int
	kept      []*Request
}

// Requests returns copies of the recorded requests, oldest first.
func (s *Server) Requests() []Request {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	out := make([]Request, len(s.recorder.kept))
	for i, r := range s.recorder.kept {
		out[i] = *r
	}
	return out
}

// InferenceRequests returns copies of the recorded inference requests, oldest first.
func (s *Server) InferenceRequests() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Inference == 0 })
}

// LastRequest returns the youngest recorded request to the path, and whether there is one.
func (s *Server) LastRequest(path string) (Request, bool) {
	all := s.Requests()
	for _, r := range slices.Backward(all) {
		if r.Path == path {
			return r, true
		}
	}
	return Request{}, false
}

// ResetRequests forgets the recorded requests. Those in flight are forgotten too.
func (s *Server) ResetRequests() {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.recorder.kept, s.recorder.bytes = nil, 0
}

// open starts a record.
func (rec *recorder) open(r *http.Request) *Request {
	q := &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Started: time.Now(),
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.seq++
	q.Seq = rec.seq
	if rec.limit > 0 {
		rec.kept = append(rec.kept, q)
		rec.trimLocked()
	}
	return q
}

// body adds the body, and numbers the request if it is for inference.
func (rec *recorder) body(q *Request, body []byte, inference bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if inference {
		rec.inference++
		q.Inference = rec.inference
	}
	if rec.limit > 0 && slices.Contains(rec.kept, q) {
		q.Body = body
		rec.bytes += len(body)
		rec.trimLocked()
	}
}

// update changes a record.
func (rec *recorder) update(q *Request, change func(*Request)) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	change(q)
}

// read returns a copy of a record.
func (rec *recorder) read(q *Request) Request {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return *q
}

func (rec *recorder) trimLocked() {
	drop := 0
	for len(rec.kept)-drop > rec.limit || (rec.bytes > rec.maxBytes && len(rec.kept)-drop > 1) {
		rec.bytes -= len(rec.kept[drop].Body)
		drop++
	}
	if drop > 0 {
		rec.kept = append(rec.kept[:0:0], rec.kept[drop:]...)
	}
}
