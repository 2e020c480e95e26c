package simbackend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"mindrouter/internal/simbackend"
)

func parseFaults(t *testing.T, text string) []simbackend.FaultRule {
	t.Helper()
	rules, err := simbackend.ParseFaults(text)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// stand is one dialect with the path, model and terminator of its streams.
type stand struct {
	dialect     simbackend.Dialect
	path, model string
	end         string
}

var stands = []stand{
	{simbackend.DialectVLLM, chatPath, "sim-chat", "[DONE]"},
	{simbackend.DialectOllama, ollamaPath, "sim-llama", `"done":true`},
	{simbackend.DialectOpenAI, chatPath, "sim-chat", "[DONE]"},
}

// eachStand runs f for each dialect, streamed and not, with a request that answers ten tokens.
func eachStand(t *testing.T, f func(t *testing.T, s *simbackend.Running, c stand, streamed bool, body string)) {
	for _, c := range stands {
		for _, streamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream=%v", c.dialect, streamed), func(t *testing.T) {
				t.Parallel()
				s := serve(t, simbackend.Config{Dialect: c.dialect})
				f(t, s, c, streamed, chat(c.model, "[[tokens=10]]", fmt.Sprintf(`,"stream":%v`, streamed)))
			})
		}
	}
}

func setFault(t *testing.T, s *simbackend.Running, f simbackend.Fault) {
	t.Helper()
	if err := s.SetFaults(simbackend.FaultRule{Fault: f}); err != nil {
		t.Fatal(err)
	}
}

// lastInference returns the record of the last inference request after the server is idle.
func lastInference(t *testing.T, s *simbackend.Running) simbackend.Request {
	t.Helper()
	if err := s.WaitIdle(testContext(t)); err != nil {
		t.Fatal(err)
	}
	all := s.InferenceRequests()
	return all[len(all)-1]
}

func TestHangBeforeHeadersNeverAnswers(t *testing.T) {
	t.Parallel()
	eachStand(t, func(t *testing.T, s *simbackend.Running, c stand, streamed bool, body string) {
		setFault(t, s, simbackend.Fault{Kind: simbackend.FaultHang})
		ctx, cancel := context.WithCancel(testContext(t))
		failed := make(chan error, 1)
		go func() {
			_, err := postContext(ctx, s.URL+c.path, body)
			failed <- err
		}()
		if err := s.WaitStarted(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		if s.Running() != 0 {
			t.Errorf("a hanging request holds a slot")
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the client's own cancelling", err)
		}
		if r := lastInference(t, s); r.Outcome != simbackend.OutcomeFault || r.Status != 0 || r.Cancelled.IsZero() {
			t.Errorf("record %+v", r)
		}
	})
}

func TestHangAfterHeadersAndAfterTokens(t *testing.T) {
	t.Parallel()
	for _, c := range stands {
		t.Run(string(c.dialect), func(t *testing.T) {
			t.Parallel()
			s := serve(t, simbackend.Config{Dialect: c.dialect})
			body := chat(c.model, "[[tokens=10]]", `,"stream":true`)
			setFault(t, s, simbackend.Fault{Kind: simbackend.FaultHang, Stage: simbackend.AfterHeaders})
			str := open(t, s.URL+c.path, body)
			if err := s.WaitRunning(testContext(t), 1); err != nil || str.resp.StatusCode != http.StatusOK {
				t.Errorf("status %d, running: %v", str.resp.StatusCode, err)
			}
			str.cancel()
			if r := lastInference(t, s); r.Status != 200 || r.Tokens != 0 {
				t.Errorf("record %+v", r)
			}
			setFault(t, s, simbackend.Fault{Kind: simbackend.FaultHang, Stage: simbackend.AfterTokens, Tokens: 2})
			str = open(t, s.URL+c.path, body)
			for text := ""; !strings.Contains(text, `" model"`); {
				text = str.next(t)
			}
			str.cancel()
			if r := lastInference(t, s); r.Tokens != 2 {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func TestResetIsSeenAsReset(t *testing.T) {
	t.Parallel()
	eachStand(t, func(t *testing.T, s *simbackend.Running, c stand, streamed bool, body string) {
		setFault(t, s, simbackend.Fault{Kind: simbackend.FaultReset})
		if _, err := postContext(testContext(t), s.URL+c.path, body); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("before headers: error %v, want a reset", err)
		}
		for _, f := range []simbackend.Fault{
			{Kind: simbackend.FaultReset, Stage: simbackend.AfterHeaders},
			{Kind: simbackend.FaultReset, Stage: simbackend.AfterTokens, Tokens: 3},
		} {
			setFault(t, s, f)
			r, err := postContext(testContext(t), s.URL+c.path, body)
			if err == nil {
				err = r.err
			}
			// A reset may overtake what was sent before, hence no check of the body.
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("stage %d: error %v, want a reset", f.Stage, err)
			}
			if strings.Contains(r.body, c.end) {
				t.Errorf("stage %d: a complete answer %q", f.Stage, r.body)
			}
		}
		if r := lastInference(t, s); r.Outcome != simbackend.OutcomeFault {
			t.Errorf("record %+v", r)
		}
	})
}

func TestMalformedIsNotJSON(t *testing.T) {
	t.Parallel()
	eachStand(t, func(t *testing.T, s *simbackend.Running, c stand, streamed bool, body string) {
		setFault(t, s, simbackend.Fault{Kind: simbackend.FaultMalformed, Stage: simbackend.AfterTokens, Tokens: 2})
		r := post(t, s.URL+c.path, body)
		if r.status != 200 || r.err != nil {
			t.Fatalf("status %d, error %v", r.status, r.err)
		}
		good, bad := 0, 0
		for line := range strings.SplitSeq(r.body, "\n") {
			line = strings.TrimPrefix(line, "data: ")
			if line == "" {
				continue
			}
			if json.Valid([]byte(line)) {
				good++
			} else {
				bad++
			}
		}
		if bad != 1 || streamed && good < 2 || strings.Contains(r.body, c.end) {
			t.Errorf("%d good and %d bad lines: %s", good, bad, r.body)
		}
	})
}

func TestErrorsHaveTheStatusAndTheDialectsBody(t *testing.T) {
	t.Parallel()
	eachStand(t, func(t *testing.T, s *simbackend.Running, c stand, streamed bool, body string) {
		message := "error.message"
		if c.dialect == simbackend.DialectOllama {
			message = "error"
		}
		for _, want := range []int{500, 503} {
			setFault(t, s, simbackend.Fault{Kind: simbackend.FaultError, Status: want, Message: "boom"})
			r := post(t, s.URL+c.path, body)
			if r.status != want || r.json(t).str(message) != "boom" {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		}
		setFault(t, s, simbackend.Fault{Kind: simbackend.FaultError, Stage: simbackend.AfterTokens, Tokens: 2, Message: "boom"})
		r := post(t, s.URL+c.path, body)
		if !streamed {
			if r.status != 500 {
				t.Errorf("whole: status %d", r.status)
			}
			return
		}
		if r.status != 200 || r.err != nil {
			t.Fatalf("status %d, error %v", r.status, r.err)
		}
		lines := strings.Split(strings.TrimSpace(r.body), "\n")
		last := strings.TrimPrefix(lines[len(lines)-1], "data: ")
		if c.dialect == simbackend.DialectVLLM {
			// vLLM ends its streams with the terminator even after an error.
			if last != "[DONE]" {
				t.Errorf("last line %q", last)
			}
			last = strings.TrimPrefix(lines[len(lines)-3], "data: ")
		}
		if parse(t, last).str(message) != "boom" {
			t.Errorf("last event %s", last)
		}
	})
}

func TestCutEndsWithoutTheTerminator(t *testing.T) {
	t.Parallel()
	eachStand(t, func(t *testing.T, s *simbackend.Running, c stand, streamed bool, body string) {
		for _, abort := range []bool{false, true} {
			setFault(t, s, simbackend.Fault{Kind: simbackend.FaultCut, Stage: simbackend.AfterTokens, Tokens: 3, Abort: abort})
			r := post(t, s.URL+c.path, body)
			if strings.Contains(r.body, c.end) || strings.Contains(r.body, "finish_reason\":\"") || r.status != 200 {
				t.Errorf("abort %v: %d %s", abort, r.status, r.body)
			}
			if broken := errors.Is(r.err, io.ErrUnexpectedEOF); broken != (abort || !streamed) {
				t.Errorf("abort %v: error %v", abort, r.err)
			}
			if streamed && (!strings.Contains(r.body, `" reads"`) || strings.Contains(r.body, `" every"`)) {
				t.Errorf("abort %v: not cut after three tokens: %s", abort, r.body)
			}
		}
	})
}

func TestAFaultThatComesTooLateStrikesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM})
	for _, extra := range []string{`,"stream":true`, `,"stream":true,"max_tokens":4`} {
		setFault(t, s, simbackend.Fault{Kind: simbackend.FaultCut, Stage: simbackend.AfterTokens, Tokens: 99})
		r := post(t, s.URL+chatPath, chat("sim-chat", "[[tokens=10]]", extra))
		if strings.Contains(r.body, "[DONE]") || strings.Contains(r.body, `"finish_reason":"`) || r.body == "" {
			t.Errorf("%s: %s", extra, r.body)
		}
	}
}

func TestFaultsHitEmbeddingsToo(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectOllama})
	for text, want := range map[string]func(reply, error) bool{
		"5xx:503":   func(r reply, err error) bool { return err == nil && r.status == 503 },
		"malformed": func(r reply, err error) bool { return err == nil && !json.Valid([]byte(r.body)) },
		"cut":       func(r reply, err error) bool { return err == nil && errors.Is(r.err, io.ErrUnexpectedEOF) },
		"reset":     func(r reply, err error) bool { return err != nil },
	} {
		if err := s.SetFaults(parseFaults(t, text)...); err != nil {
			t.Fatal(err)
		}
		r, err := postContext(testContext(t), s.URL+"/api/embed", `{"model":"sim-embed","input":"a"}`)
		if !want(r, err) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
}

func TestPauseHoldsAndGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM})
	hold := make(chan struct{})
	setFault(t, s, simbackend.Fault{Kind: simbackend.FaultPause, Stage: simbackend.AfterTokens, Tokens: 1, Until: hold})
	str := open(t, s.URL+chatPath, chat("sim-chat", "[[say=a b]]", `,"stream":true`))
	str.next(t)
	if got := str.next(t); !strings.Contains(got, `"a"`) || s.Running() != 1 {
		t.Errorf("before the pause: %s, running %d", got, s.Running())
	}
	close(hold)
	for line := ""; line != "data: [DONE]"; {
		line = str.next(t)
	}
	if r := lastInference(t, s); r.Outcome != simbackend.OutcomeDone || r.Tokens != 2 {
		t.Errorf("record %+v", r)
	}
}

func TestRulesHitTheNthOrAPercentage(t *testing.T) {
	t.Parallel()
	run := func(rules string, seed uint64) string {
		s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Seed: seed, Faults: parseFaults(t, rules)})
		out := ""
		for i := range 200 {
			// Requests that are not for inference do not count.
			ask(s, "GET", "/health", "")
			if ask(s, "POST", chatPath, chat("sim-chat", fmt.Sprint(i), "")).status == 500 {
				out += fmt.Sprint(i+1, " ")
			}
		}
		return out
	}
	if got := run("5xx@3", 0); got != "3 " {
		t.Errorf("5xx@3 hit %s", got)
	}
	if got := run("5xx@3,5xx@5", 0); got != "3 5 " {
		t.Errorf("two rules hit %s", got)
	}
	some := run("5xx@20%", 1)
	if n := len(strings.Fields(some)); n < 20 || n > 60 {
		t.Errorf("20%% of 200 hit %d", n)
	}
	if again := run("5xx@20%", 1); again != some {
		t.Error("the same seed hits other requests")
	}
	if other := run("5xx@20%", 2); other == some {
		t.Error("another seed hits the same requests")
	}
	if n := len(strings.Fields(run("5xx", 0))); n != 200 {
		t.Errorf("a rule without N hit %d of 200", n)
	}
}

func TestScriptChoosesByRequest(t *testing.T) {
	t.Parallel()
	s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM})
	s.Script(func(r simbackend.Request) *simbackend.Fault {
		if strings.Contains(string(r.Body), "bad") && r.Path == chatPath {
			return &simbackend.Fault{Kind: simbackend.FaultError, Status: 502}
		}
		return nil
	})
	for text, want := range map[string]int{"bad": 502, "good": 200} {
		if r := ask(s, "POST", chatPath, chat("sim-chat", text, "")); r.status != want {
			t.Errorf("%s: status %d, want %d", text, r.status, want)
		}
	}
	s.Script(nil)
	if r := ask(s, "POST", chatPath, chat("sim-chat", "bad", "")); r.status != 200 {
		t.Errorf("without a script: status %d", r.status)
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]simbackend.FaultRule{
		"hang":       {Fault: simbackend.Fault{Kind: simbackend.FaultHang}},
		"hang:4@2":   {Fault: simbackend.Fault{Kind: simbackend.FaultHang, Stage: simbackend.AfterTokens, Tokens: 4}, Nth: 2},
		"reset@7":    {Fault: simbackend.Fault{Kind: simbackend.FaultReset}, Nth: 7},
		"malformed":  {Fault: simbackend.Fault{Kind: simbackend.FaultMalformed, Stage: simbackend.AfterTokens, Tokens: 3}},
		"5xx:503@5%": {Fault: simbackend.Fault{Kind: simbackend.FaultError, Status: 503}, Percent: 5},
		"cut:0":      {Fault: simbackend.Fault{Kind: simbackend.FaultCut, Stage: simbackend.AfterTokens}},
		"slow@0.5%":  {Fault: simbackend.Fault{Kind: simbackend.FaultSlow}, Percent: 0.5},
		"slow:2.5@1": {Fault: simbackend.Fault{Kind: simbackend.FaultSlow, Factor: 2.5}, Nth: 1},
	} {
		got, err := simbackend.ParseFaults(text)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("ParseFaults(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	if got, err := simbackend.ParseFaults("hang@1, cut@2%,"); err != nil || len(got) != 2 {
		t.Errorf("a list of two = %+v, %v", got, err)
	}
	for _, text := range []string{"explode", "hang@", "hang@0", "hang@-1", "hang@1.5", "hang@101%", "5xx:200", "slow:x", "pause", "hang@x%"} {
		if got, err := simbackend.ParseFaults(text); err == nil {
			t.Errorf("ParseFaults(%q) = %+v, want an error", text, got)
		}
	}
}

func TestVLLMSendsTheStatusOfAStreamBeforeItHasASlot(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Slots: 1})
	hold := make(chan struct{})
	defer close(hold)
	setFault(t, s, simbackend.Fault{Kind: simbackend.FaultPause, Stage: simbackend.AfterHeaders, Until: hold})
	for range 2 {
		str := open(t, s.URL+chatPath, chat("sim-chat", "x", `,"stream":true`))
		if str.resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", str.resp.StatusCode)
		}
	}
	if err := s.WaitWaiting(testContext(t), 1); err != nil {
		t.Error(err)
	}
}

func TestVLLMWithALimitedQueueRefusesByStatus(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Slots: 1, QueueLimit: 1})
	ctx := testContext(t)
	hold := make(chan struct{})
	setFault(t, s, simbackend.Fault{Kind: simbackend.FaultPause, Stage: simbackend.AfterHeaders, Until: hold})
	body := chat("sim-chat", "x", `,"stream":true`)
	done := make(chan reply, 2)
	for range 2 {
		go func() {
			r, err := postContext(ctx, s.URL+chatPath, body)
			if err != nil {
				t.Errorf("POST: %v", err)
			}
			done <- r
		}()
	}
	if err := s.WaitWaiting(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if r := post(t, s.URL+chatPath, body); r.status != 503 || r.json(t).num("error.code") != 503 {
		t.Errorf("one too many: %d %s", r.status, r.body)
	}
	close(hold)
	for range 2 {
		if r := <-done; r.status != 200 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
}
