package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// pair is two equal backends, so that one can stand in for the other.
func pair(t *testing.T, d simbackend.Dialect) *e2e.Server {
	t.Helper()
	cfg := simbackend.Config{Dialect: d, Models: models(t)}
	return e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"a": cfg, "b": cfg},
		Cluster: fmt.Sprintf(`
backends: [{name: a, engine: %[1]s, url: "%%a%%", priority: 5}, {name: b, engine: %[1]s, url: "%%b%%"}]
settings: {retry: {first_output: 1s, idle: 1s}}`, d),
	})
}

// faults are the ways in which a backend dies before its first event.
var faultsBefore = map[string]simbackend.Fault{
	"reset on arrival":   {Kind: simbackend.FaultReset},
	"hang on arrival":    {Kind: simbackend.FaultHang},
	"500":                {Kind: simbackend.FaultError, Status: 500},
	"503":                {Kind: simbackend.FaultError, Status: 503},
	"hang after status":  {Kind: simbackend.FaultHang, Stage: simbackend.AfterHeaders},
	"cut after status":   {Kind: simbackend.FaultCut, Stage: simbackend.AfterHeaders},
	"abort after status": {Kind: simbackend.FaultCut, Stage: simbackend.AfterHeaders, Abort: true},
	"reset after status": {Kind: simbackend.FaultReset, Stage: simbackend.AfterHeaders},
	"garbage":            {Kind: simbackend.FaultMalformed, Stage: simbackend.AfterHeaders},
}

func TestBackendDiesBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		for name, fault := range faultsBefore {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%t", e.name, name, stream), func(t *testing.T) {
					t.Parallel()
					s := pair(t, e.dialect)
					s.Backends["a"].Script(func(simbackend.Request) *simbackend.Fault { return &fault })
					got := s.Post("/v1/chat/completions", s.Key(app.NewKey{}),
						fmt.Sprintf(`{"model":"chat","stream":%t,"messages":[{"role":"user","content":"[[say=still here]]"}]}`, stream))
					if got.Status != 200 || got.Header.Get("X-Mindrouter-Backend") != "b" {
						t.Fatalf("status %d from %q: %s", got.Status, got.Header.Get("X-Mindrouter-Backend"), got.Body)
					}
					if strings.Contains(got.Body, "error") {
						t.Errorf("the client sees the failure: %s", got.Body)
					}
					if n := len(s.Backends["a"].InferenceRequests()); n == 0 {
						t.Error("the broken backend was never asked: the test shows nothing")
					}
				})
			}
		}
	}
}

var faultsAfter = map[string]simbackend.Fault{
	"reset":   {Kind: simbackend.FaultReset, Stage: simbackend.AfterTokens, Tokens: 3},
	"hang":    {Kind: simbackend.FaultHang, Stage: simbackend.AfterTokens, Tokens: 3},
	"cut":     {Kind: simbackend.FaultCut, Stage: simbackend.AfterTokens, Tokens: 3},
	"abort":   {Kind: simbackend.FaultCut, Stage: simbackend.AfterTokens, Tokens: 3, Abort: true},
	"garbage": {Kind: simbackend.FaultMalformed, Stage: simbackend.AfterTokens, Tokens: 3},
	"error":   {Kind: simbackend.FaultError, Stage: simbackend.AfterTokens, Tokens: 3},
}

func TestBackendDiesAfterItsFirstEvent(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		for name, fault := range faultsAfter {
			t.Run(e.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := pair(t, e.dialect)
				s.Backends["a"].Script(func(simbackend.Request) *simbackend.Fault { return &fault })
				key := s.Key(app.NewKey{})
				got := s.Post("/v1/chat/completions", key,
					`{"model":"chat","stream":true,"messages":[{"role":"user","content":"[[say=one two three four five six]]"}]}`)
				if got.Status != 200 || !strings.Contains(got.Body, "one") {
					t.Fatalf("status %d: %s", got.Status, got.Body)
				}
				if strings.Contains(got.Body, "[DONE]") || strings.Contains(got.Body, `"finish_reason":"stop"`) {
					t.Errorf("a cut stream claims success: %s", got.Body)
				}
				if !strings.Contains(got.Body, `data: {"error":`) {
					t.Errorf("a cut stream ends without an explicit error: %s", got.Body)
				}
				if n := len(s.Backends["b"].InferenceRequests()); n != 0 {
					t.Errorf("%d retries after the first event", n)
				}
				whole := s.Post("/v1/chat/completions", key,
					`{"model":"chat","messages":[{"role":"user","content":"[[say=one two three four five six]]"}]}`)
				if whole.Status != 502 && whole.Status != 504 {
					t.Errorf("whole: status %d: %s", whole.Status, whole.Body)
				}
				if n := len(s.Backends["b"].InferenceRequests()); n != 0 {
					t.Errorf("whole: %d retries after the first event", n)
				}
			})
		}
	}
}

// leave opens a request, waits until it is where the test wants it, and closes the connection.
func leave(t *testing.T, s *e2e.Server, key, body string, there func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
		_ = resp.Body.Close()
	}()
	there()
	cancel()
	<-done
}

func TestClientLeavesInAnyPhase(t *testing.T) {
	t.Parallel()
	const notice = 2500 * time.Millisecond // tenfold the promised 250 ms
	for _, e := range engines {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%t", e.name, stream), func(t *testing.T) {
				t.Parallel()
				s := e2e.Start(t, e2e.Options{
					Backends: map[string]simbackend.Config{"sim": {Dialect: e.dialect, Models: models(t), TimeScale: 1}},
					Cluster:  fmt.Sprintf(`backends: [{name: sim, engine: %s, url: "%%sim%%", max_concurrent: 1}]`, e.dialect),
				})
				sim, key := s.Backends["sim"], s.Key(app.NewKey{})
				body := fmt.Sprintf(`{"model":"chat","stream":%t,"messages":[{"role":"user","content":"[[tokens=5000]]"}]}`, stream)
				ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
				defer cancel()
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}

				// While the backend writes.
				leave(t, s, key, body, func() { must(sim.WaitRunning(ctx, 1)) })
				left := time.Now()
				must(sim.WaitCancelled(ctx, 1))
				if d := time.Since(left); d > notice {
					t.Errorf("running: the backend saw it after %v", d)
				}

				// Before the backend's first byte.
				hang := simbackend.Fault{Kind: simbackend.FaultHang}
				sim.Script(func(simbackend.Request) *simbackend.Fault { return &hang })
				leave(t, s, key, body, func() { must(sim.WaitStarted(ctx, 2)) })
				left = time.Now()
				must(sim.WaitIdle(ctx))
				if d := time.Since(left); d > notice {
					t.Errorf("before the first byte: the backend saw it after %v", d)
				}
				sim.Script(nil)

				// While it waits for a slot: the backend never hears of it.
				before := len(sim.InferenceRequests())
				blocked, unblock := context.WithCancel(ctx)
				defer unblock()
				go func() {
					req, err := http.NewRequestWithContext(blocked, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
					if err == nil {
						req.Header.Set("Authorization", "Bearer "+key)
						if resp, err := http.DefaultClient.Do(req); err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							_ = resp.Body.Close()
						}
					}
				}()
				must(sim.WaitRunning(ctx, 1))
				leave(t, s, key, body, func() {
					s.Eventually("one waits", func() error {
						if n := s.Gauges()["mindrouter_requests_waiting"]; n != 1 {
							return fmt.Errorf("%v waiting", n)
						}
						return nil
					})
				})
				s.Eventually("nobody waits", func() error {
					if n := s.Gauges()["mindrouter_requests_waiting"]; n != 0 {
						return fmt.Errorf("%v waiting", n)
					}
					return nil
				})
				if n := len(sim.InferenceRequests()); n != before+1 {
					t.Errorf("the backend saw %d requests, want %d: one left in the queue", n, before+1)
				}

				// The slot is free again.
				unblock()
				got := s.Post("/v1/chat/completions", key, `{"model":"chat","messages":[{"role":"user","content":"[[say=free]]"}]}`)
				if got.Status != 200 {
					t.Errorf("after all that: %d %s", got.Status, got.Body)
				}
			})
		}
	}
}

func TestInFlightNeverExceedsTheSlots(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, e2e.Options{
				Backends: map[string]simbackend.Config{"sim": {Dialect: e.dialect, Models: models(t), TimeScale: 1, Slots: 64}},
				Cluster:  fmt.Sprintf(`backends: [{name: sim, engine: %s, url: "%%sim%%", max_concurrent: 3}]`, e.dialect),
			})
			key := s.Key(app.NewKey{})
			done := make(chan int, 30)
			for range 30 {
				go func() {
					done <- s.Post("/v1/chat/completions", key, `{"model":"chat","messages":[{"role":"user","content":"[[tokens=8]]"}]}`).Status
				}()
			}
			for range 30 {
				if status := <-done; status != 200 {
					t.Errorf("status %d", status)
				}
			}
			if most := s.Backends["sim"].State().MostInFlight; most > 3 {
				t.Errorf("%d in flight at once on 3 slots", most)
			} else if most < 2 {
				t.Errorf("at most %d in flight: the test shows nothing", most)
			}
		})
	}
}

func TestFastStreamsAreNeverCut(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	key := s.Key(app.NewKey{})
	const streams = 2000
	for i := range streams {
		got := s.Post("/v1/chat/completions", key, `{"model":"chat","stream":true,"messages":[{"role":"user","content":"[[tokens=20]]"}]}`)
		if n := strings.Count(got.Body, "data: [DONE]"); got.Status != 200 || n != 1 {
			t.Fatalf("stream %d: status %d with %d terminators: %s", i, got.Status, n, got.Body)
		}
	}
}
