package simbackend

import (
	"net/http"
	"strings"
)

// openAIDialect is a generic server with the OpenAI API, in the manner of llama.cpp: reasoning in reasoning_content,
// timings in the reply, few checks.
func (s *Server) openAIDialect() dialect {
	form := chatForm{idPrefix: "call_"}
	post := http.MethodPost
	return dialect{
		routes: []route{
			{http.MethodGet, "/health", false, func(x *exchange) { _ = x.reply(200, object{"status": "ok"}) }},
			{http.MethodGet, "/v1/models", false, s.openAIModels},
			{post, "/v1/chat/completions", true, func(x *exchange) { s.openAIChat(x, form) }},
			{post, "/v1/completions", true, func(x *exchange) { s.completions(x, false) }},
			{post, "/v1/embeddings", true, s.embeddings},
			{post, "/v1/audio/speech", true, s.speech},
			{post, "/v1/audio/transcriptions", true, s.transcription},
			{post, "/v1/audio/translations", true, s.transcription},
			{post, "/v1/images/generations", true, s.draw},
			{post, "/v1/images/edits", true, s.redraw},
		},
		keyed: func(path string) bool { return strings.HasPrefix(path, "/v1") && path != "/v1/models" },
		errorJSON: func(e *refusal) []byte {
			kind := e.kind
			setDefault(&kind, openAIErrorType(e.status))
			return mustJSON(object{"error": object{"code": e.status, "message": e.message, "type": kind}})
		},
		missing: func(x *exchange, status int) {
			_ = x.reply(http.StatusNotFound, object{"error": object{
				"code": 404, "message": "File Not Found", "type": "not_found_error",
			}})
		},
		streamType: "text/event-stream",
		frame:      sseFrame,
	}
}

func openAIErrorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusServiceUnavailable:
		return "unavailable_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

func (s *Server) openAIModels(x *exchange) {
	cards := []object{}
	for _, m := range s.cfg.Models {
		cards = append(cards, object{
			"id": m.Name, "object": "model", "created": s.born.Unix(), "owned_by": "llamacpp",
			"meta": object{"n_ctx_train": m.Context},
		})
	}
	_ = x.reply(200, object{"object": "list", "data": cards})
}

func (s *Server) openAIChat(x *exchange, form chatForm) {
	body, no := s.decodeChat(x)
	if no == nil && len(body.Messages) == 0 {
		no = refuse(http.StatusBadRequest, "'messages' is required")
	}
	if no != nil {
		x.refuse(no)
		return
	}
	s.chat(x, form, body)
}
