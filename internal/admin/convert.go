package admin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// Defaults of what a file leaves out.
const (
	defaultKeyExpiryDays = 90
	defaultMaxKeys       = 16
	defaultPeriodDays    = 30
)

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func orInt(v *int, def int) int {
	if v == nil {
		return def
	}
	return *v
}

func (l ClusterLimits) limits() identity.Limits {
	return identity.Limits{
		RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute,
		TokenBudget: l.TokenBudget, MaxConcurrent: l.MaxConcurrent,
	}
}

func clusterLimits(l identity.Limits) ClusterLimits {
	return ClusterLimits{
		TokenBudget: l.TokenBudget, RequestsPerMinute: l.RequestsPerMinute,
		TokensPerMinute: l.TokensPerMinute, MaxConcurrent: l.MaxConcurrent,
	}
}

// fill puts the group of the file into g, which keeps what the file does not tell: identity and age.
func (f ClusterGroup) fill(g identity.Group) identity.Group {
	g.Name, g.Weight, g.Limits = f.Name, f.Weight, f.limits()
	g.ShareMode = identity.ShareMode(or(f.ShareMode, string(identity.SharePerUser)))
	g.BudgetPeriodDays = or(f.BudgetPeriodDays, defaultPeriodDays)
	g.Models = f.Models
	if len(g.Models) == 0 {
		g.Models = []string{"*"}
	}
	g.Boundary = llm.Boundary(or(f.Boundary, string(llm.BoundaryAny)))
	g.AuditContent = identity.ContentPolicy(f.AuditContent)
	g.KeyExpiryDays, g.MaxKeys = orInt(f.KeyExpiryDays, defaultKeyExpiryDays), orInt(f.MaxKeys, defaultMaxKeys)
	return g
}

func clusterGroup(g identity.Group) ClusterGroup {
	return ClusterGroup{
		Name: g.Name, Weight: g.Weight, ShareMode: string(g.ShareMode), ClusterLimits: clusterLimits(g.Limits),
		BudgetPeriodDays: g.BudgetPeriodDays, Models: g.Models, Boundary: string(g.Boundary),
		AuditContent: string(g.AuditContent), KeyExpiryDays: &g.KeyExpiryDays, MaxKeys: &g.MaxKeys,
	}
}

func (f ClusterNode) fill(n backend.Node, secret string) backend.Node {
	n.Name, n.SidecarURL, n.SidecarSecretRef, n.SidecarSecret = f.Name, f.SidecarURL, f.SidecarSecret, secret
	return n
}

func clusterNode(n backend.Node) ClusterNode {
	return ClusterNode{Name: n.Name, SidecarURL: n.SidecarURL, SidecarSecret: n.SidecarSecretRef}
}

// defaultBoundary of a backend: any other OpenAI-compatible server may be a service outside, so content that must stay
// on campus does not go there unless an admin says that it is inside.
func defaultBoundary(engine string) string {
	if engine == string(backend.EngineOpenAI) {
		return backend.BoundaryExternal
	}
	return backend.BoundaryCampus
}

// baseOf is the address of a server without the path under which its OpenAI protocol lies: people write both.
func baseOf(url string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1"), "/")
}

func (f ClusterBackend) fill(b backend.Config, key string) (backend.Config, error) {
	b.Name, b.Engine, b.URL = f.Name, backend.Engine(f.Engine), baseOf(f.URL)
	b.APIKeyRef, b.APIKey, b.Node, b.GPUs = f.APIKey, key, f.Node, f.GPUs
	b.MaxConcurrent, b.Priority = or(f.MaxConcurrent, backend.DefaultMaxConcurrent), f.Priority
	b.Boundary = or(f.Boundary, defaultBoundary(f.Engine))
	b.RequestsPerMinute, b.TokensPerMinute = f.RequestsPerMinute, f.TokensPerMinute
	switch enabled := f.Enabled == nil || *f.Enabled; {
	case !enabled:
		b.Intent = routing.IntentDisabled
	case b.Intent != routing.IntentDraining: // a drain that somebody began goes on
		b.Intent = routing.IntentEnabled
	}
	b.Models = nil
	for _, m := range f.Models {
		params, err := rawParameters(m.Parameters)
		if err != nil {
			return b, err
		}
		b.Models = append(b.Models, backend.ModelLimit{
			Name: m.Name, RequestsPerMinute: m.RequestsPerMinute, TokensPerMinute: m.TokensPerMinute,
			MaxConcurrent: m.MaxConcurrent, Parameters: params,
		})
	}
	return b, nil
}

func clusterBackend(b backend.Config) (ClusterBackend, error) {
	enabled := b.Intent != routing.IntentDisabled
	f := ClusterBackend{
		Name: b.Name, Engine: string(b.Engine), URL: b.URL, APIKey: b.APIKeyRef, Node: b.Node, GPUs: b.GPUs,
		MaxConcurrent: b.MaxConcurrent, Priority: b.Priority, Boundary: b.Boundary, Enabled: &enabled,
		RequestsPerMinute: b.RequestsPerMinute, TokensPerMinute: b.TokensPerMinute,
	}
	for _, m := range b.Models {
		params, err := parameterMap(m.Parameters)
		if err != nil {
			return f, err
		}
		f.Models = append(f.Models, ClusterBackendModel{
			Name: m.Name, RequestsPerMinute: m.RequestsPerMinute, TokensPerMinute: m.TokensPerMinute,
			MaxConcurrent: m.MaxConcurrent, Parameters: params,
		})
	}
	return f, nil
}

func (f ClusterModel) fill(m backend.ModelConfig) (backend.ModelConfig, error) {
	params, err := rawParameters(f.Parameters)
	m.Name, m.Label, m.ContextLength = f.Name, f.Label, f.ContextLength
	m.Capabilities = nil
	for _, c := range f.Capabilities {
		m.Capabilities = append(m.Capabilities, llm.Capability(c))
	}
	m.Thinking = backend.ThinkingConfig{
		Profile: llm.ThinkingProfile(f.Thinking.Profile), Kwarg: f.Thinking.Kwarg,
		Splitter: f.Thinking.Splitter, Promote: f.Thinking.Promote,
	}
	m.SystemLate, m.DeveloperRole = f.SystemLate, f.DeveloperRole
	m.InputPrice, m.OutputPrice, m.Parameters = f.Price.InputPerMillion, f.Price.OutputPerMillion, params
	return m, err
}

func clusterModel(m backend.ModelConfig) (ClusterModel, error) {
	params, err := parameterMap(m.Parameters)
	f := ClusterModel{
		Name: m.Name, Label: m.Label, ContextLength: m.ContextLength, SystemLate: m.SystemLate,
		DeveloperRole: m.DeveloperRole, Parameters: params,
	}
	for _, c := range m.Capabilities {
		f.Capabilities = append(f.Capabilities, string(c))
	}
	f.Thinking.Profile, f.Thinking.Kwarg = string(m.Thinking.Profile), m.Thinking.Kwarg
	f.Thinking.Splitter, f.Thinking.Promote = m.Thinking.Splitter, m.Thinking.Promote
	f.Price.InputPerMillion, f.Price.OutputPerMillion = m.InputPrice, m.OutputPrice
	return f, err
}

func (f ClusterAlias) alias() routing.Alias {
	a := routing.Alias{
		Name: f.Name, Strategy: routing.Strategy(or(f.Strategy, string(routing.StrategyPriority))), FallbackOn: f.FallbackOn,
	}
	if len(a.FallbackOn) == 0 {
		a.FallbackOn = []string{"unavailable"}
	}
	for _, t := range f.Targets {
		a.Targets = append(a.Targets, routing.Target(t))
	}
	return a
}

func clusterAlias(a routing.Alias) ClusterAlias {
	f := ClusterAlias{Name: a.Name, Strategy: string(a.Strategy), FallbackOn: a.FallbackOn}
	for _, t := range a.Targets {
		f.Targets = append(f.Targets, ClusterTarget(t))
	}
	return f
}

func (f ClusterUser) fill(u identity.User, group identity.GroupID) identity.User {
	u.Name, u.Email, u.GroupID, u.Weight, u.Limits = f.Name, f.Email, group, f.Weight, f.Limits.limits()
	u.Role = identity.Role(or(f.Role, string(identity.RoleUser)))
	return u
}

func clusterUser(u identity.User, groups map[identity.GroupID]string) ClusterUser {
	return ClusterUser{
		Name: u.Name, Email: u.Email, Group: groups[u.GroupID], Role: string(u.Role), Weight: u.Weight, Limits: clusterLimits(u.Limits),
	}
}

func (f *ClusterSettings) settings() backend.Settings {
	return backend.Settings{
		Scheduler: backend.SchedulerSettings(f.Scheduler),
		Routing:   backend.RoutingSettings(f.Routing),
		Retry:     backend.RetrySettings(f.Retry),
		Energy:    backend.EnergySettings(f.Energy),
	}
}

func clusterSettings(s backend.Settings) *ClusterSettings {
	return &ClusterSettings{
		Scheduler: ClusterScheduler(s.Scheduler),
		Routing:   ClusterRouting(s.Routing),
		Retry:     ClusterRetry(s.Retry),
		Energy:    ClusterEnergy(s.Energy),
	}
}

func rawParameters(m map[string]any) (json.RawMessage, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return json.Marshal(m)
}

func parameterMap(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var m map[string]any
	err := json.Unmarshal(raw, &m)
	return m, err
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
