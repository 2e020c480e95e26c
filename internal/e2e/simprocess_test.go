package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/e2e"
)

// TestSimulatedServersAsProcesses runs everything as processes of their own: a simulated model server of each engine,
// one of which demands a key, and MindRouter in front of them.
func TestSimulatedServersAsProcesses(t *testing.T) {
	t.Parallel()
	const secret = "sim-key-of-this-test"
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cluster := "backends:\n"
	sims := map[string]*e2e.Process{}
	for _, e := range engines {
		model := e.name + "-model"
		sims[e.name] = e2e.StartSimBackend(t, "--engine", string(e.dialect), "--models", model+":chat+tools@32768",
			"--time-scale", "0.2", "--api-key", secret)
		cluster += fmt.Sprintf("  - {name: %s, engine: %s, url: %q, api_key: %q}\n",
			e.name, e.dialect, sims[e.name].URL, "file:"+write("key", secret))
	}
	mustRun(t, dir, "apply", "-f", write("cluster.yaml", cluster))
	mustRun(t, dir, "user", "create", "alice", "--email", "alice@example.edu", "--group", "staff")
	key := strings.TrimSpace(mustRun(t, dir, "key", "create", "--user", "alice", "--name", "test"))
	p := e2e.StartProcess(t, dir)
	ready(t, p.URL)
	c := openai.NewClient(option.WithBaseURL(p.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	for _, e := range engines {
		got, _ := bothWays(t, c, ask(e.name+"-model", "[[say=from another process]]"))
		if text := got.Choices[0].Message.Content; text != "from another process" {
			t.Errorf("%s answers %q", e.name, text)
		}
	}

	// A model server that dies in the middle of an answer: an error, no claim of success, and the others go on.
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()
	stream := c.Chat.Completions.NewStreaming(ctx, ask("vllm-model", "[[tokens=9000]]"))
	if !stream.Next() {
		t.Fatalf("no answer: %v", stream.Err())
	}
	sims["vllm"].Signal(syscall.SIGKILL)
	for stream.Next() {
	}
	if err := stream.Err(); err == nil || ctx.Err() != nil {
		t.Errorf("the stream of a killed model server ended with %v, want an error", err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	status, body, err := post(ctx, p.URL, key, `{"model":"ollama-model","messages":[{"role":"user","content":"[[say=alive]]"}]}`)
	if err != nil || status != http.StatusOK || !strings.Contains(body, "alive") {
		t.Errorf("the other model server: %d %v %s", status, err, body)
	}
	status, body, err = post(ctx, p.URL, key, `{"model":"vllm-model","messages":[{"role":"user","content":"hi"}]}`)
	if err != nil || (status != http.StatusBadGateway && status != http.StatusServiceUnavailable) {
		t.Errorf("the dead model server: %d %v %s, want 502 or 503", status, err, body)
	}
	for _, name := range []string{"ollama", "openai"} {
		sims[name].Signal(syscall.SIGTERM)
		if err := sims[name].Wait(); err != nil {
			t.Errorf("%s at SIGTERM: %v", name, err)
		}
	}
	if strings.Contains(p.Logs(), secret) || strings.Contains(p.Logs(), key) {
		t.Errorf("the log holds a key:\n%s", p.Logs())
	}
}

func TestSimBackendRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"engine":  {"--engine", "gguf"},
		"context": {"--engine", "vllm", "--models", "m@plenty"},
		"fault":   {"--engine", "vllm", "--fault", "sulk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, exit := command(t, t.TempDir(), append([]string{"sim-backend"}, args...)...)
			if exit != 2 || stdout != "" || stderr == "" {
				t.Errorf("exit %d, output %q, errors %q; want 2 and a reason", exit, stdout, stderr)
			}
		})
	}
}
