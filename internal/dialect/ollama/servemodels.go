package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// ServedVersion is the version of the protocol that is served: clients switch features on by it.
const ServedVersion = "0.24.0"

// ModelCard is a model as clients see it.
type ModelCard struct {
	Name          string
	Modified      time.Time
	ContextLength int // tokens; 0 if unknown
	Capabilities  []llm.Capability
	Running       bool
}

// tagged is the name with the tag that clients expect in every name.
func (c ModelCard) tagged() string {
	if strings.Contains(c.Name, ":") {
		return c.Name
	}
	return c.Name + ":latest"
}

// digest stands for that of the weights, which are not ours to tell: it changes with the name only.
func (c ModelCard) digest() string {
	sum := sha256.Sum256([]byte(c.Name))
	return hex.EncodeToString(sum[:])
}

type wireServedDetails struct {
	Parent        string   `json:"parent_model"`
	Format        string   `json:"format"`
	Family        string   `json:"family"`
	Families      []string `json:"families"`
	ParameterSize string   `json:"parameter_size"`
	Quantization  string   `json:"quantization_level"`
}

func details() wireServedDetails {
	return wireServedDetails{Format: "gguf", Family: architecture, Families: []string{architecture}}
}

// architecture stands where clients look for that of the weights.
const architecture = "mindrouter"

// EncodeTags returns the body of GET /api/tags.
func EncodeTags(cards []ModelCard) []byte {
	type model struct {
		Name         string            `json:"name"`
		Model        string            `json:"model"`
		Modified     time.Time         `json:"modified_at"`
		Size         int64             `json:"size"`
		Digest       string            `json:"digest"`
		Details      wireServedDetails `json:"details"`
		Capabilities []string          `json:"capabilities,omitempty"`
	}
	list := []model{}
	for _, c := range cards {
		list = append(list, model{c.tagged(), c.tagged(), c.Modified, 0, c.digest(), details(), c.capabilities()})
	}
	return encodeServed(map[string]any{"models": list})
}

// EncodeRunning returns the body of GET /api/ps: the models that some server has at hand.
func EncodeRunning(cards []ModelCard, now time.Time) []byte {
	type model struct {
		Name          string            `json:"name"`
		Model         string            `json:"model"`
		Size          int64             `json:"size"`
		Digest        string            `json:"digest"`
		Details       wireServedDetails `json:"details"`
		Expires       time.Time         `json:"expires_at"`
		VRAM          int64             `json:"size_vram"`
		ContextLength int               `json:"context_length"`
	}
	list := []model{}
	for _, c := range cards {
		if c.Running {
			list = append(list, model{c.tagged(), c.tagged(), 0, c.digest(), details(), now.Add(time.Hour), 0, c.ContextLength})
		}
	}
	return encodeServed(map[string]any{"models": list})
}

// DecodeShowRequest returns the model that the body of POST /api/show names. Errors are *llm.Error.
func DecodeShowRequest(body []byte) (string, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return "", err
	}
	name, old := f.String("model"), f.String("name")
	if name == "" {
		name = old
	}
	if name == "" {
		f.Fail("model", "is required")
	}
	return name, f.Err()
}

// EncodeShown returns the body of POST /api/show.
func EncodeShown(c ModelCard) []byte {
	info := map[string]any{"general.architecture": architecture, "general.basename": c.Name}
	if c.ContextLength > 0 {
		info[architecture+".context_length"] = c.ContextLength
	}
	return encodeServed(map[string]any{
		"modelfile": "", "parameters": "", "template": "{{ .Prompt }}", "details": details(), "model_info": info,
		"capabilities": c.capabilities(), "modified_at": c.Modified,
	})
}

// EncodeServedVersion returns the body of GET /api/version.
func EncodeServedVersion() []byte { return encodeServed(map[string]any{"version": ServedVersion}) }

func encodeServed(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("ollama: %v", err)) // plain values: cannot happen
	}
	return append(b, '\n')
}

// capabilities names them as the protocol does.
func (c ModelCard) capabilities() []string {
	out := []string{}
	add := func(name string) { out = append(out, name) }
	for _, k := range c.Capabilities {
		switch k {
		case llm.CapChat:
			add("completion")
		case llm.CapTools:
			add("tools")
		case llm.CapVision:
			add("vision")
		case llm.CapThinking:
			add("thinking")
		case llm.CapEmbedding:
			add("embedding")
		}
	}
	if len(c.Capabilities) == 0 { // unknown
		add("completion")
	}
	return out
}

// SameName reports whether two names mean the same model: case does not count, nor does the tag latest.
func SameName(a, b string) bool {
	trim := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), ":latest") }
	return trim(a) == trim(b)
}
