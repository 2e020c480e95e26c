package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// TestEveryRequestOnRecordEnds has many clients leave within the first milliseconds, while their requests are put on
// record. The shared cleanup demands that each of them has an end.
func TestEveryRequestOnRecordEnds(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
	})
	key := s.Key(app.NewKey{})
	body := `{"model":"chat","messages":[{"role":"user","content":"[[tokens=5]]"}]}`
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for i := range 25 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
				if err != nil {
					t.Error(err)
				}
				// Not for synchronisation: the connections shall end at all moments of the first four milliseconds.
				time.Sleep(time.Duration((n*25+i)%41) * 100 * time.Microsecond)
				_ = conn.Close()
			}
		})
	}
	all.Wait()
}

func TestLeavingDoesNotEvadeTheLimits(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
	})
	sim := s.Backends["sim"]
	sim.Script(func(simbackend.Request) *simbackend.Fault { return &simbackend.Fault{Kind: simbackend.FaultHang} })
	key := s.Key(app.NewKey{Limits: app.Limits{RequestsPerMinute: 3}})
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()
	body := `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`
	for n := range 3 {
		leave(t, s, key, body, func() {
			if err := sim.WaitStarted(ctx, n+1); err != nil {
				t.Fatal(err)
			}
		})
		if err := sim.WaitIdle(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Post("/v1/chat/completions", key, body); got.Status != http.StatusTooManyRequests {
		t.Errorf("a fourth request within the minute: %d %s, want 429", got.Status, got.Body)
	}
}

func TestARetryIsNoWaitInTheQueue(t *testing.T) {
	t.Parallel()
	s := pair(t, simbackend.DialectVLLM) // first output within a second
	s.Backends["a"].Script(func(simbackend.Request) *simbackend.Fault { return &simbackend.Fault{Kind: simbackend.FaultHang} })
	got := s.Post("/v1/chat/completions", s.Key(app.NewKey{}), `{"model":"chat","messages":[{"role":"user","content":"[[say=x]]"}]}`)
	ms, err := strconv.Atoi(got.Header.Get("X-Mindrouter-Queue-Ms"))
	if got.Header.Get("X-Mindrouter-Backend") != "b" || err != nil || ms >= 1000 {
		t.Errorf("queue %q ms on backend %q after an attempt of a second elsewhere", got.Header.Get("X-Mindrouter-Queue-Ms"), got.Header.Get("X-Mindrouter-Backend"))
	}
}

func TestStrictRefusesWhatWouldBeDropped(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	key := s.Key(app.NewKey{})
	body := `{"model":"chat","frobnicate":1,"messages":[{"role":"user","content":"hi"}]}`
	if got := s.Post("/v1/chat/completions", key, body); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Mindrouter-Warnings"), "frobnicate=dropped") {
		t.Errorf("not strict: %d, warnings %q", got.Status, got.Header.Get("X-Mindrouter-Warnings"))
	}
	if got := s.Post("/v1/chat/completions", key, body, "X-Mindrouter-Strict", "1"); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "frobnicate") {
		t.Errorf("strict: %d %s, want 400 naming the field", got.Status, got.Body)
	}
}
