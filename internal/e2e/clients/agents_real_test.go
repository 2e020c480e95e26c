//go:build real

package clients_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// agent is one coding agent without a terminal. It runs by its recipe.
type agent struct {
	recipe string
	// config is a recipe, too, and where it belongs below the home directory. Empty: none.
	config, path string
	// more is appended to config, and settings to the environment: what keeps updates and telemetry off.
	more     string
	settings []string
	// prompt stands for the recipe's question in its command, with options behind. $PROMPT is the prompt.
	prompt string
	// known is a model that its makers know, and to which the agent therefore talks differently. Here it is an alias.
	known string
	// writeKnown is write for that model, if it is given other tools.
	writeKnown func(path, text string) string
	// read and write are calls of its tools, as marks for the simulated model, that print a file and make one.
	read  func(path string) string
	write func(path, text string) string
}

// question is what every recipe of an agent asks.
const question = `"Say hello."`

// secret is what no model could know without the file.
const secret = "the heron counts 7319 stones"

// overEngines has an agent talk, then read a file and then write one, through a gateway to a server of each engine.
func (a agent) overEngines(t *testing.T) {
	t.Helper()
	t.Parallel()
	installed(t, agentsVariable)
	installed(t, nodeVariable)
	for _, c := range []struct {
		name, model string
		dialect     simbackend.Dialect
	}{
		{"vllm", "sim-chat", simbackend.DialectVLLM},
		{"ollama", "sim-chat", simbackend.DialectOllama},
		{"known", a.known, simbackend.DialectVLLM},
	} {
		if c.model == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := e2e.Start(t, e2e.Options{
				Backends: map[string]simbackend.Config{"sim": {Dialect: c.dialect, Models: models(t, "sim-chat:chat+tools+json@65536")}},
				// Unless told otherwise, Ollama is asked for a context that is too small for agents.
				Cluster: fmt.Sprintf(`
backends: [{name: sim, engine: %s, url: "%%sim%%"}]
models: [{name: sim-chat, context_length: 65536}]
aliases: [{name: %s, targets: [sim-chat]}]`, c.dialect, cmp.Or(a.known, "other")),
			})
			a.turns(t, s, c.model)
		})
	}
}

// turns has the agent talk, read and write.
func (a agent) turns(t *testing.T, s *e2e.Server, model string) {
	t.Helper()
	requests := s.Backends["sim"].InferenceRequests
	t.Run("prompt", func(t *testing.T) {
		if _, answer := a.ask(t, s, model, "[[say="+secret+"]]", ""); !strings.Contains(answer, secret) {
			t.Errorf("the agent does not show the answer: %s", answer)
		}
	})
	t.Run("read", func(t *testing.T) {
		before := len(requests())
		_, answer := a.ask(t, s, model, a.read("DIR/note.txt"), secret+"\n")
		if !slices.ContainsFunc(requests()[before:], func(r simbackend.Request) bool { return strings.Contains(string(r.Body), secret) }) {
			t.Errorf("the model is not told what the agent read: %s", answer)
		}
	})
	t.Run("write", func(t *testing.T) {
		write := a.write
		if model == a.known && a.writeKnown != nil {
			write = a.writeKnown
		}
		p, answer := a.ask(t, s, model, write("DIR/made.txt", secret), "")
		got, err := os.ReadFile(filepath.Join(p.dir, "made.txt"))
		if err != nil || strings.TrimSpace(string(got)) != secret {
			t.Errorf("the file holds %q, %v: %s", got, err, answer)
		}
	})
	for _, r := range requests() {
		if r.Outcome != simbackend.OutcomeDone && r.Outcome != simbackend.OutcomeCancelled {
			t.Errorf("the model server got a request that ended as %q with status %d", r.Outcome, r.Status)
		}
	}
}

// ask runs the agent in a directory, DIR in the prompt, in which note.txt holds a text. It returns what the agent says; how
// it got there goes to standard error.
func (a agent) ask(t *testing.T, s *e2e.Server, model, prompt, note string) (p *program, answer string) {
	t.Helper()
	p = newProgram(t, s, s.Key(app.NewKey{}))
	commands, node := installed(t, agentsVariable), filepath.Dir(installed(t, nodeVariable))
	p.env = append(p.env, a.settings...)
	p.env = append(p.env, "PATH="+commands+":"+node+":"+os.Getenv("PATH"), "PROMPT="+strings.ReplaceAll(prompt, "DIR", p.dir))
	p.write(t, "note.txt", note)
	if a.config != "" {
		p.write(t, filepath.Join(p.home, a.path), strings.ReplaceAll(recipe(t, s, a.config), "sim-chat", model)+a.more)
	}
	script := strings.ReplaceAll(recipe(t, s, a.recipe), "sim-chat", model)
	if !strings.Contains(script, question) {
		t.Fatalf("%s does not ask %s", a.recipe, question)
	}
	stdout, stderr, err := p.run(t, "bash", "-euc", strings.ReplaceAll(script, question, a.prompt))
	if err != nil {
		t.Errorf("%s: %v\n%s\n%s", a.recipe, err, stdout, stderr)
	}
	return p, stdout
}

func TestRealClaudeCode(t *testing.T) {
	agent{
		recipe: "claude-code.sh", known: "claude-sonnet-5",
		settings: []string{"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1"},
		prompt:   `"$PROMPT" --allowedTools Read,Write`,
		read:     func(path string) string { return `[[call=Read {"file_path": "` + path + `"}]]` },
		write: func(path, text string) string {
			return `[[call=Write {"file_path": "` + path + `", "content": "` + text + `"}]]`
		},
	}.overEngines(t)
}

func TestRealCodex(t *testing.T) {
	agent{
		recipe: "codex.sh", config: "codex.toml", path: ".codex/config.toml", known: "gpt-5.5",
		more: `
[analytics]
enabled = false

[features]
plugins = false
`,
		prompt: `--config check_for_update_on_startup=false --sandbox danger-full-access "$PROMPT"`,
		read:   func(path string) string { return `[[call=exec_command {"cmd": "cat ` + path + `"}]]` },
		write: func(path, text string) string {
			return `[[call=exec_command {"cmd": "echo ` + text + ` > ` + path + `"}]]`
		},
		// A tool whose input is text in a grammar, not JSON; a model server is shown a function instead.
		writeKnown: func(path, text string) string {
			return `[[call=apply_patch {"input": "*** Begin Patch\n*** Add File: ` + path + `\n+` + text + `\n*** End Patch\n"}]]`
		},
	}.overEngines(t)
}

func TestRealOpenCode(t *testing.T) {
	agent{
		recipe: "opencode.sh", config: "opencode.json", path: ".config/opencode/opencode.json",
		settings: []string{
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1",
		},
		prompt: `$PROMPT`, // one word per argument: it would quote an argument with blanks
		read:   func(path string) string { return `[[call=read {"filePath": "` + path + `"}]]` },
		write: func(path, text string) string {
			return `[[call=write {"filePath": "` + path + `", "content": "` + text + `"}]]`
		},
	}.overEngines(t)
}
