package llm

import (
	"errors"
	"fmt"
	"time"
)

// Code classifies an error for the client. Each dialect maps a code to its own status, type and wording.
type Code string

// Error codes, one per row of the status table.
const (
	CodeInvalidRequest   Code = "invalid_request"    // 400
	CodeContextTooLong   Code = "context_too_long"   // 400
	CodeUnauthenticated  Code = "unauthenticated"    // 401
	CodeForbidden        Code = "forbidden"          // 403
	CodeModelNotAllowed  Code = "model_not_allowed"  // 403
	CodeNotFound         Code = "not_found"          // 404: no such URL or object
	CodeModelNotFound    Code = "model_not_found"    // 404: no such model is configured
	CodeMethodNotAllowed Code = "method_not_allowed" // 405
	CodeTooLarge         Code = "too_large"          // 413
	CodeRateLimited      Code = "rate_limited"       // 429, with RetryAfter
	CodeBudgetSpent      Code = "budget_spent"       // 429, with RetryAfter until the period's reset
	CodeCancelled        Code = "cancelled"          // 499: the client left; for the log only
	CodeInternal         Code = "internal"           // 500: our own fault
	CodeUpstream         Code = "upstream"           // 502: the backend failed
	CodeUnsupported      Code = "unsupported"        // 400: no backend of the model can do it
	CodeOverloaded       Code = "overloaded"         // 503: the queue is full or the wait is hopeless
	CodeNoBackend        Code = "no_backend"         // 503: configured, but nothing serves it now
	CodeTimeout          Code = "timeout"            // 504
	CodeUnavailable      Code = "unavailable"        // 503: we cannot record, or are shutting down
)

// Error is a classified error. Message is safe for the client; Err is the cause for the log and never leaves.
type Error struct {
	Code    Code
	Message string
	Param   string // the field at fault, such as messages[2].content
	// RetryAfter is how long the client should wait; 0 if there is no point in saying so.
	RetryAfter time.Duration
	// Counted and Limit say, for CodeContextTooLong, how many tokens the request has and how many fit; 0 if not known.
	// Clients of some dialects read the figures from the message, which the dialect then words itself.
	Counted, Limit int
	Err            error
}

// Errorf returns an Error without cause.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an error that blames the field param of the request.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Code: CodeInvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Error gives the code, the message and the cause; it is for logs.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// With returns a copy of e with the cause err.
func (e *Error) With(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

// AsError returns err's *Error, or nil.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// CodeOf returns the code of err, or CodeInternal if it is not classified.
func CodeOf(err error) Code {
	if e := AsError(err); e != nil {
		return e.Code
	}
	return CodeInternal
}
