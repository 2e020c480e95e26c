package llm

import "slices"

// Capability is something that a model can do.
type Capability string

// Capabilities of models.
const (
	CapChat          Capability = "chat"
	CapCompletion    Capability = "completion" // raw prompts and fill-in-the-middle
	CapTools         Capability = "tools"
	CapVision        Capability = "vision"
	CapThinking      Capability = "thinking"
	CapJSONSchema    Capability = "json_schema"
	CapEmbedding     Capability = "embedding"
	CapRerank        Capability = "rerank"
	CapSpeech        Capability = "speech"
	CapTranscription Capability = "transcription"
	CapImage         Capability = "image"
)

// ThinkingProfile says how a model's thinking is controlled.
type ThinkingProfile string

// Thinking profiles.
const (
	ProfileNone   ThinkingProfile = "none"   // does not think
	ProfileToggle ThinkingProfile = "toggle" // on or off, by a template argument
	ProfileEffort ThinkingProfile = "effort" // low, medium, high; cannot be off
	ProfileLevels ThinkingProfile = "levels" // the full ladder, off included
	ProfileAlways ThinkingProfile = "always" // cannot be switched off
)

// Model describes a model as one backend serves it: what discovery found, overridden by what admins configured.
type Model struct {
	Name          string // as the backend knows it
	ContextLength int    // tokens; 0 if unknown
	Capabilities  []Capability

	Thinking      ThinkingProfile
	ThinkingKwarg string // template argument of ProfileToggle; empty means enable_thinking
	// ThinkingPromote says that the model may write its answer as thinking although thinking is off.
	ThinkingPromote bool
	ThinkingTags    bool   // thinking arrives inside the text, between <think> and </think>
	SystemLate      string // fold (default), hoist or inline
	DeveloperRole   string // system (default) or developer
	EmbeddingWidth  int    // dimensions; 0 if unknown
	Digest          string // identity of the weights, if known

	ParameterCount string // such as 8B, if known
	Quantization   string // such as Q4_K_M, if known
}

// Can reports whether m has capability c.
func (m Model) Can(c Capability) bool { return slices.Contains(m.Capabilities, c) }

// Room is how many tokens an answer may have after a prompt of input tokens. A reserve of 1,024 tokens, or an eighth of
// the context if that is less, stays free, because counts are not exact. It reports false if the context is not known.
func (m Model) Room(input int) (int, bool) {
	if m.ContextLength <= 0 {
		return 0, false
	}
	return m.ContextLength - input - min(1024, m.ContextLength/8), true
}
