package simbackend

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// vllmDialect is a vLLM server.
func (s *Server) vllmDialect() dialect {
	form := chatForm{vllm: true, newReasoning: !versionBelow(s.cfg.Version, 0, 16), idPrefix: "chatcmpl-tool-"}
	post := http.MethodPost
	return dialect{
		routes: []route{
			{http.MethodGet, "/health", false, func(x *exchange) { x.raw(200, "text/plain", nil) }},
			{http.MethodGet, "/version", false, func(x *exchange) { _ = x.reply(200, object{"version": s.cfg.Version}) }},
			{http.MethodGet, "/load", false, func(x *exchange) { _ = x.reply(200, object{"server_load": s.InFlight()}) }},
			{http.MethodGet, "/metrics", false, func(x *exchange) { x.pass(s.metrics.handler) }},
			{http.MethodGet, "/v1/models", false, s.vllmModels},
			{post, "/v1/chat/completions", true, func(x *exchange) { s.vllmChat(x, form) }},
			{post, "/v1/completions", true, func(x *exchange) { s.completions(x, true) }},
			{post, "/v1/embeddings", true, s.embeddings},
			{post, "/v1/rerank", true, s.rerank},
			{post, "/v2/rerank", true, s.rerank},
			{post, "/rerank", true, s.rerank},
			{post, "/v1/score", true, s.score},
			{post, "/score", true, s.score},
			{post, "/v1/audio/transcriptions", true, s.transcription},
			{post, "/v1/audio/translations", true, s.transcription},
			{post, "/tokenize", false, func(x *exchange) { s.tokenize(x, form) }},
			{post, "/detokenize", false, s.detokenize},
		},
		keyed: func(path string) bool { return strings.HasPrefix(path, "/v1") },
		errorJSON: func(e *refusal) []byte {
			if e.status == http.StatusUnauthorized {
				return mustJSON(object{"error": "Unauthorized"})
			}
			kind := e.kind
			setDefault(&kind, vllmErrorType(e.status))
			param := any(nil)
			if e.param != "" {
				param = e.param
			}
			return mustJSON(object{"error": object{
				"message": e.message, "type": kind, "param": param, "code": e.status,
			}})
		},
		missing: func(x *exchange, status int) {
			_ = x.reply(status, object{"detail": http.StatusText(status)})
		},
		streamType: "text/event-stream; charset=utf-8",
		frame:      sseFrame,
		afterError: []byte(sseDone),
		eager:      true,
	}
}

func vllmErrorType(status int) string {
	switch {
	case status == http.StatusNotFound:
		return "NotFoundError"
	case status == http.StatusNotImplemented:
		return "NotImplementedError"
	case status >= 500:
		return "InternalServerError"
	}
	return "BadRequestError"
}

// pass lets another handler answer.
func (x *exchange) pass(h http.Handler) {
	x.header200()
	h.ServeHTTP(x.w, x.r)
}

// header200 notes in the record what a foreign handler is about to send.
func (x *exchange) header200() {
	x.s.recorder.update(x.record, func(q *Request) { q.Status = http.StatusOK })
}

func (s *Server) vllmModels(x *exchange) {
	cards := []object{}
	for _, m := range s.cfg.Models {
		cards = append(cards, object{
			"id": m.Name, "object": "model", "created": s.born.Unix(), "owned_by": "vllm",
			"root": m.Name, "parent": nil, "max_model_len": m.Context,
			"permission": []object{{
				"id": "modelperm-sim", "object": "model_permission", "created": s.born.Unix(),
				"allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true,
				"allow_search_indices": false, "allow_view": true, "allow_fine_tuning": false,
				"organization": "*", "group": nil, "is_blocking": false,
			}},
		})
	}
	_ = x.reply(200, object{"object": "list", "data": cards})
}

func (s *Server) vllmChat(x *exchange, form chatForm) {
	body, no := s.decodeChat(x)
	if no == nil {
		no = vllmCheck(body)
	}
	if no != nil {
		x.refuse(no)
		return
	}
	s.chat(x, form, body)
}

// chat answers a chat request that the dialect has found valid.
func (s *Server) chat(x *exchange, form chatForm, body *chatBody) {
	x.wantsStream = body.Stream
	j, no := s.chatJob(form, body)
	if no != nil {
		x.refuse(no)
		return
	}
	reply := s.newChatReply(x, form, body, j)
	if body.Stream {
		s.play(x, []*job{j}, &chatStream{chatReply: reply})
		return
	}
	s.play(x, []*job{j}, &chatWhole{chatReply: reply})
}

func (s *Server) chatJob(form chatForm, body *chatBody) (*job, *refusal) {
	m := s.model(body.Model)
	if m == nil {
		return nil, noModel(body.Model)
	}
	if !m.Can(CapChat) {
		return nil, refuse(http.StatusBadRequest, "The model does not support Chat Completions API")
	}
	j, no := body.job(m, form.newReasoning)
	switch {
	case no != nil:
		return nil, no
	case len(j.tools) > 0 && j.choice == toolAuto && !m.Can(CapTools):
		return nil, refuse(http.StatusBadRequest,
			"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set")
	case j.room < 1:
		return nil, tooLong(m, j.tokens)
	}
	return j, nil
}

func noModel(name string) *refusal {
	no := refuse(http.StatusNotFound, "The model `%s` does not exist.", name)
	no.param = "model"
	return no
}

func tooLong(m *Model, tokens int) *refusal {
	return refuse(http.StatusBadRequest, "This model's maximum context length is %d tokens. However, your messages "+
		"resulted in %d tokens. Please reduce the length of the messages.", m.Context, tokens)
}

// vllmCheck is the validation of vLLM that callers run into.
func vllmCheck(b *chatBody) *refusal {
	bad := func(param, text string) *refusal {
		no := refuse(http.StatusBadRequest, "%s (parameter=%s)", text, param)
		no.param = param
		return no
	}
	choice := string(b.ToolChoice)
	chosen := choice != "" && choice != "null" && choice != `"none"`
	named := strings.HasPrefix(choice, "{")
	formats := 0
	if o := b.Structured; o != nil {
		for _, set := range []bool{len(o.JSON) > 0, o.Regex != "", len(o.Choice) > 0, o.Grammar != "", o.JSONObject} {
			if set {
				formats++
			}
		}
	}
	switch {
	case len(b.Messages) == 0:
		return bad("messages", "at least one message is required")
	case b.Tools != nil && len(*b.Tools) == 0:
		return bad("tools", "`tools` must not be an empty array.")
	case chosen && b.Tools == nil:
		return bad("tool_choice", "When using `tool_choice`, `tools` must be set.")
	case b.StreamOptions != nil && !b.Stream:
		return bad("stream_options", "Stream options can only be defined when `stream=True`.")
	case b.TopLogprobs > 0 && !b.Logprobs:
		return bad("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.")
	case b.PromptLogprobs != nil && *b.PromptLogprobs > 0 && b.Stream:
		return bad("prompt_logprobs", "`prompt_logprobs` are not available when `stream=True`.")
	case formats > 1:
		return bad("structured_outputs", "You can only use one kind of constraints for structured outputs.")
	case formats > 0 && named:
		return bad("structured_outputs", "You can only either use constraints for structured outputs or tools, not both.")
	case b.ContinueFinal && (b.AddGeneration == nil || *b.AddGeneration):
		return bad("continue_final_message",
			"Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	case b.Priority != 0:
		return bad("priority", "Got priority but priority scheduling is not enabled.")
	}
	return b.sampling.check(bad)
}

// check is the validation that chat and plain completion share.
func (s *sampling) check(bad func(param, text string) *refusal) *refusal {
	switch {
	case s.N != nil && *s.N < 1:
		return bad("n", "n must be at least 1.")
	case s.N != nil && *s.N > 128:
		return bad("n", "n must be at most 128.")
	case s.MaxTokens != nil && *s.MaxTokens < 0:
		return bad("max_tokens", "max_tokens must be at least 1.")
	case s.StreamOptions != nil && !s.Stream:
		return bad("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	return nil
}

func (s *Server) tokenize(x *exchange, form chatForm) {
	var plain struct {
		Model   string  `json:"model"`
		Prompt  *string `json:"prompt"`
		Strings bool    `json:"return_token_strs"`
	}
	if err := json.Unmarshal(x.body, &plain); err != nil {
		x.refuse(badBody(err))
		return
	}
	m := s.model(plain.Model)
	if plain.Model == "" {
		m = &s.cfg.Models[0]
	}
	if m == nil {
		x.refuse(noModel(plain.Model))
		return
	}
	var text string
	images := 0
	if plain.Prompt != nil {
		text = *plain.Prompt
	} else {
		body, no := s.decodeChat(x)
		if no == nil && len(body.Messages) == 0 {
			no = refuse(http.StatusBadRequest, "either prompt or messages is required")
		}
		var j *job
		if no == nil {
			j, no = body.job(m, form.newReasoning)
		}
		if no != nil {
			x.refuse(no)
			return
		}
		text = j.prompt()
		images = j.tokens - countTokens(text)
	}
	tokens := s.vocab.encode(text)
	// The tokens of images have no text; they all have the number 0.
	tokens = append(tokens, make([]int, images)...)
	out := object{"count": len(tokens), "max_model_len": m.Context, "tokens": tokens, "token_strs": nil}
	if plain.Strings {
		words := []string{}
		for p := range pieces(text) {
			words = append(words, p)
		}
		out["token_strs"] = words
	}
	_ = x.reply(200, out)
}

func (s *Server) detokenize(x *exchange) {
	var body struct {
		Tokens []int `json:"tokens"`
	}
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.refuse(badBody(err))
		return
	}
	_ = x.reply(200, object{"prompt": s.vocab.decode(body.Tokens)})
}

// versionBelow reports whether the version is older than major.minor. A version that cannot be read is not.
func versionBelow(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	if errA != nil || errB != nil {
		return false
	}
	return a < major || a == major && b < minor
}
