package openai

import (
	"net/http"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// DecodeError classifies the answer of a backend that did not succeed.
func DecodeError(status int, h http.Header, body []byte) *llm.Error {
	return dialect.DecodeError(status, h, body)
}
