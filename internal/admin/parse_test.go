package admin_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mindrouter/internal/admin"
)

func (b *bench) parse(text string) *admin.ParsedCluster {
	b.t.Helper()
	p, err := admin.ParseCluster("cluster.yaml", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// problems are the lines of the error of a bad file.
func problems(t *testing.T, text string) []string {
	t.Helper()
	_, err := admin.ParseCluster("f", []byte(text))
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestProblemsOfAFileHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	const group = "groups: [{name: g, weight: 1, %s}]"
	const be = "backends: [{name: b, engine: vllm, url: 'http://h', %s}]"
	for _, c := range []struct{ file, want string }{
		// Syntax.
		{"groups: [", "f:1: sequence end token ']' not found"},
		{"a: 1\n\tb: 2", "f:2: found character '\t' that cannot start any token"},
		{"nodes: []\nnodes: []", "f:2: mapping key \"nodes\" already defined at [1:1]"},
		{"nodes: []\n---\nmodels: []", "f:3: a second document begins here: put everything into one"},
		{"nodes: !!seq []", "f:1: nodes: tags such as !!seq have no meaning here"},
		{"nodes: *x", `f:1: nodes: there is no anchor "x" above`},
		{"nodes: [{name: a, <<: *x}]", "f:1: nodes[0]: << has no meaning here; give each entry its keys"},
		{"models: [{name: m, parameters: {<<: {a: b}}}]", "f:1: models[0].parameters: << has no meaning here; give each entry its keys"},
		// Keys.
		{"group: []", "f:1: group: unknown key"},
		{"groups:\n  - name: g\n    weight: 1\n    wait: 2", "f:4: groups[0].wait: unknown key"},
		{"settings:\n  retry:\n    attempt: 3", "f:3: settings.retry.attempt: unknown key"},
		{"settings: {routing: {points: {luck: 1}}}", "f:1: settings.routing.points.luck: unknown key"},
		{"models:\n- name: m\n  thinking:\n    mode: x", "f:4: models[0].thinking.mode: unknown key"},
		{"aliases: [{name: a, targets: [{model: m, share: 1}]}]", "f:1: aliases[0].targets[0].share: unknown key"},
		{"users: [{name: u, group: staff, password: hunter2}]", "f:1: users[0].password: unknown key"},
		// Types.
		{"just words", "f:1: want keys and values"},
		{"- a list", "f:1: want keys and values"},
		{"groups: {name: g}", "f:1: groups: want a list"},
		{"groups: [g]", "f:1: groups[0]: want keys and values"},
		{"groups: [{name: g, weight: heavy}]", `f:1: groups[0].weight: want a number, not "heavy"`},
		{"groups: [{name: g, weight: .nan}]", "f:1: groups[0].weight: is not a finite number"},
		{"groups: [{name: g, weight: .inf}]", "f:1: groups[0].weight: is not a finite number"},
		{"settings: {scheduler: {burst_credit: .inf}}", "f:1: settings.scheduler.burst_credit: is not a finite number"},
		{"models: [{name: m, parameters: {top_p: .nan}}]", "f:1: models[0].parameters.top_p: is not a finite number"},
		{"groups: [{name: 7, weight: 1}]", "f:1: groups[0].name: want text; put it in quotes if it is meant"},
		{"models: [{name: m, label: \"a\\0b\"}]", "f:1: models[0].label: holds a control character"},
		{fmt.Sprintf(group, "token_budget: 1.5"), `f:1: groups[0].token_budget: want a whole number, not "1.5"`},
		{fmt.Sprintf(group, "token_budget: 9223372036854775808"), "f:1: groups[0].token_budget: 9223372036854775808 is too large"},
		{fmt.Sprintf(be, "enabled: yes"), `f:1: backends[0].enabled: want true or false, not "yes"`},
		{fmt.Sprintf(be, "gpus: 1"), "f:1: backends[0].gpus: want a list"},
		{"settings: {retry: {idle: 60}}", `f:1: settings.retry.idle: "60" is no duration: want a number with a unit, such as 150s`},
		{"settings: {retry: {idle: long}}", `f:1: settings.retry.idle: "long" is no duration: want a number with a unit, such as 150s`},
		{"aliases: [{name: a, targets: [7]}]", "f:1: aliases[0].targets[0]: want keys and values"},
		// Names.
		{"groups: [{weight: 1}]", "f:1: groups[0].name: is missing"},
		{"groups: [{name: a b, weight: 1}]", `f:1: groups[0].name: "a b" is no name: want letters, digits and . _ @ + -, at most 128`},
		{"nodes:\n- {name: n}\n- {name: n}", `f:3: nodes[1].name: "n" appears twice`},
		{"models:\n- name: m\n\n- name: m", `f:4: models[1].name: "m" appears twice`},
		{fmt.Sprintf(be, "models: [{name: m}, {name: m}]"), `f:1: backends[0].models[1].name: "m" appears twice`},
		{"models: [{name: a b}]", `f:1: models[0].name: "a b" is no model name`},
		// Values.
		{"groups: [{name: g}]", "f:1: groups[0].weight: is missing"},
		{"groups: [{name: g, weight: 0}]", "f:1: groups[0].weight: must be above 0 and at most 1000"},
		{"groups: [{name: g, weight: 1001}]", "f:1: groups[0].weight: must be above 0 and at most 1000"},
		{fmt.Sprintf(group, "share_mode: mine"), `f:1: groups[0].share_mode: "mine" is none of per_user, pooled`},
		{fmt.Sprintf(group, "boundary: external"), `f:1: groups[0].boundary: "external" is none of any, campus`},
		{fmt.Sprintf(group, "audit_content: some"), `f:1: groups[0].audit_content: "some" is none of full, metadata, off`},
		{fmt.Sprintf(group, "requests_per_minute: -1"), "f:1: groups[0].requests_per_minute: cannot be negative"},
		{fmt.Sprintf(group, "tokens_per_minute: -1"), "f:1: groups[0].tokens_per_minute: cannot be negative"},
		{fmt.Sprintf(group, "token_budget: -1"), "f:1: groups[0].token_budget: cannot be negative"},
		{fmt.Sprintf(group, "max_concurrent: -1"), "f:1: groups[0].max_concurrent: cannot be negative"},
		{fmt.Sprintf(group, "max_keys: -1"), "f:1: groups[0].max_keys: cannot be negative"},
		{fmt.Sprintf(group, "key_expiry_days: -1"), "f:1: groups[0].key_expiry_days: must be between 0 and 36500"},
		{fmt.Sprintf(group, "budget_period_days: 0"), "f:1: groups[0].budget_period_days: cannot be 0; leave it out for the default"},
		{fmt.Sprintf(group, "budget_period_days: 367"), "f:1: groups[0].budget_period_days: must be at most 366"},
		{fmt.Sprintf(group, "models: ['']"), `f:1: groups[0].models[0]: "" is no name of a model or an alias`},
		{"nodes: [{name: n, sidecar_url: gpu01}]", `f:1: nodes[0].sidecar_url: "gpu01" is no address: want http://HOST:PORT or https://HOST`},
		{"nodes: [{name: n, sidecar_secret: hunter2}]", "f:1: nodes[0].sidecar_secret: secrets are not in files: want env:NAME or file:PATH"},
		{"backends: [{name: b, url: 'http://h'}]", "f:1: backends[0].engine: is missing: want vllm, ollama or openai"},
		{"backends: [{name: b, engine: tgi, url: 'http://h'}]", `f:1: backends[0].engine: "tgi" is none of vllm, ollama, openai`},
		{"backends: [{name: b, engine: vllm}]", "f:1: backends[0].url: is missing"},
		{"backends: [{name: b, engine: vllm, url: 'ftp://h'}]", `f:1: backends[0].url: "ftp://h" is no address: want http://HOST:PORT or https://HOST`},
		{"backends: [{name: b, engine: vllm, url: 'http://u:p@h'}]", "f:1: backends[0].url: must not hold a user, a query or a fragment"},
		{fmt.Sprintf(be, "api_key: sk-hunter2"), "f:1: backends[0].api_key: secrets are not in files: want env:NAME or file:PATH"},
		{fmt.Sprintf(be, "boundary: any"), `f:1: backends[0].boundary: "any" is none of campus, external`},
		{fmt.Sprintf(be, "max_concurrent: 0"), "f:1: backends[0].max_concurrent: cannot be 0; leave it out for the default"},
		{fmt.Sprintf(be, "max_concurrent: 100001"), "f:1: backends[0].max_concurrent: must be at most 100000"},
		{fmt.Sprintf(be, "gpus: [0, -1]"), "f:1: backends[0].gpus[1]: cannot be negative"},
		{fmt.Sprintf(be, "models: [{name: m, max_concurrent: -1}]"), "f:1: backends[0].models[0].max_concurrent: cannot be negative"},
		{"models: [{name: m, context_length: -1}]", "f:1: models[0].context_length: cannot be negative"},
		{"models: [{name: m, capabilities: [chat, fly]}]", `f:1: models[0].capabilities[1]: "fly" is none of chat, completion, tools, json_schema, thinking, vision, embedding, rerank, speech, transcription, image`},
		{"models: [{name: m, thinking: {profile: deep}}]", `f:1: models[0].thinking.profile: "deep" is none of none, toggle, effort, levels, always`},
		{"models: [{name: m, system_late: drop}]", `f:1: models[0].system_late: "drop" is none of fold, hoist, inline`},
		{"models: [{name: m, developer_role: user}]", `f:1: models[0].developer_role: "user" is none of system, developer`},
		{"models: [{name: m, price: {input_per_million: -1}}]", "f:1: models[0].price.input_per_million: cannot be negative"},
		{"models: [{name: m, parameters: {policy: keep}}]", `f:1: models[0].parameters.policy: "keep" is none of drop, error, allow`},
		{"aliases: [{name: a}]", "f:1: aliases[0].targets: is missing"},
		{"aliases: [{name: a, targets: [{weight: 1}]}]", "f:1: aliases[0].targets[0].model: is missing"},
		{"aliases: [{name: a, targets: [{model: m, weight: -1}]}]", "f:1: aliases[0].targets[0].weight: cannot be negative"},
		{"aliases: [{name: a, targets: [m], strategy: luck}]", `f:1: aliases[0].strategy: "luck" is none of priority, weighted, round_robin, least_latency, least_busy, cheapest, fair`},
		{"aliases: [{name: a, targets: [m], fallback_on: [rain]}]", `f:1: aliases[0].fallback_on[0]: "rain" is none of unavailable, context`},
		{"aliases: [{name: a, targets: [a]}]", `f:1: aliases[0].targets[0]: "a" is an alias itself; an alias has models as targets`},
		{"models: [{name: m}]\naliases: [{name: m, targets: [x]}]", `f:2: aliases[0].name: "m" is the name of a model`},
		{"users: [{name: u}]", "f:1: users[0].group: is missing"},
		{"users: [{name: u, group: g, email: x}]", `f:1: users[0].email: "x" is no e-mail address`},
		{"users: [{name: u, group: g, role: king}]", `f:1: users[0].role: "king" is none of user, auditor, helpdesk, key_manager, model_operator, admin`},
		{"users: [{name: u, group: g, weight: -1}]", "f:1: users[0].weight: must be between 0 and 1000; 0 is that of the group"},
		{"users: [{name: u, group: g, limits: {token_budget: -1}}]", "f:1: users[0].limits.token_budget: cannot be negative"},
		{"settings: {retry: {attempts: 0}}", "f:1: settings.retry.attempts: cannot be 0; leave it out for the default"},
		{"settings: {retry: {attempts: 11}}", "f:1: settings.retry.attempts: must be at most 10"},
		{"settings: {retry: {idle: -1s}}", "f:1: settings.retry.idle: cannot be negative"},
		{"settings: {retry: {first_output: 0s}}", "f:1: settings.retry.first_output: cannot be 0; leave it out for the default"},
		{"settings: {scheduler: {fairness_window: 5s}}", "f:1: settings.scheduler.fairness_window: must be between 10s and 300s"},
		{"settings: {scheduler: {wait_bonus: 0}}", "f:1: settings.scheduler.wait_bonus: cannot be 0; leave it out for the default"},
		{"settings: {routing: {mode: fast}}", `f:1: settings.routing.mode: "fast" is none of points, ttft`},
		{"settings: {routing: {points: {queue: -1}}}", "f:1: settings.routing.points.queue: cannot be negative"},
		{"settings: {energy: {facility_factor: 0.5}}", "f:1: settings.energy.facility_factor: cannot be below 1"},
		// What is not there yet.
		{"oidc: [{name: entra}]", "f:1: oidc: single sign-on is not part of this version"},
		{"extensions: [{name: x}]", "f:1: extensions: extensions are not part of this version"},
	} {
		if got := problems(t, c.file); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s\ngot  %s\nwant %s", c.file, strings.Join(got, "\n     "), c.want)
		}
	}
}

func TestAllProblemsOfAFileAreToldAtOnceInItsOrder(t *testing.T) {
	t.Parallel()
	got := problems(t, `groups:
  - name: students
    wieght: 1
    share_mode: mine
backends:
  - name: a
    engine: vllm
    url: 7
    max_concurrent: many
    enabled: maybe
  - name: a
    engine: tgi
    url: http://ok
aliases:
  - name: x
    targets: [y]
  - name: y
    targets: [x]
surprise: true
`)
	want := []string{
		"f:2: groups[0].weight: is missing",
		"f:3: groups[0].wieght: unknown key",
		`f:4: groups[0].share_mode: "mine" is none of per_user, pooled`,
		"f:8: backends[0].url: want text; put it in quotes if it is meant",
		`f:9: backends[0].max_concurrent: want a whole number, not "many"`,
		`f:10: backends[0].enabled: want true or false, not "maybe"`,
		`f:11: backends[1].name: "a" appears twice`,
		`f:12: backends[1].engine: "tgi" is none of vllm, ollama, openai`,
		`f:16: aliases[0].targets[0]: "y" is an alias itself; an alias has models as targets`,
		`f:18: aliases[1].targets[0]: "x" is an alias itself; an alias has models as targets`,
		"f:19: surprise: unknown key",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestFilesThatAreRight(t *testing.T) {
	t.Parallel()
	for rule, file := range map[string]string{
		"nothing at all":             "",
		"white space":                " \n\n",
		"a comment alone":            "# nothing\n",
		"null":                       "~",
		"a document mark":            "---\nnodes: []\n",
		"empty lists":                "groups: []\nnodes:\nusers: ~\n",
		"the example":                example(t),
		"JSON":                       `{"nodes": [{"name": "n"}], "models": [{"name": "m", "context_length": 4096}]}`,
		"names of models with signs": "models: [{name: 'org/model:7b-q4_K_M'}]",
		"zero points":                "settings: {routing: {points: {queue: 0}}}",
		"limits of zero":             "groups: [{name: g, weight: 1, token_budget: 0, max_concurrent: 0, max_keys: 0, key_expiry_days: 0}]",
		"several lines of text":      "models:\n- name: m\n  label: >-\n    a long\n    label\n",
		"an alias before its models": "aliases: [{name: a, targets: [m]}]\nmodels: [{name: m}]",
	} {
		if got := problems(t, file); got != nil {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

func TestAnchorsAreFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.parse(`
backends:
  - {name: a, engine: vllm, url: &u 'http://a', gpus: &g [1, 2]}
  - {name: b, engine: vllm, url: *u, gpus: *g}
groups:
  - {name: g, weight: 1, models: &m [x, y]}
  - {name: h, weight: 1, models: *m}
`)
	if len(p.Backends) != 2 || p.Backends[1].URL != "http://a" || !slices.Equal(p.Backends[1].GPUs, []int{1, 2}) {
		t.Errorf("backends %+v", p.Backends)
	}
	if !slices.Equal(p.Groups[1].Models, []string{"x", "y"}) {
		t.Errorf("groups %+v", p.Groups)
	}
	if got := problems(t, "groups: [{name: g, weight: &x heavy}, {name: h, weight: *x}]"); len(got) != 2 {
		t.Errorf("problems %v, want that of the anchor in both places", got)
	}
}

func TestAFileThatGrowsWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	file := "models:\n- name: m\n  parameters:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		prev := fmt.Sprintf("*a%d", i)
		file += fmt.Sprintf("    a%d: &a%d [%s]\n", i+1, i+1, strings.Join(slices.Repeat([]string{prev}, 10), ", "))
	}
	got := problems(t, file)
	if len(got) != 1 || !strings.HasSuffix(got[0], "the file is too large") {
		t.Errorf("problems %v", got)
	}
}

func FuzzParseCluster(f *testing.F) {
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(text), "", "a: [", "groups: [{name: &x a, weight: *x}]", "? a\n: b", "<<: *a", "models: [{<<: {name: a}}]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := admin.ParseCluster("f", []byte(text))
		if (p == nil) == (err == nil) {
			t.Errorf("parsed %v and error %v", p, err)
		}
		if p != nil {
			p.Warnings()
		}
	})
}

func TestKeysWithoutEffectAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := b.parse(`backends:
  - {name: x, engine: vllm, url: 'http://x', requests_per_minute: 0, tokens_per_minute: 5}
  - {name: y, engine: vllm, url: 'http://y', tokens_per_minute: 6}
  - {name: z, engine: vllm, url: 'http://z', tokens_per_minute: 7}
models:
  - name: m
    thinking: {splitter: false, promote: true}
    parameters: {}
  - name: n
    parameters: {logprobs: ignored}
settings:
  scheduler: {capacity_wait: 10s, slack: 1}
  routing: {mode: ttft}
`).Warnings()
	want := []string{
		"cluster.yaml:2: backends[0].tokens_per_minute: is kept and has no effect yet: backends have no rates of their own in this version; max_concurrent bounds them (and 2 more like it)",
		"cluster.yaml:10: models[1].parameters: is kept and has no effect yet: parameters are passed on as they are in this version",
		"cluster.yaml:13: settings.routing.mode: is kept and has no effect yet: placement goes by points in this version",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	if got := b.parse("nodes: [{name: n}]\nsettings: {retry: {attempts: 2}}").Warnings(); got != nil {
		t.Errorf("warnings %v for a file whose keys all count", got)
	}
}
