package backend

import (
	"mindrouter/internal/llm"
)

// defaultOllamaContext is the context that we give an Ollama model unless admins say otherwise: its own maximum may need
// more memory than the machine has, and a change of it reloads the model, so it is fixed for all requests.
const defaultOllamaContext = 8192

// describe returns the model as found, overridden by what is configured under any of its names.
func describe(found llm.Model, engine Engine, overrides map[string]ModelConfig, names []string) llm.Model {
	m := found
	if engine == EngineOllama && (m.ContextLength == 0 || m.ContextLength > defaultOllamaContext) {
		m.ContextLength = defaultOllamaContext
	}
	for _, name := range names {
		o, ok := overrides[name]
		if !ok {
			continue
		}
		if o.ContextLength > 0 {
			m.ContextLength = o.ContextLength
		}
		if len(o.Capabilities) > 0 {
			m.Capabilities = o.Capabilities
		}
		if o.Thinking.Profile != "" {
			m.Thinking = o.Thinking.Profile
		}
		m.ThinkingTags = m.ThinkingTags || o.Thinking.Splitter
		m.ThinkingPromote = m.ThinkingPromote || o.Thinking.Promote
		if o.Thinking.Kwarg != "" {
			m.ThinkingKwarg = o.Thinking.Kwarg
		}
		if o.SystemLate != "" {
			m.SystemLate = o.SystemLate
		}
		if o.DeveloperRole != "" {
			m.DeveloperRole = o.DeveloperRole
		}
	}
	return m
}
