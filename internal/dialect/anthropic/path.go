package anthropic

import (
	"mindrouter/internal/llm"
)

// unsupported returns an error that blames the field param for asking what cannot be done here.
func unsupported(param, message string) *llm.Error {
	return &llm.Error{Code: llm.CodeUnsupported, Param: param, Message: message}
}
