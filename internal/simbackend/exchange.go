package simbackend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// errFault says that a scripted fault has ended the request; everything about it has been done.
var errFault = errors.New("ended by a scripted fault")

// exchange is one request and its reply. All that is sent goes through it, so that faults and the record see it.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context // the request's own: ends when the client goes away or the server closes
	record  *Request
	body    []byte
	fault   *Fault // the fault that is still to come, or nil
	slow    float64
	outcome Outcome

	wantsStream bool
	contentType string // of a reply that is no stream; empty means JSON
	headerSent  bool
}

// header sends the status.
func (x *exchange) header(status int) {
	if x.headerSent {
		return
	}
	x.headerSent = true
	x.s.recorder.update(x.record, func(q *Request) { q.Status = status })
	x.w.WriteHeader(status)
}

func (x *exchange) flush() {
	// Writers that cannot flush deliver at the end; tests that call the handler directly use such.
	_ = http.NewResponseController(x.w).Flush()
}

func (x *exchange) write(data []byte) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if _, err := x.w.Write(data); err != nil {
		return err
	}
	x.flush()
	x.s.recorder.update(x.record, func(q *Request) {
		if q.FirstByte.IsZero() {
			q.FirstByte = time.Now()
		}
	})
	return nil
}

// begin starts a stream. It may be called again.
func (x *exchange) begin() {
	if x.headerSent {
		return
	}
	x.w.Header().Set("Content-Type", x.s.dialect.streamType)
	x.header(http.StatusOK)
	x.flush()
}

// start sends the status of whatever kind of reply was asked for.
func (x *exchange) start() {
	if x.wantsStream {
		x.begin()
		return
	}
	kind := x.contentType
	setDefault(&kind, "application/json")
	x.w.Header().Set("Content-Type", kind)
	x.header(http.StatusOK)
	x.flush()
}

// event sends one value of a stream.
func (x *exchange) event(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	x.begin()
	return x.write(x.s.dialect.frame(data))
}

// reply sends a whole JSON body.
func (x *exchange) reply(status int, v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	x.raw(status, "application/json", data)
	return nil
}

func (x *exchange) raw(status int, contentType string, data []byte) {
	x.w.Header().Set("Content-Type", contentType)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	x.header(status)
	if x.r.Method != http.MethodHead {
		// A failed write means that the client is gone, which close finds in the context.
		_ = x.write(data)
	}
}

// refuse answers with an error in the dialect's words.
func (x *exchange) refuse(e *refusal) {
	x.outcome = OutcomeRejected
	x.raw(e.status, "application/json", x.s.dialect.errorJSON(e))
}

// strike carries out the fault of the request if it is due at the stage, after tokens tokens. It returns nil if there
// is none or the request goes on, and errFault if it is over.
func (x *exchange) strike(stage Stage, tokens int) error {
	f := x.fault
	if f == nil || f.Stage != stage || (stage == AfterTokens && tokens < f.Tokens) {
		return nil
	}
	x.fault = nil
	if stage == AfterHeaders && f.Kind != FaultPause && f.Kind != FaultError {
		x.start()
	}
	x.outcome = OutcomeFault
	switch f.Kind {
	case FaultSlow:
		x.outcome = ""
		return nil
	case FaultPause:
		x.outcome = ""
		return x.sleep(0, f.Until)
	case FaultHang:
		<-x.ctx.Done()
	case FaultReset:
		x.reset()
	case FaultError:
		x.failInside(f)
	case FaultMalformed:
		x.garble()
	case FaultCut:
		x.cut(f.Abort)
	}
	return errFault
}

// failInside answers an error, or sends an error event if a stream is running.
func (x *exchange) failInside(f *Fault) {
	e := &refusal{status: f.Status, message: f.Message}
	setDefault(&e.status, http.StatusInternalServerError)
	setDefault(&e.message, defaultFaultMessage)
	if !x.headerSent {
		x.raw(e.status, "application/json", x.s.dialect.errorJSON(e))
		return
	}
	_ = x.write(x.s.dialect.frame(x.s.dialect.errorJSON(e)))
	_ = x.write(x.s.dialect.afterError)
}

func (x *exchange) garble() {
	const garbage = `{"id": "sim", "choices": [{"index": 0, "message": {"content": "cut he`
	switch {
	case !x.headerSent:
		x.raw(http.StatusOK, "application/json", []byte(garbage))
	case x.wantsStream:
		_ = x.write(x.s.dialect.frame([]byte(garbage)))
	default:
		_ = x.write([]byte(garbage))
	}
}

func (x *exchange) cut(abort bool) {
	if !x.headerSent {
		x.w.Header().Set("Content-Length", "1000")
		x.w.Header().Set("Content-Type", "application/json")
		x.header(http.StatusOK)
		_ = x.write([]byte(`{"id": "sim", "object": "`))
		abort = true
	}
	if abort {
		x.abort()
	}
}

// abort closes the connection inside the reply.
func (x *exchange) abort() {
	panic(http.ErrAbortHandler)
}

// reset closes the connection so that the client sees a reset instead of an end.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.abort()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Unsent data is dropped and the peer gets RST.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
