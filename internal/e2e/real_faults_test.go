//go:build real

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/realmodels"
)

func TestRealOllamaThroughGatewayLoadsModels(t *testing.T) {
	t.Parallel()
	o := realmodels.StartOllama(t)
	s, c := throughOllama(t, fmt.Sprintf("name: real, url: %q", o.URL))
	loaded := func() []api.ProcessModelResponse {
		t.Helper()
		ps, err := o.Client(t).ListRunning(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ps.Models
	}
	if got := loaded(); len(got) != 0 {
		t.Errorf("asking what the server offers loaded %v", got)
	}
	if got, err := c.Chat.Completions.New(t.Context(), ask(realmodels.Chat, "Hello")); err != nil || got.Choices[0].Message.Content != o.Model(t, realmodels.Chat).Says {
		t.Fatalf("a model that was not loaded: %v, %v", got, err)
	}
	before := o.Runners(t)
	if got := loaded(); len(got) != 1 || got[0].ContextLength != 8192 || len(before) != 1 {
		t.Errorf("loaded %+v in %v, want one model with a context of 8192", got, before)
	}
	// Nothing that a client may ask for loads it again.
	p := ask(realmodels.Chat, strings.Repeat("A longer question. ", 100))
	p.MaxCompletionTokens, p.Temperature, p.Seed = openai.Int(3), openai.Float(1.5), openai.Int(7)
	if _, _, err := collect(t, c, p); err != nil {
		t.Error(err)
	}
	if after := o.Runners(t); !slices.Equal(before, after) {
		t.Errorf("the model was loaded again: process %v, then %v", before, after)
	}
	stream, _, err := collect(t, c, ask(realmodels.Think, "And you?")) // streamed, not loaded
	if err != nil || stream.Choices[0].Message.Content != o.Model(t, realmodels.Think).Says {
		t.Errorf("streamed from a model that was not loaded: %v, %v", stream.RawJSON(), err)
	}
	if got := record(t, s); got["success"] != 2 || got["incomplete"] != 1 || len(got) != 2 {
		t.Errorf("the record holds %v, want 2 success and 1 incomplete", got)
	}
}

// crowd is more than the busy server takes while it loads the model: one or two are at the door, two wait, the rest gets
// 503. Once the model is there the queue is never full for long.
const crowd = 12

// askAll sends the crowd at once, every other one as a stream, and returns what each got.
func askAll(t *testing.T, s *e2e.Server, key string) []e2e.Answer {
	t.Helper()
	answers := make([]e2e.Answer, crowd)
	var clients sync.WaitGroup
	for i := range crowd {
		clients.Go(func() {
			answers[i] = s.Post("/v1/chat/completions", key, fmt.Sprintf(
				`{"model":%q,"stream":%t,"max_tokens":100,"messages":[{"role":"user","content":"Go on."}]}`, realmodels.Endless, i%2 == 0))
		})
	}
	clients.Wait()
	return answers
}

// complete reports whether an answer of the endless model went to its bound.
func complete(a e2e.Answer) bool {
	return a.Status == http.StatusOK && strings.Contains(a.Body, `"finish_reason":"length"`) && !strings.Contains(a.Body, `"error"`)
}

func TestRealOllamaBusyThroughGatewayRefusesInOrder(t *testing.T) {
	t.Parallel()
	o := realmodels.OllamaBusy(t)
	s, c := throughOllama(t, fmt.Sprintf("name: busy, url: %q, max_concurrent: %d", o.URL, crowd))
	answered, refused := 0, 0
	for _, a := range askAll(t, s, s.Key(app.NewKey{})) {
		switch {
		case complete(a):
			answered++
		case a.Status == http.StatusServiceUnavailable:
			refused++
			if e := decodeError(t, a.Body); a.Header.Get("Retry-After") == "" || strings.Contains(e.Error.Message, "maximum pending") {
				t.Errorf("refusal %v %s: want Retry-After and no words of the model server", a.Header, a.Body)
			}
		default:
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
	}
	if answered < 3 || refused == 0 {
		t.Errorf("%d answered and %d refused, want at least the three that the server takes, and refusals", answered, refused)
	}
	if got := record(t, s); got["incomplete"] != answered || got["error"] != refused || len(got) != 2 {
		t.Errorf("the record holds %v, want %d incomplete and %d error", got, answered, refused)
	}
	// To be busy is no fault: the server is still in service.
	if strings.Contains(s.Logs(), `"msg":"backend breaker changed"`) {
		t.Error("the breaker took a full queue for a fault")
	}
	if got, err := c.Chat.Completions.New(t.Context(), ask(realmodels.Chat, "Hello")); err != nil || got.Choices[0].Message.Content != o.Model(t, realmodels.Chat).Says {
		t.Errorf("after the rush: %v, %v", got, err)
	}
}

func TestRealOllamaBusyThroughGatewayLeavesTheRestToAnother(t *testing.T) {
	t.Parallel()
	busy, free := realmodels.OllamaBusy(t), realmodels.Ollama(t)
	s, _ := throughOllama(t,
		fmt.Sprintf("name: busy, url: %q, priority: 5, max_concurrent: %d", busy.URL, crowd),
		fmt.Sprintf("name: free, url: %q, max_concurrent: %d", free.URL, crowd))
	for i, a := range askAll(t, s, s.Key(app.NewKey{})) {
		if !complete(a) {
			t.Errorf("request %d: %d %s", i, a.Status, a.Body)
		}
	}
	if got := record(t, s); got["incomplete"] != crowd || len(got) != 1 {
		t.Errorf("the record holds %v, want %d incomplete", got, crowd)
	}
	if metrics := s.Metrics(); !strings.Contains(metrics, `mindrouter_attempts_total{backend="busy",outcome="error"}`) {
		t.Error("the busy server refused nothing: the test shows nothing")
	}
}

// TestRealOllamaThroughGatewaySeesTheClientLeave asks another model afterwards, because this version of Ollama itself
// sometimes loses the slot of a model whose client leaves while a token is on its way.
func TestRealOllamaThroughGatewaySeesTheClientLeave(t *testing.T) {
	t.Parallel()
	const notice = 2500 * time.Millisecond // tenfold what is promised, and less than the endless model needs to fill its context
	o := realmodels.OllamaBusy(t)
	s, c := throughOllama(t, fmt.Sprintf("name: real, url: %q, max_concurrent: 1", o.URL))
	ctx, leave := context.WithCancel(t.Context())
	stream := c.Chat.Completions.NewStreaming(ctx, ask(realmodels.Endless, "Go on."))
	if !stream.Next() {
		t.Fatalf("no answer: %v", stream.Err())
	}
	leave()
	left := time.Now()
	_ = stream.Close()
	s.Eventually("seen by Ollama", func() error {
		if !strings.Contains(o.Log(t), `POST     "/api/chat"`) { // its access log, written when the handler returns
			return errors.New("the request still runs")
		}
		return nil
	})
	if d := time.Since(left); d > notice {
		t.Errorf("Ollama saw it after %v", d)
	}
	got, err := c.Chat.Completions.New(t.Context(), ask(realmodels.Chat, "Hello")) // our only slot is free
	if err != nil || got.Choices[0].Message.Content != o.Model(t, realmodels.Chat).Says {
		t.Errorf("the next one: %v, %v", got, err)
	}
	if got := record(t, s); got["cancelled"] != 1 || got["success"] != 1 || len(got) != 2 {
		t.Errorf("the record holds %v, want 1 cancelled and 1 success", got)
	}
}

// brokenOff demands that a stream which was under way ends with an explicit error.
func brokenOff(t *testing.T, body string) {
	t.Helper()
	if strings.Contains(body, "[DONE]") || strings.Contains(body, `"finish_reason":"stop"`) || strings.Contains(body, `"finish_reason":"length"`) {
		t.Errorf("a stream that was cut claims success: %s", tail(body))
	}
	if !strings.Contains(body, `data: {"error":`) {
		t.Errorf("a stream that was cut ends without an explicit error: %s", tail(body))
	}
}

func tail(text string) string { return text[max(0, len(text)-600):] }

// TestRealOllamaThroughGatewayLosesItsRunner kills the process that holds the model while it answers, as the kernel does
// when memory is short. Ollama then ends its reply of status 200 with a line that holds an error.
func TestRealOllamaThroughGatewayLosesItsRunner(t *testing.T) {
	t.Parallel()
	o := realmodels.StartOllama(t, "OLLAMA_DEBUG=2")
	s, c := throughOllama(t, fmt.Sprintf("name: real, url: %q", o.URL))
	next := func() {
		t.Helper()
		p := ask(realmodels.Endless, "And now?") // Ollama loads the model anew, and nothing here holds a grudge yet
		p.MaxCompletionTokens = openai.Int(2)
		if _, err := c.Chat.Completions.New(t.Context(), p); err != nil {
			t.Errorf("the next one: %v", err)
		}
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), ask(realmodels.Endless, "Go on."))
	for range 3 {
		if !stream.Next() {
			t.Fatalf("no answer: %v", stream.Err())
		}
	}
	o.KillRunners(t)
	for stream.Next() {
		if finish := stream.Current().Choices[0].FinishReason; finish != "" {
			t.Errorf("a stream that was cut claims to have finished: %s", finish)
		}
	}
	if stream.Err() == nil {
		t.Error("a stream that was cut ends without an error")
	}
	_ = stream.Close()
	next()

	const marker = "a question for the doomed"
	whole := make(chan e2e.Answer, 1)
	go func() {
		whole <- s.Post("/v1/chat/completions", s.Key(app.NewKey{}), fmt.Sprintf(
			`{"model":%q,"messages":[{"role":"user","content":%q}]}`, realmodels.Endless, marker))
	}()
	taken(t, s, o, marker)
	o.KillRunners(t)
	if got := <-whole; got.Status != http.StatusBadGateway {
		t.Errorf("whole: %d %s, want 502", got.Status, tail(got.Body))
	}
	next()
	if got := record(t, s); got["error"] != 2 || got["incomplete"] != 2 || len(got) != 2 {
		t.Errorf("the record holds %v, want 2 error and 2 incomplete", got)
	}
}

// taken waits until an Ollama with OLLAMA_DEBUG=2 has taken the request whose prompt holds marker.
func taken(t *testing.T, s *e2e.Server, o *realmodels.OllamaServer, marker string) {
	t.Helper()
	s.Eventually("taken by Ollama", func() error {
		if !strings.Contains(o.Log(t), marker) {
			return errors.New("its log has no word of it")
		}
		return nil
	})
}

// TestRealOllamaThroughGatewayEndsWithoutDone makes the real Ollama end a reply of status 200, in good order by HTTP,
// after a line that says "done":false: that is what it does when a model repeats one token more than thirty times.
func TestRealOllamaThroughGatewayEndsWithoutDone(t *testing.T) {
	t.Parallel()
	o := realmodels.Ollama(t)
	lines, last := 0, api.ChatResponse{}
	err := o.Client(t).Chat(t.Context(), &api.ChatRequest{
		Model: realmodels.Stuck, Messages: []api.Message{{Role: "user", Content: "Laugh."}}, Options: map[string]any{"num_ctx": 8192},
	}, func(part api.ChatResponse) error { lines++; last = part; return nil })
	if err != nil || lines < 10 || last.Done {
		t.Fatalf("Ollama ended after %d lines with done %t, error %v: the test shows nothing", lines, last.Done, err)
	}

	s, c := throughOllama(t, fmt.Sprintf("name: real, url: %q", o.URL))
	key := s.Key(app.NewKey{})
	body := func(stream bool) string {
		return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Laugh."}]}`, realmodels.Stuck, stream)
	}
	streamed := s.Post("/v1/chat/completions", key, body(true))
	if streamed.Status != http.StatusOK || !strings.Contains(streamed.Body, strings.TrimSpace(o.Model(t, realmodels.Stuck).Says)) {
		t.Errorf("streamed: %d %s", streamed.Status, tail(streamed.Body))
	}
	brokenOff(t, streamed.Body)
	whole := s.Post("/v1/chat/completions", key, body(false))
	if decodeError(t, whole.Body); whole.Status != http.StatusBadGateway {
		t.Errorf("whole: %d %s, want 502", whole.Status, tail(whole.Body))
	}
	if _, _, err := collect(t, c, ask(realmodels.Stuck, "Laugh.")); err == nil {
		t.Error("the SDK takes a cut stream for a whole one")
	}
	if got := record(t, s); got["error"] != 3 || len(got) != 1 {
		t.Errorf("the record holds %v, want 3 error", got)
	}
}

// TestRealOllamaThroughGatewayIsKilledBeforeTheFirstEvent has two real Ollamas. The preferred one has taken the request
// and waits for its only slot when it is killed.
func TestRealOllamaThroughGatewayIsKilledBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			t.Parallel()
			doomed, other := realmodels.StartOllama(t, "OLLAMA_NUM_PARALLEL=1", "OLLAMA_DEBUG=2"), realmodels.Ollama(t)
			s, _ := throughOllama(t,
				fmt.Sprintf("name: doomed, url: %q, priority: 5", doomed.URL),
				fmt.Sprintf("name: other, url: %q", other.URL))
			// Somebody else occupies the slot, with the same context: another one would load the model again.
			occupied := make(chan struct{})
			left := make(chan struct{})
			go func() {
				defer close(left)
				var once sync.Once
				_ = doomed.Client(t).Chat(t.Context(), &api.ChatRequest{ // ends when the server is killed
					Model: realmodels.Endless, Messages: []api.Message{{Role: "user", Content: "Go on."}},
					Options: map[string]any{"num_ctx": 8192},
				}, func(api.ChatResponse) error { once.Do(func() { close(occupied) }); return nil })
			}()
			<-occupied
			const marker = "a question for the doomed"
			done := make(chan e2e.Answer, 1)
			go func() {
				done <- s.Post("/v1/chat/completions", s.Key(app.NewKey{}), fmt.Sprintf(
					`{"model":%q,"stream":%t,"max_tokens":5,"messages":[{"role":"user","content":%q}]}`, realmodels.Endless, stream, marker))
			}()
			taken(t, s, doomed, marker)
			doomed.Kill(t)
			<-left
			got := <-done
			if !complete(got) || got.Header.Get("X-Mindrouter-Backend") != "other" {
				t.Errorf("%d from %q: %s", got.Status, got.Header.Get("X-Mindrouter-Backend"), got.Body)
			}
			if metrics := s.Metrics(); !strings.Contains(metrics, `mindrouter_attempts_total{backend="doomed",outcome="error"} 1`) {
				t.Error("the killed server was not asked: the test shows nothing")
			}
		})
	}
}
