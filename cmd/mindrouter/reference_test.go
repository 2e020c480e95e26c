package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"mindrouter/internal/app"
)

var update = flag.Bool("update", false, "write docs/commands.md instead of comparing it")

// TestReference holds docs/commands.md to the command line as it is declared.
func TestReference(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "commands.md")
	want := reference(t)
	if *update {
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/commands.md is not what the command line says; run: go test ./cmd/mindrouter -run TestReference -update")
	}
}

const referenceHead = `# Commands and settings

Written from the program's own ` + "`--help`" + `; a test keeps it true.

Exit codes: 0 done, 1 failed, 2 wrong usage. Lists and reports take ` + "`--json`" + `. Commands that touch the database work beside a
running server, which follows within a second.

`

func reference(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(referenceHead)
	parser := newParser(&cli{}, &bytes.Buffer{}, &bytes.Buffer{}, func(int) {})
	b.WriteString("## Settings\n\nEvery command takes them, as a flag, from the environment, or from the YAML file that `--config` names, in this order.\n\n")
	b.WriteString("| flag | environment | in the file | default | |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range parser.Model.Flags {
		path := f.Tag.Get("path")
		switch {
		case f.Name == "config":
			path = "config"
		case path == "":
			continue
		}
		inFile := "`" + path + "`"
		if path == "config" {
			inFile = ""
		}
		fmt.Fprintf(&b, "| `--%s=%s` | `%s` | %s | %s | %s |\n", f.Name, cell(f.FormatPlaceHolder()), app.Variable(path), inFile, code(f.Tag.Get("fallback")), cell(f.Help))
	}
	b.WriteString("\n## Commands\n")
	for _, n := range parser.Model.Leaves(false) {
		command(&b, n)
	}
	return b.Bytes()
}

func command(b *bytes.Buffer, n *kong.Node) {
	line := strings.Join(append([]string{"mindrouter"}, words(n)...), " ")
	for _, p := range n.Positional {
		line += " " + strings.ToUpper(p.Name)
	}
	fmt.Fprintf(b, "\n### %#q\n\n%s\n", line, n.Help)
	if n.Detail != "" {
		fmt.Fprintf(b, "\n%s\n", indentExamples(n.Detail))
	}
	var rows []string
	for _, p := range n.Positional {
		rows = append(rows, fmt.Sprintf("| %#q | %s |", strings.ToUpper(p.Name), cell(p.Help)))
	}
	for _, f := range n.Flags {
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		help := f.Help
		if f.Required {
			help += " Required."
		}
		rows = append(rows, fmt.Sprintf("| %#q | %s |", cell(name), cell(help)))
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| | |\n| --- | --- |\n%s\n", strings.Join(rows, "\n"))
	}
}

// indentExamples makes code blocks of the lines that the help indents.
func indentExamples(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
