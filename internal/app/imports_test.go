package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rule says what a package may import of ours, and why.
type rule struct {
	may []string
	why string
}

// rooms is who may import whom. Names are relative to the module's internal directory; a name with a leading slash is
// relative to the module. A trailing /* stands for everything below.
var rooms = map[string]rule{
	"llm":               {nil, "the canonical types are the bottom: everything speaks them, they speak to nothing"},
	"secret":            {nil, "keys reach others as values, so nobody needs to know the ring"},
	"safehttp":          {nil, "a client for addresses that others choose must not know what they are for"},
	"gpu":               {nil, "samples are data"},
	"gpu/nvml":          {[]string{"gpu"}, "the only cgo reader sits behind gpu's interface"},
	"dialect":           {[]string{"llm"}, "framing and contracts know canonical types only"},
	"dialect/*":         {[]string{"dialect", "llm"}, "translators never meet each other: N halves, not N x M pairs"},
	"tokens":            {[]string{"llm"}, "counting is pure"},
	"routing":           {[]string{"llm"}, "the choice of a backend is pure"},
	"scheduler":         {[]string{"llm", "routing"}, "it knows no users' names and no HTTP"},
	"identity":          {[]string{"llm", "safehttp"}, "who calls is decided before anything else"},
	"quota":             {[]string{"llm", "identity"}, "limits bind principals"},
	"usage":             {[]string{"llm", "identity", "gpu"}, "arithmetic over records and samples"},
	"audit":             {[]string{"llm", "identity"}, "the record holds plain values; decisions arrive as JSON"},
	"extension":         {[]string{"llm", "identity", "safehttp"}, "hooks see the canonical layer"},
	"backend":           {[]string{"llm", "dialect", "dialect/openai", "dialect/ollama", "routing", "gpu", "safehttp"}, "the fleet speaks the backend halves"},
	"responses":         {[]string{"llm", "identity"}, "stored state of one protocol"},
	"gateway":           {[]string{"llm", "identity", "quota", "audit", "usage", "tokens", "routing", "scheduler", "extension", "backend", "responses", "safehttp"}, "the pipeline calls every step and knows no protocol"},
	"chat":              {[]string{"llm", "identity", "gateway"}, "the web chat is a client of the pipeline"},
	"admin":             {[]string{"llm", "identity", "quota", "audit", "usage", "extension", "routing", "scheduler", "backend", "gpu", "gateway", "chat"}, "the only door to change configuration"},
	"api":               {[]string{"llm", "dialect", "dialect/*", "identity", "quota", "usage", "audit", "responses", "gateway", "admin"}, "decode, identify, call, encode"},
	"/views":            {[]string{"llm", "identity", "quota", "audit", "usage", "chat", "backend", "gpu", "routing", "scheduler", "admin", "/static"}, "values in, markup out: types of the domain only"},
	"web":               {[]string{"/views", "/static", "llm", "identity", "quota", "audit", "usage", "chat", "backend", "gpu", "routing", "scheduler", "extension", "gateway", "admin"}, "pages and the JSON protocols never see each other"},
	"store":             {[]string{"admin", "audit", "backend", "chat", "gateway", "gpu", "identity", "llm", "quota", "responses", "routing", "secret", "usage", "extension", "/migrations"}, "implements what the domain declares"},
	"store/storetest":   {[]string{"store", "admin", "audit", "backend", "identity", "llm", "quota", "responses", "routing", "secret"}, "one conformance suite for both databases"},
	"valkey":            {[]string{"llm", "scheduler", "quota", "gateway", "chat"}, "shared versions of in-process interfaces"},
	"simbackend":        {[]string{"gpu", "simbackend/timing"}, "a fake that shares the encoder with the code under test proves nothing"},
	"simbackend/timing": {nil, "pure, shared with the simulator of the experiment"},
	"experiment":        {[]string{"llm", "scheduler", "routing", "simbackend/timing"}, "it runs the production policy"},
	"app": {[]string{
		"admin", "api", "audit", "backend", "chat", "dialect", "dialect/*", "experiment", "extension", "gateway", "gpu", "identity",
		"llm", "quota", "responses", "routing", "safehttp", "scheduler", "secret", "simbackend", "simbackend/timing", "store",
		"tokens", "usage", "valkey", "web", "/static", "/views", "/migrations",
	}, "wiring is the top"},
	"e2e":                     {[]string{"app", "simbackend", "e2e/*"}, "tests of the whole product look at it from outside"},
	"e2e/*":                   {[]string{"app", "simbackend", "simbackend/timing", "e2e", "e2e/*"}, "tests of the whole product look at it from outside"},
	"/cmd/mindrouter":         {[]string{"app"}, "flags and signals only"},
	"/cmd/mindrouter-sidecar": {[]string{"gpu", "gpu/nvml"}, "the agent on a node needs nothing of the gateway"},
	"/static":                 {nil, "files"},
	"/migrations":             {nil, "files"},
}

// homes is which module of others may be imported where: each has one home, so that it can be replaced.
var homes = map[string][]string{
	"gorm.io/":                             {"store"},
	"github.com/libtnb/sqlite":             {"store"},
	"github.com/pressly/goose/":            {"store"},
	"github.com/jackc/pgx/":                {"store", "e2e/testenv"},
	"github.com/alecthomas/kong":           {"/cmd/mindrouter", "/cmd/mindrouter-sidecar", "app"},
	"github.com/go-chi/chi/":               {"api", "web", "app"},
	"github.com/a-h/templ":                 {"/views", "web"},
	"github.com/goccy/go-yaml":             {"admin", "app"},
	"github.com/pkoukk/tiktoken-go":        {"tokens"},
	"golang.org/x/crypto/argon2":           {"identity"},
	"github.com/prometheus/client_golang/": {"app", "simbackend"},
	"github.com/klauspost/compress/":       {"store", "audit", "api"},
	"github.com/gofrs/flock":               {"app", "store"},
	"github.com/openai/openai-go/":         {"e2e", "e2e/*"},
	"github.com/anthropics/":               {"e2e", "e2e/*"},
	"github.com/ollama/ollama":             {"e2e", "e2e/*"},
	"github.com/chromedp/":                 {"e2e", "e2e/*"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "mindrouter/...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var list []goPackage
	for dec := json.NewDecoder(out); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return list
}

// room is the name of a package in the tables.
func room(importPath string) (string, bool) {
	if name, ok := strings.CutPrefix(importPath, "mindrouter/internal/"); ok {
		return name, true
	}
	if name, ok := strings.CutPrefix(importPath, "mindrouter/"); ok {
		return "/" + name, true
	}
	return "", false
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(name, prefix+"/")
	}
	return pattern == name
}

func ruleOf(name string) (rule, bool) {
	if r, ok := rooms[name]; ok {
		return r, true
	}
	for pattern, r := range rooms {
		if strings.HasSuffix(pattern, "/*") && matches(pattern, name) {
			return r, true
		}
	}
	return rule{}, false
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	list := packages(t)
	if len(list) < 20 {
		t.Fatalf("only %d packages were listed", len(list))
	}
	for _, p := range list {
		name, _ := room(p.ImportPath)
		r, ok := ruleOf(name)
		if !ok {
			t.Errorf("%s has no rule: add it to the table with its reason", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if target, ours := room(imp); ours {
				if !slices.ContainsFunc(r.may, func(pattern string) bool { return matches(pattern, target) }) {
					t.Errorf("%s may not import %s: %s", name, target, r.why)
				}
				continue
			}
			for prefix, allowed := range homes {
				if strings.HasPrefix(imp, prefix) && !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, name) }) {
					t.Errorf("%s may not import %s: its home is %v", name, imp, allowed)
				}
			}
		}
	}
}
