package store

import (
	"encoding/json"
	"fmt"
	"time"

	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// micros converts a time to the form of the database; zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// toJSON encodes lists and settings for a text column.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // our own plain structs
	}
	return string(b)
}

func fromJSON[T any](text string) (T, error) {
	var v T
	if text == "" {
		return v, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, fmt.Errorf("stored %T: %w", v, err)
	}
	return v, nil
}

// limitColumns are the columns of identity.Limits.
type limitColumns struct {
	RequestsPerMinute int
	TokensPerMinute   int
	TokenBudget       int64
	MaxConcurrent     int
}

type groupRow struct {
	ID               string `gorm:"primaryKey"`
	Name             string
	Weight           float64
	ShareMode        string
	Limits           limitColumns `gorm:"embedded"`
	BudgetPeriodDays int
	Models           string
	Boundary         string
	AuditContent     string
	KeyExpiryDays    int
	MaxKeys          int
	Disabled         bool
	CreatedAt        int64 `gorm:"autoCreateTime:false"`
}

func (groupRow) TableName() string { return "groups" }

func toGroupRow(g identity.Group) groupRow {
	return groupRow{
		ID: string(g.ID), Name: g.Name, Weight: g.Weight, ShareMode: string(g.ShareMode), Limits: limitColumns(g.Limits),
		BudgetPeriodDays: g.BudgetPeriodDays, Models: toJSON(g.Models), Boundary: string(g.Boundary),
		AuditContent: string(g.AuditContent), KeyExpiryDays: g.KeyExpiryDays, MaxKeys: g.MaxKeys, Disabled: g.Disabled,
		CreatedAt: micros(g.CreatedAt),
	}
}

func (r groupRow) group() (identity.Group, error) {
	models, err := fromJSON[[]string](r.Models)
	return identity.Group{
		ID: identity.GroupID(r.ID), Name: r.Name, Weight: r.Weight, ShareMode: identity.ShareMode(r.ShareMode),
		Limits: identity.Limits(r.Limits), BudgetPeriodDays: r.BudgetPeriodDays, Models: models,
		Boundary: llm.Boundary(r.Boundary), AuditContent: identity.ContentPolicy(r.AuditContent),
		KeyExpiryDays: r.KeyExpiryDays, MaxKeys: r.MaxKeys, Disabled: r.Disabled, CreatedAt: fromMicros(r.CreatedAt),
	}, err
}

type userRow struct {
	ID           string `gorm:"primaryKey"`
	Name         string
	Email        string
	GroupID      string
	Role         string
	Weight       float64
	Limits       limitColumns `gorm:"embedded"`
	PasswordHash string
	Disabled     bool
	CreatedAt    int64 `gorm:"autoCreateTime:false"`
}

func (userRow) TableName() string { return "users" }

func toUserRow(u identity.User) userRow {
	return userRow{
		ID: string(u.ID), Name: u.Name, Email: u.Email, GroupID: string(u.GroupID), Role: string(u.Role), Weight: u.Weight,
		Limits: limitColumns(u.Limits), PasswordHash: u.PasswordHash, Disabled: u.Disabled, CreatedAt: micros(u.CreatedAt),
	}
}

func (r userRow) user() (identity.User, error) {
	return identity.User{
		ID: identity.UserID(r.ID), Name: r.Name, Email: r.Email, GroupID: identity.GroupID(r.GroupID),
		Role: identity.Role(r.Role), Weight: r.Weight, Limits: identity.Limits(r.Limits), PasswordHash: r.PasswordHash,
		Disabled: r.Disabled, CreatedAt: fromMicros(r.CreatedAt),
	}, nil
}

type keyRow struct {
	ID             string `gorm:"primaryKey"`
	Prefix         string
	Tag            int64
	TagKey         string
	Hash           string
	Label          string
	UserID         string
	GroupID        string
	Service        bool
	Scopes         string
	Models         string
	Limits         limitColumns `gorm:"embedded"`
	Class          string
	Boundary       string
	ReasoningField string
	Strategy       string
	ExpiresAt      int64
	RevokedAt      int64
	Disabled       bool
	CreatedAt      int64 `gorm:"autoCreateTime:false"`
}

func (keyRow) TableName() string { return "api_keys" }

func toKeyRow(k identity.Key) keyRow {
	return keyRow{
		ID: string(k.ID), Prefix: k.Prefix, Tag: int64(k.Tag), TagKey: k.TagKey, Hash: k.Hash, Label: k.Label,
		UserID: string(k.UserID), GroupID: string(k.GroupID), Service: k.Service, Scopes: toJSON(k.Scopes),
		Models: toJSON(k.Models), Limits: limitColumns(k.Limits), Class: string(k.Class), Boundary: string(k.Boundary),
		ReasoningField: k.ReasoningField, Strategy: k.Strategy, ExpiresAt: micros(k.ExpiresAt),
		RevokedAt: micros(k.RevokedAt), Disabled: k.Disabled, CreatedAt: micros(k.CreatedAt),
	}
}

func (r keyRow) key() (identity.Key, error) {
	scopes, err := fromJSON[[]identity.Scope](r.Scopes)
	if err != nil {
		return identity.Key{}, err
	}
	models, err := fromJSON[[]string](r.Models)
	return identity.Key{
		ID: identity.KeyID(r.ID), Prefix: r.Prefix, Tag: uint16(r.Tag), TagKey: r.TagKey, Hash: r.Hash, Label: r.Label,
		UserID: identity.UserID(r.UserID), GroupID: identity.GroupID(r.GroupID), Service: r.Service, Scopes: scopes,
		Models: models, Limits: identity.Limits(r.Limits), Class: llm.Class(r.Class), Boundary: llm.Boundary(r.Boundary),
		ReasoningField: r.ReasoningField, Strategy: r.Strategy, ExpiresAt: fromMicros(r.ExpiresAt),
		RevokedAt: fromMicros(r.RevokedAt), Disabled: r.Disabled, CreatedAt: fromMicros(r.CreatedAt),
	}, err
}

type nodeRow struct {
	ID               string `gorm:"primaryKey"`
	Name             string
	SidecarURL       string
	SidecarSecret    string
	SidecarSecretRef string
	CreatedAt        int64 `gorm:"autoCreateTime:false"`
}

func (nodeRow) TableName() string { return "nodes" }

type backendRow struct {
	ID                string `gorm:"primaryKey"`
	Name              string
	Engine            string
	URL               string
	APIKey            string
	APIKeyRef         string
	Node              string
	GPUs              string `gorm:"column:gpus"`
	MaxConcurrent     int
	Priority          int
	Boundary          string
	Intent            string
	RequestsPerMinute int
	TokensPerMinute   int
	Models            string
	CreatedAt         int64 `gorm:"autoCreateTime:false"`
}

func (backendRow) TableName() string { return "backends" }

// namedRow is a row of models or aliases: a name and its configuration in JSON.
type namedRow struct {
	Name      string `gorm:"primaryKey"`
	Config    string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
}

func (r namedRow) model() (backend.ModelConfig, error) {
	m, err := fromJSON[backend.ModelConfig](r.Config)
	if string(m.Parameters) == "null" { // raw JSON reads null as a value
		m.Parameters = nil
	}
	return m, err
}

type settingsRow struct {
	ID     int `gorm:"primaryKey"`
	Config string
}

func (settingsRow) TableName() string { return "settings" }

func (s *Store) toNodeRow(n backend.Node) (nodeRow, error) {
	sealed, err := s.seal(n.SidecarSecret, nodeContext(n.ID))
	return nodeRow{
		ID: n.ID, Name: n.Name, SidecarURL: n.SidecarURL, SidecarSecret: sealed, SidecarSecretRef: n.SidecarSecretRef,
		CreatedAt: micros(n.CreatedAt),
	}, err
}

func (s *Store) node(r nodeRow) (backend.Node, error) {
	plain := s.openOrLose(r.SidecarSecret, "sidecar_secret of node "+r.Name, nodeContext(r.ID))
	return backend.Node{
		ID: r.ID, Name: r.Name, SidecarURL: r.SidecarURL, SidecarSecret: plain, SidecarSecretRef: r.SidecarSecretRef,
		CreatedAt: fromMicros(r.CreatedAt),
	}, nil
}

func (s *Store) toBackendRow(b backend.Config) (backendRow, error) {
	sealed, err := s.seal(b.APIKey, backendContext(b.ID))
	return backendRow{
		ID: b.ID, Name: b.Name, Engine: string(b.Engine), URL: b.URL, APIKey: sealed, APIKeyRef: b.APIKeyRef, Node: b.Node,
		GPUs: toJSON(b.GPUs), MaxConcurrent: b.MaxConcurrent, Priority: b.Priority, Boundary: b.Boundary,
		Intent: string(b.Intent), RequestsPerMinute: b.RequestsPerMinute, TokensPerMinute: b.TokensPerMinute,
		Models: toJSON(b.Models), CreatedAt: micros(b.CreatedAt),
	}, err
}

func (s *Store) backend(r backendRow) (backend.Config, error) {
	plain := s.openOrLose(r.APIKey, "api_key of backend "+r.Name, backendContext(r.ID))
	gpus, err := fromJSON[[]int](r.GPUs)
	if err != nil {
		return backend.Config{}, err
	}
	models, err := fromJSON[[]backend.ModelLimit](r.Models)
	return backend.Config{
		ID: r.ID, Name: r.Name, Engine: backend.Engine(r.Engine), URL: r.URL, APIKey: plain, APIKeyRef: r.APIKeyRef,
		Node: r.Node, GPUs: gpus, MaxConcurrent: r.MaxConcurrent, Priority: r.Priority, Boundary: r.Boundary,
		Intent: routing.Intent(r.Intent), RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute,
		Models: models, CreatedAt: fromMicros(r.CreatedAt),
	}, err
}
