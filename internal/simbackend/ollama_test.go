package simbackend_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mindrouter/internal/simbackend"
	"mindrouter/internal/simbackend/timing"
)

func ollama(t *testing.T, cfg simbackend.Config) *simbackend.Server {
	t.Helper()
	cfg.Dialect = simbackend.DialectOllama
	return newServer(t, cfg)
}

func TestOllamaWire(t *testing.T) {
	t.Parallel()
	s := ollama(t, simbackend.Config{})
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r := ask(s, method, "/", "")
		if want := map[string]string{"GET": "Ollama is running", "HEAD": ""}[method]; r.status != 200 || r.body != want {
			t.Errorf("%s /: %d %q", method, r.status, r.body)
		}
	}
	r := ask(s, "POST", ollamaPath, chat("Sim-Llama:latest", "[[say=Blue sky]]", ""))
	if r.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("content type %q", r.header.Get("Content-Type"))
	}
	lines := r.lines(t)
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), r.body)
	}
	for i, text := range []string{"Blue", " sky", ""} {
		l := lines[i]
		if l.str("message.content") != text || l.at("done") != (i == 2) || l.str("model") != "Sim-Llama:latest" {
			t.Errorf("line %d: %s", i, l.text)
		}
		if _, err := time.Parse(time.RFC3339Nano, l.str("created_at")); err != nil {
			t.Error(err)
		}
	}
	whole := ask(s, "POST", "/api/generate", `{"model":"sim-llama","prompt":"[[say=hi]]","stream":false}`).json(t)
	if whole.str("response") != "hi" || whole.at("done") != true || whole.num("eval_count") != 1 {
		t.Errorf("generate: %s", whole.text)
	}
	limited := ask(s, "POST", ollamaPath, chat("sim-llama", "[[tokens=9]]", `,"options":{"num_predict":4,"unknown":[]},"stream":false`)).json(t)
	if limited.str("done_reason") != "length" || limited.num("eval_count") != 4 {
		t.Errorf("num_predict: %s", limited.text)
	}
	stopped := ask(s, "POST", ollamaPath, chat("sim-llama", "[[say=a b c]]", `,"options":{"stop":[" b"]},"stream":false`)).json(t)
	if stopped.str("message.content") != "a" {
		t.Errorf("stop: %s", stopped.text)
	}
}

func TestOllamaRefusals(t *testing.T) {
	t.Parallel()
	s := ollama(t, simbackend.Config{NumCtx: 64})
	long := strings.Repeat("word ", 100)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{ollamaPath, "", 400, "missing request body"},
		{ollamaPath, "{", 400, "unexpected end of JSON"},
		{ollamaPath, `{"messages":[]}`, 400, "model is required"},
		{ollamaPath, chat("sim-llama", "x", `,"think":"huge"`), 400, `invalid think value: \"huge\"`},
		{ollamaPath, chat("sim-llama", "x", `,"think":3`), 400, "think must be a boolean or string"},
		{ollamaPath, chat("sim-llama", "x", `,"options":{"num_ctx":"big"}`), 400, `option \"num_ctx\" must be of type integer`},
		{ollamaPath, chat("sim-llama", "x", `,"options":{"stop":"a"}`), 400, `option \"stop\" must be of type array`},
		{ollamaPath, chat("sim-llama", "x", `,"keep_alive":"soon"`), 400, "invalid duration"},
		{ollamaPath, chat("sim-llama", "x", `,"format":"xml"`), 400, "invalid format"},
		{ollamaPath, chat("sim-embed", "x", ""), 400, `\"sim-embed\" does not support chat`},
		{ollamaPath, chat("sim-llama", long, `,"truncate":false`), 400, "the input length exceeds the context length"},
		{"/api/generate", `{"model":"sim-embed","prompt":"x"}`, 400, "does not support generate"},
		{"/api/generate", `{"model":"sim-llama","prompt":"x","suffix":"y"}`, 400, "does not support insert"},
		{"/api/embed", `{"model":"sim-embed","input":[1]}`, 400, "invalid input type"},
		{"/api/show", `{}`, 400, "model is required"},
	} {
		r := ask(s, "POST", c.path, c.body)
		if r.status != c.status || !strings.Contains(r.body, c.want) || !strings.HasPrefix(r.body, `{"error":"`) {
			t.Errorf("%s %s: %d %s, want %d %q", c.path, c.body, r.status, r.body, c.status, c.want)
		}
	}
}

func TestOllamaDropsOldTurnsSilently(t *testing.T) {
	t.Parallel()
	s := ollama(t, simbackend.Config{NumCtx: 64})
	old := strings.Repeat("word ", 70)
	body := fmt.Sprintf(`{"model":"sim-llama","stream":false,"messages":[{"role":"system","content":"be kind"},
		{"role":"user","content":%q},{"role":"assistant","content":%q},{"role":"user","content":"[[say=ok]]"}]}`, old, old)
	o := ask(s, "POST", ollamaPath, body).json(t)
	if o.str("message.content") != "ok" || o.num("prompt_eval_count") > 20 {
		t.Errorf("answer %s", o.text)
	}
	alone := ask(s, "POST", ollamaPath, chat("sim-llama", strings.Repeat("word ", 100), `,"stream":false`)).json(t)
	if n := alone.num("prompt_eval_count"); n != 63 {
		t.Errorf("a prompt that is too long alone counts %d tokens, want 63", n)
	}
}

func TestOllamaShiftDecidesWhetherTheContextEndsTheAnswer(t *testing.T) {
	t.Parallel()
	s := ollama(t, simbackend.Config{NumCtx: 64})
	for shift, want := range map[bool]string{true: "stop", false: "length"} {
		o := ask(s, "POST", ollamaPath, chat("sim-llama", "[[tokens=100]]", fmt.Sprintf(`,"stream":false,"shift":%v`, shift))).json(t)
		if o.str("done_reason") != want {
			t.Errorf("shift %v: %s", shift, o.text)
		}
	}
}

// loadedNames lists what /api/ps shows.
func loadedNames(t *testing.T, s *simbackend.Server) string {
	t.Helper()
	o := ask(s, "GET", "/api/ps", "").json(t)
	var names []string
	for i := range o.list("models") {
		names = append(names, o.str(fmt.Sprintf("models.%d.name", i)))
	}
	return strings.Join(names, " ")
}

func TestOllamaLoadAndUnloadRequests(t *testing.T) {
	t.Parallel()
	s := ollama(t, simbackend.Config{})
	for _, c := range []struct{ path, body, reason, loaded string }{
		{ollamaPath, `{"model":"sim-llama","messages":[]}`, "load", "sim-llama:latest"},
		{ollamaPath, `{"model":"sim-llama","messages":[],"keep_alive":0}`, "unload", ""},
		{"/api/generate", `{"model":"sim-llama"}`, "load", "sim-llama:latest"},
		{"/api/generate", `{"model":"sim-llama","prompt":"","keep_alive":"0s"}`, "unload", ""},
	} {
		r := ask(s, "POST", c.path, c.body)
		o := r.json(t) // one object, not a stream, although streams are the default
		if o.str("done_reason") != c.reason || o.at("done") != true || !strings.Contains(r.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %s: %s", c.path, c.body, r.body)
		}
		if got := loadedNames(t, s); got != c.loaded {
			t.Errorf("after %s: %q in memory, want %q", c.body, got, c.loaded)
		}
	}
}

func TestOllamaLoadsFirstAndKeepsTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := ollama(t, simbackend.Config{TimeScale: 1, Timing: timing.Model{LoadDelay: 20 * time.Second}})
		start := time.Now()
		done := make(chan reply, 1)
		go func() { done <- ask(s, "POST", ollamaPath, chat("sim-llama", "[[say=a]]", `,"stream":false`)) }()
		time.Sleep(19 * time.Second)
		if got := loadedNames(t, s); got != "" || s.Waiting() != 1 || s.Running() != 0 {
			t.Errorf("while loading: %q in memory, waiting %d, running %d", got, s.Waiting(), s.Running())
		}
		first := (<-done).json(t)
		if d := time.Since(start); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("first answer after %v, want a little over 20 s", d)
		}
		if d := time.Duration(first.num("load_duration")); d != 20*time.Second {
			t.Errorf("load_duration %v", d)
		}
		start = time.Now()
		ask(s, "POST", ollamaPath, chat("sim-llama", "[[say=a]]", `,"stream":false`))
		if d := time.Since(start); d > time.Second {
			t.Errorf("second answer after %v, want no load", d)
		}
		if s.State().Loads != 1 || loadedNames(t, s) != "sim-llama:latest" {
			t.Errorf("loads %d, in memory %q", s.State().Loads, loadedNames(t, s))
		}
		time.Sleep(5*time.Minute + time.Second)
		if got := loadedNames(t, s); got != "" {
			t.Errorf("after the keep-alive: %q in memory", got)
		}
	})
}

func TestOllamaKeepAlive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keepAlive string
		after     time.Duration
		want      bool
	}{
		{`0`, 0, false},
		{`2`, time.Second, true},
		{`2`, 3 * time.Second, false},
		{`"1h"`, 59 * time.Minute, true},
		{`-1`, 1000 * time.Hour, true},
		{`"-1s"`, 1000 * time.Hour, true},
	} {
		t.Run(fmt.Sprintf("%s after %v", c.keepAlive, c.after), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := ollama(t, simbackend.Config{})
				ask(s, "POST", ollamaPath, chat("sim-llama", "x", `,"keep_alive":`+c.keepAlive))
				time.Sleep(c.after)
				if got := loadedNames(t, s) != ""; got != c.want {
					t.Errorf("in memory: %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestOllamaEvictsTheIdleModelUsedLeastRecently(t *testing.T) {
	t.Parallel()
	models, err := simbackend.ParseModels("a,b,c")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := ollama(t, simbackend.Config{Models: models, MaxResident: 2})
		for _, name := range []string{"a", "b", "a", "c"} {
			ask(s, "POST", ollamaPath, chat(name, "x", ""))
			time.Sleep(time.Second)
		}
		if got := loadedNames(t, s); got != "c:latest a:latest" {
			t.Errorf("in memory %q, want c and a", got)
		}
	})
}

func TestOllamaNeverEvictsAModelInUse(t *testing.T) {
	t.Parallel()
	models, err := simbackend.ParseModels("a,b")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectOllama, Models: models, MaxResident: 1})
	ctx := testContext(t)
	hold := make(chan struct{})
	s.Script(func(r simbackend.Request) *simbackend.Fault {
		if strings.Contains(string(r.Body), "hold") {
			return &simbackend.Fault{Kind: simbackend.FaultPause, Stage: simbackend.AfterHeaders, Until: hold}
		}
		return nil
	})
	replies := make(chan reply, 2)
	ask := func(model, text string) {
		r, err := postContext(ctx, s.URL+ollamaPath, chat(model, text, ""))
		if err != nil {
			t.Errorf("POST: %v", err)
		}
		replies <- r
	}
	go ask("a", "hold")
	if err := s.WaitRunning(ctx, 1); err != nil {
		t.Fatal(err)
	}
	go ask("b", "x")
	if err := s.WaitWaiting(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := loadedNames(t, s.Server); got != "a:latest" {
		t.Errorf("in memory %q while a is in use", got)
	}
	close(hold)
	<-replies
	<-replies
	if got := loadedNames(t, s.Server); got != "b:latest" {
		t.Errorf("in memory %q, want b", got)
	}
}

func TestOllamaReloadsForAnotherContextLength(t *testing.T) {
	t.Parallel()
	s := ollama(t, simbackend.Config{})
	for i, c := range []struct {
		options string
		loads   int
	}{{"{}", 1}, {`{"num_ctx":4096}`, 1}, {`{"num_ctx":8192}`, 2}, {`{"num_ctx":8192,"temperature":1}`, 2}, {"{}", 3}} {
		ask(s, "POST", ollamaPath, chat("sim-llama", "x", `,"options":`+c.options))
		if got := s.State().Loads; got != c.loads {
			t.Errorf("request %d with %s: %d loads, want %d", i, c.options, got, c.loads)
		}
	}
	if n := ask(s, "GET", "/api/ps", "").json(t).num("models.0.context_length"); n != 4096 {
		t.Errorf("context_length %d", n)
	}
}

func TestOllamaRefusesWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectOllama, Slots: 1, QueueLimit: 2})
	ctx := testContext(t)
	hold := make(chan struct{})
	if err := s.SetFaults(simbackend.FaultRule{Fault: simbackend.Fault{
		Kind: simbackend.FaultPause, Stage: simbackend.AfterHeaders, Until: hold,
	}}); err != nil {
		t.Fatal(err)
	}
	statuses := make(chan int, 3)
	for i := range 3 {
		go func() {
			r, err := postContext(ctx, s.URL+ollamaPath, chat("sim-llama", "x", ""))
			if err != nil {
				t.Errorf("POST: %v", err)
			}
			statuses <- r.status
		}()
		if err := s.WaitFor(ctx, func(st simbackend.State) bool { return st.Running+st.Waiting == i+1 }); err != nil {
			t.Fatal(err)
		}
	}
	r := post(t, s.URL+ollamaPath, chat("sim-llama", "x", ""))
	if r.status != 503 || !strings.Contains(r.body, "maximum pending requests exceeded") {
		t.Errorf("one too many: %d %s", r.status, r.body)
	}
	close(hold)
	for range 3 {
		if status := <-statuses; status != 200 {
			t.Errorf("a request in the queue got %d", status)
		}
	}
}

func TestALoadGoesOnWhenItsRequestIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := ollama(t, simbackend.Config{TimeScale: 1, Timing: timing.Model{LoadDelay: 20 * time.Second}})
		cancelled := askAndCancel(s, ollamaPath, chat("sim-llama", "x", ""), 5*time.Second)
		if cancelled.Outcome != simbackend.OutcomeCancelled || s.Waiting() != 0 || s.InFlight() != 0 {
			t.Errorf("outcome %q, waiting %d, in flight %d", cancelled.Outcome, s.Waiting(), s.InFlight())
		}
		time.Sleep(16 * time.Second)
		if got := loadedNames(t, s); got != "sim-llama:latest" {
			t.Errorf("in memory %q", got)
		}
	})
}
