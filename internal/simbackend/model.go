package simbackend

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Capability is something that a model can do.
type Capability string

// The capabilities. CapChat covers chat and plain completion. A model without CapJSON answers in prose whatever format
// is asked for.
const (
	CapChat      Capability = "chat"
	CapTools     Capability = "tools"
	CapJSON      Capability = "json"
	CapVision    Capability = "vision"
	CapThinking  Capability = "thinking"
	CapEmbedding Capability = "embedding"
	CapRerank    Capability = "rerank"
	CapInsert    Capability = "insert"
	// CapSpeech speaks, CapTranscription writes down what such a model has spoken, CapImage draws.
	CapSpeech        Capability = "speech"
	CapTranscription Capability = "transcription"
	CapImage         Capability = "image"
)

var allCapabilities = []Capability{
	CapChat, CapTools, CapJSON, CapVision, CapThinking, CapEmbedding, CapRerank, CapInsert,
	CapSpeech, CapTranscription, CapImage,
}

// DefaultContext is the context length, in tokens, of a model whose spec names none.
const DefaultContext = 32_768

// Model is one served model.
type Model struct {
	// Name is what clients ask for. On Ollama a name without a tag also answers to name:latest.
	Name string
	// Capabilities limit what the model accepts.
	Capabilities []Capability
	// Context is the longest prompt plus answer, in tokens.
	Context int
}

// Can reports whether the model has the capability.
func (m Model) Can(c Capability) bool { return slices.Contains(m.Capabilities, c) }

// ParseModel reads a model spec:
//
//	name[:cap+cap...][@context]
//
// for example "sim-chat", "qwen3:8b", "qwen3:8b:chat+tools@8192". The part after the last colon is a list of
// capabilities only if every word in it is one ("completion" is accepted for "chat"); otherwise it belongs to the name,
// as an Ollama tag does. Without capabilities the name decides: one that contains "embed" makes embeddings and scores,
// "rerank" reranks, and any other chats with tools and JSON, thinks if it contains "think" or "reason", and sees images
// if it contains "vision", "-vl" or is a default model that does. The context defaults to [DefaultContext].
func ParseModel(spec string) (Model, error) {
	m := Model{Context: DefaultContext}
	rest, size, ok := strings.Cut(strings.TrimSpace(spec), "@")
	if ok {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return Model{}, fmt.Errorf("model spec %q: context %q is not a positive number", spec, size)
		}
		m.Context = n
	}
	m.Name = rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		if caps, ok := parseCapabilities(rest[i+1:]); ok {
			m.Name, m.Capabilities = rest[:i], caps
		}
	}
	if m.Name == "" || strings.HasSuffix(m.Name, ":") {
		return Model{}, fmt.Errorf("model spec %q has no name or an empty tag", spec)
	}
	if m.Capabilities == nil {
		m.Capabilities = capabilitiesByName(m.Name)
	}
	return m, nil
}

// ParseModels reads a comma-separated list of model specs. An empty list gives none.
func ParseModels(list string) ([]Model, error) {
	var models []Model
	for spec := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(spec) == "" {
			continue
		}
		m, err := ParseModel(spec)
		if err != nil {
			return nil, err
		}
		models = append(models, m)
	}
	return models, nil
}

// DefaultModels returns the models of a server whose configuration names none.
func DefaultModels(d Dialect) []Model {
	names := []string{"sim-chat", "sim-think", "sim-embed"}
	switch d {
	case DialectVLLM:
		names = names[:2]
	case DialectOllama:
		names = []string{"sim-llama", "sim-embed"}
	}
	models := make([]Model, len(names))
	for i, name := range names {
		models[i] = Model{Name: name, Capabilities: capabilitiesByName(name), Context: DefaultContext}
	}
	return models
}

func parseCapabilities(list string) ([]Capability, bool) {
	var caps []Capability
	for word := range strings.SplitSeq(list, "+") {
		c := Capability(word)
		if c == "completion" {
			c = CapChat
		}
		if !slices.Contains(allCapabilities, c) {
			return nil, false
		}
		caps = append(caps, c)
	}
	return caps, true
}

func capabilitiesByName(name string) []Capability {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(name), w) })
	}
	switch {
	case has("embed"):
		return []Capability{CapEmbedding, CapRerank}
	case has("rerank"):
		return []Capability{CapRerank}
	}
	caps := []Capability{CapChat, CapTools, CapJSON}
	if has("think", "reason") {
		caps = append(caps, CapThinking)
	}
	if has("vision", "-vl", "sim-chat", "sim-llama") {
		caps = append(caps, CapVision)
	}
	return caps
}
