//go:build real

package realmodels

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// LlamaCppModel is the name of the one model of LlamaCpp: Gemma 3 with 270 million parameters, not
// tuned to chat. It speaks real language, of which little is certain. Asked at temperature 0 for the
// capital of France it names Paris, and it seldom stops by itself.
const LlamaCppModel = "gemma3-270m"

// LlamaCppServer is the running server of llama-cpp-python, which speaks the protocol of OpenAI under
// /v1, one request at a time. It is known to answer for any model name; to send no usage in a stream; to
// call only a tool that it is told to; to repeat the name and the old function_call in every fragment of a
// call; to refuse a JSON schema and embeddings, with status 500; and to answer a stream whose prompt is too
// long with status 200 and nothing.
type LlamaCppServer struct {
	// URL is the base without /v1 and without a slash at the end.
	URL string
}

// llamaCppReady is generous because Python loads slowly on a cold disk.
const llamaCppReady = 2 * time.Minute

// sharedLlamaCpp starts the server that the tests of one binary share. It ends with the binary.
var sharedLlamaCpp = sync.OnceValues(func() (*LlamaCppServer, error) {
	dir, err := os.MkdirTemp("", "llama-cpp")
	if err != nil {
		return nil, fmt.Errorf("create a directory for llama-cpp-python: %w", err)
	}
	p, err := startProcess(dir, "/v1/models", llamaCppReady, func(port string) (arguments, environment []string) {
		return []string{
			os.Getenv(llamaCppVariable), "-m", "llama_cpp.server",
			"--host", "127.0.0.1", "--port", port,
			"--model", os.Getenv(llamaCppModelVariable), "--model_alias", LlamaCppModel,
			"--n_ctx", "2048", "--n_threads", "1", "--seed", "1",
			"--chat_format", "vicuna", // the file brings no template; this plain one fits best
			// A second request waits instead of ending the first one.
			"--interrupt_requests", "false",
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return &LlamaCppServer{URL: p.url}, nil
})

// LlamaCpp returns the server that all tests of this test binary share. Where `make test-real` could
// not install it, which it has said, the test is skipped.
func LlamaCpp(t testing.TB) *LlamaCppServer {
	t.Helper()
	if os.Getenv(llamaCppVariable) == "" {
		t.Skipf("MISSING: llama-cpp-python is not installed (%s is not set)", llamaCppVariable)
	}
	server, err := sharedLlamaCpp()
	if err != nil {
		t.Fatalf("start llama-cpp-python: %v", err)
	}
	return server
}
