package admin

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// ParsedCluster is a cluster file that is right in itself; whether it fits the database, Apply finds out.
type ParsedCluster struct {
	Cluster
	name string
	file *ast.File
}

// ParseCluster reads a cluster file. name is what errors call it. The error names every problem with its line.
func ParseCluster(name string, data []byte) (*ParsedCluster, error) {
	p := &ParsedCluster{name: name}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, true))
	}
	p.file = file
	err = yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&p.Cluster)
	if err != nil && len(bytes.TrimSpace(data)) > 0 && file.Docs != nil && file.Docs[0].Body != nil {
		return nil, fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, true))
	}
	c := checker{p: p}
	c.cluster()
	if len(c.problems) > 0 {
		return nil, errors.Join(c.problems...)
	}
	return p, nil
}

// at is the place of a value in the file, or of the nearest thing around it that is there.
func (p *ParsedCluster) at(path string) string {
	for text := path; ; {
		if yp, err := yaml.PathString("$." + text); err == nil {
			if node, err := yp.FilterFile(p.file); err == nil && node != nil {
				return fmt.Sprintf("%s:%d", p.name, node.GetToken().Position.Line)
			}
		}
		cut := strings.LastIndexAny(text, ".[")
		if cut < 0 {
			return p.name
		}
		text = text[:cut]
	}
}

// problem is an error at a place of the file.
func (p *ParsedCluster) problem(path, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", p.at(path), path, fmt.Sprintf(format, args...))
}

// checker gathers what is wrong with a file.
type checker struct {
	p        *ParsedCluster
	problems []error
}

func (c *checker) add(path, format string, args ...any) {
	c.problems = append(c.problems, c.p.problem(path, format, args...))
}

func (c *checker) cluster() {
	f := &c.p.Cluster
	if len(f.OIDC) > 0 {
		c.add("oidc", "single sign-on is not part of this version")
	}
	if len(f.Extensions) > 0 {
		c.add("extensions", "extensions are not part of this version")
	}
	if s := f.Settings; s != nil {
		c.settings(s)
	}
	checkEach(c, "groups", f.Groups, func(g ClusterGroup) string { return g.Name }, c.group)
	checkEach(c, "nodes", f.Nodes, func(n ClusterNode) string { return n.Name }, c.node)
	checkEach(c, "backends", f.Backends, func(b ClusterBackend) string { return b.Name }, c.backend)
	checkEach(c, "models", f.Models, func(m ClusterModel) string { return m.Name }, c.model)
	checkEach(c, "aliases", f.Aliases, func(a ClusterAlias) string { return a.Name }, c.alias)
	checkEach(c, "users", f.Users, func(u ClusterUser) string { return u.Name }, c.user)
	for i, a := range f.Aliases {
		for j, t := range a.Targets {
			if slices.ContainsFunc(f.Aliases, func(o ClusterAlias) bool { return o.Name == t.Model }) {
				c.add(fmt.Sprintf("aliases[%d].targets[%d]", i, j), "%q is an alias itself; an alias has models as targets", t.Model)
			}
		}
		if slices.ContainsFunc(f.Models, func(m ClusterModel) bool { return m.Name == a.Name }) {
			c.add(fmt.Sprintf("aliases[%d].name", i), "%q is the name of a model", a.Name)
		}
	}
}

// checkEach checks names and then every entry of a list.
func checkEach[T any](c *checker, list string, entries []T, name func(T) string, check func(path string, entry T)) {
	seen := map[string]bool{}
	for i, e := range entries {
		path := fmt.Sprintf("%s[%d]", list, i)
		n := name(e)
		switch {
		case n == "":
			c.add(path, "needs a name")
		case seen[n]:
			c.add(path+".name", "%q appears twice", n)
		case strings.HasSuffix(list, "models"):
			if len(n) > 256 || strings.ContainsAny(n, " \t\r\n") {
				c.add(path+".name", "%q is no model name", n)
			}
		default:
			if err := checkName("name", n); err != nil {
				c.add(path+".name", "%s", strings.TrimPrefix(err.Error(), "name: "))
			}
		}
		seen[n] = true
		check(path, e)
	}
}

func (c *checker) oneOf(path, value string, options ...string) {
	if value != "" && !slices.Contains(options, value) {
		c.add(path, "%q is none of %s", value, strings.Join(options, ", "))
	}
}

func notNegative[T int | int64 | float64](c *checker, path string, v T) {
	if v < 0 {
		c.add(path, "cannot be negative")
	}
}

func (c *checker) url(path, text string) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		c.add(path, "%q is no address: want http://HOST:PORT or https://HOST", text)
		return
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		c.add(path, "must not hold a user, a query or a fragment")
	}
}

// secretRef is how a file names a secret; secrets themselves are not in files.
var secretRef = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

func (c *checker) secret(path, ref string) {
	if ref != "" && !secretRef.MatchString(ref) {
		c.add(path, "secrets are not in files: want env:NAME or file:PATH")
	}
}

func (c *checker) limits(path string, l ClusterLimits) {
	notNegative(c, path+".token_budget", l.TokenBudget)
	notNegative(c, path+".requests_per_minute", l.RequestsPerMinute)
	notNegative(c, path+".tokens_per_minute", l.TokensPerMinute)
	notNegative(c, path+".max_concurrent", l.MaxConcurrent)
}

func (c *checker) settings(s *ClusterSettings) {
	notNegative(c, "settings.scheduler.capacity_wait", s.Scheduler.CapacityWait.Seconds())
	if w := s.Scheduler.FairnessWindow.Seconds(); w != 0 && (w < 10 || w > 300) {
		c.add("settings.scheduler.fairness_window", "must be between 10s and 300s")
	}
	for name, v := range map[string]float64{
		"burst_credit": s.Scheduler.BurstCredit, "wait_bonus": s.Scheduler.WaitBonus, "slack": s.Scheduler.Slack,
		"input_price": s.Scheduler.InputPrice, "cached_price": s.Scheduler.CachedPrice, "output_price": s.Scheduler.OutputPrice,
	} {
		notNegative(c, "settings.scheduler."+name, v)
	}
	c.oneOf("settings.routing.mode", s.Routing.Mode, "points", "ttft")
	for name := range s.Routing.Points {
		c.oneOf("settings.routing.points", name, "resident", "utilisation", "latency", "queue", "tokens_per_second", "preference")
	}
	if s.Retry.Attempts < 0 || s.Retry.Attempts > 10 {
		c.add("settings.retry.attempts", "must be between 1 and 10")
	}
	notNegative(c, "settings.retry.first_output", s.Retry.FirstOutput.Seconds())
	notNegative(c, "settings.retry.idle", s.Retry.Idle.Seconds())
	notNegative(c, "settings.retry.breaker_failures", s.Retry.BreakerFailures)
	notNegative(c, "settings.retry.breaker_cooldown", s.Retry.BreakerCooldown.Seconds())
	if f := s.Energy.FacilityFactor; f != 0 && f < 1 {
		c.add("settings.energy.facility_factor", "cannot be below 1")
	}
	notNegative(c, "settings.energy.price_per_kwh", s.Energy.PricePerKWh)
	notNegative(c, "settings.energy.kg_co2_per_kwh", s.Energy.KgCO2PerKWh)
}

func (c *checker) group(path string, g ClusterGroup) {
	if g.Weight <= 0 || g.Weight > 1000 {
		c.add(path+".weight", "must be above 0 and at most 1000")
	}
	c.oneOf(path+".share_mode", g.ShareMode, string(identity.SharePerUser), string(identity.SharePooled))
	c.limits(path, g.ClusterLimits)
	if g.BudgetPeriodDays < 0 || g.BudgetPeriodDays > 366 {
		c.add(path+".budget_period_days", "must be between 1 and 366")
	}
	c.oneOf(path+".boundary", g.Boundary, string(llm.BoundaryAny), string(llm.BoundaryCampus))
	c.oneOf(path+".audit_content", g.AuditContent, string(identity.ContentFull), string(identity.ContentMetadata), string(identity.ContentOff))
	if g.KeyExpiryDays != nil {
		notNegative(c, path+".key_expiry_days", *g.KeyExpiryDays)
	}
	if g.MaxKeys != nil {
		notNegative(c, path+".max_keys", *g.MaxKeys)
	}
}

func (c *checker) node(path string, n ClusterNode) {
	if n.SidecarURL != "" {
		c.url(path+".sidecar_url", n.SidecarURL)
	}
	c.secret(path+".sidecar_secret", n.SidecarSecret)
}

func (c *checker) backend(path string, b ClusterBackend) {
	if b.Engine == "" {
		c.add(path, "needs an engine: vllm, ollama or openai")
	}
	c.oneOf(path+".engine", b.Engine, "vllm", "ollama", "openai")
	if b.URL == "" {
		c.add(path, "needs a url")
	} else {
		c.url(path+".url", b.URL)
	}
	c.secret(path+".api_key", b.APIKey)
	c.oneOf(path+".boundary", b.Boundary, "campus", "external")
	if b.MaxConcurrent < 0 || b.MaxConcurrent > 100_000 {
		c.add(path+".max_concurrent", "must be between 1 and 100000")
	}
	notNegative(c, path+".requests_per_minute", b.RequestsPerMinute)
	notNegative(c, path+".tokens_per_minute", b.TokensPerMinute)
	for i, g := range b.GPUs {
		notNegative(c, fmt.Sprintf("%s.gpus[%d]", path, i), g)
	}
	checkEach(c, path+".models", b.Models, func(m ClusterBackendModel) string { return m.Name }, func(path string, m ClusterBackendModel) {
		notNegative(c, path+".requests_per_minute", m.RequestsPerMinute)
		notNegative(c, path+".tokens_per_minute", m.TokensPerMinute)
		notNegative(c, path+".max_concurrent", m.MaxConcurrent)
	})
}

var capabilities = []string{
	"chat", "completion", "tools", "json_schema", "thinking", "vision", "embedding", "rerank", "speech", "transcription", "image",
}

func (c *checker) model(path string, m ClusterModel) {
	notNegative(c, path+".context_length", m.ContextLength)
	for i, name := range m.Capabilities {
		c.oneOf(fmt.Sprintf("%s.capabilities[%d]", path, i), name, capabilities...)
	}
	c.oneOf(path+".thinking.profile", m.Thinking.Profile, "none", "toggle", "effort", "levels", "always")
	c.oneOf(path+".system_late", m.SystemLate, "fold", "hoist", "inline")
	c.oneOf(path+".developer_role", m.DeveloperRole, "system", "developer")
	notNegative(c, path+".price.input_per_million", m.Price.InputPerMillion)
	notNegative(c, path+".price.output_per_million", m.Price.OutputPerMillion)
	if policy, ok := m.Parameters["policy"]; ok {
		c.oneOf(path+".parameters.policy", fmt.Sprint(policy), "drop", "error", "allow")
	}
}

func (c *checker) alias(path string, a ClusterAlias) {
	if len(a.Targets) == 0 {
		c.add(path, "needs targets")
	}
	for i, t := range a.Targets {
		if t.Model == "" {
			c.add(fmt.Sprintf("%s.targets[%d]", path, i), "needs a model")
		}
		notNegative(c, fmt.Sprintf("%s.targets[%d].weight", path, i), t.Weight)
	}
	if a.Strategy != "" && !routing.Strategy(a.Strategy).Valid() {
		c.add(path+".strategy", "%q is none of priority, weighted, round_robin, least_latency, least_busy, cheapest, fair", a.Strategy)
	}
	for i, f := range a.FallbackOn {
		c.oneOf(fmt.Sprintf("%s.fallback_on[%d]", path, i), f, "unavailable", "context")
	}
}

func (c *checker) user(path string, u ClusterUser) {
	if u.Group == "" {
		c.add(path, "needs a group")
	}
	if err := checkEmail(u.Email); err != nil {
		c.add(path+".email", "%s", strings.TrimPrefix(err.Error(), "email: "))
	}
	if u.Role != "" && !identity.Role(u.Role).Valid() {
		c.add(path+".role", "%q is none of user, auditor, helpdesk, key_manager, model_operator, admin", u.Role)
	}
	notNegative(c, path+".weight", u.Weight)
	c.limits(path+".limits", u.Limits)
}
