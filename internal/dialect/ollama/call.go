package ollama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// CallOptions say what a backend is and how the gateway uses it.
type CallOptions struct {
	Model   llm.Model // as the backend serves it
	Version string    // of the server; empty if unknown
	// NumCtx is the context length that the model is loaded with. It should be the same in every request, because a
	// different one reloads the model; 0 leaves the server's default, which may be as small as 4096.
	NumCtx int
	// KeepAlive is how long the model stays loaded after the request, such as 30m; empty leaves the server's default.
	KeepAlive string
	// InputTokens is our own count of the prompt; it stands in where the server reports none.
	InputTokens int
}

// EncodeChat encodes r for /api/chat, always as a stream, and so that a prompt that does not fit is an error instead
// of being cut. Errors are *llm.Error and blame the request; the notes tell what the server will not do as asked. r is
// not changed.
func EncodeChat(r *llm.Request, o CallOptions) ([]byte, []llm.Note, error) {
	if r.N != nil && *r.N > 1 {
		return nil, nil, &llm.Error{Code: llm.CodeUnsupported, Param: "n", Message: "the model's server gives one answer per request"}
	}
	c := call{r: r, o: o}
	w := &wireRequest{
		Model:     o.Model.Name,
		Stream:    true,
		Options:   c.options(),
		KeepAlive: o.KeepAlive,
		Tools:     c.tools(),
		Think:     c.think(),
	}
	c.logprobs(w)
	c.unsupported()
	var err error
	if w.Format, err = c.format(len(w.Tools) > 0); err != nil {
		return nil, nil, err
	}
	if w.Messages, err = c.messages(); err != nil {
		return nil, nil, err
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	body, err := marshal(w)
	if err != nil {
		return nil, nil, fmt.Errorf("encode chat request: %w", err)
	}
	return body, c.notes, nil
}

// marshal encodes v without escaping for HTML.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// call translates one request.
type call struct {
	r     *llm.Request
	o     CallOptions
	notes []llm.Note
	err   error
}

func (c *call) note(field, what string) {
	c.notes = append(c.notes, llm.Note{Field: field, What: what})
}

func (c *call) semantic(field, what string) {
	c.notes = append(c.notes, llm.Note{Field: field, What: what, Semantic: true})
}

func (c *call) options() wireOptions {
	s := &c.r.Sampling
	return wireOptions{
		NumCtx:           c.o.NumCtx,
		NumPredict:       c.r.MaxTokens,
		Temperature:      s.Temperature,
		TopP:             s.TopP,
		TopK:             s.TopK,
		MinP:             s.MinP,
		TypicalP:         s.TypicalP,
		RepeatPenalty:    s.RepeatPenalty,
		RepeatLastN:      s.RepeatLastN,
		PresencePenalty:  s.PresencePenalty,
		FrequencyPenalty: s.FrequencyPenalty,
		Seed:             s.Seed,
		Stop:             c.r.Stop,
	}
}

func (c *call) logprobs(w *wireRequest) {
	switch {
	case c.r.Logprobs != nil && !*c.r.Logprobs:
	case c.r.Logprobs != nil, c.r.TopLogprobs != nil:
		w.Logprobs, w.TopLogprobs = true, c.r.TopLogprobs
	}
}

// unsupported notes what the protocol has no place for.
func (c *call) unsupported() {
	s := &c.r.Sampling
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"logit_bias", s.LogitBias != nil},
		{"stop_token_ids", s.StopTokenIDs != nil},
		{"min_tokens", s.MinTokens != nil},
		{"ignore_eos", s.IgnoreEOS != nil},
	} {
		if f.set {
			c.note(f.name, "dropped")
		}
	}
	if c.r.Origin != llm.DialectOllama {
		for _, name := range slices.Sorted(maps.Keys(c.r.Extra)) {
			c.note(name, "dropped")
		}
	}
}

// tools returns the tools to offer. The protocol has no tool choice: none is honoured by offering nothing, a named
// tool by offering only that one; that a call must come is emulated, see [forced].
func (c *call) tools() []wireTool {
	tools := dialect.OfferedTools(c.r)
	if len(tools) == 0 {
		return nil
	}
	if p := c.r.ParallelTools; p != nil && !*p {
		c.note("parallel_tool_calls", "emulated") // later calls are dropped when they arrive
	}
	switch c.r.ToolChoice.Mode {
	case llm.ToolNone:
		if slices.ContainsFunc(c.r.Messages, func(m llm.Message) bool { return m.Role == llm.RoleTool }) {
			c.note("tools", "dropped")
		}
		return nil
	case llm.ToolNamed:
		tools = callable(c.r)
		c.note("tool_choice", "emulated")
	case llm.ToolRequired:
		c.note("tool_choice", "emulated")
	}
	out := make([]wireTool, 0, len(tools))
	for _, t := range tools {
		schema, inlined := inlineReferences(dialect.ToolSchema(t.Schema))
		if inlined {
			c.note("tools", "inlined")
		}
		out = append(out, wireTool{Type: "function", Function: wireDeclaration{
			Name: t.Name, Description: t.Description, Parameters: schema,
		}})
	}
	return out
}

// think says how the model should reason. A model that cannot think is not told anything: the server would refuse.
func (c *call) think() json.RawMessage {
	m := c.o.Model
	profile := dialect.Profile(m)
	if profile == llm.ProfileNone && c.r.Origin == llm.DialectOllama && c.r.Thinking.Mode == llm.ThinkingOn {
		// In the words of the original and nothing else: clients look for them.
		name := strings.TrimSuffix(c.r.Model, ":latest")
		c.err = llm.Errorf(llm.CodeUnsupported, "%q does not support thinking", name)
		return nil
	}
	ladder := []llm.Effort{llm.EffortLow, llm.EffortMedium, llm.EffortHigh, llm.EffortMax}
	p := dialect.PlanThinking(c.r.Thinking, m, c.r.Origin, ladder)
	c.notes = append(c.notes, p.Notes...)
	switch {
	case p.Off, p.Switch != nil && !*p.Switch:
		return json.RawMessage("false")
	case p.Effort != llm.EffortUnset:
		return dialect.Quote(string(p.Effort))
	case p.Switch != nil, profile == llm.ProfileAlways && c.r.Thinking.Mode != llm.ThinkingUnset:
		return json.RawMessage("true")
	default:
		return nil
	}
}

// format constrains the answer. The server applies it to everything that the model says, tool calls included, so with
// tools it would keep the model from calling them.
func (c *call) format(tools bool) (json.RawMessage, error) {
	f := c.r.Format
	if forced(c.r) {
		if f.Kind != llm.FormatText {
			c.semantic("response_format", "dropped")
		}
		return callSchema(callable(c.r)), nil
	}
	if f.Kind != llm.FormatText && tools {
		c.semantic("response_format", "dropped")
		return nil, nil
	}
	switch f.Kind {
	case llm.FormatText:
		return nil, nil
	case llm.FormatJSON:
		return json.RawMessage(`"json"`), nil
	case llm.FormatSchema:
		return f.Schema, nil
	case llm.FormatChoice:
		c.note("structured_outputs.choice", "emulated")
		choices, err := json.Marshal(f.Choices)
		if err != nil {
			return nil, fmt.Errorf("encode choices: %w", err)
		}
		return json.RawMessage(`{"type":"string","enum":` + string(choices) + `}`), nil
	default:
		return nil, llm.Errorf(llm.CodeUnsupported, "the model's server cannot constrain its answer by a %s", f.Kind)
	}
}
