package ollama

import (
	"fmt"
	"net/http"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// WriteError answers a request on any path of this dialect with an error. Nothing may have been written before.
func WriteError(w http.ResponseWriter, err *llm.Error, requestID string) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	if requestID != "" && h.Get("X-Request-Id") == "" {
		h.Set("X-Request-Id", requestID)
	}
	dialect.SetErrorHeaders(h, err)
	w.WriteHeader(dialect.Status(err.Code))
	_, _ = w.Write(append(appendError(nil, err), '\n')) // the client has left if this fails; nothing else can be done
}

// appendError appends the body of an error: a text is all that the protocol has.
func appendError(dst []byte, err *llm.Error) []byte {
	dst = append(dst, `{"error":`...)
	dst = dialect.AppendString(dst, message(err))
	return append(dst, '}')
}

func message(err *llm.Error) string {
	if err.Param != "" && (err.Code == llm.CodeInvalidRequest || err.Code == llm.CodeUnsupported) {
		return fmt.Sprintf("%s: %s", err.Param, err.Message)
	}
	return err.Message
}
