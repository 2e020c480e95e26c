//go:build real

package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// What scripts/real.sh has installed; unset if that was impossible, which it tells.
const (
	pythonVariable = "MINDROUTER_TEST_PYTHON"    // a Python with the packages of requirements.txt
	nodeVariable   = "MINDROUTER_TEST_NODE"      // Node 22 or later
	sdksVariable   = "MINDROUTER_TEST_NODE_SDKS" // the node_modules of sdks
	agentsVariable = "MINDROUTER_TEST_AGENTS"    // a directory with their commands
)

// patience bounds one run of a client.
const patience = 60 * time.Second

// installed returns what a variable names, or skips the test.
func installed(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("NOT RUN: %s is not set. `make test-real` installs what the test needs, or says why it cannot", name)
	}
	return value
}

// program is a client to be run, with an environment and a home of its own.
type program struct {
	dir  string
	home string
	env  []string
}

func newProgram(t *testing.T, s *e2e.Server, key string) *program {
	t.Helper()
	home, outside := t.TempDir(), nobody(t)
	p := &program{dir: t.TempDir(), home: home}
	p.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir(), "LANG=C.UTF-8",
		"MINDROUTER_URL=" + s.URL, "MINDROUTER_KEY=" + key,
		"HTTP_PROXY=" + outside, "HTTPS_PROXY=" + outside, "ALL_PROXY=" + outside, "http_proxy=" + outside, "https_proxy=" + outside,
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
		"NPM_CONFIG_REGISTRY=" + s.URL, // has no packages; opencode looks for one at every start and goes on without it
		"PYTHONDONTWRITEBYTECODE=1", "LANGCHAIN_TRACING_V2=false", "LANGSMITH_TRACING=false", "DO_NOT_TRACK=1",
	}
	return p
}

// nobody is a proxy that reaches nobody. A client that asks for anything but the gateway fails the test.
func nobody(t *testing.T) string {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]int{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.Host]++
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(func() {
		proxy.Close()
		if len(asked) > 0 {
			t.Errorf("the client asked others than the gateway: %v", asked)
		}
	})
	return proxy.URL
}

// write writes a file. A relative name is one in the directory in which the program runs.
func (p *program) write(t *testing.T, name, text string) {
	t.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(p.dir, name)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// run runs a command and returns what it printed on both channels. The whole process group ends with it.
func (p *program) run(t *testing.T, name string, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind; mostly nobody is there
	}
	return out.String(), errs.String(), err
}

// models are those of the simulated servers.
func models(t *testing.T, specs string) []simbackend.Model {
	t.Helper()
	m, err := simbackend.ParseModels(specs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// exhausted makes a key whose only request of the minute has been made.
func exhausted(t *testing.T, s *e2e.Server, model string) string {
	t.Helper()
	key := s.Key(app.NewKey{User: "mallory", Limits: app.Limits{RequestsPerMinute: 1}})
	if got := s.Post("/v1/chat/completions", key, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`); got.Status != 200 {
		t.Fatalf("the only request of a key: %d %s", got.Status, got.Body)
	}
	return key
}

// verdicts reads the lines of a check program: the reason for each check that failed, empty for those that passed.
func verdicts(t *testing.T, output string) map[string]string {
	t.Helper()
	got := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "ok "); ok {
			got[name] = ""
		} else if rest, ok := strings.CutPrefix(lines.Text(), "not ok "); ok {
			name, reason, _ := strings.Cut(rest, " ")
			var text string
			if err := json.Unmarshal([]byte(reason), &text); err != nil || text == "" {
				text = "failed: " + reason
			}
			got[name] = text
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}
