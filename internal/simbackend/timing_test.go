package simbackend_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mindrouter/internal/simbackend"
	"mindrouter/internal/simbackend/timing"
)

// askAndCancel sends a request whose client gives up after d, and returns its record. It is for virtual time.
func askAndCancel(s *simbackend.Server, path, body string, d time.Duration) simbackend.Request {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)).WithContext(ctx)
	s.ServeHTTP(httptest.NewRecorder(), r)
	all := s.Requests()
	return all[len(all)-1]
}

func TestOneStreamTakesPrefillAndDecodeTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{
			Dialect: simbackend.DialectVLLM, TimeScale: 1, Timing: timing.Model{PrefillTPS: 1000, DecodeTPS: 50},
		})
		body := chat("sim-chat", strings.Repeat("word ", 1000)+"[[tokens=100]]", "")
		start := time.Now()
		o := ask(s, "POST", chatPath, body).json(t)
		want := time.Duration(o.num("usage.prompt_tokens"))*time.Millisecond + 100*20*time.Millisecond
		if got := time.Since(start); got != want {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}

func TestTimeScale(t *testing.T) {
	t.Parallel()
	for _, scale := range []float64{0, 0.1, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, simbackend.Config{
				Dialect: simbackend.DialectVLLM, TimeScale: scale, Timing: timing.Model{PrefillTPS: 1e9, DecodeTPS: 100},
			})
			start := time.Now()
			ask(s, "POST", chatPath, chat("sim-chat", "[[tokens=100]]", ""))
			got, want := time.Since(start), time.Duration(scale*float64(time.Second))
			if (got - want).Abs() > time.Millisecond {
				t.Errorf("scale %v: took %v, want %v", scale, got, want)
			}
		})
	}
}

func TestABatchSlowsItsStreams(t *testing.T) {
	t.Parallel()
	model := timing.Model{PrefillTPS: 1e9, DecodeTPS: 50, SaturationTPS: 400}
	for _, batch := range []int{1, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, TimeScale: 1, Timing: model, Slots: 16})
			start := time.Now()
			var wg sync.WaitGroup
			for range batch {
				wg.Go(func() { ask(s, "POST", chatPath, chat("sim-chat", "[[tokens=50]]", "")) })
			}
			wg.Wait()
			got, want := time.Since(start), 50*model.TokenInterval(batch)
			// The first token of each is paced by the batch at that moment.
			if (got - want).Abs() > model.TokenInterval(batch) {
				t.Errorf("batch of %d took %v, want about %v", batch, got, want)
			}
		})
	}
}

func TestSlotsAreNeverExceededAndGivenInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, TimeScale: 1, Slots: 3})
		const total = 12
		watch, stop := context.WithCancel(context.Background())
		most := 0
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			_ = s.WaitFor(watch, func(st simbackend.State) bool {
				most = max(most, st.Running)
				if st.Running < 3 && st.Waiting > 0 {
					t.Errorf("%d run although %d wait", st.Running, st.Waiting)
				}
				return false
			})
		}()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range total {
			wg.Go(func() {
				ask(s, "POST", chatPath, chat("sim-chat", fmt.Sprintf("%d [[tokens=20]]", i), ""))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		if s.Running() != 3 || s.Waiting() != total-3 || s.InFlight() != total {
			t.Errorf("running %d, waiting %d, in flight %d", s.Running(), s.Waiting(), s.InFlight())
		}
		metrics := ask(s, "GET", "/metrics", "").body
		for _, line := range []string{
			`vllm:num_requests_running{engine="0",model_name="sim-chat"} 3`,
			`vllm:num_requests_waiting{engine="0",model_name="sim-chat"} 9`,
		} {
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("metrics lack %q", line)
			}
		}
		wg.Wait()
		stop()
		<-watched
		if most != 3 {
			t.Errorf("at most %d ran, want 3", most)
		}
		for at, i := range order {
			if at/3 != i/3 {
				t.Errorf("request %d ended at place %d: %v", i, at, order)
			}
		}
		if st := s.State(); st.Running != 0 || st.Waiting != 0 || st.Done != total {
			t.Errorf("at the end %+v", st)
		}
	})
}

func TestAWaitingRequestThatIsGivenUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, TimeScale: 1, Slots: 1})
		var wg sync.WaitGroup
		wg.Go(func() { ask(s, "POST", chatPath, chat("sim-chat", "[[tokens=400]]", "")) })
		synctest.Wait()
		wg.Go(func() {
			if r := askAndCancel(s, chatPath, chat("sim-chat", "x", ""), time.Second); r.Outcome != simbackend.OutcomeCancelled ||
				r.Cancelled.Sub(r.Started) != time.Second || r.Tokens != 0 {
				t.Errorf("record of the one that gave up: %+v", r)
			}
		})
		synctest.Wait()
		if s.Waiting() != 1 {
			t.Errorf("waiting %d, want 1", s.Waiting())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s.Waiting() != 0 || s.Running() != 1 {
			t.Errorf("after it gave up: waiting %d, running %d", s.Waiting(), s.Running())
		}
		wg.Wait()
		if st := s.State(); st.Done != 1 || st.Cancelled != 1 {
			t.Errorf("state %+v", st)
		}
	})
}

func TestPromptsAreReadOneAfterAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{
			Dialect: simbackend.DialectVLLM, TimeScale: 1, Timing: timing.Model{PrefillTPS: 1000, DecodeTPS: 1e6},
		})
		body := chat("sim-chat", strings.Repeat("word ", 1990)+"[[say=a]]", "")
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { ask(s, "POST", chatPath, body) })
		}
		wg.Wait()
		if got := time.Since(start); got < 5900*time.Millisecond || got > 6100*time.Millisecond {
			t.Errorf("three prompts of two seconds took %v", got)
		}
	})
}

func TestTheCacheSparesPrefillTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{
			Dialect: simbackend.DialectVLLM, TimeScale: 1, PrefixCacheTokens: 4096,
			Timing: timing.Model{PrefillTPS: 1000, DecodeTPS: 1e6},
		})
		body := chat("sim-chat", strings.Repeat("word ", 1990)+"[[say=a]]", "")
		var took [2]time.Duration
		for i := range took {
			start := time.Now()
			ask(s, "POST", chatPath, body)
			took[i] = time.Since(start)
		}
		if took[0] < 1900*time.Millisecond || took[1] > 50*time.Millisecond {
			t.Errorf("cold %v, warm %v", took[0], took[1])
		}
	})
}

func TestASlowFaultSlowsEveryToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{
			Dialect: simbackend.DialectVLLM, TimeScale: 1, Timing: timing.Model{PrefillTPS: 1e9, DecodeTPS: 100},
		})
		if err := s.SetFaults(parseFaults(t, "slow:5@2")...); err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{time.Second, 5 * time.Second, time.Second} {
			start := time.Now()
			ask(s, "POST", chatPath, chat("sim-chat", "[[tokens=100]]", ""))
			if got := time.Since(start); (got - want).Abs() > 10*time.Millisecond {
				t.Errorf("request %d took %v, want %v", i+1, got, want)
			}
		}
	})
}

func TestMetricsCountTokensAndMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, simbackend.Config{
			Dialect: simbackend.DialectVLLM, TimeScale: 1,
			Timing: timing.Model{PrefillTPS: 1e9, DecodeTPS: 10, KVTokens: 100},
		})
		done := make(chan object, 1)
		go func() { done <- ask(s, "POST", chatPath, chat("sim-chat", "[[tokens=21]]", "")).json(t) }()
		time.Sleep(2050 * time.Millisecond)
		kv := ask(s, "GET", "/metrics", "").body
		o := <-done
		want := fmt.Sprintf(`vllm:kv_cache_usage_perc{engine="0",model_name="sim-chat"} %v`, float64(o.num("usage.prompt_tokens")+21)/100)
		if !strings.Contains(kv, want+"\n") {
			t.Errorf("no %q in the metrics while the 21st token is on its way", want)
		}
		after := ask(s, "GET", "/metrics", "").body
		for _, line := range []string{
			`vllm:num_requests_running{engine="0",model_name="sim-chat"} 0`,
			`vllm:kv_cache_usage_perc{engine="0",model_name="sim-chat"} 0`,
			`vllm:generation_tokens_total{engine="0",model_name="sim-chat"} 21`,
			fmt.Sprintf(`vllm:prompt_tokens_total{engine="0",model_name="sim-chat"} %d`, o.num("usage.prompt_tokens")),
			`vllm:request_success_total{engine="0",finished_reason="stop",model_name="sim-chat"} 1`,
			`vllm:time_to_first_token_seconds_count{engine="0",model_name="sim-chat"} 1`,
			`vllm:inter_token_latency_seconds_count{engine="0",model_name="sim-chat"} 20`,
			`vllm:e2e_request_latency_seconds_count{engine="0",model_name="sim-chat"} 1`,
			`vllm:num_requests_running{engine="0",model_name="sim-think"} 0`,
		} {
			if !strings.Contains(after, line+"\n") {
				t.Errorf("metrics lack %q", line)
			}
		}
	})
}

func TestOldVersionsNameTheMemoryGaugeDifferently(t *testing.T) {
	t.Parallel()
	s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Version: "0.8.5"})
	body := ask(s, "GET", "/metrics", "").body
	if !strings.Contains(body, "vllm:gpu_cache_usage_perc{") || strings.Contains(body, "vllm:kv_cache_usage_perc{") {
		t.Error("a vLLM of 0.8 does not use the old name")
	}
}
