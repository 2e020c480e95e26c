//go:build real

package realmodels

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
)

// OllamaServer is a running Ollama that has all models of Models, none of them loaded yet.
type OllamaServer struct {
	// URL is the base of its API, without a slash at the end.
	URL     string
	process *process
}

const (
	ollamaReady  = 30 * time.Second
	createModels = time.Minute
)

// sharedOllama starts the server that the tests of one binary share. It ends with the binary.
var sharedOllama = sync.OnceValues(func() (*OllamaServer, error) {
	dir, err := os.MkdirTemp("", "ollama") // make test-real removes what is left in TMPDIR
	if err != nil {
		return nil, fmt.Errorf("create a directory for Ollama: %w", err)
	}
	return startOllama(dir)
})

// generated holds the models, which take longer to generate than to serve.
var generated = sync.OnceValue(func() map[string]Model {
	models := map[string]Model{}
	for _, model := range Models() {
		models[model.Name] = model
	}
	return models
})

// Ollama returns the server that all tests of this test binary share. It serves four requests at a
// time per model and keeps all models loaded. Tests must not delete models or change how they behave
// for others; StartOllama gives them a server of their own.
func Ollama(t testing.TB) *OllamaServer {
	t.Helper()
	server, err := sharedOllama()
	if err != nil {
		t.Fatalf("start Ollama: %v", err)
	}
	return server
}

// StartOllama starts another server, which stops at the end of the test. Settings are environment
// variables in the form NAME=value and override the ordinary ones.
func StartOllama(t testing.TB, settings ...string) *OllamaServer {
	t.Helper()
	server, err := startOllama(t.TempDir(), settings...)
	if err != nil {
		t.Fatalf("start Ollama: %v", err)
	}
	t.Cleanup(func() {
		if err := server.process.stop(); err != nil {
			t.Errorf("stop Ollama: %v", err)
		}
	})
	return server
}

// OllamaBusy starts a server that runs one request at a time and lets two wait. It answers any further
// one with 503. A request to the model Endless occupies it until cancelled or out of context.
func OllamaBusy(t testing.TB) *OllamaServer {
	t.Helper()
	return StartOllama(t, "OLLAMA_NUM_PARALLEL=1", "OLLAMA_MAX_QUEUE=2")
}

// Model returns the model of that name, a constant of this package.
func (s *OllamaServer) Model(t testing.TB, name string) Model {
	t.Helper()
	model, ok := generated()[name]
	if !ok {
		t.Fatalf("no generated model is called %q", name)
	}
	return model
}

// Client returns Ollama's own client for this server.
func (s *OllamaServer) Client(t testing.TB) *api.Client {
	t.Helper()
	client, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Stop ends the server while the test goes on, as a crash of its machine would look after a while.
func (s *OllamaServer) Stop(t testing.TB) {
	t.Helper()
	if err := s.process.stop(); err != nil {
		t.Fatalf("stop Ollama: %v", err)
	}
}

// Kill ends the server at once and cuts its connections, as a crash does.
func (s *OllamaServer) Kill(t testing.TB) {
	t.Helper()
	if err := s.process.kill(); err != nil {
		t.Fatalf("kill Ollama: %v", err)
	}
}

// Log returns what the server has printed so far. With the setting OLLAMA_DEBUG=2 it holds the prompt of every request
// whose model is loaded, before the model says anything.
func (s *OllamaServer) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(s.process.log)
	if err != nil {
		t.Fatalf("log of Ollama: %v", err)
	}
	return string(text)
}

// Runners returns the processes that hold loaded models, one for each model. A model that is loaded again has another.
func (s *OllamaServer) Runners(t testing.TB) []int {
	t.Helper()
	pids, err := s.process.children()
	if err != nil {
		t.Fatalf("runners of Ollama: %v", err)
	}
	return pids
}

// KillRunners ends the processes that hold loaded models while the server goes on, as a fault of a GPU does.
func (s *OllamaServer) KillRunners(t testing.TB) {
	t.Helper()
	pids := s.Runners(t)
	if len(pids) == 0 {
		t.Fatal("Ollama has no model loaded")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill a runner of Ollama: %v", err)
		}
	}
}

func startOllama(dir string, settings ...string) (*OllamaServer, error) {
	binary := os.Getenv(ollamaVariable)
	if binary == "" {
		return nil, fmt.Errorf("%s is not set: run `make test-real`, which builds Ollama", ollamaVariable)
	}
	p, err := startProcess(dir, "/api/version", ollamaReady, func(port string) (arguments, environment []string) {
		return []string{binary, "serve"}, append([]string{
			"OLLAMA_HOST=127.0.0.1:" + port,
			"OLLAMA_MODELS=" + filepath.Join(dir, "models"),
			"OLLAMA_NO_CLOUD=1",
			"OLLAMA_NOHISTORY=1",
			"OLLAMA_CONTEXT_LENGTH=4096",
			"OLLAMA_NUM_PARALLEL=4",
			"OLLAMA_MAX_LOADED_MODELS=16",
			"OLLAMA_KEEP_ALIVE=30m",
		}, settings...)
	})
	if err != nil {
		return nil, err
	}
	server := &OllamaServer{URL: p.url, process: p}
	if err := server.createModels(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, p.tail())
	}
	return server, nil
}

func (s *OllamaServer) client() (*api.Client, error) {
	base, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("address of Ollama: %w", err)
	}
	return api.NewClient(base, http.DefaultClient), nil
}

// createModels pushes the generated files through the server's API and makes models of them.
func (s *OllamaServer) createModels() error {
	client, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), createModels)
	defer cancel()
	for _, model := range generated() {
		sum := sha256.Sum256(model.GGUF)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		if err := client.CreateBlob(ctx, digest, bytes.NewReader(model.GGUF)); err != nil {
			return fmt.Errorf("push the file of %s: %w", model.Name, err)
		}
		err := client.Create(ctx, &api.CreateRequest{
			Model:    model.Name,
			Files:    map[string]string{"model.gguf": digest},
			Template: model.Template,
			// Threads of a model this small only wait for each other, each spinning on a core.
			Parameters: map[string]any{"num_thread": 1},
		}, func(api.ProgressResponse) error { return nil })
		if err != nil {
			return fmt.Errorf("create %s: %w", model.Name, err)
		}
	}
	return nil
}
