package backend

import (
	"strings"

	"mindrouter/internal/llm"
)

// familyProfiles says how the thinking of well-known model families is controlled, by a part of the model's name. vLLM
// does not tell; admins can override it per model.
var familyProfiles = []struct {
	part    string
	profile llm.ThinkingProfile
	kwarg   string
}{
	{"gpt-oss", llm.ProfileEffort, ""},
	{"deepseek-r1", llm.ProfileAlways, ""},
	{"qwq", llm.ProfileAlways, ""},
	{"-thinking", llm.ProfileAlways, ""},
	{"deepseek-v3.", llm.ProfileToggle, "thinking"},
	{"granite-3.", llm.ProfileToggle, "thinking"},
	{"qwen3", llm.ProfileToggle, "enable_thinking"},
	{"glm-4.5", llm.ProfileToggle, "enable_thinking"},
	{"sim-think", llm.ProfileToggle, "enable_thinking"},
}

// embeddingParts are parts of the names of embedding models.
var embeddingParts = []string{"embed", "bge-", "e5-", "gte-"}

// guess fills in what a name gives away where the server does not tell. Capabilities stay unknown, which no filter holds
// against a model, except for embedding models, which cannot chat.
func guess(m llm.Model) llm.Model {
	name := strings.ToLower(m.Name)
	if m.Capabilities == nil {
		for _, part := range embeddingParts {
			if strings.Contains(name, part) {
				m.Capabilities = []llm.Capability{llm.CapEmbedding}
			}
		}
	}
	if m.Thinking != "" {
		return m
	}
	for _, f := range familyProfiles {
		if strings.Contains(name, f.part) {
			m.Thinking, m.ThinkingKwarg = f.profile, f.kwarg
			return m
		}
	}
	return m
}
