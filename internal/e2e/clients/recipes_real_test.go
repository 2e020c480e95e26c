//go:build real

package clients_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// exampleURL is the address in recipes: that of `mindrouter demo`.
const exampleURL = "http://127.0.0.1:8080"

// recipe reads a recipe, with the address of the server under test in place of the example's.
func recipe(t *testing.T, s *e2e.Server, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("recipes", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), exampleURL, s.URL)
}

// startDemo starts a gateway with the models that `mindrouter demo` has.
func startDemo(t *testing.T) *e2e.Server {
	t.Helper()
	return e2e.Start(t, e2e.Options{Backends: map[string]simbackend.Config{
		"sim-vllm": {Dialect: simbackend.DialectVLLM}, "sim-ollama": {Dialect: simbackend.DialectOllama},
	}})
}

// runRecipes runs recipes that are programs, each on its own, and wants as many answers of the model from each as it asks
// questions.
func runRecipes(t *testing.T, pattern string, run func(t *testing.T, p *program, name string) (stdout, stderr string, err error)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("recipes", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d recipes, %v", len(names), err)
	}
	for _, name := range names {
		name := filepath.Base(name)
		t.Run(name, func(t *testing.T) {
			s := startDemo(t)
			p := newProgram(t, s, s.Key(app.NewKey{}))
			text := recipe(t, s, name)
			// A module of the same name as the package that it imports would import itself.
			p.write(t, "recipe-"+name, text)
			stdout, stderr, err := run(t, p, "recipe-"+name)
			asked := 0
			for _, r := range s.Backends["sim-vllm"].InferenceRequests() {
				if r.Path == "/v1/chat/completions" {
					asked++
				}
			}
			if got := strings.Count(stdout, "This is a simulated answer from sim-chat."); err != nil || got < 2 || got != asked {
				t.Errorf("%d answers to %d questions, %v\n%s%s", got, asked, err, stdout, stderr)
			}
		})
	}
}

func TestRealPythonRecipes(t *testing.T) {
	t.Parallel()
	interpreter := installed(t, pythonVariable)
	runRecipes(t, "*.py", func(t *testing.T, p *program, name string) (stdout, stderr string, err error) {
		t.Helper()
		return p.run(t, interpreter, name)
	})
}

func TestRealJavaScriptRecipes(t *testing.T) {
	t.Parallel()
	node, modules := installed(t, nodeVariable), installed(t, sdksVariable)
	runRecipes(t, "*.mjs", func(t *testing.T, p *program, name string) (stdout, stderr string, err error) {
		t.Helper()
		p.linkModules(t, modules)
		return p.run(t, node, name)
	})
}
