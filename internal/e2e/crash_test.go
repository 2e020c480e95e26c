package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// command runs the binary once and returns its standard output.
func command(t *testing.T, dir string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	binary := e2e.Binary(t) // may take long, once
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), e2e.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--data-dir", dir)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatalf("%s: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func mustRun(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, errs, exit := command(t, dir, args...)
	if exit != 0 {
		t.Fatalf("mindrouter %s: exit %d: %s%s", strings.Join(args, " "), exit, out, errs)
	}
	return out
}

// installation is a data directory with a backend and a key, made by the binary's own commands with the flags.
func installation(t *testing.T, cfg simbackend.Config, flags ...string) (dir, key string, sim *simbackend.Running) {
	t.Helper()
	dir = t.TempDir()
	sim, err := simbackend.Start(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "cluster.yaml")
	text := fmt.Sprintf("backends: [{name: sim, engine: %s, url: %q, max_concurrent: 30}]\n", cfg.Dialect, sim.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string { return mustRun(t, dir, append(args, flags...)...) }
	run("apply", "-f", file)
	run("user", "create", "alice", "--email", "alice@example.edu", "--group", "staff")
	out := run("key", "create", "--user", "alice", "--name", "test", "--budget", "600000")
	key = strings.TrimSuffix(out, "\n")
	if !strings.HasPrefix(key, "mr2_") || strings.ContainsAny(key, " \n") {
		t.Fatalf("key create printed %q, want the key alone", out)
	}
	return dir, key, sim
}

// post sends a chat request and returns the status and the body as far as it came.
func post(ctx context.Context, url, key, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
}

// ready waits until a server has asked its backends.
func ready(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(e2e.Deadline); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("the server does not get ready")
}

// outcomes counts the recorded requests by outcome, from the database file.
func outcomes(t *testing.T, dir string) map[string]int {
	t.Helper()
	return outcomesIn(t, "sqlite", "file:"+filepath.Join(dir, "mindrouter.db")+"?_pragma=busy_timeout(5000)")
}

// outcomesIn counts the recorded requests by outcome, from any database.
func outcomesIn(t *testing.T, driver, source string) map[string]int {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, err := db.QueryContext(t.Context(), "SELECT outcome, COUNT(*) FROM requests GROUP BY outcome")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKillLosesNoAcceptedRequest(t *testing.T) {
	t.Parallel()
	dir, key, sim := installation(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models(t), TimeScale: 1})
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()

	first := e2e.StartProcess(t, dir)
	ready(t, first.URL)
	var wg sync.WaitGroup
	for range 50 { // 30 run, 20 wait for a slot
		wg.Go(func() {
			_, _, _ = post(ctx, first.URL, key, `{"model":"chat","stream":true,"max_tokens":9000,"messages":[{"role":"user","content":"[[tokens=9000]]"}]}`)
		})
	}
	if err := sim.WaitRunning(ctx, 16); err != nil { // as many as the simulated server runs at once
		t.Fatal(err)
	}
	// All 50 are accepted when their Begin is in the database.
	for deadline := time.Now().Add(e2e.Deadline); outcomes(t, dir)[""] < 50 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	first.Signal(syscall.SIGKILL)
	wg.Wait()
	if err := sim.WaitIdle(ctx); err != nil {
		t.Fatalf("the backend still runs %d requests of a dead server", sim.InFlight())
	}

	second := e2e.StartProcess(t, dir)
	ready(t, second.URL)
	if got := outcomes(t, dir); got["lost"] != 50 || len(got) != 1 {
		t.Errorf("after the restart the record holds %v, want 50 lost", got)
	}
	// No slot and no reservation leaked: as many run as before, and the whole budget is there.
	for range 50 {
		wg.Go(func() {
			status, body, err := post(ctx, second.URL, key, `{"model":"chat","max_tokens":9000,"messages":[{"role":"user","content":"[[say=again]]"}]}`)
			if err != nil || status != http.StatusOK {
				t.Errorf("after the restart: %d %v %s", status, err, body)
			}
		})
	}
	wg.Wait()
	second.Signal(syscall.SIGTERM)
	if err := second.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, second.Logs())
	}
	if got := outcomes(t, dir); got["lost"] != 50 || got["success"] != 50 {
		t.Errorf("the record holds %v, want 50 lost and 50 success", got)
	}
}

func TestTermLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	dir, key, sim := installation(t, simbackend.Config{Dialect: simbackend.DialectOllama, Models: models(t), TimeScale: 1})
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()
	p := e2e.StartProcess(t, dir)
	ready(t, p.URL)
	type result struct {
		status int
		body   string
		err    error
	}
	results := make(chan result, 2)
	for _, stream := range []bool{true, false} {
		go func() {
			status, body, err := post(ctx, p.URL, key,
				fmt.Sprintf(`{"model":"chat","stream":%t,"messages":[{"role":"user","content":"[[tokens=40]]"}]}`, stream))
			results <- result{status, body, err}
		}()
	}
	if err := sim.WaitRunning(ctx, 2); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	for range 2 {
		r := <-results
		if r.err != nil || r.status != http.StatusOK || !strings.Contains(r.body, "stop") {
			t.Errorf("a request that ran at SIGTERM: %d %v %s", r.status, r.err, r.body)
		}
	}
	if err := p.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if got := outcomes(t, dir); got["success"] != 2 || len(got) != 1 {
		t.Errorf("the record holds %v, want 2 success", got)
	}
}

func TestDrainTimeoutCutsWithAnExplicitError(t *testing.T) {
	t.Parallel()
	dir, key, sim := installation(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models(t), TimeScale: 1})
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()
	p := e2e.StartProcess(t, dir, "--drain-timeout", "200ms")
	ready(t, p.URL)
	body := make(chan string, 1)
	go func() {
		_, text, _ := post(ctx, p.URL, key, `{"model":"chat","stream":true,"messages":[{"role":"user","content":"[[tokens=9000]]"}]}`)
		body <- text
	}()
	if err := sim.WaitRunning(ctx, 1); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	if text := <-body; !strings.Contains(text, `"error"`) || strings.Contains(text, "[DONE]") {
		t.Errorf("the cut stream ends as %s", text[max(0, len(text)-400):])
	}
	if err := p.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if got := outcomes(t, dir); got["error"] != 1 {
		t.Errorf("the record holds %v, want 1 error", got)
	}
}

func TestSecondServerIsRefusedAndCommandsAreNot(t *testing.T) {
	t.Parallel()
	dir, key, _ := installation(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models(t)})
	p := e2e.StartProcess(t, dir)
	ready(t, p.URL)
	_, errs, exit := command(t, dir, "serve", "--addr", "127.0.0.1:0")
	if exit != 1 || !strings.Contains(errs, "another server") {
		t.Errorf("second server: exit %d: %s", exit, errs)
	}
	mustRun(t, dir, "key", "revoke", key[:12])
	for deadline := time.Now().Add(10 * time.Second); ; { // promised within one
		status, _, err := post(t.Context(), p.URL, key, `{}`)
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the running server does not follow the command")
		}
	}
}
