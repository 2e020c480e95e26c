package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"mindrouter/internal/audit"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/quota"
	"mindrouter/internal/routing"
	"mindrouter/internal/scheduler"
)

// run is one request on its way through the gateway. It is used by one goroutine.
type run struct {
	g         *Gateway
	view      *backend.View
	principal identity.Principal
	meta      Meta
	model     string // as asked
	resolved  string // empty if the name is no alias
	notes     []llm.Note
	stream    bool

	need        routing.Need
	input       int  // counted tokens of the prompt
	estimated   bool // input is not exact
	counted     bool // input was counted with our own vocabulary
	maxTokens   int  // bound of the answer that was asked or implied
	explicit    bool // the client gave a bound
	effortAsked llm.Effort

	reservation *quota.Reservation
	begun       bool
	lease       *scheduler.Lease
	queue       time.Duration
	bytes       int64 // what the request holds in memory while it waits
	attempts    []audit.Attempt

	end sync.Once
}

func (g *Gateway) newRun(p identity.Principal, meta Meta, model string, notes []llm.Note) *run {
	if meta.Class == "" {
		meta.Class = p.Class()
	}
	if meta.Boundary == "" || p.Boundary() == llm.BoundaryCampus {
		meta.Boundary = p.Boundary()
	}
	r := &run{g: g, view: g.cfg.Fleet.View(), principal: p, meta: meta, model: model, notes: notes}
	r.need.CampusOnly = meta.Boundary == llm.BoundaryCampus
	return r
}

// maxModelName bounds the name of a model, in bytes.
const maxModelName = 256

// resolve checks the scope of the name as sent and finds the models that it stands for.
func (r *run) resolve(ctx context.Context) error {
	if r.model == "" {
		return llm.Invalid("model", "The field model is missing.")
	}
	if len(r.model) > maxModelName {
		r.model = r.model[:maxModelName]
		return llm.Invalid("model", "The name of the model is longer than %d bytes.", maxModelName)
	}
	if !r.principal.Allows(r.model) {
		return llm.Errorf(llm.CodeModelNotAllowed, "This key may not use the model %q.", r.model)
	}
	res := r.view.Resolve(r.model, routing.Strategy(r.principal.Key.Strategy), func() map[routing.BackendID]int {
		return r.g.cfg.Scheduler.InFlight()
	})
	if !res.Known {
		return llm.Errorf(llm.CodeModelNotFound, "The model %q does not exist; the list of models has those that do.", r.model)
	}
	r.need.Models = res.Models
	if res.Alias {
		r.resolved = res.Models[0]
	}
	if r.meta.Strict {
		if err := refuseLosses(r.notes); err != nil {
			return err
		}
	}
	return r.g.cfg.Meter.Check(ctx, r.principal)
}

// reserve takes tokens of every limit that binds the caller.
func (r *run) reserve(ctx context.Context, tokens int) error {
	res, err := r.g.cfg.Meter.Reserve(ctx, r.principal, tokens)
	r.reservation = res
	return err
}

// beginTimeout bounds the commit of a record. The client's leaving does not end it: what was handed over may be written
// at any moment, and then needs its end.
const beginTimeout = 10 * time.Second

// begin commits the record. If that fails nothing is done, and the end is recorded in case the beginning was after all.
func (r *run) begin(ctx context.Context, content func() json.RawMessage) error {
	p := r.principal
	rec := audit.Record{
		ID: r.meta.ID, Epoch: r.g.cfg.Epoch, At: r.meta.Arrived,
		User: p.User.ID, Group: p.Group.ID, Key: p.Key.ID,
		UserName: p.User.Name, GroupName: p.Group.Name, KeyPrefix: p.Key.Prefix,
		Endpoint: r.meta.Endpoint, ModelAsked: r.model, ModelResolved: r.resolved, Stream: r.stream,
		Class: r.meta.Class, Boundary: r.meta.Boundary,
		IP: r.meta.IP, UserAgent: r.meta.UserAgent, ClientRequestID: r.meta.ClientRequestID,
		ReservedTokens: r.reservation.Tokens(),
	}
	if r.keepsContent() {
		rec.Content = content()
	}
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginTimeout)
	err := r.g.cfg.Ledger.Begin(commit, rec)
	cancel()
	r.begun = err == nil
	switch {
	case ctx.Err() != nil:
		return r.fail(ctx, context.Cause(ctx))
	case err != nil:
		return r.fail(ctx, &llm.Error{
			Code: llm.CodeUnavailable, Message: "The request could not be recorded and was not carried out.",
			RetryAfter: retrySoon, Err: err,
		})
	}
	return nil
}

// facts tells how the request went so far. It holds a lease.
func (r *run) facts() Facts {
	d := r.lease.Decision()
	return Facts{
		Backend: string(r.lease.Backend().ID), Model: r.lease.Model().Name, Queue: r.queue,
		Position: d.Position, Estimate: time.Duration(d.EstimateMS) * time.Millisecond, Notes: r.notes,
	}
}

// keepsContent reports whether the group's policy lets content be recorded.
func (r *run) keepsContent() bool {
	policy := r.principal.Group.AuditContent
	if policy == identity.ContentDefault {
		policy = r.g.cfg.Content
	}
	return policy == identity.ContentFull
}

// refuse notes a refusal before Begin and gives back what was reserved.
func (r *run) refuse(ctx context.Context, err error) error {
	if r.reservation != nil {
		r.reservation.Refund()
	}
	e := classify(ctx, err)
	code := llm.CodeOf(e)
	r.g.cfg.Ledger.Refuse(ctx, audit.Refusal{
		ID: r.meta.ID, At: r.meta.Arrived, User: r.principal.User.ID, Key: r.principal.Key.ID,
		KeyPrefix: r.principal.Key.Prefix, Endpoint: r.meta.Endpoint, Model: r.model, Code: code, IP: r.meta.IP,
	})
	r.g.cfg.Metrics.Refused(code, r.meta.Endpoint)
	return e
}

// fail ends a request on record that never began to answer.
func (r *run) fail(ctx context.Context, err error) error {
	e := classify(ctx, err)
	r.finish(ctx, end{err: e})
	return e
}

// end is how a request ended.
type end struct {
	err        error // nil for success
	answered   bool  // a semantic event was delivered
	usage      llm.Usage
	stop       llm.StopReason
	firstToken time.Duration
	response   *llm.Response // what was delivered; nil if nothing
	content    json.RawMessage
}

// finishTimeout bounds what is left to do when the client has gone.
const finishTimeout = 5 * time.Second

// finish settles, releases and records. Only the first call counts. Failures are logged, never shown to a client that
// has its answer.
func (r *run) finish(ctx context.Context, e end) {
	r.end.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
		defer cancel()
		now := time.Now()
		f := audit.Finish{
			ID: r.meta.ID, At: now, Outcome: outcome(e), StopReason: e.stop, Usage: e.usage,
			Queue: r.queue, FirstToken: e.firstToken, Total: now.Sub(r.meta.Arrived),
			Attempts: r.attempts, Dropped: noteStrings(r.notes), EffortAsked: r.effortAsked,
			Content: e.content,
		}
		if r.lease != nil {
			f.Backend, f.Model = string(r.lease.Backend().ID), r.lease.Model().Name
			f.Decision = decision(r.lease)
			// A fault of ours or the backend's costs the caller no share; one of the client's doing does.
			r.lease.Release(scheduler.Actual{Usage: e.usage, Refund: f.Outcome == audit.OutcomeError})
		}
		if err := llm.AsError(e.err); err != nil {
			f.ErrorCode = err.Code
			if !quotes(err) || r.keepsContent() {
				f.Error = err.Message
			}
		}
		usage := e.usage
		switch {
		case usage != (llm.Usage{}):
		case f.Outcome == audit.OutcomeCancelled && r.lease != nil:
			usage = llm.Usage{Input: r.input, Estimated: true} // a backend has worked on the prompt for a client that left
			f.Usage = usage
		}
		if usage == (llm.Usage{}) && f.Outcome == audit.OutcomeError {
			r.reservation.Refund() // not the client's doing
		} else {
			for _, c := range r.reservation.Settle(usage) {
				f.Charges = append(f.Charges, audit.Charge(c))
			}
		}
		if err := r.g.cfg.Ledger.Finish(ctx, f); err != nil {
			r.g.cfg.Log.Error("end of request not recorded", slog.String("request_id", string(r.meta.ID)), slog.Any("error", err))
		}
		r.g.cfg.Metrics.Finished(f, r.meta.Endpoint)
	})
}

// quotes reports whether the words of an error are a model server's about the request, and so may repeat a part of it.
func quotes(e *llm.Error) bool {
	switch e.Code {
	case llm.CodeInvalidRequest, llm.CodeUnsupported, llm.CodeContextTooLong, llm.CodeTooLarge:
		return e.Err != nil
	default:
		return false
	}
}

func outcome(e end) audit.Outcome {
	switch {
	case e.err == nil && (e.stop == llm.StopMaxTokens || e.stop == llm.StopContextFull):
		return audit.OutcomeIncomplete
	case e.err == nil && e.stop == llm.StopRefusal:
		return audit.OutcomeBlocked
	case e.err == nil:
		return audit.OutcomeSuccess
	case llm.CodeOf(e.err) == llm.CodeCancelled:
		return audit.OutcomeCancelled
	default:
		return audit.OutcomeError
	}
}

func decision(l *scheduler.Lease) json.RawMessage {
	b, err := json.Marshal(struct {
		routing.Explanation
		scheduler.Decision
	}{l.Explain(), l.Decision()})
	if err != nil {
		return nil // plain structs: cannot happen
	}
	return b
}

func noteStrings(notes []llm.Note) []string {
	out := make([]string, 0, len(notes))
	for _, n := range notes {
		out = append(out, n.String())
	}
	return out
}

// refuseLosses is the strict mode: what would be dropped or changed is an error.
func refuseLosses(notes []llm.Note) error {
	for _, n := range notes {
		if n.Loss() {
			return llm.Invalid(n.Field, "This request is strict and %s cannot be kept (%s).", n.Field, n.What)
		}
	}
	return nil
}

// limits are the concurrency limits of the caller; a request above one waits.
func limits(p identity.Principal) []scheduler.Limit {
	var out []scheduler.Limit
	for _, b := range p.Bounds() {
		if b.Limits.MaxConcurrent > 0 {
			out = append(out, scheduler.Limit{Subject: b.Subject.Scope + ":" + b.Subject.ID, Max: b.Limits.MaxConcurrent})
		}
	}
	return out
}
