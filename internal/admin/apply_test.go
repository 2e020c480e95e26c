package admin_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// lines are the lines of a diff.
func lines(diff []admin.Difference) string {
	var out []string
	for _, d := range diff {
		out = append(out, d.String())
	}
	return strings.Join(out, "\n")
}

// apply applies a file that must fit and returns the diff.
func (b *bench) apply(text string) string {
	b.t.Helper()
	return b.applyWith(text, admin.ApplyOptions{})
}

func (b *bench) applyWith(text string, o admin.ApplyOptions) string {
	b.t.Helper()
	diff, err := b.Apply(b.t.Context(), operator, b.parse(text), o)
	if err != nil {
		b.t.Fatal(err)
	}
	return lines(diff)
}

// exampleBench has the secrets of the example.
func exampleBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.secrets = map[string]string{"env:GPU01_SECRET": "sidecar", "env:GPU01_KEY": "sk-gpu01"}
	return b
}

func TestApplyTheExample(t *testing.T) {
	t.Parallel()
	b := exampleBench(t)
	const want = `~ settings
    energy: (default) -> {currency: USD, facility_factor: 1.5, kg_co2_per_kwh: 0.4, price_per_kwh: 0.1}
    retry: (default) -> {attempts: 3, breaker_cooldown: 30s, breaker_failures: 3, first_output: 3m0s, idle: 1m0s}
    routing: (default) -> {mode: points, points: {latency: 40.0, preference: 10.0, queue: 30.0, resident: 100.0, tokens_per_second: 20.0, utilisation: 50.0}}
    scheduler: (default) -> {burst_credit: 4.0, cached_price: 0.1, capacity_wait: 2m30s, fairness_window: 1m0s, input_price: 1.0, output_price: 2.0, slack: 0.5, wait_bonus: 0.5}
~ group students
    audit_content: (default) -> full
    max_concurrent: (default) -> 4
    requests_per_minute: (default) -> 30
    token_budget: (default) -> 100000
+ node gpu01
+ model gpt-oss-120b
+ alias default
+ alias small
+ backend gpu01-a
+ user alice`
	if got := b.apply(example(t)); got != want {
		t.Errorf("diff\n%s\nwant\n%s", got, want)
	}
	c := b.catalog()
	be := c.Backends[0]
	if be.Engine != backend.EngineVLLM || be.URL != "http://gpu01:8000" || be.APIKey != "sk-gpu01" || be.APIKeyRef != "env:GPU01_KEY" ||
		be.Node != "gpu01" || !slices.Equal(be.GPUs, []int{0, 1}) || be.MaxConcurrent != 16 || be.Boundary != "campus" ||
		be.Intent != routing.IntentEnabled || len(be.Models) != 1 || string(be.Models[0].Parameters) != `{"logit_bias":"unsupported"}` {
		t.Errorf("backend %+v", be)
	}
	if n := c.Nodes[0]; n.SidecarSecret != "sidecar" || n.SidecarURL != "https://gpu01.campus.example:8007" {
		t.Errorf("node %+v", n)
	}
	if m := c.Models[0]; m.Label != "General assistant" || m.ContextLength != 131072 || m.Thinking.Profile != llm.ProfileEffort ||
		!slices.Contains(m.Capabilities, llm.CapTools) || m.InputPrice != 0.15 || m.OutputPrice != 0.6 || m.SystemLate != "fold" {
		t.Errorf("model %+v", m)
	}
	want2 := []routing.Target{{Model: "gpt-oss-120b", Weight: 3}, {Model: "qwen3.5-122b", Weight: 1}}
	if a := c.Aliases[0]; !slices.Equal(a.Targets, want2) || a.Strategy != routing.StrategyPriority {
		t.Errorf("alias %+v", a)
	}
	if a := c.Aliases[1]; len(a.Targets) != 2 || a.Targets[1].Model != "llama3.2:3b" || !slices.Equal(a.FallbackOn, []string{"unavailable"}) {
		t.Errorf("alias of names alone %+v", a)
	}
	u := b.stored("alice")
	if u.Role != identity.RoleModelOperator || u.Weight != 2 || u.Limits.TokenBudget != 50000 || u.PasswordHash != "" {
		t.Errorf("user %+v", u)
	}
}

func TestApplyTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	b := exampleBench(t)
	b.apply(example(t))
	before, changes := b.dump(), len(b.changes())
	if got := b.apply(example(t)); got != "" {
		t.Errorf("second apply changes\n%s", got)
	}
	if got := b.dump(); got != before {
		t.Errorf("after the second apply\n%s\nbefore\n%s", got, before)
	}
	if got := len(b.changes()); got != changes {
		t.Errorf("%d changes are recorded, want still %d", got, changes)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	b := exampleBench(t)
	b.apply("nodes: [{name: old}]")
	before, version, changes := b.dump(), b.version(), len(b.changes())
	o := admin.ApplyOptions{DryRun: true, Prune: true}
	file := example(t) + "\n" + `# all seeded groups stay`
	for _, g := range []string{"administrators", "faculty", "researchers", "staff"} {
		file = strings.Replace(file, "groups:\n", "groups:\n  - {name: "+g+", weight: 7}\n", 1)
	}
	dry := b.applyWith(file, o)
	if got := b.dump(); got != before || b.version() != version || len(b.changes()) != changes {
		t.Errorf("a dry run changes something\n%s", got)
	}
	o.DryRun = false
	if got := b.applyWith(file, o); got != dry || !strings.Contains(got, "- node old") {
		t.Errorf("applied\n%s\nthe dry run said\n%s", got, dry)
	}
}

func TestWhatAnEntryLeavesOutHasItsDefault(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.secrets["env:K"] = "k"
	b.apply(`
groups: [{name: g, weight: 2, share_mode: pooled, token_budget: 5, models: [a], boundary: campus, key_expiry_days: 1, max_keys: 1}]
nodes: [{name: n, sidecar_url: 'http://n', sidecar_secret: 'env:K'}]
backends: [{name: b, engine: openai, url: 'http://b/', api_key: 'env:K', node: n, gpus: [1], max_concurrent: 2, priority: 3, enabled: false, models: [{name: m}]}]
models: [{name: m, label: l, context_length: 5, capabilities: [chat], thinking: {profile: toggle}, parameters: {policy: drop}}]
aliases: [{name: a, targets: [m], strategy: fair, fallback_on: [context]}]
settings: {retry: {attempts: 2}}
`)
	got := b.apply(`
groups: [{name: g, weight: 2}]
nodes: [{name: n}]
backends: [{name: b, engine: openai, url: 'http://b'}]
models: [{name: m}]
aliases: [{name: a, targets: [m]}]
settings: {}
`)
	const want = `~ settings
    retry: {attempts: 2} -> (default)
~ group g
    boundary: campus -> any
    key_expiry_days: 1 -> 90
    max_keys: 1 -> 16
    models: [a] -> ['*']
    share_mode: pooled -> per_user
    token_budget: 5 -> (default)
~ node n
    sidecar_secret: env:K -> (default)
    sidecar_url: http://n -> (default)
~ model m
    capabilities: [chat] -> (default)
    context_length: 5 -> (default)
    label: l -> (default)
    parameters: {policy: drop} -> (default)
    thinking: {profile: toggle} -> (default)
~ alias a
    fallback_on: [context] -> [unavailable]
    strategy: fair -> priority
~ backend b
    api_key: env:K -> (default)
    enabled: false -> true
    gpus: [1] -> (default)
    max_concurrent: 2 -> 16
    models: [{name: m}] -> (default)
    node: n -> (default)
    priority: 3 -> (default)`
	if normal(got) != normal(want) {
		t.Errorf("diff\n%s\nwant\n%s", got, want)
	}
	c := b.catalog()
	if be := c.Backends[0]; be.APIKey != "" || be.URL != "http://b" || be.Boundary != backend.BoundaryExternal {
		t.Errorf("backend %+v; want no key, no slash at the end of its address, and external as any openai server", be)
	}
	if c.Nodes[0].SidecarSecret != "" {
		t.Errorf("node %+v", c.Nodes[0])
	}
}

// normal forgets which quotes YAML chose.
func normal(s string) string { return strings.NewReplacer(`"`, "", `'`, "").Replace(s) }

func TestIdentityAndAgeSurviveApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	if err := b.SetPassword(t.Context(), operator, "alice", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	b.apply("backends: [{name: b, engine: vllm, url: 'http://b'}]")
	before, backendBefore := b.stored("alice"), b.catalog().Backends[0]
	if err := b.DisableUser(t.Context(), operator, "alice"); err != nil {
		t.Fatal(err)
	}
	b.apply("users: [{name: alice, group: staff, role: auditor}]\nbackends: [{name: b, engine: ollama, url: 'http://c'}]")
	after := b.stored("alice")
	if after.ID != before.ID || after.PasswordHash != before.PasswordHash || !after.Disabled || after.Role != identity.RoleAuditor {
		t.Errorf("user %+v, before %+v; want the same account, password and lock", after, before)
	}
	if got := b.catalog().Backends[0]; got.ID != backendBefore.ID || got.Engine != "ollama" {
		t.Errorf("backend %+v, before %+v", got, backendBefore)
	}
}

func TestADrainSurvivesApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const file = "backends: [{name: b, engine: vllm, url: 'http://b', enabled: true}]"
	b.apply(file)
	if err := b.SetIntent(t.Context(), operator, "b", routing.IntentDraining); err != nil {
		t.Fatal(err)
	}
	if got := b.apply(file); got != "" || b.catalog().Backends[0].Intent != routing.IntentDraining {
		t.Errorf("apply changes %q and leaves %s; a drain that somebody began goes on", got, b.catalog().Backends[0].Intent)
	}
	b.apply("backends: [{name: b, engine: vllm, url: 'http://elsewhere'}]")
	if got := b.catalog().Backends[0].Intent; got != routing.IntentDraining {
		t.Errorf("a change of its address leaves %s", got)
	}
	b.apply("backends: [{name: b, engine: vllm, url: 'http://b', enabled: false}]")
	if got := b.catalog().Backends[0].Intent; got != routing.IntentDisabled {
		t.Errorf("disabled by the file it is %s", got)
	}
}

func TestASecretIsReadAgain(t *testing.T) {
	t.Parallel()
	b := exampleBench(t)
	b.apply(example(t))
	b.secrets["env:GPU01_KEY"], b.secrets["env:GPU01_SECRET"] = "sk-fresh", "fresh"
	const want = "~ node gpu01\n    sidecar_secret: new value\n~ backend gpu01-a\n    api_key: new value"
	if got := b.apply(example(t)); got != want {
		t.Errorf("diff\n%s\nwant\n%s", got, want)
	}
	if c := b.catalog(); c.Backends[0].APIKey != "sk-fresh" || c.Nodes[0].SidecarSecret != "fresh" {
		t.Errorf("stored %q and %q", c.Backends[0].APIKey, c.Nodes[0].SidecarSecret)
	}
}

func TestAFileThatDoesNotFitChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.secrets["env:EMPTY"], b.secrets["env:TWO"] = "", "a\nb"
	b.user("boss", identity.RoleAdmin)
	b.apply("aliases: [{name: old, targets: [base]}]\nmodels: [{name: known}]")
	before, version, changes := b.dump(), b.version(), len(b.changes())
	_, err := b.Apply(t.Context(), operator, b.parse(`groups:
  - {name: fresh, weight: 1}
nodes:
  - {name: n, sidecar_secret: env:MISSING}
backends:
  - {name: a, engine: vllm, url: 'http://a', node: nowhere}
  - {name: b, engine: vllm, url: 'http://b', api_key: env:EMPTY}
  - {name: c, engine: vllm, url: 'http://c', api_key: env:TWO}
models:
  - {name: old}
aliases:
  - {name: known, targets: [x]}
  - {name: chain, targets: [old]}
  - {name: base, targets: [x]}
users:
  - {name: alice, group: aliens}
  - {name: boss, group: staff, role: user}
`), admin.ApplyOptions{})
	want := []string{
		"cluster.yaml:4: nodes[0].sidecar_secret: nothing at env:MISSING",
		`cluster.yaml:6: backends[0].node: there is no node "nowhere"`,
		"cluster.yaml:7: backends[1].api_key: env:EMPTY is empty",
		"cluster.yaml:8: backends[2].api_key: env:TWO holds a control character, such as a line end in its middle",
		`cluster.yaml:10: models[0].name: "old" is the name of an alias`,
		`cluster.yaml:12: aliases[0].name: "known" is the name of a model`,
		`cluster.yaml:13: aliases[1].targets[0]: "old" is an alias itself; an alias has models as targets`,
		`cluster.yaml:14: aliases[2].name: "base" is a target of the alias "old"; an alias has models as targets`,
		`cluster.yaml:16: users[0].group: there is no group "aliens"`,
		"cluster.yaml:17: users[1].role: nobody would be left who administers",
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("error\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	if got := b.dump(); got != before || b.version() != version || len(b.changes()) != changes {
		t.Errorf("a file that does not fit changed something\n%s\nbefore\n%s", got, before)
	}
}

func TestTheFileMayHandTheAdminsRoleOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("old", identity.RoleAdmin)
	b.apply("users:\n- {name: old, group: staff, role: user}\n- {name: new, group: staff, role: admin}")
	if o, n := b.stored("old").Role, b.stored("new").Role; o != identity.RoleUser || n != identity.RoleAdmin {
		t.Errorf("roles %s and %s", o, n)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	b.apply(`
nodes: [{name: n1}, {name: n2}]
backends: [{name: b1, engine: vllm, url: 'http://b', node: n1}, {name: b2, engine: vllm, url: 'http://b', node: n2}]
models: [{name: m1}, {name: m2}]
aliases: [{name: a1, targets: [m1]}, {name: a2, targets: [m2]}]
`)
	const file = `
groups: [{name: students, weight: 1}]
nodes: [{name: n1}]
backends: [{name: b1, engine: vllm, url: 'http://b', node: n1}]
models: [{name: m1}]
aliases: [{name: a1, targets: [m1]}]
`
	if got := b.apply(file); got != "" {
		t.Errorf("without --prune what the file does not name is left alone, but\n%s", got)
	}
	const want = `- alias a2
- model m2
- backend b2
- node n2
- group administrators
- group faculty
- group researchers
- group staff`
	if got := b.applyWith(file, admin.ApplyOptions{Prune: true}); got != want {
		t.Errorf("diff\n%s\nwant\n%s", got, want)
	}
	c := b.catalog()
	if len(c.Nodes) != 1 || len(c.Backends) != 1 || len(c.Models) != 1 || len(c.Aliases) != 1 {
		t.Errorf("left: %+v", c)
	}
	if b.stored("alice").Name == "" {
		t.Error("users are never pruned")
	}
	if got := b.applyWith(file, admin.ApplyOptions{Prune: true}); got != "" {
		t.Errorf("pruning again changes\n%s", got)
	}
	// A name may change its kind where the old thing goes.
	b.applyWith("groups: [{name: students, weight: 1}]\nmodels: [{name: a1}]\naliases: [{name: m1, targets: [a1]}]", admin.ApplyOptions{Prune: true})
}

func TestPruneSparesWhatIsInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	b.user("bob", identity.RoleUser)
	before := b.dump()
	_, err := b.Apply(t.Context(), operator, b.parse("groups: [{name: staff, weight: 1}]"), admin.ApplyOptions{Prune: true})
	if !errors.Is(err, admin.ErrInUse) || !strings.Contains(err.Error(), "group students: is in use: it has members (2)") {
		t.Errorf("error %v, want that students is in use", err)
	}
	if got := b.dump(); got != before {
		t.Errorf("something was pruned all the same\n%s", got)
	}
	b.applyWith("groups: [{name: staff, weight: 1}]\nusers: [{name: alice, group: staff}, {name: bob, group: staff}]", admin.ApplyOptions{Prune: true})
}

func TestExportAppliesToWhereItCameFromAndToNothing(t *testing.T) {
	t.Parallel()
	b := exampleBench(t)
	b.apply(example(t))
	b.user("root", identity.RoleAdmin)
	text, err := b.Export(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"sk-gpu01", "argon2", ": sidecar\n"} {
		if strings.Contains(string(text), s) {
			t.Errorf("the export holds the secret %q", s)
		}
	}
	if got := b.apply(string(text)); got != "" {
		t.Errorf("applied to where it came from it changes\n%s", got)
	}
	empty := exampleBench(t)
	empty.apply(string(text))
	again, err := empty.Export(t.Context(), operator)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("exported again, %v\n%s\nfirst\n%s", err, again, text)
	}
	if got := empty.applyWith(string(text), admin.ApplyOptions{Prune: true}); got != "" {
		t.Errorf("with --prune it changes\n%s", got)
	}
}

func TestExportOfAFreshDatabaseIsAFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text, err := b.Export(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.applyWith(string(text), admin.ApplyOptions{Prune: true}); got != "" {
		t.Errorf("it changes\n%s", got)
	}
}

func TestApplyWarns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var told []string
	b.applyWith("settings: {energy: {facility_factor: 2}}", admin.ApplyOptions{Warn: func(w string) { told = append(told, w) }})
	if len(told) != 1 || !strings.Contains(told[0], "settings.energy") {
		t.Errorf("warnings %v", told)
	}
}

func TestPruneLeavesListsAloneThatTheFileDoesNotHave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.applyWith("backends: [{name: x, engine: vllm, url: 'http://x/v1/'}, {name: y, engine: ollama, url: 'http://y'}]\naliases: [{name: a, targets: [m]}]", admin.ApplyOptions{})
	if got := b.applyWith("", admin.ApplyOptions{Prune: true}); got != "" {
		t.Errorf("an empty file deletes\n%s", got)
	}
	got := b.applyWith("backends: [{name: x, engine: vllm, url: 'http://x'}]", admin.ApplyOptions{Prune: true})
	if got != "- backend y" && !strings.HasPrefix(got, "- backend y\n") {
		t.Errorf("a list of backends, one of them as it was but for /v1, changes\n%s\nwant that y goes and nothing else", got)
	}
}

// TestTheExampleInTheDocumentsIsRight reads the file that docs/cluster.md shows.
func TestTheExampleInTheDocumentsIsRight(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no example")
	}
	p, err := admin.ParseCluster("cluster.md", []byte(example))
	if err != nil || len(p.Backends) < 3 || len(p.Warnings()) > 0 {
		t.Errorf("%v, warnings %v", err, p.Warnings())
	}
}
