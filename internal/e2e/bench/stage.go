package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// stage is the model server, the bare proxy and the gateway, each a process of its own.
type stage struct {
	targets []target
	gateway *exec.Cmd
	dir     string
	started []*exec.Cmd
}

// target is one way to the model server.
type target struct {
	name, url, key string
}

func start(ctx context.Context) (s *stage, err error) {
	s = &stage{}
	if s.dir, err = os.MkdirTemp("", "mindrouter-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	binary := filepath.Join(s.dir, "mindrouter")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "mindrouter/cmd/mindrouter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, out)
	}
	backend, _, err := s.spawn(ctx, "url: ", binary, "sim-backend", "--engine", "vllm", "--time-scale", "0", "--slots", "256")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	proxy, _, err := s.spawn(ctx, "url: ", self, "-proxy", backend)
	if err != nil {
		return nil, err
	}
	key, err := s.install(ctx, binary, backend)
	if err != nil {
		return nil, err
	}
	gateway, cmd, err := s.spawn(ctx, "msg=serving url=", binary, "serve", "--addr", "127.0.0.1:0", "--data-dir", s.dir,
		"--log-format", "text", "--log-level", "info")
	if err != nil {
		return nil, err
	}
	s.gateway = cmd
	s.targets = []target{{"direct", backend, ""}, {"proxy", proxy, ""}, {"mindrouter", gateway, key}}
	err = s.ready(ctx, gateway)
	return s, err
}

// install makes the configuration: a backend, a user with limits, a key.
func (s *stage) install(ctx context.Context, binary, backend string) (key string, err error) {
	file := filepath.Join(s.dir, "cluster.yaml")
	text := fmt.Sprintf(`
backends: [{name: sim, engine: vllm, url: %q, max_concurrent: 256}]
groups: [{name: staff, weight: 2, requests_per_minute: 100000000, tokens_per_minute: 1000000000, token_budget: 1000000000000, max_concurrent: 256}]
`, backend)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"apply", "-f", file},
		{"user", "create", "bench", "--email", "bench@example.edu", "--group", "staff"},
		{"key", "create", "--user", "bench", "--name", "bench"},
	} {
		cmd := exec.CommandContext(ctx, binary, append(args, "--data-dir", s.dir)...)
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		}
		key = strings.TrimSpace(string(out))
	}
	return key, nil
}

// spawn starts a process and waits for the line with its address.
func (s *stage) spawn(ctx context.Context, mark, name string, args ...string) (address string, cmd *exec.Cmd, err error) {
	cmd = exec.CommandContext(ctx, name, args...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	s.started = append(s.started, cmd)
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(r)
		told := false
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), mark); ok && !told {
				told = true
				found <- strings.Fields(rest)[0]
			}
		}
	}()
	select {
	case address = <-found:
		return address, cmd, nil
	case <-time.After(30 * time.Second):
		return "", nil, fmt.Errorf("%s does not start", filepath.Base(name))
	}
}

func (s *stage) ready(ctx context.Context, url string) error {
	for range 500 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the gateway does not get ready")
}

func (s *stage) stop() {
	for _, cmd := range s.started {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// memory is the gateway's resident memory in MiB.
func (s *stage) memory() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.gateway.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kib / 1024
}

// serveProxy is the baseline: what the standard library offers, with its trap disarmed. Without full duplex it cuts fast
// streamed answers to a POST now and then.
func serveProxy(backend string, out io.Writer) error {
	to, err := url.Parse(backend)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 256},
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})
	if _, err := fmt.Fprintf(out, "url: http://%s\n", l.Addr()); err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return srv.Serve(l)
}
