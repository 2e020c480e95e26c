package simbackend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/simbackend"
	"mindrouter/internal/simbackend/timing"
)

func TestADisconnectIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range stands {
		t.Run(string(c.dialect), func(t *testing.T) {
			t.Parallel()
			// A token takes minutes, so that nothing but the disconnect ends the request.
			slow := timing.Model{DecodeTPS: 0.005, PrefillTPS: 1e9}
			s := serve(t, simbackend.Config{Dialect: c.dialect, TimeScale: 1, Timing: slow})
			ctx := testContext(t)
			client, leave := context.WithCancel(ctx)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = postContext(client, s.URL+c.path, chat(c.model, "x", `,"stream":true`))
			}()
			if err := s.WaitRunning(ctx, 1); err != nil {
				t.Fatal(err)
			}
			left := time.Now()
			leave()
			if err := s.WaitCancelled(ctx, 1); err != nil {
				t.Fatal(err)
			}
			<-gone
			r := lastInference(t, s)
			// 250 ms is the promise; the margin is for a loaded machine.
			if late := r.Cancelled.Sub(left); late > 2500*time.Millisecond {
				t.Errorf("noticed after %v", late)
			}
			if r.Outcome != simbackend.OutcomeCancelled || r.Tokens != 0 || s.Running() != 0 {
				t.Errorf("record %+v, running %d", r, s.Running())
			}
		})
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM})
	body := chat("sim-chat", "[[tokens=5]]", `,"stream":true,"seed":12345678901234567890`)
	post(t, s.URL+chatPath+"?a=b", body)
	post(t, s.URL+chatPath, chat("nobody", "x", ""))
	post(t, s.URL+"/v1/models", "")
	if err := s.WaitIdle(testContext(t)); err != nil {
		t.Fatal(err)
	}
	all := s.Requests()
	if len(all) != 3 {
		t.Fatalf("%d records", len(all))
	}
	r := all[0]
	if r.Method != http.MethodPost || r.Path != chatPath || r.Query != "a=b" || string(r.Body) != body || r.Header.Get("Accept-Encoding") == "" {
		t.Errorf("what was asked: %+v", r)
	}
	if r.Seq != 1 || r.Inference != 1 || r.Model != "sim-chat" || !r.Stream || r.Status != 200 || r.Tokens != 5 || r.PromptTokens == 0 {
		t.Errorf("what was answered: %+v", r)
	}
	if r.Outcome != simbackend.OutcomeDone || r.Started.After(r.FirstByte) || r.FirstByte.After(r.Ended) || r.FirstByte.IsZero() || !r.Cancelled.IsZero() {
		t.Errorf("how it went: %+v", r)
	}
	if all[1].Outcome != simbackend.OutcomeRejected || all[1].Status != 404 || all[1].Inference != 2 {
		t.Errorf("refused request: %+v", all[1])
	}
	if all[2].Inference != 0 || len(s.InferenceRequests()) != 2 {
		t.Errorf("the model list counts as inference: %+v", all[2])
	}
	if last, ok := s.LastRequest(chatPath); !ok || last.Seq != 2 {
		t.Errorf("last request %+v, %v", last, ok)
	}
	if st := s.State(); st.Received != 2 || st.Ended != 2 || st.Done != 1 || st.Rejected != 1 {
		t.Errorf("state %+v", st)
	}
	s.ResetRequests()
	if len(s.Requests()) != 0 {
		t.Error("records after a reset")
	}
}

func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	byCount := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, RecordLimit: 3})
	byBytes := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, RecordBytes: 2500})
	none := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, RecordLimit: -1})
	for range 10 {
		for _, s := range []*simbackend.Server{byCount, byBytes, none} {
			ask(s, "POST", chatPath, chat("sim-chat", strings.Repeat("x", 900), ""))
		}
	}
	if got := byCount.Requests(); len(got) != 3 || got[2].Seq != 10 {
		t.Errorf("limit 3 keeps %d", len(got))
	}
	if got := byBytes.Requests(); len(got) != 2 || got[1].Seq != 10 {
		t.Errorf("2500 bytes keep %d", len(got))
	}
	if got := none.Requests(); len(got) != 0 || none.State().Received != 10 {
		t.Errorf("no limit keeps %d", len(got))
	}
}

func TestCloseEndsRequestsInFlight(t *testing.T) {
	t.Parallel()
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Slots: 1})
	ctx := testContext(t)
	setFault(t, s, simbackend.Fault{Kind: simbackend.FaultHang, Stage: simbackend.AfterHeaders})
	for range 2 {
		go func() { _, _ = postContext(ctx, s.URL+chatPath, chat("sim-chat", "x", "")) }()
	}
	if err := s.WaitFor(ctx, func(st simbackend.State) bool { return st.Running == 1 && st.Waiting == 1 }); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := postContext(ctx, s.URL+chatPath, chat("sim-chat", "x", "")); err == nil {
		t.Error("a closed server answers")
	}
}

func TestWaitsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"started": s.WaitStarted(ctx, 1), "running": s.WaitRunning(ctx, 1), "waiting": s.WaitWaiting(ctx, 1), "cancelled": s.WaitCancelled(ctx, 1),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.WaitIdle(ctx); err != nil {
		t.Errorf("idle already: %v", err)
	}
}

func TestRunPrintsItsURLAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- simbackend.Run(ctx, simbackend.Config{Dialect: simbackend.DialectVLLM}, "127.0.0.1:0", pw)
	}()
	var url string
	if _, err := fmt.Fscanf(pr, "url: %s\n", &url); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(url + "/version")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := simbackend.Run(t.Context(), simbackend.Config{Dialect: simbackend.DialectVLLM}, "127.0.0.1:99999", io.Discard); err == nil {
		t.Error("an impossible address is accepted")
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]simbackend.Config{
		"no dialect":     {},
		"odd dialect":    {Dialect: "tgi"},
		"slots":          {Dialect: simbackend.DialectVLLM, Slots: -1},
		"scale":          {Dialect: simbackend.DialectVLLM, TimeScale: -1},
		"dims":           {Dialect: simbackend.DialectVLLM, EmbeddingDims: -1},
		"timing":         {Dialect: simbackend.DialectVLLM, Timing: timing.Model{DecodeTPS: -1}},
		"nameless model": {Dialect: simbackend.DialectVLLM, Models: []simbackend.Model{{Context: 1}}},
		"no context":     {Dialect: simbackend.DialectVLLM, Models: []simbackend.Model{{Name: "a"}}},
		"twice":          {Dialect: simbackend.DialectVLLM, Models: []simbackend.Model{{Name: "a", Context: 1}, {Name: "a", Context: 1}}},
		"endless pause":  {Dialect: simbackend.DialectVLLM, Faults: []simbackend.FaultRule{{Fault: simbackend.Fault{Kind: simbackend.FaultPause}}}},
	} {
		if _, err := simbackend.New(cfg); err == nil {
			t.Errorf("%s: New accepts it", name)
		}
	}
}

func TestLogsHaveNoContent(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, APIKey: "hidden-key", Log: slog.New(slog.NewTextHandler(&log, nil))})
	ask(s, "POST", chatPath, chat("sim-chat", "private words [[say=private answer]]", ""))
	if !strings.Contains(log.String(), "outcome=rejected") || strings.Contains(log.String(), "private") || strings.Contains(log.String(), "hidden") {
		t.Errorf("log: %s", log.String())
	}
}

func TestParseModel(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"sim-chat":                 "sim-chat [chat tools json vision] 32768",
		"sim-think":                "sim-think [chat tools json thinking] 32768",
		"sim-llama":                "sim-llama [chat tools json vision] 32768",
		"sim-embed":                "sim-embed [embedding rerank] 32768",
		"bge-reranker":             "bge-reranker [rerank] 32768",
		"org/Qwen2.5-VL-7B@8192":   "org/Qwen2.5-VL-7B [chat tools json vision] 8192",
		"qwen3:8b":                 "qwen3:8b [chat tools json] 32768",
		"qwen3:8b:completion@4096": "qwen3:8b [chat] 4096",
		"m:chat+tools+insert":      "m [chat tools insert] 32768",
		"m:chat+fly":               "m:chat+fly [chat tools json] 32768",
	} {
		m, err := simbackend.ParseModel(spec)
		if got := fmt.Sprintf("%s %v %d", m.Name, m.Capabilities, m.Context); err != nil || got != want {
			t.Errorf("ParseModel(%q) = %s, %v, want %s", spec, got, err, want)
		}
	}
	for _, spec := range []string{"", ":chat", "m@", "m@0", "m@many", "m:"} {
		if m, err := simbackend.ParseModel(spec); err == nil {
			t.Errorf("ParseModel(%q) = %+v, want an error", spec, m)
		}
	}
	if models, err := simbackend.ParseModels("a, b@9,"); err != nil || len(models) != 2 {
		t.Errorf("ParseModels: %v, %v", models, err)
	}
}

func TestGenericServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, simbackend.Config{Dialect: simbackend.DialectOpenAI, APIKey: "test-key"})
	if r := ask(s, "GET", "/v1/models", ""); r.status != 200 {
		t.Errorf("models: %d", r.status)
	}
	if r := ask(s, "POST", chatPath, chat("sim-chat", "x", "")); r.status != 401 || r.json(t).str("error.type") != "authentication_error" {
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
	s = newServer(t, simbackend.Config{Dialect: simbackend.DialectOpenAI})
	o := ask(s, "POST", chatPath, chat("sim-think", "[[think=hm]][[say=yes]]", `,"tools":[],"stream_options":{"include_usage":true}`)).json(t)
	if o.str("choices.0.message.reasoning_content") != "hm" || o.num("timings.predicted_n") != 2 {
		t.Errorf("answer: %s", o.text)
	}
	if _, ok := o.find("choices.0.stop_reason"); ok {
		t.Errorf("a field of vLLM: %s", o.text)
	}
	named := ask(s, "POST", chatPath, chat("sim-chat", "x", twoTools+`,"tool_choice":{"type":"function","function":{"name":"add"}}`)).json(t)
	if named.str("choices.0.finish_reason") != "tool_calls" || named.at("choices.0.message.content") != nil {
		t.Errorf("named tool: %s", named.text)
	}
	if r := ask(s, "GET", "/nowhere", ""); r.status != 404 || r.json(t).str("error.message") != "File Not Found" {
		t.Errorf("unknown path: %d %s", r.status, r.body)
	}
}
