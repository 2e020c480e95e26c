package audit

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// Explained is what the record of a request tells about why it was served where and when it was.
type Explained struct {
	ID              ID
	User            identity.UserID
	At              time.Time
	ModelAsked      string
	ModelResolved   string // empty if the name was no alias
	Running         bool
	Outcome         Outcome // empty while it runs
	Backend, Model  string
	Queue           time.Duration
	Attempts        []Attempt
	Decision        json.RawMessage // of the scheduler and the placement; an empty object if there was none
	Dropped         []string
	EffortAsked     llm.Effort
	EffortEffective llm.Effort
}

// ErrUnknownRequest says that there is no record of that id.
var ErrUnknownRequest = errors.New("no such request")

// Reader reads the record.
type Reader interface {
	// Explained returns one request, or ErrUnknownRequest.
	Explained(ctx context.Context, id ID) (Explained, error)
}
