package anthropic

import (
	"fmt"
	"net/http"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// statusOverloaded is what this protocol answers where others say 503.
const statusOverloaded = 529

// WriteError answers with err's status, headers and Anthropic's body. Nothing may have been written before.
func (Messages) WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	WriteError(w, err, requestID)
}

// WriteError answers a request on any path of this dialect with an error.
func WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if requestID != "" && h.Get("X-Request-Id") == "" {
		h.Set("X-Request-Id", requestID)
	}
	SetRequestID(h, requestID)
	dialect.SetErrorHeaders(h, err)
	w.WriteHeader(Status(err.Code))
	_, _ = w.Write(append(appendError(nil, err, requestID), '\n')) // the client has left if this fails; nothing else can be done
}

// SetRequestID sets the header in which clients of this protocol look for the id of a request, on every answer.
func SetRequestID(h http.Header, requestID string) {
	if requestID != "" {
		h.Set("Request-Id", requestID)
	}
}

// Status returns the HTTP status of an error code in this dialect.
func Status(code llm.Code) int {
	status := dialect.Status(code)
	if status == http.StatusServiceUnavailable {
		return statusOverloaded
	}
	return status
}

// appendError appends the body of an error, which is also the data of an error event.
func appendError(dst []byte, err *llm.Error, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, errorType(err.Code)...)
	dst = append(dst, `","message":`...)
	dst = dialect.AppendString(dst, message(err))
	dst = append(dst, `},"request_id":`...)
	if requestID == "" {
		dst = append(dst, "null"...)
	} else {
		dst = dialect.AppendString(dst, requestID)
	}
	return append(dst, '}')
}

// message puts the field at fault in front, because the protocol has no other place for it. A prompt that is too long
// is told in the words by which Claude Code knows that it must compact its history.
func message(err *llm.Error) string {
	switch {
	case err.Code == llm.CodeContextTooLong && err.Counted > 0 && err.Limit > 0:
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", err.Counted, err.Limit)
	case err.Code == llm.CodeContextTooLong:
		return "prompt is too long: " + err.Message
	case err.Param != "" && (err.Code == llm.CodeInvalidRequest || err.Code == llm.CodeUnsupported):
		return err.Param + ": " + err.Message
	default:
		return err.Message
	}
}

func errorType(code llm.Code) string {
	switch code {
	case llm.CodeInvalidRequest, llm.CodeContextTooLong, llm.CodeUnsupported, llm.CodeMethodNotAllowed:
		return "invalid_request_error"
	case llm.CodeUnauthenticated:
		return "authentication_error"
	case llm.CodeForbidden, llm.CodeModelNotAllowed:
		return "permission_error"
	case llm.CodeNotFound, llm.CodeModelNotFound:
		return "not_found_error"
	case llm.CodeTooLarge:
		return "request_too_large"
	case llm.CodeRateLimited, llm.CodeBudgetSpent:
		return "rate_limit_error"
	case llm.CodeOverloaded, llm.CodeNoBackend, llm.CodeUnavailable:
		return "overloaded_error"
	case llm.CodeTimeout:
		return "timeout_error"
	default:
		return "api_error"
	}
}
