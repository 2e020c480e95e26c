package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fenced = regexp.MustCompile("(?s)\n```[a-z]+\n(.*?\n)```\n")

// TestTheManualHoldsTheRecipes compares docs/protocols.md with what TestReal... runs: every recipe is there, and nothing that
// looks like one but was not run.
func TestTheManualHoldsTheRecipes(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("recipes/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d recipes, %v", len(names), err)
	}
	recipes := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		recipes[string(text)] = name
	}
	for _, m := range fenced.FindAllStringSubmatch(string(manual), -1) {
		if _, ok := recipes[m[1]]; !ok {
			t.Errorf("docs/protocols.md has an example that is no file of internal/e2e/clients/recipes, or a second time:\n%s", m[1])
		}
		delete(recipes, m[1])
	}
	for text, name := range recipes {
		t.Errorf("docs/protocols.md does not have %s:\n%s", name, strings.TrimSpace(text))
	}
}
