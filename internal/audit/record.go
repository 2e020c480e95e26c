// Package audit keeps the record of every request: an event when it is accepted and one when it has ended.
//
// Begin is committed before a request may wait for a GPU, so whatever happens afterwards, the request is on record.
// Finish carries the outcome and is written with the counters that it settles in one idempotent transaction. A request
// whose Finish is missing because its process died is marked lost by the next one. No transaction spans inference.
package audit

import (
	"encoding/json"
	"time"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// ID is the request's id, a UUIDv7.
type ID string

// Record is the Begin event.
type Record struct {
	ID    ID
	Epoch string // of the server process that accepted it
	At    time.Time
	User  identity.UserID
	Group identity.GroupID
	Key   identity.KeyID
	// UserName, GroupName and KeyPrefix are as they were then; they stay when the account is renamed or deleted.
	UserName  string
	GroupName string
	KeyPrefix string

	Endpoint        string // such as /v1/chat/completions
	ModelAsked      string
	ModelResolved   string // empty if the name is not an alias
	Stream          bool
	Class           llm.Class
	Boundary        llm.Boundary
	IP              string
	UserAgent       string
	ClientRequestID string
	ReservedTokens  int

	// Content is the request in canonical JSON, as the content policy of the group allows; nil if it does not.
	Content json.RawMessage
}

// Outcome is how a request ended.
type Outcome string

// Outcomes.
const (
	OutcomeSuccess    Outcome = "success"
	OutcomeIncomplete Outcome = "incomplete" // cut by a length or context bound
	OutcomeBlocked    Outcome = "blocked"    // refused by a policy
	OutcomeError      Outcome = "error"
	OutcomeCancelled  Outcome = "cancelled" // the client left
	OutcomeLost       Outcome = "lost"      // the process died
)

// Attempt is one try on one backend.
type Attempt struct {
	Backend string        `json:"backend"`
	Model   string        `json:"model"`
	Outcome string        `json:"outcome"` // ok, error, cancelled
	Error   string        `json:"error,omitempty"`
	Took    time.Duration `json:"took_ns"`
}

// Charge adds tokens to the counter of one subject's budget period.
type Charge struct {
	Subject   identity.Subject
	PeriodEnd time.Time // zero: no period; only the lifetime counter moves
	Tokens    int64
}

// Finish is the second event of a request.
type Finish struct {
	ID      ID
	At      time.Time
	Outcome Outcome

	Backend    string // that answered
	Model      string // as that backend knows it
	StopReason llm.StopReason
	ErrorCode  llm.Code
	Error      string // safe sentence

	Usage llm.Usage

	Queue      time.Duration // from Begin to the slot
	FirstToken time.Duration // from Begin to the first event; 0 if none came
	Total      time.Duration

	Attempts []Attempt
	Decision json.RawMessage // why this backend and why this wait
	Dropped  []string        // losses in translation
	// EffortAsked and EffortEffective are the reasoning effort as asked and as sent.
	EffortAsked     llm.Effort
	EffortEffective llm.Effort

	// Content is the answer in canonical JSON, the delivered part if it was cut; nil if the policy forbids it.
	Content json.RawMessage

	Charges []Charge
}

// Refusal is the metadata of a request that was refused before Begin.
type Refusal struct {
	ID        ID
	At        time.Time
	User      identity.UserID
	Key       identity.KeyID
	KeyPrefix string
	Endpoint  string
	Model     string
	Code      llm.Code
	IP        string
}

// Entry is one thing to write. Exactly one field is set.
type Entry struct {
	Begin   *Record
	Finish  *Finish
	Refusal *Refusal
}
