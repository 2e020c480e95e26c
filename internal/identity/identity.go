// Package identity knows who calls: users, groups, API keys and, for each request, the [Principal] that all other
// packages decide by.
//
// A key's secret is shown once and never stored. Checking one costs an Argon2id hash, so a verified key is remembered in
// process under a keyed hash; every change of users, groups or keys raises the catalog version, which makes the next
// request read the account again (see [Keys.Authenticate]).
package identity

import (
	"errors"
	"slices"
	"time"

	"mindrouter/internal/llm"
)

// The identifiers are UUIDs. They never change; names may.
type (
	UserID  string
	GroupID string
	KeyID   string
)

// Role is what a user may do beyond using the service.
type Role string

// Roles, from the least to the most.
const (
	RoleUser          Role = "user"
	RoleAuditor       Role = "auditor"
	RoleHelpdesk      Role = "helpdesk"
	RoleKeyManager    Role = "key_manager"
	RoleModelOperator Role = "model_operator"
	RoleAdmin         Role = "admin"
)

// Roles lists all roles.
var roles = []Role{RoleUser, RoleAuditor, RoleHelpdesk, RoleKeyManager, RoleModelOperator, RoleAdmin}

// Valid reports whether r is a role.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// Scope is what a key may be used for.
type Scope string

// Scopes of keys.
const (
	ScopeInference Scope = "inference"
	ScopeAdmin     Scope = "admin" // the admin API and /metrics; only for owners whose role allows it
)

// ShareMode says whether a group's members compete one by one or as one.
type ShareMode string

// Share modes.
const (
	SharePerUser ShareMode = "per_user"
	SharePooled  ShareMode = "pooled"
)

// ContentPolicy says what of a request's content is recorded.
type ContentPolicy string

// Content policies. The zero value means the default of the server.
const (
	ContentDefault  ContentPolicy = ""
	ContentFull     ContentPolicy = "full"
	ContentMetadata ContentPolicy = "metadata"
	ContentOff      ContentPolicy = "off"
)

// Limits bind one subject. Zero means no limit of its own.
type Limits struct {
	RequestsPerMinute int
	TokensPerMinute   int
	TokenBudget       int64 // tokens per budget period of the group
	MaxConcurrent     int
}

// Group is what a user belongs to: it gives weight, limits and permissions.
type Group struct {
	ID               GroupID
	Name             string
	Weight           float64
	ShareMode        ShareMode
	Limits           Limits // of each member; of all members together if the share mode is pooled
	BudgetPeriodDays int
	Models           []string // names or aliases; "*" is all
	Boundary         llm.Boundary
	AuditContent     ContentPolicy
	KeyExpiryDays    int // 0: keys do not expire unless asked
	MaxKeys          int // live keys of one user; 0: no limit
	Disabled         bool
	CreatedAt        time.Time
}

// User is an account.
type User struct {
	ID           UserID
	Name         string
	Email        string
	GroupID      GroupID
	Role         Role
	Weight       float64 // 0: the group's
	Limits       Limits  // narrow the group's
	PasswordHash string  // Argon2id in PHC form; empty if the user cannot sign in locally
	Disabled     bool
	CreatedAt    time.Time
}

// Key is an API key without its secret.
type Key struct {
	ID     KeyID
	Prefix string // first 8 characters after mr2_; shown to people
	Tag    uint16 // keyed digest of the secret, checked before the slow hash
	TagKey string // id of the key-ring key that made Tag
	Hash   string // Argon2id in PHC form over SHA-256 of the secret
	Label  string

	UserID  UserID  // owner; of a service key its maintainer
	GroupID GroupID // of a service key the owning group; else empty
	Service bool

	Scopes         []Scope
	Models         []string // empty: those of the group
	Limits         Limits
	Class          llm.Class
	Boundary       llm.Boundary
	ReasoningField string // reasoning_content, reasoning or both; empty means reasoning_content
	Strategy       string // alias strategy of a service key; empty means the alias's own

	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: live
	Disabled  bool
	CreatedAt time.Time
}

// Live reports whether k may be used at now.
func (k Key) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && !k.Disabled && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Principal is who makes a request. It is a value: whoever holds one sees one consistent state.
type Principal struct {
	User  User
	Group Group
	Key   Key
}

// Weight is the fair share of the principal's flow.
func (p Principal) Weight() float64 {
	if p.User.Weight > 0 && !p.Key.Service {
		return p.User.Weight
	}
	if pool, _ := p.Pool(); pool != "" {
		return 1
	}
	return p.Group.Weight
}

// Tenant names the flow that the principal's requests belong to.
func (p Principal) Tenant() string {
	switch {
	case p.Key.Service:
		return "service:" + string(p.Key.ID)
	default:
		return "user:" + string(p.User.ID)
	}
}

// Pool names the flow that the members of the principal's group share, with its weight; empty if each has one of its own.
func (p Principal) Pool() (name string, weight float64) {
	if p.Key.Service || p.Group.ShareMode != SharePooled {
		return "", 0
	}
	return "group:" + string(p.Group.ID), p.Group.Weight
}

// Class is the class of the principal's requests unless a request says otherwise.
func (p Principal) Class() llm.Class {
	if p.Key.Class != "" {
		return p.Key.Class
	}
	return llm.ClassStandard
}

// Boundary is the narrowest boundary that binds the principal.
func (p Principal) Boundary() llm.Boundary {
	if p.Group.Boundary == llm.BoundaryCampus || p.Key.Boundary == llm.BoundaryCampus {
		return llm.BoundaryCampus
	}
	return llm.BoundaryAny
}

// Allows reports whether the principal may use the model or alias named name.
func (p Principal) Allows(name string) bool {
	return allowed(p.Group.Models, name) && (len(p.Key.Models) == 0 || allowed(p.Key.Models, name))
}

func allowed(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool { return llm.MatchName(entry, name) })
}

// Has reports whether the key has scope s.
func (p Principal) Has(s Scope) bool { return slices.Contains(p.Key.Scopes, s) }

// Subject is something that limits bind: a key, a user, a group or a service key.
type Subject struct {
	Scope string // key, user, group or service_key
	ID    string
}

// Bound is a subject with the limits that bind it.
type Bound struct {
	Subject Subject
	Limits  Limits
}

// Bounds lists what binds the principal, narrowest first. A group's limits bind each member, so they appear under the
// user unless the group is pooled.
func (p Principal) Bounds() []Bound {
	if p.Key.Service {
		return []Bound{
			{Subject{"service_key", string(p.Key.ID)}, p.Key.Limits},
			{Subject{"group", string(p.Group.ID)}, pooledOnly(p.Group)},
		}
	}
	user := narrow(p.User.Limits, memberLimits(p.Group))
	return []Bound{
		{Subject{"key", string(p.Key.ID)}, p.Key.Limits},
		{Subject{"user", string(p.User.ID)}, user},
		{Subject{"group", string(p.Group.ID)}, pooledOnly(p.Group)},
	}
}

func memberLimits(g Group) Limits {
	if g.ShareMode == SharePooled {
		return Limits{}
	}
	return g.Limits
}

func pooledOnly(g Group) Limits {
	if g.ShareMode == SharePooled {
		return g.Limits
	}
	return Limits{}
}

func narrow(a, b Limits) Limits {
	return Limits{
		RequestsPerMinute: tighter(a.RequestsPerMinute, b.RequestsPerMinute),
		TokensPerMinute:   tighter(a.TokensPerMinute, b.TokensPerMinute),
		TokenBudget:       tighter(a.TokenBudget, b.TokenBudget),
		MaxConcurrent:     tighter(a.MaxConcurrent, b.MaxConcurrent),
	}
}

// tighter returns the smaller of two limits, where zero is no limit.
func tighter[T int | int64](a, b T) T {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// Errors of the package. Callers branch with errors.Is.
var (
	ErrNotFound        = errors.New("not found")
	ErrExists          = errors.New("exists already")
	ErrUnauthenticated = errors.New("no such key")
)
