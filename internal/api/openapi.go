package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Operation is one entry of the description of the interface.
type Operation struct {
	Method  string
	Path    string // with {name} for what varies
	Tag     string // of the protocol
	Summary string
	Details string
	// Body is the name of the schema of the request body in schemas.json; empty for none.
	Body string
	// Stream says that the answer is a stream of this type if the request asks for one.
	Stream string
	// Public says that no key is needed.
	Public bool
}

// Tags of operations.
const (
	tagOpenAI    = "OpenAI"
	tagAnthropic = "Anthropic"
	tagOllama    = "Ollama"
	tagService   = "Service"
)

const (
	sse    = "text/event-stream"
	ndjson = "application/x-ndjson"
)

// Operations describes everything that is served to programs, in the order in which people read it.
var Operations = []Operation{
	{http.MethodPost, "/v1/chat/completions", tagOpenAI, "Chat", "Text, images, tools and parallel calls, thinking, JSON schema. Streams end with [DONE].", "ChatRequest", sse, false},
	{http.MethodPost, "/v1/completions", tagOpenAI, "Complete a plain prompt", "No chat template is applied. Without max_tokens the answer has 16 tokens at most.", "CompletionRequest", sse, false},
	{http.MethodPost, "/v1/responses", tagOpenAI, "Responses", "Items in, items out; function, custom and namespace tools; encrypted reasoning. Stored for 30 days unless store is false.", "ResponsesRequest", sse, false},
	{http.MethodPost, "/v1/responses/input_tokens", tagOpenAI, "Count the prompt of a response", "", "ResponsesRequest", "", false},
	{http.MethodGet, "/v1/responses/{id}", tagOpenAI, "A stored response", "Only your own.", "", "", false},
	{http.MethodDelete, "/v1/responses/{id}", tagOpenAI, "Delete a stored response", "", "", "", false},
	{http.MethodGet, "/v1/responses/{id}/input_items", tagOpenAI, "The items of its request", "In pages: limit, after, order.", "", "", false},
	{http.MethodPost, "/v1/embeddings", tagOpenAI, "Embeddings", "Vectors as numbers or as base64 of little-endian float32.", "EmbeddingRequest", "", false},
	{http.MethodPost, "/v1/rerank", tagOpenAI, "Order documents", "In the form of Jina and Cohere. Also at /rerank and /v2/rerank.", "RerankRequest", "", false},
	{http.MethodPost, "/v1/score", tagOpenAI, "Score pairs of texts", "In the form of vLLM. Also at /score.", "ScoreRequest", "", false},
	{http.MethodPost, "/v1/tokenize", tagOpenAI, "Count a prompt", "The count, and the context that it must fit; x-mindrouter-warnings tells if the count is an estimate. Also at /tokenize.", "TokenizeRequest", "", false},
	{http.MethodPost, "/v1/audio/speech", tagOpenAI, "Text to speech", "The bytes of the sound as they are made, or events with stream_format sse.", "SpeechRequest", sse, false},
	{http.MethodPost, "/v1/audio/transcriptions", tagOpenAI, "Transcribe audio", "At most 25 MiB of FLAC, MP3, MP4, M4A, OGG, WAV or WebM. Plain text and subtitles come from what any model server says in JSON.", "TranscriptionRequest", sse, false},
	{http.MethodPost, "/v1/audio/translations", tagOpenAI, "Translate audio to English text", "As transcriptions.", "TranslationRequest", sse, false},
	{http.MethodPost, "/v1/images/generations", tagOpenAI, "Make images", "As base64. Nothing is kept, so with response_format url the address is a data URI.", "ImageRequest", sse, false},
	{http.MethodPost, "/v1/images/edits", tagOpenAI, "Change images", "At most 32 MiB of PNG, JPEG or WebP together.", "ImageEditRequest", sse, false},
	{http.MethodGet, "/v1/models", tagOpenAI, "List models", "Those that the key may use. Clients of Anthropic's protocol, told by their headers, get its form.", "", "", false},
	{http.MethodGet, "/v1/models/{id}", tagOpenAI, "One model", "The name may hold slashes, as they are or percent-encoded.", "", "", false},

	{http.MethodPost, "/anthropic/v1/messages", tagAnthropic, "Messages", "Text, images, tools, thinking with signatures. Also at /v1/messages.", "MessagesRequest", sse, false},
	{http.MethodPost, "/anthropic/v1/messages/count_tokens", tagAnthropic, "Count a prompt", "Takes no slot and does not wait. Also at /v1/messages/count_tokens.", "MessagesRequest", "", false},
	{http.MethodGet, "/anthropic/v1/models", tagAnthropic, "List models", "In pages: limit, before_id, after_id.", "", "", false},
	{http.MethodGet, "/anthropic/v1/models/{id}", tagAnthropic, "One model", "", "", "", false},

	{http.MethodPost, "/api/chat", tagOllama, "Chat", "Streams unless stream is false. Options that would load a model anew are dropped and told.", "OllamaChatRequest", ndjson, false},
	{http.MethodPost, "/api/generate", tagOllama, "Complete a prompt", "Through the chat template, or as it is with raw or suffix.", "OllamaGenerateRequest", ndjson, false},
	{http.MethodPost, "/api/embed", tagOllama, "Embeddings", "", "OllamaEmbedRequest", "", false},
	{http.MethodPost, "/api/embeddings", tagOllama, "One embedding, the older form", "", "OllamaEmbeddingsRequest", "", false},
	{http.MethodPost, "/api/show", tagOllama, "One model", "", "OllamaShowRequest", "", false},
	{http.MethodGet, "/api/tags", tagOllama, "List models", "Those that the key may use.", "", "", false},
	{http.MethodGet, "/api/ps", tagOllama, "List models that some server has at hand", "", "", "", false},
	{http.MethodGet, "/api/version", tagOllama, "Version of the protocol", "", "", "", true},

	{http.MethodGet, "/v1/requests/{id}/explain", tagService, "Why this backend, why this wait", "In words and figures, for a request of your own; the id is x-request-id of its answer.", "", "", false},
	{http.MethodGet, "/livez", tagService, "Whether the process runs", "", "", "", true},
	{http.MethodGet, "/readyz", tagService, "Whether requests should be sent here", "200 or 503, with reasons.", "", "", true},
	{http.MethodGet, "/metrics", tagService, "Metrics in Prometheus' form", "Needs a key of scope admin, unless an address of its own serves it.", "", "", false},
	{http.MethodGet, "/schema/cluster.json", tagService, "JSON Schema of the cluster file", "", "", "", true},
	{http.MethodGet, "/openapi.json", tagService, "This description", "", "", "", true},
}

//go:embed schemas.json
var schemas []byte

// RequestHeaders are those of ours that every generation understands.
var RequestHeaders = []struct{ Name, Meaning string }{
	{"X-Mindrouter-Class", "interactive, standard or batch; by default the key's."},
	{"X-Mindrouter-Deadline", "Seconds that the request may wait for a slot; can only shorten."},
	{"X-Mindrouter-Boundary", "campus: on the university's own machines only; can only narrow."},
	{"X-Mindrouter-Strict", "1: what a translation would have to drop or change is an error."},
	{"X-Client-Request-Id", "An id of your own. It is recorded and echoed."},
}

// OpenAPI returns the description of the interface as an OpenAPI 3.1 document.
func OpenAPI(version string) []byte {
	type object = map[string]any
	paths := object{}
	for _, op := range Operations {
		o := object{"tags": []string{op.Tag}, "summary": op.Summary, "operationId": operationID(op), "responses": outcomes(op)}
		if op.Details != "" {
			o["description"] = op.Details
		}
		if op.Public {
			o["security"] = []any{}
		}
		var parameters []any
		if strings.Contains(op.Path, "{id}") {
			parameters = append(parameters, object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		if op.Body != "" {
			o["requestBody"] = object{"required": true, "content": object{bodyType(op): object{"schema": object{"$ref": "#/components/schemas/" + op.Body}}}}
			for i := range RequestHeaders {
				parameters = append(parameters, object{"$ref": fmt.Sprintf("#/components/parameters/%s", RequestHeaders[i].Name)})
			}
		}
		if parameters != nil {
			o["parameters"] = parameters
		}
		item, _ := paths[op.Path].(object)
		if item == nil {
			item = object{}
			paths[op.Path] = item
		}
		item[strings.ToLower(op.Method)] = o
	}
	headers := object{}
	for _, h := range RequestHeaders {
		headers[h.Name] = object{"name": h.Name, "in": "header", "description": h.Meaning, "schema": object{"type": "string"}}
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "MindRouter", "version": version,
			"description": "One door to the open-weight models on the university's own GPUs, in the protocols of OpenAI, Anthropic and Ollama.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"bearer": []any{}}, object{"apiKey": []any{}}},
		"tags": []any{
			object{"name": tagOpenAI, "description": "Base URL for clients: /v1"},
			object{"name": tagAnthropic, "description": "Base URL for clients: /anthropic"},
			object{"name": tagOllama, "description": "Base URL for clients: the address itself"},
			object{"name": tagService},
		},
		"paths": paths,
		"components": object{
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer", "description": "A key that begins with mr2_."},
				"apiKey": object{"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
			},
			"parameters": headers,
			"schemas":    json.RawMessage(schemas),
		},
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		panic(err) // schemas.json is broken
	}
	return append(text, '\n')
}

// bodyType is the media type of a request.
func bodyType(op Operation) string {
	switch op.Path {
	case "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits":
		return "multipart/form-data"
	default:
		return "application/json"
	}
}

func operationID(op Operation) string {
	words := strings.FieldsFunc(op.Path, func(r rune) bool { return strings.ContainsRune("/{}._", r) })
	return strings.ToLower(op.Method) + "_" + strings.Join(words, "_")
}

// errorSchemas are the forms of errors by protocol.
var errorSchemas = map[string]string{tagOpenAI: "OpenAIError", tagAnthropic: "AnthropicError", tagOllama: "OllamaError"}

func outcomes(op Operation) map[string]any {
	type object = map[string]any
	ok := object{"description": "Done."}
	content := object{}
	switch {
	case op.Path == "/metrics":
		content["text/plain"] = object{}
	case op.Path == "/v1/audio/speech":
		content["audio/*"] = object{}
	case op.Path == "/schema/cluster.json":
		content["application/schema+json"] = object{}
	default:
		content["application/json"] = object{}
	}
	if strings.HasPrefix(op.Path, "/v1/audio/trans") {
		content["text/plain"] = object{}
	}
	if op.Stream != "" {
		content[op.Stream] = object{}
	}
	ok["content"] = content
	out := object{"200": ok}
	schema, known := errorSchemas[op.Tag]
	if !known || op.Public {
		return out
	}
	failed := func(description string) object {
		return object{"description": description, "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + schema}}}}
	}
	out["401"] = failed("The key is missing, wrong, expired or revoked.")
	if op.Body == "" {
		return out
	}
	busy := "503"
	if op.Tag == tagAnthropic {
		busy = "529"
	}
	out["400"] = failed("The request cannot be served as it is; the message names the field.")
	out["403"] = failed("The key may not use this model.")
	out["404"] = failed("There is no such model.")
	out["413"] = failed("The body is too large.")
	out["429"] = failed("A rate or a budget is spent. Retry-After tells when to try again.")
	out[busy] = failed("No model server can take the request now. Retry-After tells when to try again.")
	out["502"] = failed("The model server failed.")
	out["504"] = failed("The model server was too slow.")
	return out
}
