package admin

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

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
	name  string
	shape *shape
}

// ParseCluster reads a cluster file. name is what errors call it. The error names every problem, each as
// name:line: path: message; of a file that is no YAML it names the first.
func ParseCluster(name string, data []byte) (*ParsedCluster, error) {
	p := &ParsedCluster{name: name, shape: newShape()}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, p.syntax(err)
	}
	body, err := p.document(file)
	if err != nil || body == nil {
		return p, err
	}
	body = p.shape.check("", body, reflect.TypeFor[Cluster]())
	err = yaml.NodeToValue(body, &p.Cluster)
	if err != nil && len(p.shape.problems) == 0 {
		return nil, p.syntax(err)
	}
	c := checker{p: p}
	c.cluster()
	if problems := slices.Concat(c.problems, p.shape.problems); len(problems) > 0 {
		return nil, p.join(problems)
	}
	return p, nil
}

// document is the content of a file; nil if it has none.
func (p *ParsedCluster) document(file *ast.File) (ast.Node, error) {
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType:
		case body != nil:
			return nil, p.join([]located{{line(doc.Body), "", "a second document begins here: put everything into one"}})
		default:
			body = doc.Body
		}
	}
	return body, nil
}

// syntax is the error of a file that is no YAML.
func (p *ParsedCluster) syntax(err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		return p.join([]located{{at.GetToken().Position.Line, "", at.GetMessage()}})
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// format is a line about a place in the file.
func (p *ParsedCluster) format(l located) string {
	text := l.text
	if l.path != "" {
		text = l.path + ": " + text
	}
	if l.line == 0 {
		return p.name + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", p.name, l.line, text)
}

// join makes one error of all problems, in the order of the file.
func (p *ParsedCluster) join(problems []located) error {
	inOrder(problems)
	var errs []error
	for _, l := range problems {
		errs = append(errs, errors.New(p.format(l)))
	}
	return errors.Join(errs...)
}

// checker gathers what is wrong with the values of a file.
type checker struct {
	p        *ParsedCluster
	problems []located
}

func (c *checker) add(path, format string, args ...any) {
	if !c.p.shape.spoilt(path) {
		c.problems = append(c.problems, located{c.p.shape.at(path), path, fmt.Sprintf(format, args...)})
	}
}

// given reports whether the file has a value at path, be it zero.
func (c *checker) given(path string) bool {
	_, ok := c.p.shape.places[path]
	return ok
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
			c.add(path+".name", "is missing")
		case seen[n]:
			c.add(path+".name", "%q appears twice", n)
		case strings.HasSuffix(list, "models"):
			if len(n) > 256 || strings.ContainsAny(n, " \t\r\n") {
				c.add(path+".name", "%q is no model name", n)
			}
		case list == "aliases" && llm.IsPattern(n):
			if n == strings.Repeat("*", len(n)) || checkName("name", "a"+strings.ReplaceAll(n, "*", "a")) != nil {
				c.add(path+".name", "%q is no pattern: want letters, digits and . _ @ + - beside *, at most 127", n)
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

func (c *checker) noBlank(path string, names []string) {
	for i, n := range names {
		if n == "" || strings.ContainsAny(n, " \t") {
			c.add(fmt.Sprintf("%s[%d]", path, i), "%q is no name of a model or an alias", n)
		}
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

// aboveZero checks a value whose absence means a default: a zero in the file would silently become that default.
func aboveZero[T int | float64 | time.Duration](c *checker, path string, v T) {
	switch {
	case v < 0:
		c.add(path, "cannot be negative")
	case v == 0 && c.given(path):
		c.add(path, "cannot be 0; leave it out for the default")
	}
}

func (c *checker) settings(s *ClusterSettings) {
	sc, rt, en := s.Scheduler, s.Retry, s.Energy
	aboveZero(c, "settings.scheduler.capacity_wait", sc.CapacityWait)
	aboveZero(c, "settings.scheduler.fairness_window", sc.FairnessWindow)
	if w := sc.FairnessWindow.Seconds(); w > 0 && (w < 10 || w > 300) {
		c.add("settings.scheduler.fairness_window", "must be between 10s and 300s")
	}
	aboveZero(c, "settings.scheduler.burst_credit", sc.BurstCredit)
	aboveZero(c, "settings.scheduler.wait_bonus", sc.WaitBonus)
	aboveZero(c, "settings.scheduler.slack", sc.Slack)
	aboveZero(c, "settings.scheduler.input_price", sc.InputPrice)
	aboveZero(c, "settings.scheduler.cached_price", sc.CachedPrice)
	aboveZero(c, "settings.scheduler.output_price", sc.OutputPrice)
	c.oneOf("settings.routing.mode", s.Routing.Mode, "points", "ttft")
	for _, name := range sortedKeys(s.Routing.Points) {
		path := "settings.routing.points." + name
		if !slices.Contains(pointTerms, name) {
			c.add(path, "unknown key")
		}
		notNegative(c, path, s.Routing.Points[name])
	}
	aboveZero(c, "settings.retry.attempts", rt.Attempts)
	if rt.Attempts > 10 {
		c.add("settings.retry.attempts", "must be at most 10")
	}
	aboveZero(c, "settings.retry.first_output", rt.FirstOutput)
	aboveZero(c, "settings.retry.idle", rt.Idle)
	aboveZero(c, "settings.retry.breaker_failures", rt.BreakerFailures)
	aboveZero(c, "settings.retry.breaker_cooldown", rt.BreakerCooldown)
	if f := en.FacilityFactor; f != 0 && f < 1 {
		c.add("settings.energy.facility_factor", "cannot be below 1")
	} else {
		aboveZero(c, "settings.energy.facility_factor", f)
	}
	aboveZero(c, "settings.energy.price_per_kwh", en.PricePerKWh)
	aboveZero(c, "settings.energy.kg_co2_per_kwh", en.KgCO2PerKWh)
}

// pointTerms are what points may be given for.
var pointTerms = []string{"resident", "utilisation", "latency", "queue", "tokens_per_second", "preference"}

func (c *checker) group(path string, g ClusterGroup) {
	switch {
	case !c.given(path + ".weight"):
		c.add(path+".weight", "is missing")
	case g.Weight <= 0 || g.Weight > 1000:
		c.add(path+".weight", "must be above 0 and at most 1000")
	}
	c.oneOf(path+".share_mode", g.ShareMode, string(identity.SharePerUser), string(identity.SharePooled))
	c.limits(path, g.ClusterLimits)
	aboveZero(c, path+".budget_period_days", g.BudgetPeriodDays)
	if g.BudgetPeriodDays > 366 {
		c.add(path+".budget_period_days", "must be at most 366")
	}
	c.noBlank(path+".models", g.Models)
	c.oneOf(path+".boundary", g.Boundary, string(llm.BoundaryAny), string(llm.BoundaryCampus))
	c.oneOf(path+".audit_content", g.AuditContent, string(identity.ContentFull), string(identity.ContentMetadata), string(identity.ContentOff))
	if d := g.KeyExpiryDays; d != nil && (*d < 0 || *d > maxKeyDays) {
		c.add(path+".key_expiry_days", "must be between 0 and %d", maxKeyDays)
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
		c.add(path+".engine", "is missing: want vllm, ollama or openai")
	}
	c.oneOf(path+".engine", b.Engine, "vllm", "ollama", "openai")
	if b.URL == "" {
		c.add(path+".url", "is missing")
	} else {
		c.url(path+".url", b.URL)
	}
	c.secret(path+".api_key", b.APIKey)
	c.oneOf(path+".boundary", b.Boundary, "campus", "external")
	aboveZero(c, path+".max_concurrent", b.MaxConcurrent)
	if b.MaxConcurrent > 100_000 {
		c.add(path+".max_concurrent", "must be at most 100000")
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
		c.add(path+".targets", "is missing")
	}
	for i, t := range a.Targets {
		if t.Model == "" {
			c.add(fmt.Sprintf("%s.targets[%d].model", path, i), "is missing")
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
		c.add(path+".group", "is missing")
	}
	if err := checkEmail(u.Email); err != nil {
		c.add(path+".email", "%s", strings.TrimPrefix(err.Error(), "email: "))
	}
	if u.Role != "" && !identity.Role(u.Role).Valid() {
		c.add(path+".role", "%q is none of user, auditor, helpdesk, key_manager, model_operator, admin", u.Role)
	}
	if u.Weight < 0 || u.Weight > 1000 {
		c.add(path+".weight", "must be between 0 and 1000; 0 is that of the group")
	}
	c.limits(path+".limits", u.Limits)
}
