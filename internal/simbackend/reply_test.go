package simbackend_test

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"mindrouter/internal/simbackend"
)

func TestRawReplies(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM, APIKey: "test-key"})
	gate := make(chan struct{})
	s.Reply(chatPath,
		simbackend.RawReply{
			Header: http.Header{"Content-Type": {"text/event-stream"}, "X-Odd": {"1"}},
			Chunks: []simbackend.Chunk{{Data: []byte("data: \xf0\x9f")}, {Data: []byte("\x98\x80\r\n\r\n"), Delay: time.Millisecond, Until: gate}},
		},
		simbackend.RawReply{Status: 418, Chunks: simbackend.Chunks("a", "b")},
		simbackend.RawReply{Chunks: simbackend.Chunks("part"), End: simbackend.EndAbort},
		simbackend.RawReply{Chunks: simbackend.Chunks("part"), End: simbackend.EndReset},
		simbackend.RawReply{Chunks: simbackend.Chunks("part\n"), End: simbackend.EndHang},
	)
	s.Reply("/odd", simbackend.RawReply{Chunks: simbackend.Chunks("any path")})

	str := open(t, s.URL+chatPath, "no JSON at all")
	first := make([]byte, 8)
	if _, err := io.ReadFull(str.resp.Body, first); err != nil || string(first) != "data: \xf0\x9f" {
		t.Errorf("first chunk %q, %v", first, err)
	}
	close(gate)
	if rest, err := io.ReadAll(str.resp.Body); err != nil || string(rest) != "\x98\x80\r\n\r\n" || str.resp.Header.Get("X-Odd") != "1" {
		t.Errorf("rest %q, %v, header %v", rest, err, str.resp.Header)
	}
	if r := post(t, s.URL+chatPath, ""); r.status != 418 || r.body != "ab" || r.err != nil {
		t.Errorf("second reply %+v", r)
	}
	if r := post(t, s.URL+chatPath, ""); !errors.Is(r.err, io.ErrUnexpectedEOF) {
		t.Errorf("aborted reply %+v", r)
	}
	r, err := postContext(testContext(t), s.URL+chatPath, "")
	if err == nil && !errors.Is(r.err, syscall.ECONNRESET) {
		t.Errorf("reset reply %+v", r)
	}
	hanging := open(t, s.URL+chatPath, "")
	if hanging.next(t) != "part" {
		t.Error("hanging reply without its part")
	}
	hanging.cancel()
	if err := s.WaitCancelled(testContext(t), 1); err != nil {
		t.Error(err)
	}
	if r := post(t, s.URL+"/odd", ""); r.body != "any path" {
		t.Errorf("other path %+v", r)
	}
	if r := post(t, s.URL+chatPath, chat("sim-chat", "x", "")); r.status != 401 {
		t.Errorf("after the queue: status %d, want the usual handling", r.status)
	}
	if got := s.Requests()[0].Outcome; got != simbackend.OutcomeScripted {
		t.Errorf("outcome %q", got)
	}
}
