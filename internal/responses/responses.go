// Package responses keeps what clients of the Responses protocol ask to have stored: each answer with its items, for its
// owner alone, until it expires or is deleted. It knows no wire form: items are JSON that the dialect made.
package responses

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Retention is how long a stored response is kept.
const Retention = 30 * 24 * time.Hour

// Bounds on a conversation that is put together from its responses.
const (
	maxChain = 1000     // responses
	maxBytes = 32 << 20 // of their items
)

// Errors of the package. Callers branch with errors.Is.
var (
	// ErrNotFound: there is no such response, it belongs to somebody else, or it has expired.
	ErrNotFound = errors.New("no such response")
	// ErrTooLong: the conversation is longer than may be continued.
	ErrTooLong = errors.New("the stored conversation is too long")
	// ErrFailed: the response ended with an error, so there is nothing to continue.
	ErrFailed = errors.New("the response failed")
)

// Stored is one response.
type Stored struct {
	ID       string
	Owner    string // the tenant whose it is
	Previous string // id of the response that it continues; empty for none
	At       time.Time
	Expires  time.Time
	Input    []json.RawMessage // items of the request, without those of responses before it
	Output   []json.RawMessage
	Response json.RawMessage // as it was told to the client
	Failed   bool
}

// Store keeps responses. Every method sees those of one owner only; what has expired is not there.
type Store interface {
	SaveResponse(ctx context.Context, s Stored) error
	// Response returns one response, or ErrNotFound.
	Response(ctx context.Context, owner, id string, now time.Time) (Stored, error)
	// ResponseWithItem returns the newest response that has an item of that id, or ErrNotFound.
	ResponseWithItem(ctx context.Context, owner, item string, now time.Time) (Stored, error)
	// DeleteResponse returns ErrNotFound if there was none.
	DeleteResponse(ctx context.Context, owner, id string, now time.Time) error
	// ExpireResponses deletes what has expired and returns how many there were.
	ExpireResponses(ctx context.Context, now time.Time) (int, error)
}

// Keeper keeps responses of all owners. It is safe for concurrent use.
type Keeper struct {
	store Store
	now   func() time.Time
}

// NewKeeper returns a keeper over a store.
func NewKeeper(store Store, now func() time.Time) *Keeper { return &Keeper{store, now} }

// Keep stores a response of an owner for [Retention].
func (k *Keeper) Keep(ctx context.Context, s Stored) error {
	s.At = k.now()
	s.Expires = s.At.Add(Retention)
	return k.store.SaveResponse(ctx, s)
}

// Get returns a response, or ErrNotFound.
func (k *Keeper) Get(ctx context.Context, owner, id string) (Stored, error) {
	return k.store.Response(ctx, owner, id, k.now())
}

// Delete deletes a response, or returns ErrNotFound. What continues it can no longer be continued itself.
func (k *Keeper) Delete(ctx context.Context, owner, id string) error {
	return k.store.DeleteResponse(ctx, owner, id, k.now())
}

// Conversation returns the items of all responses from the first to id, in order, each request's before its answer's.
// Errors are ErrNotFound, ErrFailed and ErrTooLong, or the store's.
func (k *Keeper) Conversation(ctx context.Context, owner, id string) ([]json.RawMessage, error) {
	var turns [][]json.RawMessage // newest first
	bytes := 0
	for first := true; id != ""; first = false {
		if len(turns) == maxChain {
			return nil, ErrTooLong
		}
		s, err := k.store.Response(ctx, owner, id, k.now())
		if err != nil {
			return nil, err
		}
		if first && s.Failed {
			return nil, ErrFailed
		}
		turn := slices.Concat(s.Input, s.Output)
		for _, item := range turn {
			bytes += len(item)
		}
		if bytes > maxBytes {
			return nil, ErrTooLong
		}
		turns = append(turns, turn)
		id = s.Previous
	}
	slices.Reverse(turns)
	return slices.Concat(turns...), nil
}

// Item returns the item of that id of any of the owner's responses, or ErrNotFound.
func (k *Keeper) Item(ctx context.Context, owner, id string) (json.RawMessage, error) {
	s, err := k.store.ResponseWithItem(ctx, owner, id, k.now())
	if err != nil {
		return nil, err
	}
	for _, item := range slices.Concat(s.Output, s.Input) {
		if ItemID(item) == id {
			return item, nil
		}
	}
	return nil, ErrNotFound
}

// ItemID is the id of an item; empty if it has none.
func ItemID(item json.RawMessage) string {
	var w struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(item, &w) != nil {
		return ""
	}
	return w.ID
}

// Expire deletes what has expired, every hour, until ctx ends.
func (k *Keeper) Expire(ctx context.Context, report func(n int, err error)) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		n, err := k.store.ExpireResponses(ctx, k.now())
		if ctx.Err() != nil {
			return nil
		}
		report(n, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
