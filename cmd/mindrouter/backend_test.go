package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"mindrouter/internal/app"
)

// vllm answers as vLLM does, to who has the key.
func vllm(t *testing.T, key string) string {
	t.Helper()
	answer := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if key != "" && r.Header.Get("Authorization") != "Bearer "+key {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", answer(`{"object":"list","data":[{"id":"m1","object":"model","max_model_len":4096},{"id":"m2","object":"model"}]}`))
	mux.HandleFunc("GET /version", answer(`{"version":"0.11.0"}`))
	mux.HandleFunc("GET /health", answer(""))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestBackends(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	if got := i.list("backend", "list"); len(got) != 0 {
		t.Errorf("backends of a fresh installation %v", got)
	}
	url := vllm(t, "")
	i.ok("apply", "-f", i.write("c.yaml", fmt.Sprintf("backends: [{name: here, engine: vllm, url: '%s', max_concurrent: 3}, {name: away, engine: ollama, url: 'http://127.0.0.1:1'}]", url)))
	got := i.list("backend", "list")
	if len(got) != 2 || got[0]["name"] != "away" || got[0]["answers"] != false || got[0]["error"] == nil ||
		got[1]["answers"] != true || got[1]["version"] != "0.11.0" || fmt.Sprint(got[1]["models"]) != "[m1 m2]" || got[1]["max_concurrent"] != 3.0 || got[1]["boundary"] != "campus" {
		t.Errorf("backends %v", got)
	}
	if table := i.ok("backend", "list"); !regexp.MustCompile(`(?m)^here +vllm +http://\S+ +enabled +yes +3 +m1,m2$`).MatchString(table) {
		t.Errorf("table\n%s", table)
	}
	for command, intent := range map[string]string{"drain": "draining", "disable": "disabled", "enable": "enabled"} {
		i.ok("backend", command, "here")
		if got := i.list("backend", "list")[1]["intent"]; got != intent {
			t.Errorf("after %s the intent is %v", command, got)
		}
		i.want(exitFailed, `there is no backend "gone"`, "backend", command, "gone")
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	url := vllm(t, "sk-hunter2")
	i.environ = append(i.environ, "PROBE_KEY=sk-hunter2")
	var got probeLine
	if err := json.Unmarshal([]byte(i.ok("backend", "probe", url, "--key-env", "PROBE_KEY", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Engine != "vllm" || got.Version != "0.11.0" || len(got.Models) != 2 || got.Models[0].Name != "m1" || got.Models[0].ContextLength != 4096 {
		t.Errorf("probe %+v", got)
	}
	text := i.ok("backend", "probe", strings.TrimPrefix(url, "http://")+"/v1/", "--key-env", "PROBE_KEY")
	if !regexp.MustCompile(`^engine: vllm 0\.11\.0\nMODEL +CONTEXT +CAPABILITIES\nm1 +4096 +`).MatchString(text) {
		t.Errorf("probe prints\n%s", text)
	}
	i.want(exitFailed, "answers at", "backend", "probe", url) // without the key
	i.want(exitFailed, "answers at", "backend", "probe", "http://127.0.0.1:1")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	r := i.run("doctor")
	if r.exit != exitFailed || !regexp.MustCompile(`(?m)^broken  data directory: .* is not there -> start the server once`).MatchString(r.stdout) {
		t.Errorf("doctor of nothing: %+v", r)
	}
	i.ok("apply", "-f", i.write("c.yaml", fmt.Sprintf("backends: [{name: here, engine: vllm, url: '%s'}]", vllm(t, ""))))
	r = i.run("doctor", "--json")
	var findings []app.Finding
	if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil || len(findings) < 6 {
		t.Fatalf("doctor --json: %+v, %v", r, err)
	}
	broken := 0
	for _, f := range findings {
		if !f.OK && f.Check != "disk" { // the disk of whoever runs the tests is not ours to judge
			t.Errorf("broken: %+v", f)
		}
		if !f.OK {
			broken++
		}
	}
	if (r.exit == exitOK) != (broken == 0) {
		t.Errorf("exit %d with %d broken", r.exit, broken)
	}
	i.ok("apply", "-f", i.write("c.yaml", "backends: [{name: away, engine: ollama, url: 'http://127.0.0.1:1'}]"))
	r = i.run("doctor")
	if r.exit != exitFailed || !strings.Contains(r.stdout, "ok      backend here: vllm 0.11.0 answers with 2 models") || !strings.Contains(r.stdout, "broken  backend away: ") {
		t.Errorf("doctor with a dead backend: %+v", r)
	}
	i.environ = append(i.environ, "MINDROUTER_ADDR=x", "MINDROUTER_LOG_LEVEL=loud")
	r = i.run("doctor")
	if r.exit != exitFailed || strings.Count(r.stdout, "broken  configuration: ") != 2 {
		t.Errorf("doctor with bad settings: %+v", r)
	}
}

func TestServeSaysWhyItDoesNot(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	newInstallation(t).want(exitFailed, "address already in use", "serve", "--addr", taken.Addr().String())
}

func TestSimBackendUsage(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.want(exitUsage, "missing flags: --engine", "sim-backend")
	i.want(exitUsage, "", "sim-backend", "--engine", "vllm", "--fault", "nonsense@x")
	i.want(exitUsage, "", "sim-backend", "--engine", "vllm", "--models", ":")
}
