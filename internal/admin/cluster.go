package admin

import (
	_ "embed"
	"time"
)

// Cluster is the cluster file: what apply reads and export writes. Every list is keyed by name. An entry is the whole
// truth about its thing: what it leaves out has its default.
type Cluster struct {
	Settings   *ClusterSettings `yaml:"settings,omitempty"`
	Groups     []ClusterGroup   `yaml:"groups,omitempty"`
	Nodes      []ClusterNode    `yaml:"nodes,omitempty"`
	Backends   []ClusterBackend `yaml:"backends,omitempty"`
	Models     []ClusterModel   `yaml:"models,omitempty"`
	Aliases    []ClusterAlias   `yaml:"aliases,omitempty"`
	OIDC       []map[string]any `yaml:"oidc,omitempty"`
	Extensions []map[string]any `yaml:"extensions,omitempty"`
	Users      []ClusterUser    `yaml:"users,omitempty"`
}

// ClusterSettings are the run-time settings; what is left out keeps its default.
type ClusterSettings struct {
	Scheduler ClusterScheduler `yaml:"scheduler,omitempty"`
	Routing   ClusterRouting   `yaml:"routing,omitempty"`
	Retry     ClusterRetry     `yaml:"retry,omitempty"`
	Energy    ClusterEnergy    `yaml:"energy,omitempty"`
}

// ClusterScheduler are backend.SchedulerSettings in the file.
type ClusterScheduler struct {
	CapacityWait   time.Duration `yaml:"capacity_wait,omitempty"`
	FairnessWindow time.Duration `yaml:"fairness_window,omitempty"`
	BurstCredit    float64       `yaml:"burst_credit,omitempty"`
	WaitBonus      float64       `yaml:"wait_bonus,omitempty"`
	Slack          float64       `yaml:"slack,omitempty"`
	InputPrice     float64       `yaml:"input_price,omitempty"`
	CachedPrice    float64       `yaml:"cached_price,omitempty"`
	OutputPrice    float64       `yaml:"output_price,omitempty"`
}

// ClusterRouting are backend.RoutingSettings in the file.
type ClusterRouting struct {
	Mode   string             `yaml:"mode,omitempty"`
	Points map[string]float64 `yaml:"points,omitempty"`
}

// ClusterRetry are backend.RetrySettings in the file.
type ClusterRetry struct {
	Attempts        int           `yaml:"attempts,omitempty"`
	FirstOutput     time.Duration `yaml:"first_output,omitempty"`
	Idle            time.Duration `yaml:"idle,omitempty"`
	BreakerFailures int           `yaml:"breaker_failures,omitempty"`
	BreakerCooldown time.Duration `yaml:"breaker_cooldown,omitempty"`
}

// ClusterEnergy are backend.EnergySettings in the file.
type ClusterEnergy struct {
	FacilityFactor float64 `yaml:"facility_factor,omitempty"`
	PricePerKWh    float64 `yaml:"price_per_kwh,omitempty"`
	Currency       string  `yaml:"currency,omitempty"`
	KgCO2PerKWh    float64 `yaml:"kg_co2_per_kwh,omitempty"`
}

// ClusterLimits are limits; 0 or absent is no limit.
type ClusterLimits struct {
	TokenBudget       int64 `yaml:"token_budget,omitempty"`
	RequestsPerMinute int   `yaml:"requests_per_minute,omitempty"`
	TokensPerMinute   int   `yaml:"tokens_per_minute,omitempty"`
	MaxConcurrent     int   `yaml:"max_concurrent,omitempty"`
}

// ClusterGroup is a group.
type ClusterGroup struct {
	Name             string  `yaml:"name"`
	Weight           float64 `yaml:"weight"`
	ShareMode        string  `yaml:"share_mode,omitempty"`
	ClusterLimits    `yaml:",inline"`
	BudgetPeriodDays int      `yaml:"budget_period_days,omitempty"`
	Models           []string `yaml:"models,omitempty"`
	Boundary         string   `yaml:"boundary,omitempty"`
	AuditContent     string   `yaml:"audit_content,omitempty"`
	KeyExpiryDays    *int     `yaml:"key_expiry_days,omitempty"`
	MaxKeys          *int     `yaml:"max_keys,omitempty"`
}

// ClusterNode is a machine with GPUs.
type ClusterNode struct {
	Name          string `yaml:"name"`
	SidecarURL    string `yaml:"sidecar_url,omitempty"`
	SidecarSecret string `yaml:"sidecar_secret,omitempty"` // env:NAME or file:PATH
}

// ClusterBackend is a model server.
type ClusterBackend struct {
	Name              string                `yaml:"name"`
	Engine            string                `yaml:"engine"`
	URL               string                `yaml:"url"`
	APIKey            string                `yaml:"api_key,omitempty"` // env:NAME or file:PATH
	Node              string                `yaml:"node,omitempty"`
	GPUs              []int                 `yaml:"gpus,omitempty"`
	MaxConcurrent     int                   `yaml:"max_concurrent,omitempty"`
	Priority          int                   `yaml:"priority,omitempty"`
	Boundary          string                `yaml:"boundary,omitempty"`
	Enabled           *bool                 `yaml:"enabled,omitempty"`
	RequestsPerMinute int                   `yaml:"requests_per_minute,omitempty"`
	TokensPerMinute   int                   `yaml:"tokens_per_minute,omitempty"`
	Models            []ClusterBackendModel `yaml:"models,omitempty"`
}

// ClusterBackendModel narrows a backend to a model or limits it there.
type ClusterBackendModel struct {
	Name              string         `yaml:"name"`
	RequestsPerMinute int            `yaml:"requests_per_minute,omitempty"`
	TokensPerMinute   int            `yaml:"tokens_per_minute,omitempty"`
	MaxConcurrent     int            `yaml:"max_concurrent,omitempty"`
	Parameters        map[string]any `yaml:"parameters,omitempty"`
}

// ClusterModel describes a model.
type ClusterModel struct {
	Name          string   `yaml:"name"`
	Label         string   `yaml:"label,omitempty"`
	ContextLength int      `yaml:"context_length,omitempty"`
	Capabilities  []string `yaml:"capabilities,omitempty"`
	Thinking      struct {
		Profile  string `yaml:"profile,omitempty"`
		Kwarg    string `yaml:"kwarg,omitempty"`
		Splitter bool   `yaml:"splitter,omitempty"`
		Promote  bool   `yaml:"promote,omitempty"`
	} `yaml:"thinking,omitempty"`
	SystemLate    string `yaml:"system_late,omitempty"`
	DeveloperRole string `yaml:"developer_role,omitempty"`
	Price         struct {
		InputPerMillion  float64 `yaml:"input_per_million,omitempty"`
		OutputPerMillion float64 `yaml:"output_per_million,omitempty"`
	} `yaml:"price,omitempty"`
	Parameters map[string]any `yaml:"parameters,omitempty"`
}

// ClusterAlias is a name for an ordered list of models.
type ClusterAlias struct {
	Name       string          `yaml:"name"`
	Targets    []ClusterTarget `yaml:"targets"`
	Strategy   string          `yaml:"strategy,omitempty"`
	FallbackOn []string        `yaml:"fallback_on,omitempty"`
}

// ClusterTarget is a model behind an alias; in the file it may be just its name.
type ClusterTarget struct {
	Model  string  `yaml:"model"`
	Weight float64 `yaml:"weight,omitempty"`
}

// UnmarshalYAML reads a name or a mapping.
func (t *ClusterTarget) UnmarshalYAML(unmarshal func(any) error) error {
	var name string
	if unmarshal(&name) == nil {
		t.Model = name
		return nil
	}
	type plain ClusterTarget // without this method
	return unmarshal((*plain)(t))
}

// ClusterUser is an account, for small sites without single sign-on. Passwords are not in files.
type ClusterUser struct {
	Name   string        `yaml:"name"`
	Email  string        `yaml:"email,omitempty"`
	Group  string        `yaml:"group"`
	Role   string        `yaml:"role,omitempty"`
	Weight float64       `yaml:"weight,omitempty"`
	Limits ClusterLimits `yaml:"limits,omitempty"`
}

//go:embed cluster.schema.json
var clusterSchema []byte

// ClusterSchema is the JSON Schema of the cluster file.
func ClusterSchema() []byte { return clusterSchema }
