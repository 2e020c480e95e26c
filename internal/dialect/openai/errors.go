package openai

import (
	"net/http"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// WriteError answers with err's status, headers and OpenAI's body. Nothing may have been written before.
func (Chat) WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	WriteError(w, err, requestID)
}

// WriteError answers a request on any path of this dialect with an error.
func WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if requestID != "" && h.Get("X-Request-Id") == "" {
		h.Set("X-Request-Id", requestID)
	}
	dialect.SetErrorHeaders(h, err)
	w.WriteHeader(dialect.Status(err.Code))
	_, _ = w.Write(append(appendError(nil, err), '\n')) // the client has left if this fails; nothing else can be done
}

// appendError appends {"error":{...}}. The code is a string or null: typed clients refuse numbers.
func appendError(dst []byte, err *llm.Error) []byte {
	kind, code := errorType(err.Code)
	if err.Code == llm.CodeNotFound && continues(err.Param) {
		code = "previous_response_not_found"
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = dialect.AppendString(dst, message(err))
	dst = append(dst, `,"type":`...)
	dst = dialect.AppendString(dst, kind)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, err.Param)
	dst = append(dst, `,"code":`...)
	dst = appendStringOrNull(dst, code)
	return append(dst, "}}"...)
}

// message puts the field at fault in front, because many clients show nothing else.
func message(err *llm.Error) string {
	if err.Param != "" && (err.Code == llm.CodeInvalidRequest || err.Code == llm.CodeUnsupported) {
		return err.Param + ": " + err.Message
	}
	return err.Message
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return dialect.AppendString(dst, s)
}

// errorType returns OpenAI's type and code of an error. Clients key on them: Codex, for one, treats
// insufficient_quota as fatal and compacts its history on context_length_exceeded.
func errorType(code llm.Code) (kind, specific string) {
	switch code {
	case llm.CodeInvalidRequest, llm.CodeMethodNotAllowed, llm.CodeTooLarge:
		return "invalid_request_error", ""
	case llm.CodeUnsupported:
		return "invalid_request_error", "unsupported"
	case llm.CodeContextTooLong:
		return "invalid_request_error", "context_length_exceeded"
	case llm.CodeUnauthenticated:
		return "invalid_request_error", "invalid_api_key"
	case llm.CodeForbidden:
		return "permission_error", "forbidden"
	case llm.CodeModelNotAllowed:
		return "permission_error", "model_not_allowed"
	case llm.CodeNotFound:
		return "invalid_request_error", "not_found"
	case llm.CodeModelNotFound:
		return "invalid_request_error", "model_not_found"
	case llm.CodeRateLimited:
		return "rate_limit_error", "rate_limit_exceeded"
	case llm.CodeBudgetSpent:
		return "insufficient_quota", "insufficient_quota"
	case llm.CodeUpstream:
		return "server_error", "upstream_error"
	case llm.CodeOverloaded, llm.CodeNoBackend, llm.CodeUnavailable:
		return "server_error", "overloaded"
	case llm.CodeTimeout:
		return "server_error", "timeout"
	case llm.CodeCancelled:
		return "server_error", "cancelled"
	default:
		return "server_error", "internal_error"
	}
}
