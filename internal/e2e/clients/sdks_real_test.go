//go:build real

package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/realmodels"
	"mindrouter/internal/simbackend"
)

// task is what a check program is to ask for, and what to expect.
type task struct {
	LimitedKey string       `json:"limited_key"`
	Chat       conversation `json:"chat"`
	Completion conversation `json:"completion"`
	Tools      conversation `json:"tools"`
	Schema     conversation `json:"schema"`
	Embed      conversation `json:"embed"`
}

type conversation struct {
	Model  string `json:"model"`
	Prompt string `json:"prompt,omitempty"`
	Says   string `json:"says,omitempty"`  // the whole answer
	Tool   string `json:"tool,omitempty"`  // the only tool; it takes a city
	After  string `json:"after,omitempty"` // what the answer to the tool's result contains
	Dims   int    `json:"dims,omitempty"`
}

// simulatedTask is what simulated servers are asked for.
func simulatedTask() task {
	say := conversation{Model: "chat", Prompt: "[[say=Blue — синий — 青 🟦]]", Says: "Blue — синий — 青 🟦"}
	return task{
		Chat: say, Completion: say,
		Tools:  conversation{Model: "chat", Prompt: "Call get_weather for Oslo", Tool: "get_weather", After: "21, sunny"},
		Schema: conversation{Model: "chat", Prompt: "A person please"},
		Embed:  conversation{Model: "embed", Dims: 16},
	}
}

// realTask is what the real Ollama with its tiny models is asked for.
func realTask(t *testing.T, o *realmodels.OllamaServer) task {
	t.Helper()
	says := o.Model(t, realmodels.Chat).Says
	say := conversation{Model: realmodels.Chat, Prompt: "What is the capital of France?", Says: says}
	return task{
		Chat: say, Completion: say,
		Tools: conversation{
			Model: realmodels.Tools, Prompt: "How is the weather?", Tool: realmodels.WeatherTool,
			After: o.Model(t, realmodels.Tools).Says,
		},
		Schema: conversation{Model: realmodels.JSON, Prompt: "Describe somebody."},
		Embed:  conversation{Model: realmodels.Embed, Dims: 64},
	}
}

// overBackends runs a check program through a gateway to each backend. Each of the checks, separated by spaces, is a
// subtest; one that is not told of fails.
func overBackends(t *testing.T, checks string, command func(t *testing.T, p *program) []string) {
	t.Helper()
	run := func(t *testing.T, s *e2e.Server, ask task) {
		t.Helper()
		ask.LimitedKey = exhausted(t, s, ask.Chat.Model)
		text, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		p := newProgram(t, s, s.Key(app.NewKey{}))
		p.env = append(p.env, "MINDROUTER_TASK="+string(text))
		words := command(t, p)
		stdout, stderr, err := p.run(t, words[0], words[1:]...)
		got := verdicts(t, stdout)
		if err != nil || len(got) == 0 {
			t.Errorf("%v\n%s%s", err, stdout, stderr)
		}
		for name := range strings.FieldsSeq(checks) {
			t.Run(name, func(t *testing.T) {
				if reason, ok := got[name]; !ok {
					t.Errorf("the check was not made\n%s", stderr)
				} else if reason != "" {
					t.Error(reason)
				}
			})
			delete(got, name)
		}
		for name := range got {
			t.Errorf("the check %s is made but not promised", name)
		}
	}
	for _, d := range []simbackend.Dialect{simbackend.DialectVLLM, simbackend.DialectOllama} {
		t.Run(string(d), func(t *testing.T) {
			run(t, e2e.Start(t, e2e.Options{Backends: map[string]simbackend.Config{"sim": {
				Dialect: d, EmbeddingDims: 16, Models: models(t, "chat:chat+tools+json@32768,embed:embedding@8192"),
			}}}), simulatedTask())
		})
	}
	t.Run("real-ollama", func(t *testing.T) {
		o := realmodels.Ollama(t)
		s := e2e.Start(t, e2e.Options{Cluster: fmt.Sprintf("backends: [{name: real, engine: ollama, url: %q}]", o.URL)})
		run(t, s, realTask(t, o))
	})
}

// python runs a check program of a Python library.
func python(t *testing.T, script, checks string) {
	t.Helper()
	t.Parallel()
	interpreter := installed(t, pythonVariable)
	path, err := filepath.Abs(filepath.Join("checks", script))
	if err != nil {
		t.Fatal(err)
	}
	overBackends(t, checks, func(*testing.T, *program) []string { return []string{interpreter, path} })
}

// javascript runs a check program of a JavaScript library. Node looks for packages beside the program.
func javascript(t *testing.T, script, checks string) {
	t.Helper()
	t.Parallel()
	node, modules := installed(t, nodeVariable), installed(t, sdksVariable)
	overBackends(t, checks, func(t *testing.T, p *program) []string {
		t.Helper()
		p.linkModules(t, modules)
		for _, name := range []string{"harness.mjs", script} {
			text, err := os.ReadFile(filepath.Join("checks", name))
			if err != nil {
				t.Fatal(err)
			}
			p.write(t, name, string(text))
		}
		return []string{node, script}
	})
}

func (p *program) linkModules(t *testing.T, modules string) {
	t.Helper()
	if err := os.Symlink(modules, filepath.Join(p.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
}

func TestRealPythonOpenAI(t *testing.T) {
	python(t, "openai_client.py", "chat stream tools tools_stream schema responses responses_tools embeddings models errors")
}

func TestRealPythonAnthropic(t *testing.T) {
	python(t, "anthropic_client.py", "chat stream tools tools_stream schema count_tokens models errors")
}

func TestRealPythonOllama(t *testing.T) {
	python(t, "ollama_client.py", "chat stream generate tools tools_stream schema embeddings models errors")
}

func TestRealPythonLangChain(t *testing.T) {
	python(t, "langchain_client.py", "chat stream tools tools_stream schema responses embeddings errors")
}

func TestRealPythonLlamaIndex(t *testing.T) {
	python(t, "llama_index_client.py", "chat stream completion tools schema embeddings errors")
}

func TestRealJavaScriptOpenAI(t *testing.T) {
	javascript(t, "openai.mjs", "chat stream tools tools_stream schema responses embeddings models errors")
}

func TestRealJavaScriptAnthropic(t *testing.T) {
	javascript(t, "anthropic.mjs", "chat stream tools tools_stream schema count_tokens models errors")
}

func TestRealJavaScriptOllama(t *testing.T) {
	javascript(t, "ollama.mjs", "chat stream generate tools tools_stream schema embeddings models errors")
}

func TestRealJavaScriptLangChain(t *testing.T) {
	javascript(t, "langchain.mjs", "chat stream tools tools_stream schema responses embeddings errors")
}

func TestRealJavaScriptAISDK(t *testing.T) {
	javascript(t, "ai-sdk.mjs", "chat stream tools tools_stream schema embeddings errors")
}
