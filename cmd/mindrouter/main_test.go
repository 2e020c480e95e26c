package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"mindrouter/internal/app"
)

// installation is a data directory of its own with an environment.
type installation struct {
	t       *testing.T
	dir     string
	environ []string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	return &installation{t, dir, []string{"MINDROUTER_DATA_DIR=" + dir}}
}

// result is what a command did.
type result struct {
	exit           int
	stdout, stderr string
}

func (i *installation) run(args ...string) result { return i.feed("", args...) }

// feed runs a command with something on its standard input.
func (i *installation) feed(stdin string, args ...string) result {
	i.t.Helper()
	var out, errs bytes.Buffer
	exit := run(args, i.environ, strings.NewReader(stdin), &out, &errs)
	return result{exit, out.String(), errs.String()}
}

// ok runs a command that must succeed and say nothing on standard error.
func (i *installation) ok(args ...string) string {
	i.t.Helper()
	r := i.run(args...)
	if r.exit != exitOK || r.stderr != "" {
		i.t.Fatalf("mindrouter %s: exit %d\n%s%s", strings.Join(args, " "), r.exit, r.stdout, r.stderr)
	}
	return r.stdout
}

// want runs a command that must fail so, with a part of a message on standard error.
func (i *installation) want(exit int, message string, args ...string) {
	i.t.Helper()
	r := i.run(args...)
	if r.exit != exit || !strings.Contains(r.stderr, message) {
		i.t.Errorf("mindrouter %s: exit %d\n%s%s\nwant exit %d and %q", strings.Join(args, " "), r.exit, r.stdout, r.stderr, exit, message)
	}
}

// list reads what a list prints as JSON.
func (i *installation) list(args ...string) []map[string]any {
	i.t.Helper()
	text := i.ok(append(args, "--json")...)
	var out []map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil || out == nil {
		i.t.Fatalf("%v: %v in %s", args, err, text)
	}
	return out
}

// write makes a file and returns its path.
func (i *installation) write(name, text string) string {
	i.t.Helper()
	path := filepath.Join(i.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	return path
}

// leaves are all commands.
func leaves(t *testing.T) []*kong.Node {
	t.Helper()
	parser := newParser(&cli{}, &bytes.Buffer{}, &bytes.Buffer{}, func(int) {})
	nodes := parser.Model.Leaves(false)
	if len(nodes) < 20 {
		t.Fatalf("only %d commands", len(nodes))
	}
	return nodes
}

// words are the words that call a command.
func words(n *kong.Node) []string {
	var out []string
	for ; n != nil && n.Type == kong.CommandNode; n = n.Parent {
		out = append([]string{n.Name}, out...)
	}
	return out
}

func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	all := i.ok("--help")
	for _, n := range leaves(t) {
		call := words(n)
		if !strings.Contains(all, strings.Join(call, " ")+" ") {
			t.Errorf("--help does not list %v", call)
		}
		help := i.ok(append(call, "--help")...)
		if n.Help == "" || !strings.Contains(strings.Join(strings.Fields(help), " "), n.Help) {
			t.Errorf("%v --help does not say what it does:\n%s", call, help)
		}
		for _, f := range n.Flags {
			if f.Help == "" || !strings.HasSuffix(f.Help, ".") || !strings.Contains(help, "--"+f.Name) {
				t.Errorf("%v --help does not explain --%s", call, f.Name)
			}
			if slices.Contains([]string{"STRING", "INT", "INT-64", "FLOAT-64"}, f.FormatPlaceHolder()) {
				t.Errorf("%v: --%s=%s does not say what it takes", call, f.Name, f.FormatPlaceHolder())
			}
		}
		for _, a := range n.Positional {
			if a.Help == "" {
				t.Errorf("%v --help does not explain <%s>", call, a.Name)
			}
		}
	}
	if _, err := os.Stat(i.dir); err == nil {
		t.Error("--help made the data directory")
	}
	for _, part := range []string{"$MINDROUTER_ADDR", "Default 127.0.0.1:8080", "$MINDROUTER_CONFIG", "Exit codes"} {
		if !strings.Contains(all, part) {
			t.Errorf("--help lacks %q", part)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	for _, c := range []struct {
		message string
		args    []string
	}{
		{"unexpected argument nonsense", []string{"nonsense"}},
		{"unknown flag --nonsense", []string{"user", "list", "--nonsense"}},
		{"expected one of", []string{"user"}},
		{"missing flags: --email=ADDRESS, --group=G", []string{"user", "create", "alice"}},
		{`expected "<name>"`, []string{"user", "disable"}},
		{"--role must be one of", []string{"user", "create", "alice", "--email", "a@b", "--group", "staff", "--role", "king"}},
		{"--class must be one of", []string{"key", "create", "--user", "alice", "--name", "x", "--class", "first"}},
		{"expected a valid 64 bit int", []string{"key", "create", "--user", "alice", "--name", "x", "--rpm", "many"}},
		{`--expires "soon": want a life such as 90d or 12h, or never`, []string{"key", "create", "--user", "alice", "--name", "x", "--expires", "soon"}},
		{`--expires "0d"`, []string{"key", "create", "--user", "alice", "--name", "x", "--expires", "0d"}},
		{`--expires "-1h"`, []string{"key", "create", "--user", "alice", "--name", "x", "--expires=-1h"}},
		{"missing flags: --file=FILE", []string{"apply"}},
		{"no such file or directory", []string{"apply", "-f", "/no/cluster.yaml"}},
		{"there is no password on standard input", []string{"user", "reset-password", "alice"}},
		{"the environment has no NO_SUCH_KEY", []string{"backend", "probe", "http://127.0.0.1:1", "--key-env", "NO_SUCH_KEY"}},
		{`"x" is no address: want HOST:PORT`, []string{"serve", "--addr", "x"}},
		{"is not loopback", []string{"serve", "--addr", ":8080"}},
		{"secret_key: must be set with PostgreSQL", []string{"user", "list", "--database-url", "postgres://127.0.0.1:1/d"}},
		{"unknown setting surprise", []string{"user", "list", "--config", i.write("m.yaml", "surprise: 1\n")}},
	} {
		i.want(exitUsage, c.message, c.args...)
	}
	if _, err := os.Stat(i.dir); err == nil {
		t.Error("a wrong call made the data directory")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := newInstallation(t).ok("version"); !regexp.MustCompile(`^mindrouter \S+ .*go1\.\d+.*\n$`).MatchString(got) {
		t.Errorf("version %q", got)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	if got := i.list("user", "list"); len(got) != 0 {
		t.Errorf("users of a fresh installation: %v", got)
	}
	i.ok("user", "create", "alice", "--email", "alice@example.edu", "--group", "staff")
	r := i.feed("correct horse battery\n", "user", "create", "root", "--email", "r@example.edu", "--group", "administrators", "--role", "admin", "--password-stdin")
	if r != (result{}) {
		t.Errorf("create with a password: %+v", r)
	}
	got := i.list("user", "list")
	if len(got) != 2 || got[0]["name"] != "alice" || got[0]["group"] != "staff" || got[0]["role"] != "user" || got[1]["role"] != "admin" {
		t.Errorf("users %v", got)
	}
	if table := i.ok("user", "list"); !regexp.MustCompile(`(?m)^NAME .*\nalice +alice@example\.edu +staff +user +active `).MatchString(table) {
		t.Errorf("table\n%s", table)
	}
	i.ok("user", "disable", "alice")
	if got := i.list("user", "list"); got[0]["disabled"] != true {
		t.Errorf("after disable %v", got[0])
	}
	i.ok("user", "enable", "alice")
	if got := i.list("user", "list"); got[0]["disabled"] != false {
		t.Errorf("after enable %v", got[0])
	}
	if r := i.feed("another long password\r\n", "user", "reset-password", "alice"); r != (result{}) {
		t.Errorf("reset: %+v", r)
	}

	i.want(exitFailed, `name: there is a user "alice" already`, "user", "create", "alice", "--email", "a@b", "--group", "staff")
	i.want(exitFailed, `group: there is no group "aliens"`, "user", "create", "bob", "--email", "a@b", "--group", "aliens")
	i.want(exitFailed, `user: there is no user "bob"`, "user", "disable", "bob")
	i.want(exitFailed, "user: root is the last admin", "user", "disable", "root")
	i.want(exitUsage, `email: "x" is no e-mail address`, "user", "create", "bob", "--email", "x", "--group", "staff")
	i.want(exitUsage, `name: "a b" is no name`, "user", "create", "a b", "--email", "a@b", "--group", "staff")
	if r := i.feed("short\n", "user", "reset-password", "alice"); r.exit != exitUsage || !strings.Contains(r.stderr, "password: has 5 characters; use at least 12") {
		t.Errorf("short password: %+v", r)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.ok("user", "create", "alice", "--email", "alice@example.edu", "--group", "staff", "--role", "auditor")
	key := i.ok("key", "create", "--user", "alice", "--name", "laptop")
	if !regexp.MustCompile(`^mr2_[0-9A-Za-z]{49}\n$`).MatchString(key) {
		t.Errorf("key create prints %q, want the key alone", key)
	}
	prefix := key[:12]
	i.ok("key", "create", "--user", "alice", "--name", "all", "--expires", "36h", "--scopes", "inference,admin", "--models", "a*,b*", "--rpm", "1",
		"--tpm", "2", "--budget", "3", "--max-concurrent", "4", "--class", "batch", "--boundary", "campus", "--reasoning-field", "both")
	i.ok("key", "create", "--user", "alice", "--name", "bot", "--service", "--group", "students", "--strategy", "fair", "--expires", "never")
	got := i.list("key", "list")
	if len(got) != 3 || got[2]["prefix"] != prefix || got[2]["user"] != "alice" || got[2]["state"] != "active" || got[2]["expires"] == nil {
		t.Fatalf("keys %v", got)
	}
	if fmt.Sprint(got[1]["scopes"]) != "[inference admin]" || got[0]["service"] != true || got[0]["group"] != "students" || got[0]["expires"] != nil {
		t.Errorf("keys %v", got)
	}
	table := i.ok("key", "list")
	if !regexp.MustCompile(`(?m)^PREFIX .*\n(mr2_\S+ +\S+ +alice +\S+ +active +\S+ +\d{4}-\d\d-\d\d\n){3}$`).MatchString(table) || strings.Contains(table, key[12:53]) {
		t.Errorf("table\n%s", table)
	}
	i.ok("key", "revoke", prefix)
	i.ok("key", "revoke", prefix) // it is revoked already
	if got := i.list("key", "list"); got[2]["state"] != "revoked" {
		t.Errorf("after revoke %v", got[2])
	}
	i.want(exitFailed, `key: there is no key "ABCDEFGH"`, "key", "revoke", "mr2_ABCDEFGH")
	i.want(exitFailed, `user: there is no user "bob"`, "key", "create", "--user", "bob", "--name", "x")
	i.want(exitUsage, "group: a service key belongs to a group", "key", "create", "--user", "alice", "--name", "x", "--service")
	i.want(exitUsage, `scopes: "root" is none of inference, admin`, "key", "create", "--user", "alice", "--name", "x", "--scopes", "root")
	i.want(exitUsage, "limits: a limit cannot be negative", "key", "create", "--user", "alice", "--name", "x", "--rpm=-1")
	i.ok("user", "create", "bob", "--email", "b@example.edu", "--group", "staff")
	i.want(exitFailed, "scopes: bob has the role user", "key", "create", "--user", "bob", "--name", "x", "--scopes", "admin")
	for range 16 {
		i.ok("key", "create", "--user", "bob", "--name", "x")
	}
	i.want(exitFailed, "user: bob has 16 live keys", "key", "create", "--user", "bob", "--name", "x")
}

// cluster is a file without warnings.
const cluster = "nodes: [{name: n}]\nbackends: [{name: b, engine: vllm, url: 'http://127.0.0.1:1', api_key: 'file:%s'}]\naliases: [{name: a, targets: [m]}]\n"

func TestApplyAndExport(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	secret := i.write("key", "sk-hunter2\n")
	path := i.write("cluster.yaml", fmt.Sprintf(cluster, secret))
	const diff = "+ node n\n+ alias a\n+ backend b\n"
	if got := i.ok("apply", "-f", path, "--dry-run"); got != diff+"3 changes; nothing was done (--dry-run).\n" {
		t.Errorf("dry run\n%s", got)
	}
	if got := i.ok("apply", "-f", path); got != diff+"3 changes applied.\n" {
		t.Errorf("apply\n%s", got)
	}
	if got := i.ok("apply", "-f", path); got != "No changes.\n" {
		t.Errorf("apply again\n%s", got)
	}
	if got := i.list("apply", "-f", path); len(got) != 0 {
		t.Errorf("apply again as JSON %v", got)
	}
	text := i.ok("export")
	if !strings.Contains(text, "api_key: file:"+secret) || strings.Contains(text, "hunter2") {
		t.Errorf("export\n%s", text)
	}
	other := newInstallation(t)
	r := other.feed(text, "apply", "-f", "-")
	if r.exit != exitOK || !strings.HasSuffix(r.stdout, "3 changes applied.\n") {
		t.Errorf("applied elsewhere: %+v", r)
	}
	if again := other.ok("export"); again != text {
		t.Errorf("exported again\n%s\nfirst\n%s", again, text)
	}
	empty := i.write("less.yaml", "groups: [{name: students, weight: 1}]\nsettings: {energy: {facility_factor: 2}}\naliases: []\nmodels: []\nbackends: []\nnodes: []\n")
	r = i.run("apply", "-f", empty, "--prune", "--json")
	var got []app.Difference
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.exit != exitOK || len(got) != 8 || got[0].Kind != "settings" || got[1].Op != "-" || got[1].Kind != "alias" {
		t.Errorf("prune: %+v, %v", r, err)
	}
	if want := "warning: " + empty + ":2: settings.energy: is kept and has no effect yet"; !strings.HasPrefix(r.stderr, want) {
		t.Errorf("standard error %q, want %q", r.stderr, want)
	}
}

func TestABadClusterFile(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	before := i.ok("export")
	path := i.write("bad.yaml", "nodes:\n- {name: n}\nbackends:\n- {name: b, engine: tgi}\n")
	r := i.run("apply", "-f", path)
	want := "mindrouter: " + path + `:4: backends[0].engine: "tgi" is none of vllm, ollama, openai` + "\n" + path + ":4: backends[0].url: is missing\n"
	if r != (result{exitFailed, "", want}) {
		t.Errorf("got %+v, want %q", r, want)
	}
	if r := i.feed("nodes: [", "apply", "-f", "-"); r.exit != exitFailed || !strings.HasPrefix(r.stderr, "mindrouter: standard input:1: ") {
		t.Errorf("from standard input: %+v", r)
	}
	i.want(exitFailed, "api_key: read /no/key: no such file or directory", "apply", "-f", i.write("c.yaml", fmt.Sprintf(cluster, "/no/key")))
	if after := i.ok("export"); after != before {
		t.Errorf("a bad file changed something\n%s", after)
	}
}

func TestSecretsFromTheEnvironment(t *testing.T) {
	i := newInstallation(t) // not parallel: the references of a cluster file are read from the process
	path := i.write("cluster.yaml", "nodes: [{name: n, sidecar_secret: 'env:MAIN_TEST_SECRET'}]")
	i.want(exitFailed, "nodes[0].sidecar_secret: the environment has no MAIN_TEST_SECRET", "apply", "-f", path)
	t.Setenv("MAIN_TEST_SECRET", "hunter2")
	if got := i.run("apply", "-f", path); got.exit != exitOK {
		t.Errorf("apply: %+v", got)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	if got := i.list("migrate", "status"); len(got) == 0 || got[0]["applied"] != false {
		t.Errorf("status of a fresh database %v", got)
	}
	if got := i.ok("migrate", "status"); !regexp.MustCompile(`(?m)^VERSION +NAME +STATE\n1 +00001_init.sql +missing$`).MatchString(got) {
		t.Errorf("table\n%s", got)
	}
	if got := i.ok("migrate", "up"); !strings.HasPrefix(got, "applied 1 00001_init.sql\n") {
		t.Errorf("up prints %q", got)
	}
	if got := i.ok("migrate", "up"); got != "The schema is up to date.\n" {
		t.Errorf("up again prints %q", got)
	}
	if got := i.list("migrate", "status"); got[0]["applied"] != true {
		t.Errorf("status %v", got)
	}
}

func TestSecretRotate(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	path := i.write("cluster.yaml", fmt.Sprintf(cluster, i.write("key", "sk-1")))
	i.ok("apply", "-f", path)
	i.ok("user", "create", "alice", "--email", "a@example.edu", "--group", "staff")
	if got, want := i.ok("secret", "rotate"), filepath.Join(i.dir, "secret.key"); !strings.Contains(got, want) || !strings.Contains(got, "Restart") {
		t.Errorf("rotate prints %q", got)
	}
	if got := i.ok("apply", "-f", path); got != "No changes.\n" {
		t.Errorf("what was sealed before the rotation does not open: %s", got)
	}
	i.environ = append(i.environ, "MINDROUTER_SECRET_KEY=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	i.want(exitFailed, "set from outside", "secret", "rotate")
}

func TestPrintConfig(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	path := i.write("m.yaml", "log:\n  level: warn\n")
	i.environ = append(i.environ, "MINDROUTER_DATABASE_URL=postgres://u:hunter2@h/d", "MINDROUTER_SECRET_KEY=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	for _, args := range [][]string{{"serve", "--print-config"}, {"--print-config"}} {
		got := i.ok(append(args, "--config", path, "--addr", "127.0.0.1:9")...)
		for _, line := range []string{
			"addr: 127.0.0.1:9  # flag", "data_dir: " + i.dir + "  # MINDROUTER_DATA_DIR", "log.level: warn  # " + path + ":2",
			"drain_timeout: 30s  # default", "database_url: postgres://u:xxxxx@h/d  # MINDROUTER_DATABASE_URL",
			"secret_key: (set, not shown)  # MINDROUTER_SECRET_KEY",
		} {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%v lacks %q\n%s", args, line, got)
			}
		}
	}
	r := i.run("serve", "--print-config", "--addr", "x", "--log-level", "loud")
	if r.exit != exitUsage || !strings.Contains(r.stdout, "addr: x  # flag") || !strings.Contains(r.stderr, "log.level (from flag)") || !strings.Contains(r.stderr, "addr (from flag)") {
		t.Errorf("with problems: %+v; want the values and all problems", r)
	}
	if _, err := os.Stat(i.dir); err == nil {
		t.Error("--print-config made the data directory")
	}
}

func TestUnknownVariablesWarn(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.environ = append(i.environ, "MINDROUTER_ADRR=x")
	if r := i.run("user", "list"); r.exit != exitOK || !strings.Contains(r.stderr, "MINDROUTER_ADRR") {
		t.Errorf("got %+v, want a warning", r)
	}
}

func TestWhatIsMadeIsForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.ok("user", "list")
	for path, want := range map[string]os.FileMode{i.dir: 0o700, filepath.Join(i.dir, "secret.key"): 0o600, filepath.Join(i.dir, "mindrouter.db"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestDemoKeepsToItself(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.want(exitFailed, "the demo serves this machine only", "demo", "--addr", "0.0.0.0:0", "--insecure-http", "1")
	for name, fill := range map[string][]string{
		"users":    {"user", "create", "alice", "--email", "a@example.edu", "--group", "staff"},
		"backends": {"apply", "-f", i.write("c.yaml", "backends: [{name: b, engine: vllm, url: 'http://127.0.0.1:1'}]")},
	} {
		other := "--database-url=sqlite:" + filepath.Join(i.dir, name+".db")
		i.ok(append(fill, other)...)
		before := i.ok("export", other)
		i.want(exitFailed, "not a demonstration's", "demo", "--addr", "127.0.0.1:0", other, "--log-level", "error")
		if after := i.ok("export", other); after != before {
			t.Errorf("a database with %s was changed:\n%s", name, after)
		}
	}
}

func TestHealthcheckOfNothing(t *testing.T) {
	t.Parallel()
	newInstallation(t).want(exitFailed, "the server does not answer", "healthcheck", "--addr", "127.0.0.1:1")
}
