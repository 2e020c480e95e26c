package openai

import (
	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// Engine is the kind of server behind a backend that speaks this dialect.
type Engine string

// Engines.
const (
	EngineVLLM   Engine = "vllm"
	EngineOpenAI Engine = "openai" // llama.cpp, SGLang, LM Studio, hosted services and others
)

// quirks is everything that differs between servers and their versions. Nothing else in this package asks for an
// engine or a version.
type quirks struct {
	// reasoningKey is the key of thinking in the messages of a request. vLLM renamed it in 0.16 and, until mid-2026,
	// dropped the old one in silence.
	reasoningKey string
	// structuredKey is where a regex, choice or grammar goes: one object, or one field each. vLLM removed guided_* in
	// 0.12 and ignores it since; structured_outputs appeared in 0.10.2. Empty means that the server has neither.
	structuredKey string
	ladder        []llm.Effort // efforts that are accepted; nil means low, medium and high
	effortNone    bool         // reasoning_effort none is accepted
	budget        bool         // thinking_token_budget is accepted
	templateArgs  bool         // chat_template_kwargs is accepted
	cacheSalt     bool
	continuous    bool // stream_options.continuous_usage_stats
	base64        bool // embeddings as base64
	textWithCalls bool // content beside tool calls must be text: null is refused
	repeatKeys    []string
}

// quirksOf returns the quirks of an engine at a version. An unknown version is taken for a new one: old servers are
// upgraded, and discovery tells the version of every vLLM.
func quirksOf(e Engine, version string) quirks {
	if e != EngineVLLM {
		return quirks{
			reasoningKey: "reasoning_content",
			templateArgs: true,
			repeatKeys:   []string{"repetition_penalty", "repeat_penalty"},

			textWithCalls: true,
		}
	}
	q := quirks{
		reasoningKey:  "reasoning",
		structuredKey: "structured_outputs",
		budget:        true,
		templateArgs:  true,
		cacheSalt:     true,
		continuous:    true,
		base64:        true,
		repeatKeys:    []string{"repetition_penalty"},
	}
	v, known := dialect.ParseVersion(version)
	if known && v.Before(0, 16, 0) {
		q.reasoningKey = "reasoning_content"
		q.budget = false
	} else {
		q.ladder = []llm.Effort{
			llm.EffortMinimal, llm.EffortLow, llm.EffortMedium, llm.EffortHigh, llm.EffortXHigh, llm.EffortMax,
		}
		q.effortNone = true
	}
	if known && v.Before(0, 10, 2) {
		q.structuredKey = "guided_"
	}
	if known && v.Before(0, 9, 0) {
		q.cacheSalt = false
	}
	return q
}
