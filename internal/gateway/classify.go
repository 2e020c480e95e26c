package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
	"mindrouter/internal/scheduler"
)

// How long a client is asked to wait where nothing better is known.
const (
	retrySoon     = 2 * time.Second
	retryOverload = 10 * time.Second
	retryDown     = 15 * time.Second
)

// classify turns any error of the pipeline into one for the client. It is the only place that does.
func classify(ctx context.Context, err error) error {
	if e := llm.AsError(err); e != nil {
		return e
	}
	var none *scheduler.NoBackendError
	var refused *scheduler.RefusedError
	switch {
	case errors.As(err, &refused):
		return queueRefused(refused)
	case errors.As(err, &none):
		return noBackend(none)
	case errors.Is(err, scheduler.ErrDeadline):
		return &llm.Error{
			Code: llm.CodeOverloaded, Message: "All model servers were busy for too long.", RetryAfter: retryOverload, Err: err,
		}
	case errors.Is(err, scheduler.ErrDraining):
		return &llm.Error{Code: llm.CodeUnavailable, Message: "The service is restarting.", RetryAfter: retrySoon, Err: err}
	case ctx.Err() != nil:
		return cancelled(ctx)
	default:
		return &llm.Error{Code: llm.CodeInternal, Message: "Something went wrong on our side.", Err: err}
	}
}

// queueRefused says why a request may not even wait, and when it is worth another try.
func queueRefused(r *scheduler.RefusedError) error {
	e := &llm.Error{Code: llm.CodeOverloaded, Message: "Too many requests are waiting.", RetryAfter: max(r.RetryAfter, time.Second), Err: r}
	if errors.Is(r, scheduler.ErrTenantQueueFull) {
		e.Code, e.Message = llm.CodeRateLimited, "Too many of your requests are waiting already."
	}
	if r.Early {
		e.Message = "This request could not be served in time."
	}
	if r.Position > 0 {
		e.Message += fmt.Sprintf(" It would have been number %d in the queue", r.Position)
		if r.Wait > 0 {
			e.Message += fmt.Sprintf(" and waited about %d s", int(r.Wait.Seconds()+0.5))
		}
		e.Message += "."
	}
	return e
}

// cancelled is the error of a request whose client went away.
func cancelled(ctx context.Context) error {
	err := context.Cause(ctx)
	if e := llm.AsError(err); e != nil {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &llm.Error{Code: llm.CodeTimeout, Message: "The request took too long.", Err: err}
	}
	return &llm.Error{Code: llm.CodeCancelled, Message: "The client closed the request.", Err: err}
}

// noBackend says why no backend can serve the request: it asks for too much, or nothing serves it now.
func noBackend(none *scheduler.NoBackendError) error {
	var capability, tooLong *routing.Exclusion
	for _, c := range none.Explanation.Candidates {
		switch c.Excluded.Reason {
		case routing.ReasonModel:
		case routing.ReasonCapability:
			capability = c.Excluded
		case routing.ReasonContext:
			tooLong = c.Excluded
		default:
			return &llm.Error{
				Code: llm.CodeNoBackend, Message: "No model server can take this request now.", RetryAfter: retryDown, Err: none,
			}
		}
	}
	switch {
	case tooLong != nil:
		counted, _ := strconv.Atoi(tooLong.Value) // zero where there is no figure
		limit, _ := strconv.Atoi(tooLong.Limit)
		return &llm.Error{
			Code: llm.CodeContextTooLong, Param: "messages", Err: none, Counted: counted, Limit: limit,
			Message: fmt.Sprintf("This model's maximum context length is %s tokens. However, your messages resulted in %s tokens.",
				tooLong.Limit, tooLong.Value),
		}
	case capability != nil:
		return &llm.Error{
			Code: llm.CodeUnsupported, Param: capabilityParam(llm.Capability(capability.Value)), Err: none,
			Message: fmt.Sprintf("The model does not support %s.", capabilityWords(llm.Capability(capability.Value))),
		}
	default:
		return &llm.Error{
			Code: llm.CodeNoBackend, Message: "No model server has this model now.", RetryAfter: retryDown, Err: none,
		}
	}
}

func capabilityWords(c llm.Capability) string {
	switch c {
	case llm.CapVision:
		return "images"
	case llm.CapTools:
		return "tools"
	case llm.CapJSONSchema:
		return "JSON schemas"
	case llm.CapEmbedding:
		return "embeddings"
	case llm.CapSpeech:
		return "speech"
	case llm.CapTranscription:
		return "transcription"
	case llm.CapImage:
		return "making images"
	default:
		return string(c)
	}
}

func capabilityParam(c llm.Capability) string {
	switch c {
	case llm.CapVision:
		return "messages"
	case llm.CapTools:
		return "tools"
	case llm.CapJSONSchema:
		return "response_format"
	default:
		return "model"
	}
}

// retryable reports whether another backend might do better.
func retryable(err error) bool {
	switch llm.CodeOf(err) {
	case llm.CodeUpstream, llm.CodeTimeout, llm.CodeOverloaded, llm.CodeNoBackend:
		return llm.AsError(err) != nil
	default:
		return false
	}
}

// blamesBackend reports whether err says that the backend is not well. A full queue is not a fault.
func blamesBackend(err error) bool {
	switch llm.CodeOf(err) {
	case llm.CodeUpstream, llm.CodeTimeout:
		return llm.AsError(err) != nil
	default:
		return false
	}
}
