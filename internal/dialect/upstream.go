package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mindrouter/internal/llm"
)

// UpstreamFault returns the error of a backend that breaks its protocol or fails. The client reads a plain sentence;
// err is for the log.
func UpstreamFault(what string, err error) *llm.Error {
	return llm.Errorf(llm.CodeUpstream, "%s", what).With(err)
}

// ReadFault classifies an error of reading a backend's answer.
func ReadFault(err error) *llm.Error {
	var timeout net.Error
	switch {
	case llm.AsError(err) != nil:
		return llm.AsError(err)
	case errors.Is(err, context.Canceled):
		return llm.Errorf(llm.CodeCancelled, "the request was cancelled").With(err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return llm.Errorf(llm.CodeTimeout, "the model server took too long").With(err)
	case errors.Is(err, ErrFrameTooLong):
		return UpstreamFault("the model server sent a line that is too long", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return UpstreamFault("the model server ended the answer early", err)
	default:
		return UpstreamFault("the connection to the model server broke", err)
	}
}

// UpstreamError is what a backend's error body says, whatever its shape.
type UpstreamError struct {
	Message string
	Param   string
	Status  int // HTTP status, or the number that the body gives as its code; 0 if unknown
}

// ParseUpstreamError reads an error body in any of the shapes that model servers use: an error object, an error
// string, a flat object with a message, and a detail that is a string or a list. It reports false if raw has none.
func ParseUpstreamError(raw json.RawMessage) (UpstreamError, bool) {
	var e UpstreamError
	var found, flat bool
	for key, value := range Members(raw) {
		switch string(key) {
		case "error":
			switch Kind(value) {
			case '{':
				for k, v := range Members(value) {
					e.member(string(k), v)
				}
				found = true
			case '"':
				e.Message, found = mustString(value), true
			}
		case "object":
			flat = mustString(value) == "error"
		case "detail":
			if !found {
				e.Message, found = detail(value), true
			}
		}
	}
	if !found && flat {
		for k, v := range Members(raw) {
			e.member(string(k), v)
		}
		found = true
	}
	return e, found
}

func (e *UpstreamError) member(key string, value json.RawMessage) {
	switch key {
	case "message":
		e.Message = mustString(value)
	case "param":
		e.Param = mustString(value)
	case "type":
		if t := mustString(value); e.Status == 0 && (t == "BadRequestError" || t == "invalid_request_error") {
			e.Status = http.StatusBadRequest
		}
	case "code":
		if n, ok := Int(value); ok {
			e.Status = int(n)
		} else if n, err := strconv.Atoi(mustString(value)); err == nil {
			e.Status = n
		}
	}
}

func mustString(raw json.RawMessage) string {
	s, _ := Unquote(raw)
	return s
}

// detail reads a FastAPI detail: a string, or a list of {loc, msg}.
func detail(raw json.RawMessage) string {
	if s, ok := Unquote(raw); ok {
		return s
	}
	var parts []string
	for _, item := range Elements(raw) {
		var loc []string
		var msg string
		for k, v := range Members(item) {
			switch string(k) {
			case "loc":
				for _, l := range Elements(v) {
					if s, ok := Unquote(l); ok {
						loc = append(loc, s)
					} else {
						loc = append(loc, string(l))
					}
				}
			case "msg":
				msg = mustString(v)
			}
		}
		parts = append(parts, strings.TrimPrefix(strings.Join(loc, ".")+": "+msg, ": "))
	}
	return strings.Join(parts, "; ")
}

// overflow matches what servers say when the prompt does not fit: vLLM, llama.cpp and Ollama in several versions.
var overflow = regexp.MustCompile(`(?i)maximum context length|context[ _]length[ _]exceeded|exceed_context_size|` +
	`exceeds?( the| model's)?( maximum| available)? context|longer than the maximum model length|` +
	`prompt is too long|context window`)

// maxUpstreamMessage bounds how much of a backend's message is passed on, in bytes.
const maxUpstreamMessage = 2 << 10

// Classify turns a backend's error into ours. A 4xx that blames the request passes with its message; everything else
// says only that the model server failed, and keeps the message as the cause: it may hold addresses and paths.
func (e UpstreamError) Classify(retryAfter time.Duration) *llm.Error {
	message := e.Message
	if len(message) > maxUpstreamMessage {
		message = strings.ToValidUTF8(message[:maxUpstreamMessage], "") + "..."
	}
	cause := errors.New("upstream status " + strconv.Itoa(e.Status) + ": " + message)
	if message == "" {
		message = "the model server refused the request"
	}
	blame := func(code llm.Code) *llm.Error {
		return &llm.Error{Code: code, Message: message, Param: e.Param, Err: cause}
	}
	switch s := e.Status; {
	case s != http.StatusUnauthorized && s != http.StatusForbidden && overflow.MatchString(e.Message):
		return blame(llm.CodeContextTooLong)
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return UpstreamFault("the model server does not accept our credentials", cause)
	case s == http.StatusNotFound:
		return UpstreamFault("the model server does not have the model", cause)
	case s == http.StatusRequestTimeout, s == http.StatusGatewayTimeout:
		return llm.Errorf(llm.CodeTimeout, "the model server took too long").With(cause)
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable:
		busy := llm.Errorf(llm.CodeOverloaded, "the model server is busy").With(cause)
		busy.RetryAfter = retryAfter
		return busy
	case s == http.StatusNotImplemented:
		return blame(llm.CodeUnsupported)
	case s == http.StatusRequestEntityTooLarge:
		return blame(llm.CodeTooLarge)
	case s >= 400 && s < 499:
		return blame(llm.CodeInvalidRequest)
	default:
		return UpstreamFault("the model server failed", cause)
	}
}

// DecodeError reads the answer of a backend that did not succeed. The body may be anything, also empty.
func DecodeError(status int, h http.Header, body []byte) *llm.Error {
	e, ok := UpstreamError{}, false
	if json.Valid(body) {
		e, ok = ParseUpstreamError(body)
	}
	if !ok {
		text := strings.ToValidUTF8(strings.TrimSpace(string(body[:min(len(body), maxUpstreamMessage)])), "")
		if strings.HasPrefix(text, "<") { // a proxy's page
			text = ""
		}
		e.Message = text
	}
	e.Status = status
	return e.Classify(RetryAfter(h, time.Now()))
}

// RetryAfter reads the Retry-After header, seconds or a date; 0 if there is none.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}
