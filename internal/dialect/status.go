package dialect

import (
	"net/http"
	"strconv"
	"time"

	"mindrouter/internal/llm"
)

// Status returns the HTTP status of an error code. It is the one table for all dialects; only Anthropic's overload
// differs (529) and says so in its own package.
func Status(code llm.Code) int {
	switch code {
	case llm.CodeInvalidRequest, llm.CodeContextTooLong, llm.CodeUnsupported:
		return http.StatusBadRequest
	case llm.CodeUnauthenticated:
		return http.StatusUnauthorized
	case llm.CodeForbidden, llm.CodeModelNotAllowed:
		return http.StatusForbidden
	case llm.CodeNotFound, llm.CodeModelNotFound:
		return http.StatusNotFound
	case llm.CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case llm.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case llm.CodeRateLimited, llm.CodeBudgetSpent:
		return http.StatusTooManyRequests
	case llm.CodeCancelled:
		return 499 // the client has left; the log and the metrics see it
	case llm.CodeUpstream:
		return http.StatusBadGateway
	case llm.CodeOverloaded, llm.CodeNoBackend, llm.CodeUnavailable:
		return http.StatusServiceUnavailable
	case llm.CodeTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// defaultRetryAfter is told with a 429 or 503 that has no better figure.
const defaultRetryAfter = 5 * time.Second

// SetErrorHeaders sets what a client's retry logic reads: Retry-After in whole seconds on every 429 and 503, and
// x-should-retry: false where trying again cannot help.
func SetErrorHeaders(h http.Header, err *llm.Error) {
	status := Status(err.Code)
	wait := err.RetryAfter
	if wait <= 0 && err.Code != llm.CodeBudgetSpent &&
		(status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		wait = defaultRetryAfter
	}
	if wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	if err.Code == llm.CodeBudgetSpent {
		h.Set("X-Should-Retry", "false")
	}
}
