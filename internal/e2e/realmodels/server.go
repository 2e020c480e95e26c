//go:build real

package realmodels

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The variables that `make test-real` sets.
const (
	ollamaVariable        = "MINDROUTER_TEST_OLLAMA"
	llamaCppVariable      = "MINDROUTER_TEST_LLAMA_CPP"
	llamaCppModelVariable = "MINDROUTER_TEST_LLAMA_CPP_MODEL"
)

// stopTimeout is how long a server may take to end after SIGTERM.
const stopTimeout = 10 * time.Second

// process is a running server.
type process struct {
	url     string
	command *exec.Cmd
	log     string        // path of its output
	ended   chan struct{} // closed when it has ended
}

// startProcess starts a server that listens on a loopback port, which arguments and environment may
// depend on, and waits until GET path answers 200. The environment holds nothing but PATH, a HOME in dir
// and what is given. The server ends with stop, or with this test binary, however that ends.
func startProcess(dir, path string, ready time.Duration, command func(port string) (arguments, environment []string)) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	arguments, environment := command(port)
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, fmt.Errorf("create the log of a server: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has its own copy

	p := &process{url: "http://127.0.0.1:" + port, log: log.Name(), ended: make(chan struct{})}
	p.command = exec.Command(arguments[0], arguments[1:]...) // outlives the call
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}, environment...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}

	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the process ends, so this one is kept.
		runtime.LockOSThread()
		started <- p.command.Start()
		if p.command.Process != nil {
			_ = p.command.Wait() // how a stopped server ended says nothing
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", arguments[0], err)
	}
	if err := p.awaitReady(path, ready); err != nil {
		err = fmt.Errorf("%s: %w\n%s", arguments[0], err, p.tail())
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// freePort returns a loopback port that nobody listens on now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}

// awaitReady asks until the server answers. A server outside this process cannot say that it is ready.
func (p *process) awaitReady(path string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
		if err != nil {
			return fmt.Errorf("ask whether the server is ready: %w", err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-again.C:
		case <-p.ended:
			return errors.New("the server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready within %s", limit)
		}
	}
}

// stop ends the server and waits for it.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.command.Path, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %s", p.command.Path, stopTimeout)
	}
}

// kill ends the server without a chance to tidy up, and waits for it. Its children end with it: they hold its models.
func (p *process) kill() error {
	children, err := p.children()
	if err != nil {
		return err
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.command.Path, err)
	}
	<-p.ended
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill a child of %s: %w", p.command.Path, err)
		}
	}
	return nil
}

// children returns the processes that the server has started and that run.
func (p *process) children() ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.command.Process.Pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, fmt.Errorf("children of %s: %w", p.command.Path, err)
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("children of %s: %w", p.command.Path, err)
			}
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// tail returns the end of what the server printed.
func (p *process) tail() string {
	const limit = 4000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-limit):])
}
