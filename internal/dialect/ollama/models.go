package ollama

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Tag is a model on a server's disk, as /api/tags lists it.
type Tag struct {
	Name           string
	Digest         string // identity of the weights
	SizeBytes      int64
	Family         string
	ParameterCount string
	Quantization   string
}

type wireDetails struct {
	Family            string `json:"family"`
	ParameterSize     string `json:"parameter_size"`
	QuantizationLevel string `json:"quantization_level"`
}

// DecodeTags reads the answer of /api/tags.
func DecodeTags(body []byte) ([]Tag, error) {
	var w struct {
		Models []struct {
			Name    string      `json:"name"`
			Model   string      `json:"model"`
			Digest  string      `json:"digest"`
			Size    int64       `json:"size"`
			Details wireDetails `json:"details"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("decode tags: %w", err)
	}
	tags := make([]Tag, 0, len(w.Models))
	for _, m := range w.Models {
		if m.Name == "" {
			m.Name = m.Model
		}
		tags = append(tags, Tag{
			Name: m.Name, Digest: m.Digest, SizeBytes: m.Size, Family: m.Details.Family,
			ParameterCount: m.Details.ParameterSize, Quantization: m.Details.QuantizationLevel,
		})
	}
	return tags, nil
}

// EncodeShow encodes the request of /api/show for a model.
func EncodeShow(name string) []byte {
	body := append([]byte(`{"model":`), dialect.Quote(name)...)
	return append(body, '}')
}

// DecodeShow reads the answer of /api/show about the model name: what it can do, and the context that it was trained
// for, which is not the one that it is loaded with.
func DecodeShow(body []byte, name string) (llm.Model, error) {
	var w struct {
		Details      wireDetails                `json:"details"`
		ModelInfo    map[string]json.RawMessage `json:"model_info"`
		Capabilities []string                   `json:"capabilities"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return llm.Model{}, fmt.Errorf("decode show: %w", err)
	}
	m := llm.Model{
		Name: name, ParameterCount: w.Details.ParameterSize, Quantization: w.Details.QuantizationLevel,
	}
	arch, _ := dialect.Unquote(w.ModelInfo["general.architecture"])
	m.ContextLength = count(w.ModelInfo[arch+".context_length"])
	m.Capabilities = capabilities(w.Capabilities)
	if m.Can(llm.CapEmbedding) {
		m.EmbeddingWidth = count(w.ModelInfo[arch+".embedding_length"])
	}
	m.Thinking = llm.ProfileNone
	if m.Can(llm.CapThinking) {
		m.Thinking = llm.ProfileToggle
		if family := arch + w.Details.Family; strings.Contains(family, "gptoss") || strings.Contains(family, "gpt-oss") {
			m.Thinking = llm.ProfileEffort
		}
	}
	return m, nil
}

// capabilities maps the server's words. Every text model can be held to a schema; servers from before the list are
// taken for such.
func capabilities(words []string) []llm.Capability {
	if words == nil {
		words = []string{"completion"}
	}
	var caps []llm.Capability
	for _, w := range words {
		switch w {
		case "completion":
			caps = append(caps, llm.CapChat, llm.CapCompletion, llm.CapJSONSchema)
		case "tools":
			caps = append(caps, llm.CapTools)
		case "vision":
			caps = append(caps, llm.CapVision)
		case "thinking":
			caps = append(caps, llm.CapThinking)
		case "embedding":
			caps = append(caps, llm.CapEmbedding)
		}
	}
	return caps
}

// Running is a model in a server's memory, as /api/ps lists it.
type Running struct {
	Name          string
	Digest        string
	SizeBytes     int64
	VRAMBytes     int64 // less than SizeBytes if a part runs on the CPU
	ContextLength int   // that it is loaded with; 0 from servers that do not say
	ExpiresAt     time.Time
}

// DecodePS reads the answer of /api/ps.
func DecodePS(body []byte) ([]Running, error) {
	var w struct {
		Models []struct {
			Name          string    `json:"name"`
			Model         string    `json:"model"`
			Digest        string    `json:"digest"`
			Size          int64     `json:"size"`
			SizeVRAM      int64     `json:"size_vram"`
			ContextLength int       `json:"context_length"`
			ExpiresAt     time.Time `json:"expires_at"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("decode ps: %w", err)
	}
	running := make([]Running, 0, len(w.Models))
	for _, m := range w.Models {
		if m.Name == "" {
			m.Name = m.Model
		}
		running = append(running, Running{
			Name: m.Name, Digest: m.Digest, SizeBytes: m.Size, VRAMBytes: m.SizeVRAM,
			ContextLength: m.ContextLength, ExpiresAt: m.ExpiresAt,
		})
	}
	return running, nil
}

// DecodeVersion reads the answer of /api/version.
func DecodeVersion(body []byte) (string, error) {
	var w struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return "", fmt.Errorf("decode version: %w", err)
	}
	return w.Version, nil
}
