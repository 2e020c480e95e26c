package simbackend

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ollamaDialect is an Ollama server with its native API.
func (s *Server) ollamaDialect() dialect {
	get, post := http.MethodGet, http.MethodPost
	return dialect{
		routes: []route{
			{get, "/", false, func(x *exchange) { x.raw(200, "text/plain; charset=utf-8", []byte("Ollama is running")) }},
			{get, "/api/version", false, func(x *exchange) { _ = x.reply(200, object{"version": s.cfg.Version}) }},
			{get, "/api/tags", false, s.ollamaTags},
			{get, "/api/ps", false, s.ollamaLoaded},
			{post, "/api/show", false, s.ollamaShow},
			{post, "/api/chat", true, s.ollamaChat},
			{post, "/api/generate", true, s.ollamaGenerate},
			{post, "/api/embed", true, s.ollamaEmbed},
			{post, "/api/embeddings", true, s.ollamaEmbeddings},
		},
		keyed: func(string) bool { return true },
		errorJSON: func(e *refusal) []byte {
			if e.status == http.StatusUnauthorized {
				return mustJSON(object{"error": "unauthorized"})
			}
			return mustJSON(object{"error": e.message})
		},
		missing: func(x *exchange, status int) {
			x.raw(status, "text/plain", fmt.Appendf(nil, "%d %s", status, strings.ToLower(http.StatusText(status))))
		},
		streamType: "application/x-ndjson",
		frame:      func(data []byte) []byte { return append(data, '\n') },
	}
}

// ollamaModel finds a model by name, whatever the case, with or without the tag "latest".
func (s *Server) ollamaModel(name string) *Model {
	for i := range s.cfg.Models {
		if strings.EqualFold(tagged(s.cfg.Models[i].Name), tagged(name)) {
			return &s.cfg.Models[i]
		}
	}
	return nil
}

// tagged returns the name with its tag.
func tagged(name string) string {
	if strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		return name
	}
	return name + ":latest"
}

func ollamaMissing(name string) *refusal {
	if name == "" {
		return refuse(http.StatusBadRequest, "model is required")
	}
	return refuse(http.StatusNotFound, "model '%s' not found", name)
}

// ollamaDecode reads the body. Ollama does not ask for a content type.
func ollamaDecode(x *exchange, v any) *refusal {
	if len(strings.TrimSpace(string(x.body))) == 0 {
		return refuse(http.StatusBadRequest, "missing request body")
	}
	if err := json.Unmarshal(x.body, v); err != nil {
		return refuse(http.StatusBadRequest, "%s", err)
	}
	return nil
}

const ollamaArchitecture = "simulated"

// digest names the weights of a model.
func (m Model) digest() string {
	sum := sha256.Sum256([]byte(m.Name))
	return hex.EncodeToString(sum[:])
}

// ollamaSize is the size of a model in bytes.
const ollamaSize = 4_000_000_000

func ollamaDetails() object {
	return object{
		"parent_model": "", "format": "gguf", "family": ollamaArchitecture, "families": []string{ollamaArchitecture},
		"parameter_size": "8.0B", "quantization_level": "Q4_K_M",
	}
}

func (s *Server) ollamaTags(x *exchange) {
	models := []object{}
	for _, m := range s.cfg.Models {
		models = append(models, object{
			"name": tagged(m.Name), "model": tagged(m.Name), "modified_at": s.born, "size": ollamaSize,
			"digest": m.digest(), "details": ollamaDetails(),
		})
	}
	_ = x.reply(200, object{"models": models})
}

func (s *Server) ollamaLoaded(x *exchange) {
	models := []object{}
	for _, l := range s.engine.loaded() {
		m := s.ollamaModel(l.model)
		models = append(models, object{
			"name": tagged(m.Name), "model": tagged(m.Name), "size": ollamaSize, "size_vram": ollamaSize,
			"digest": m.digest(), "details": ollamaDetails(), "expires_at": l.expiresAt, "context_length": l.numCtx,
		})
	}
	_ = x.reply(200, object{"models": models})
}

func (s *Server) ollamaShow(x *exchange) {
	var body struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	if no := ollamaDecode(x, &body); no != nil {
		x.refuse(no)
		return
	}
	setDefault(&body.Model, body.Name)
	m := s.ollamaModel(body.Model)
	if m == nil {
		x.refuse(ollamaMissing(body.Model))
		return
	}
	capabilities := []string{}
	names := map[Capability]string{
		CapChat: "completion", CapTools: "tools", CapVision: "vision", CapThinking: "thinking",
		CapEmbedding: "embedding", CapInsert: "insert",
	}
	for _, c := range m.Capabilities {
		if name, ok := names[c]; ok {
			capabilities = append(capabilities, name)
		}
	}
	_ = x.reply(200, object{
		"modelfile": "# simulated\nFROM " + m.Name + "\n", "template": "{{ .Prompt }}", "details": ollamaDetails(),
		"model_info": object{
			"general.architecture":                       ollamaArchitecture,
			"general.parameter_count":                    8_000_000_000,
			ollamaArchitecture + ".context_length":       m.Context,
			ollamaArchitecture + ".embedding_length":     s.cfg.EmbeddingDims,
			ollamaArchitecture + ".block_count":          32,
			ollamaArchitecture + ".attention.head_count": 32,
		},
		"capabilities": capabilities, "modified_at": s.born,
	})
}

// keepAlive is "keep_alive": seconds or a duration; negative is forever.
type keepAlive struct{ time.Duration }

func (k *keepAlive) UnmarshalJSON(data []byte) error {
	var seconds float64
	var text string
	switch {
	case json.Unmarshal(data, &seconds) == nil:
		k.Duration = time.Duration(seconds * float64(time.Second))
	case json.Unmarshal(data, &text) == nil:
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		k.Duration = d
	default:
		return fmt.Errorf("keep_alive is neither a number nor a duration: %s", data)
	}
	if k.Duration < 0 {
		k.Duration = forever
	}
	return nil
}

func (k *keepAlive) pointer() *time.Duration {
	if k == nil {
		return nil
	}
	return &k.Duration
}
