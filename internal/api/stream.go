package api

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/gateway"
	"mindrouter/internal/llm"
)

const (
	// writeTimeout is how long a client may take to read one event.
	writeTimeout     = 60 * time.Second
	retryAfterOutage = 2 * time.Second
	// maxWarnings bounds the header that tells of losses in translation, in bytes.
	maxWarnings = 1024
)

// stream answers event by event. The headers wait until the first event or sign of life is due, so that a refusal still
// has its true status.
func (a *API) stream(w http.ResponseWriter, r *http.Request, call gateway.Call, codec dialect.Codec, reply dialect.Reply) error {
	ctx := r.Context()
	enc := codec.NewEncoder(w, reply)
	out := newStreamWriter(w, enc, a.cfg.KeepAlive)
	defer out.stop()

	s, err := a.cfg.Gateway.Generate(ctx, call)
	if err != nil {
		return out.refuse(err)
	}
	defer s.Close(ctx)
	out.facts(s.Facts())
	for ev, err := range s.Events(ctx) {
		if err != nil {
			out.fail(err)
			return nil
		}
		if out.write(func() error { return enc.Encode(ev) }) != nil {
			return nil // the client has gone; Close records it
		}
	}
	out.close()
	return nil
}

// framing is what an encoder of any kind of stream has beside its events.
type framing interface {
	ContentType() string
	EncodeError(err *llm.Error) error
	KeepAlive() error
	Close() error
}

// streamWriter writes one stream. Its mutex lets a timer write signs of life while the handler waits for an event.
type streamWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	every time.Duration

	mu      sync.Mutex
	enc     framing
	begun   bool
	stopped bool
	timer   *time.Timer
}

func newStreamWriter(w http.ResponseWriter, enc framing, every time.Duration) *streamWriter {
	s := &streamWriter{w: w, rc: http.NewResponseController(w), enc: enc, every: every}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(every, s.keepAlive)
	return s
}

func (s *streamWriter) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if s.writeLocked(s.enc.KeepAlive) == nil {
		s.timer.Reset(s.every)
	}
}

// stop ends the signs of life.
func (s *streamWriter) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.timer.Stop()
}

// refuse ends a stream that never began to answer: by a true status if nothing was sent yet.
func (s *streamWriter) refuse(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if !s.begun {
		return err
	}
	s.failLocked(err)
	return nil
}

// facts puts what is known about the request into the headers, if they are not sent yet.
func (s *streamWriter) facts(f gateway.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		setFacts(s.w.Header(), f)
	}
}

// write has one event written.
func (s *streamWriter) write(event func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Reset(s.every)
	return s.writeLocked(event)
}

// fail ends the stream with an explicit error.
func (s *streamWriter) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

func (s *streamWriter) failLocked(err error) {
	s.stopped = true
	e := llm.AsError(err)
	if e == nil {
		e = &llm.Error{Code: llm.CodeInternal, Message: "Something went wrong on our side.", Err: err}
	}
	_ = s.writeLocked(func() error { return s.enc.EncodeError(e) }) // the client may have gone
}

func (s *streamWriter) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	_ = s.writeLocked(s.enc.Close) // the client may have gone
}

func (s *streamWriter) writeLocked(write func() error) error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", s.enc.ContentType())
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return s.rc.Flush()
}

// setFacts tells the client how its request went.
func setFacts(h http.Header, f gateway.Facts) {
	h.Set("X-Mindrouter-Backend", f.Backend)
	h.Set("X-Mindrouter-Model", f.Model)
	h.Set("X-Mindrouter-Queue-Ms", strconv.FormatInt(f.Queue.Milliseconds(), 10))
	if f.Position > 0 {
		h.Set("X-Mindrouter-Queue-Position", strconv.Itoa(f.Position))
		h.Set("X-Mindrouter-Wait-Estimate", strconv.FormatFloat(f.Estimate.Seconds(), 'f', 1, 64)) // seconds
	}
	setWarnings(h, f.Notes)
}

func setWarnings(h http.Header, notes []llm.Note) {
	if len(notes) > 0 {
		h.Set("X-Mindrouter-Warnings", warnings(notes))
	}
}

// warnings joins notes to a header value of bounded length; what does not fit is counted.
func warnings(notes []llm.Note) string {
	var b strings.Builder
	for i, n := range notes {
		text := ascii(n.String())
		if b.Len()+len(text)+8 > maxWarnings {
			b.WriteString(", +" + strconv.Itoa(len(notes)-i))
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// ascii keeps what may stand in a header.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == ',' {
			return '?'
		}
		return r
	}, s)
}
