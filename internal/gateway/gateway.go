// Package gateway is the only way to a GPU. Every request, of whatever protocol, takes the same steps in the same order,
// so that nothing can forget audit, quota or fairness; generate.go shows them on one screen.
package gateway

import (
	"context"
	"log/slog"
	"time"

	"mindrouter/internal/audit"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/quota"
	"mindrouter/internal/scheduler"
	"mindrouter/internal/tokens"
)

// Ledger is the record of requests. audit.Recorder implements it.
type Ledger interface {
	// Begin returns when the record is durable.
	Begin(ctx context.Context, r audit.Record) error
	// Finish hands over the end of a request; it is written with its charges in one transaction.
	Finish(ctx context.Context, f audit.Finish) error
	// Refuse notes a request that was refused before Begin.
	Refuse(ctx context.Context, r audit.Refusal)
}

// Metrics observes finished requests. Labels are bounded: no users.
type Metrics interface {
	Finished(f audit.Finish, endpoint string)
	Refused(code llm.Code, endpoint string)
}

// Config configures [New].
type Config struct {
	Fleet     *backend.Fleet
	Scheduler *scheduler.Scheduler
	Meter     *quota.Meter
	Ledger    Ledger
	Counter   *tokens.Counter
	Metrics   Metrics
	Log       *slog.Logger
	// Epoch names this server process in the record.
	Epoch string
	// Content is the content policy of groups that have none of their own.
	Content identity.ContentPolicy
	// FetchImage fetches an image of a public server; nil if the site does not want that.
	FetchImage func(ctx context.Context, url string) (*llm.Media, error)
	// TenantSalt returns the prefix-cache salt of a tenant.
	TenantSalt func(tenant string) string
}

// Gateway serves requests. It is safe for concurrent use.
type Gateway struct {
	cfg   Config
	exact exactLimiter
}

// New returns a gateway.
func New(cfg Config) *Gateway { return &Gateway{cfg: cfg} }

// Meta is what the door knows about a request beside its content.
type Meta struct {
	ID              audit.ID
	Arrived         time.Time
	Endpoint        string
	IP              string
	UserAgent       string
	ClientRequestID string
	Class           llm.Class     // empty: the key's
	Boundary        llm.Boundary  // can only narrow
	Deadline        time.Duration // bound on the wait for a slot; 0: the server's. Can only shorten
	Strict          bool          // losses in translation are errors
}

// Call is a generation request of a known caller.
type Call struct {
	Principal identity.Principal
	Request   *llm.Request
	Notes     []llm.Note // losses while decoding
	Meta      Meta
}

// EmbedCall is an embedding request of a known caller.
type EmbedCall struct {
	Principal identity.Principal
	Request   *llm.EmbedRequest
	Notes     []llm.Note
	Meta      Meta
}

// RankCall is a request of a known caller for an order of documents or for scores.
type RankCall struct {
	Principal identity.Principal
	Request   *llm.RankRequest
	Notes     []llm.Note
	Meta      Meta
}

// Facts is what a client is told about how its request went.
type Facts struct {
	Backend string
	Model   string // as the backend knows it
	Queue   time.Duration
	// Position and Estimate are the place in the queue and the wait that were predicted when the request came; 0 if it did
	// not wait or nothing was known.
	Position int
	Estimate time.Duration
	Notes    []llm.Note
}

// Models lists what the principal may use.
func (g *Gateway) Models(p identity.Principal) []backend.Listed {
	var list []backend.Listed
	for _, l := range g.cfg.Fleet.View().List() {
		if p.Allows(l.Name) {
			list = append(list, l)
		}
	}
	return list
}
