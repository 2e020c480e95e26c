// Package backend is the fleet: what is configured, what was observed, and the HTTP clients that talk to it.
//
// Intent and health are kept apart. Admins say what shall serve (enabled, draining, disabled); polling and traffic say
// what can (up, down, tripped). Neither ever writes the other. Readers get an immutable snapshot.
package backend

import (
	"encoding/json"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// Engine is the kind of server behind a backend.
type Engine string

// Engines.
const (
	EngineVLLM   Engine = "vllm"
	EngineOllama Engine = "ollama"
	EngineOpenAI Engine = "openai" // any other OpenAI-compatible server
)

// Boundaries of a backend.
const (
	BoundaryCampus   = "campus"
	BoundaryExternal = "external"
)

// DefaultMaxConcurrent is the number of slots of a backend that does not say.
const DefaultMaxConcurrent = 16

// Config is a backend as admins configured it.
type Config struct {
	ID                string
	Name              string
	Engine            Engine
	URL               string
	APIKey            string // in the clear; the store seals it
	APIKeyRef         string // env:NAME or file:PATH that it came from, for export
	Node              string
	GPUs              []int
	MaxConcurrent     int
	Priority          int
	Boundary          string
	Intent            routing.Intent
	RequestsPerMinute int
	TokensPerMinute   int
	Models            []ModelLimit // empty: all that are discovered
	CreatedAt         time.Time
}

// ModelLimit narrows a backend to a model, or bounds the model there.
type ModelLimit struct {
	Name              string          `json:"name" yaml:"name"`
	RequestsPerMinute int             `json:"requests_per_minute,omitempty" yaml:"requests_per_minute,omitempty"`
	TokensPerMinute   int             `json:"tokens_per_minute,omitempty" yaml:"tokens_per_minute,omitempty"`
	MaxConcurrent     int             `json:"max_concurrent,omitempty" yaml:"max_concurrent,omitempty"`
	Parameters        json.RawMessage `json:"parameters,omitempty" yaml:"-"`
}

// Node is a machine with GPUs.
type Node struct {
	ID               string
	Name             string
	SidecarURL       string
	SidecarSecret    string // in the clear; the store seals it
	SidecarSecretRef string
	CreatedAt        time.Time
}

// ModelConfig describes a model and overrides what discovery found. Zero values override nothing.
type ModelConfig struct {
	Name          string
	Label         string
	ContextLength int
	Capabilities  []llm.Capability
	Thinking      ThinkingConfig
	SystemLate    string
	DeveloperRole string
	InputPrice    float64 // per million tokens
	OutputPrice   float64
	Parameters    json.RawMessage // parameter policy
	CreatedAt     time.Time
}

// ThinkingConfig overrides how a model's thinking is controlled.
type ThinkingConfig struct {
	Profile  llm.ThinkingProfile `json:"profile,omitempty"`
	Kwarg    string              `json:"kwarg,omitempty"`
	Splitter bool                `json:"splitter,omitempty"` // split <think> tags out of the text
	Promote  bool                `json:"promote,omitempty"`  // an answer in the thinking field counts as text
}

// Catalog is all that is configured about the fleet.
type Catalog struct {
	Version  uint64
	Nodes    []Node
	Backends []Config
	Models   []ModelConfig
	Aliases  []routing.Alias
	Settings Settings
}
