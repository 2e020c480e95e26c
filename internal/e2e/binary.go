package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// goBuild builds the command, static as it is shipped.
func goBuild(path string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "mindrouter/cmd/mindrouter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Process is the real binary, running.
type Process struct {
	URL string

	t    testing.TB
	cmd  *exec.Cmd
	logs *logBuffer
	done chan error
}

// StartProcess runs the binary as a server on the data directory dir and waits until it serves.
func StartProcess(t testing.TB, dir string, args ...string) *Process {
	t.Helper()
	args = append([]string{"serve", "--addr", "127.0.0.1:0", "--data-dir", dir, "--log-format", "text"}, args...)
	return start(t, dir, (*exec.Cmd).StderrPipe, "msg=serving url=", args...)
}

// StartSimBackend runs the binary as a simulated model server and waits until it serves.
func StartSimBackend(t testing.TB, args ...string) *Process {
	t.Helper()
	return start(t, t.TempDir(), (*exec.Cmd).StdoutPipe, "url: ", append([]string{"sim-backend"}, args...)...)
}

// start runs the binary with its home in dir and waits until it writes, on one of its outputs, its address after mark.
func start(t testing.TB, dir string, output func(*exec.Cmd) (io.ReadCloser, error), mark string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, logs: &logBuffer{}, done: make(chan error, 1)}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), Binary(t), args...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	lines, err := output(p.cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Signal(syscall.SIGKILL); _ = p.Wait() })
	url := make(chan string, 1)
	go func() { p.done <- p.follow(lines, mark, url) }()
	select {
	case p.URL = <-url:
		if p.URL == "" {
			t.Fatalf("the server ended:\n%s", p.logs)
		}
	case <-time.After(Deadline):
		t.Fatalf("the server does not start:\n%s", p.logs)
	}
	return p
}

// follow reads the output to its end and waits for the process.
func (p *Process) follow(lines io.Reader, mark string, url chan<- string) error {
	told := false
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		_, _ = fmt.Fprintln(p.logs, line)
		if _, rest, ok := strings.Cut(line, mark); ok && !told {
			told = true
			url <- strings.Fields(rest)[0]
		}
	}
	if !told {
		close(url)
	}
	return p.cmd.Wait()
}

// Signal sends a signal; a process that has ended ignores it.
func (p *Process) Signal(sig syscall.Signal) {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal: %v", err)
	}
}

// Wait waits for the end of the process.
func (p *Process) Wait() error {
	select {
	case err := <-p.done:
		p.done <- err // for the next one who asks
		return err
	case <-time.After(2 * Deadline):
		return errors.New("the process does not end")
	}
}

// Logs is what the process has written.
func (p *Process) Logs() string { return p.logs.String() }
