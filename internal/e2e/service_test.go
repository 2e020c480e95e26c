package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// documented are the names of metrics that the manual or a dashboard may rely on.
var documented = []string{
	"mindrouter_build_info", "mindrouter_http_request_duration_seconds_bucket", "mindrouter_requests_total",
	"mindrouter_refusals_total", "mindrouter_tokens_total", "mindrouter_queue_seconds_bucket",
	"mindrouter_time_to_first_token_seconds_bucket", "mindrouter_attempts_total", "mindrouter_requests_waiting",
	"mindrouter_backend_in_flight", "mindrouter_backend_slots", "mindrouter_backend_up", "mindrouter_reserved_tokens",
	"mindrouter_audit_write_failures_total", "mindrouter_refusals_without_row_total", "go_goroutines",
	"process_resident_memory_bytes",
}

func TestMetricsNeedAnAdminKey(t *testing.T) {
	t.Parallel()
	dir, key, _ := installation(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models(t)})
	mustRun(t, dir, "user", "create", "root", "--email", "root@example.edu", "--group", "administrators", "--role", "admin")
	admin := strings.TrimSpace(mustRun(t, dir, "key", "create", "--user", "root", "--name", "prometheus", "--scopes", "admin"))
	p := e2e.StartProcess(t, dir)
	ready(t, p.URL)
	for _, body := range []string{
		`{"model":"chat","messages":[{"role":"user","content":"[[say=count me]]"}]}`,
		`{"model":"chat","stream":true,"messages":[{"role":"user","content":"[[say=count me]]"}]}`,
	} {
		if status, text, err := post(t.Context(), p.URL, key, body); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v %s", status, err, text)
		}
	}
	if status, _, err := post(t.Context(), p.URL, key, `{"model":"nope","messages":[{"role":"user","content":"hi"}]}`); err != nil || status != http.StatusNotFound {
		t.Fatalf("%d %v", status, err)
	}
	scrape := func(key string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for name, c := range map[string]struct {
		key    string
		status int
	}{
		"no key": {"", 401}, "wrong key": {"mr2_nonsense", 401}, "key for inference": {key, 403},
	} {
		if status, text := scrape(c.key); status != c.status || strings.Contains(text, "mindrouter_") {
			t.Errorf("%s: %d %s, want %d and no metrics", name, status, text, c.status)
		}
	}
	status, text := scrape(admin)
	if status != http.StatusOK {
		t.Fatalf("admin key: %d %s", status, text)
	}
	for _, name := range documented {
		if !regexp.MustCompile(`(?m)^` + name + `(\{[^}]*\})? [0-9]`).MatchString(text) {
			t.Errorf("no metric %s", name)
		}
	}
	for _, line := range []string{
		`mindrouter_requests_total{backend="sim",endpoint="/v1/chat/completions",model="chat",outcome="success"} 2`,
		`mindrouter_refusals_total{code="model_not_found",endpoint="/v1/chat/completions"} 1`,
		`mindrouter_attempts_total{backend="sim",outcome="ok"} 2`,
		`mindrouter_backend_up{backend="sim"} 1`,
		`mindrouter_backend_slots{backend="sim"} 30`,
		`mindrouter_backend_in_flight{backend="sim"} 0`,
		`mindrouter_audit_write_failures_total 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, private := range []string{"alice", key[4:12], "nope"} {
		if strings.Contains(text, private) {
			t.Errorf("the metrics hold %q, which anybody may choose or which names somebody", private)
		}
	}
}

func TestHealthWhileServingAndWhileStopping(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
	})
	key := s.Key(app.NewKey{})
	for path, want := range map[string]string{"/livez": "ok", "/readyz": "ok"} {
		var h struct {
			Status  string
			Reasons []string
		}
		got := s.Do("GET", path, "", "")
		if err := json.Unmarshal([]byte(got.Body), &h); err != nil || got.Status != http.StatusOK || h.Status != want || h.Reasons == nil {
			t.Errorf("%s: %d %s, want %s", path, got.Status, got.Body, want)
		}
		if got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be cached", path)
		}
	}

	// A request holds the server in its drain.
	release := make(chan struct{})
	pause := simbackend.Fault{Kind: simbackend.FaultPause, Until: release}
	s.Backends["sim"].Script(func(simbackend.Request) *simbackend.Fault { return &pause })
	running := make(chan e2e.Answer, 1)
	go func() {
		running <- s.Post("/v1/chat/completions", key, `{"model":"chat","messages":[{"role":"user","content":"[[say=to the end]]"}]}`)
	}()
	if err := s.Backends["sim"].WaitStarted(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Stop() }()
	s.Eventually("stopping", func() error {
		if !strings.Contains(s.Logs(), `"msg":"stopping"`) {
			return errors.New("the log has no word of it")
		}
		return nil
	})
	// Whoever asks now is told by a refused connection or by a 503; in no case that the server is ready.
	s.Eventually("not ready", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/readyz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return err // the listener is being closed
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("a stopping server calls itself ready")
		}
		return errStatus(resp.StatusCode)
	})
	select {
	case <-stopped:
		t.Error("the server stopped while a request ran")
	default:
	}
	close(release)
	if got := <-running; got.Status != http.StatusOK || !strings.Contains(got.Body, "to the end") {
		t.Errorf("the request that ran: %d %s", got.Status, got.Body)
	}
	<-stopped
	s.Backends["sim"].Script(nil)
	s.Restart() // the check at the end of the test wants it running
}

func TestNotReadyUntilEveryModelServerWasAsked(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-gate
		http.NotFound(w, r)
	}))
	t.Cleanup(slow.Close)
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "backends: [{name: slow, engine: vllm, url: %q}]\n", slow.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "apply", "-f", file)
	p := e2e.StartProcess(t, dir)
	for path, want := range map[string]struct {
		status int
		word   string
	}{"/readyz": {http.StatusServiceUnavailable, `"starting"`}, "/livez": {http.StatusOK, `"ok"`}} {
		resp, err := http.Get(p.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want.status || !strings.Contains(string(body), want.word) {
			t.Errorf("%s: %d %s, want %d %s", path, resp.StatusCode, body, want.status, want.word)
		}
	}
	open()
	ready(t, p.URL) // a model server that does not work does not keep ours from working
}

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestEveryAnswerHasARequestID(t *testing.T) {
	t.Parallel()
	s := onVLLM(t)
	key := s.Key(app.NewKey{})
	broken := simbackend.Fault{Kind: simbackend.FaultError, Status: 500}
	chat := `{"model":"chat","messages":[{"role":"user","content":"[[say=hello]]"}]}`
	seen := map[string]string{}
	check := func(name string, status int, got e2e.Answer) {
		t.Helper()
		id := got.Header.Get("X-Request-Id")
		switch {
		case got.Status != status:
			t.Errorf("%s: status %d, want %d: %s", name, got.Status, status, got.Body)
		case !uuidV7.MatchString(id):
			t.Errorf("%s: request id %q", name, id)
		case seen[id] != "":
			t.Errorf("%s and %s have the same id", name, seen[id])
		}
		seen[id] = name
	}
	for _, c := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"GET", "/", "", "", 200},
		{"GET", "/livez", "", "", 200},
		{"GET", "/readyz", "", "", 200},
		{"GET", "/metrics", "", "", 404}, // this server has an address of its own for them
		{"GET", "/schema/cluster.json", "", "", 200},
		{"GET", "/no/such/page", "", "", 404},
		{"DELETE", "/livez", "", "", 405},
		{"GET", "/v1/models", key, "", 200},
		{"GET", "/v1/models/nope", key, "", 404},
		{"GET", "/v1/models", "", "", 401},
		{"GET", "/v1/nothing", key, "", 404},
		{"PUT", "/v1/chat/completions", key, "", 405},
		{"POST", "/v1/chat/completions", key, chat, 200},
		{"POST", "/v1/chat/completions", key, strings.Replace(chat, "{", `{"stream":true,`, 1), 200},
		{"POST", "/v1/chat/completions", key, "{", 400},
		{"POST", "/v1/chat/completions", key, strings.Replace(chat, "chat", "nope", 1), 404},
		{"POST", "/v1/chat/completions", key, strings.Replace(chat, "chat", "absent", 1), 503},
		{"POST", "/v1/chat/completions", "mr2_wrong", chat, 401},
		{"POST", "/v1/embeddings", key, `{"model":"embed","input":"x"}`, 200},
		{"POST", "/v1/embeddings", key, `{}`, 400},
	} {
		check(c.method+" "+c.path, c.status, s.Do(c.method, c.path, c.key, c.body))
	}
	s.Backends["sim"].Script(func(simbackend.Request) *simbackend.Fault { return &broken })
	check("broken backend", 502, s.Post("/v1/chat/completions", key, chat))
	s.Backends["sim"].Script(nil)

	// The client's own id is echoed beside ours, never instead; a wild one is dropped.
	for sent, want := range map[string]string{"client-7": "client-7", "two words": "", strings.Repeat("x", 200): ""} {
		got := s.Do("GET", "/v1/models", key, "", "X-Request-Id", sent)
		check("client id "+sent, 200, got)
		if echo := got.Header.Get("X-Client-Request-Id"); echo != want {
			t.Errorf("client id %q is echoed as %q", sent, echo)
		}
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	const (
		upstreamKey = "upstream-secret-0123456789"
		prompt      = "the prompt that nobody else may read"
		answer      = "the answer that nobody else may read"
	)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(upstreamKey), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models(t), APIKey: upstreamKey}
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": cfg},
		Cluster:  fmt.Sprintf(`backends: [{name: sim, engine: vllm, url: "%%sim%%", api_key: "file:%s"}]`, file),
	})
	key := s.Key(app.NewKey{})
	wrong := key[:len(key)-4] + "AAAA"
	body := func(stream bool) string {
		return fmt.Sprintf(`{"model":"chat","stream":%t,"messages":[{"role":"user","content":"%s [[say=%s]]"}]}`, stream, prompt, answer)
	}
	for _, stream := range []bool{false, true} {
		if got := s.Post("/v1/chat/completions", key, body(stream)); got.Status != 200 || !strings.Contains(got.Body, "nobody") {
			t.Fatalf("status %d: %s", got.Status, got.Body)
		}
	}
	refused := []e2e.Answer{
		s.Post("/v1/chat/completions", wrong, body(false)),
		s.Post("/v1/chat/completions", key, body(false)+"}"),
		s.Do("GET", "/v1/models?key="+key, "", ""), // not a place for keys, but people try
	}
	for _, fault := range []simbackend.Fault{
		{Kind: simbackend.FaultError, Status: 500},
		{Kind: simbackend.FaultError, Status: 400, Message: "cannot take " + prompt}, // whoever blames a request may quote it
		{Kind: simbackend.FaultMalformed, Stage: simbackend.AfterTokens, Tokens: 1},
	} {
		s.Backends["sim"].Script(func(simbackend.Request) *simbackend.Fault { return &fault })
		refused = append(refused, s.Post("/v1/chat/completions", key, body(false)))
	}
	s.Backends["sim"].Script(nil)
	for i, got := range refused {
		if got.Status < 400 {
			t.Errorf("refusal %d: status %d", i, got.Status)
		}
	}
	s.Restart() // also what is logged at the stop and at the start
	logs := s.Logs()
	if !strings.Contains(logs, `"msg":"request"`) || !strings.Contains(logs, `"msg":"attempt failed"`) {
		t.Errorf("the log says nothing about the requests: the test shows nothing:\n%s", logs)
	}
	for what, secret := range map[string]string{
		"key": key, "secret part of the key": key[12:], "wrong key": wrong, "key of the model server": upstreamKey,
		"prompt": prompt, "answer": answer,
	} {
		if i := strings.Index(logs, secret); i >= 0 {
			t.Errorf("the log holds the %s: %s", what, logs[max(0, i-300):min(len(logs), i+300)])
		}
	}
	// Nor does the database hold a key in the clear.
	for _, name := range []string{"mindrouter.db", "mindrouter.db-wal"} {
		content, err := os.ReadFile(filepath.Join(s.DataDir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for what, secret := range map[string]string{"key": key[12:], "key of the model server": upstreamKey} {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s holds the %s", name, what)
			}
		}
	}
}
