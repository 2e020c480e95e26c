package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// surface is how the paths of one protocol speak, whatever they are for.
type surface struct {
	writeError func(w http.ResponseWriter, err *llm.Error, requestID string)
	// headers sets what clients of the protocol look for on an answer.
	headers func(h http.Header, requestID string, took time.Duration)
}

var (
	openAI = surface{openai.WriteError, func(h http.Header, _ string, took time.Duration) {
		h.Set("Openai-Version", "2020-10-01")
		h.Set("Openai-Processing-Ms", strconv.FormatInt(took.Milliseconds(), 10))
	}}
	anthropicAPI = surface{anthropic.WriteError, func(h http.Header, requestID string, _ time.Duration) {
		anthropic.SetRequestID(h, requestID)
	}}
)

// WriteError answers a request on any path with an error in the form of the protocol that the path belongs to.
func WriteError(w http.ResponseWriter, r *http.Request, err *llm.Error) {
	surfaceOf(r).writeError(w, err, requestID(w))
}

// surfaceOf tells the protocol of a path that nothing is at, or that does not take a method.
func surfaceOf(r *http.Request) surface {
	path := r.URL.Path
	switch {
	case strings.Contains(path, "/api/"):
		return ollamaAPI
	case strings.HasPrefix(path, "/anthropic/"), strings.Contains(path, "/messages"), anthropic.Speaks(r.Header):
		return anthropicAPI
	default:
		return openAI
	}
}
