package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// CallOptions say what a backend is and what the gateway adds to a request.
type CallOptions struct {
	Model   llm.Model // as the backend serves it
	Engine  Engine
	Version string // of the engine; empty if unknown
	// CacheSalt separates the prefix caches of tenants, where the engine can do that.
	CacheSalt string
	// ContinuousUsage asks for counts in every chunk, where the engine can do that: the first one then has the count
	// of the prompt.
	ContinuousUsage bool
	// InputTokens is our own count of the prompt; it stands in where the backend reports none.
	InputTokens int
}

// EncodeChat encodes r for a backend. The upstream call is always a stream with usage. Errors are *llm.Error and blame
// the request; the notes tell what the backend will not do as asked. r is not changed.
func EncodeChat(r *llm.Request, o CallOptions) ([]byte, []llm.Note, error) {
	c := call{r: r, o: o, q: quirksOf(o.Engine, o.Version), extra: map[string]json.RawMessage{}}
	if r.Origin == llm.DialectOpenAI {
		maps.Copy(c.extra, r.Extra)
	}
	w, err := c.encode()
	if err != nil {
		return nil, nil, err
	}
	body, err := marshal(w, c.extra)
	if err != nil {
		return nil, nil, fmt.Errorf("encode chat request: %w", err)
	}
	return body, c.notes, nil
}

// marshal encodes v, an object, followed by the extra fields. Nothing is escaped for HTML.
func marshal(v any, extra map[string]json.RawMessage) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	body := bytes.TrimRight(buf.Bytes(), "\n")
	if len(extra) == 0 {
		return body, nil
	}
	body = body[:len(body)-1]
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		body = append(body, ',')
		body = dialect.AppendString(body, name)
		body = append(body, ':')
		body = append(body, extra[name]...)
	}
	return append(body, '}'), nil
}

// call translates one request.
type call struct {
	r     *llm.Request
	o     CallOptions
	q     quirks
	extra map[string]json.RawMessage
	notes []llm.Note
}

func (c *call) note(n llm.Note) { c.notes = append(c.notes, n) }

func (c *call) encode() (*wireRequest, error) {
	r, s := c.r, &c.r.Sampling
	w := &wireRequest{
		Model:         c.o.Model.Name,
		Stream:        true,
		StreamOptions: &wireStreamOptions{IncludeUsage: true, ContinuousUsage: c.o.ContinuousUsage && c.q.continuous},

		MaxTokens:        r.MaxTokens,
		Temperature:      s.Temperature,
		TopP:             s.TopP,
		TopK:             s.TopK,
		MinP:             s.MinP,
		TypicalP:         s.TypicalP,
		PresencePenalty:  s.PresencePenalty,
		FrequencyPenalty: s.FrequencyPenalty,
		Seed:             s.Seed,
		Stop:             r.Stop,
		StopTokenIDs:     s.StopTokenIDs,
		MinTokens:        s.MinTokens,
		IgnoreEOS:        s.IgnoreEOS,
		LogitBias:        s.LogitBias,
		N:                r.N,
		Logprobs:         r.Logprobs,
		TopLogprobs:      r.TopLogprobs,
	}
	c.sampling(w)
	c.tools(w)
	c.thinking(w)
	if err := c.format(w); err != nil {
		return nil, err
	}
	if c.q.cacheSalt {
		w.CacheSalt = c.o.CacheSalt
	}
	var err error
	w.Messages, err = c.messages()
	return w, err
}

func (c *call) sampling(w *wireRequest) {
	if w.TopLogprobs != nil && w.Logprobs == nil { // servers refuse the one without the other
		on := true
		w.Logprobs = &on
	}
	if w.Logprobs != nil && !*w.Logprobs {
		w.Logprobs, w.TopLogprobs = nil, nil
	}
	s := &c.r.Sampling
	if s.RepeatPenalty != nil {
		value, _ := json.Marshal(*s.RepeatPenalty) // a finite number: it was read from JSON
		for _, key := range c.q.repeatKeys {
			c.extra[key] = value
		}
	}
	if c.o.Engine == EngineVLLM {
		if s.TypicalP != nil {
			w.TypicalP = nil
			c.note(llm.Note{Field: "typical_p", What: "dropped"})
		}
		if s.RepeatLastN != nil {
			c.note(llm.Note{Field: "repeat_last_n", What: "dropped"})
		}
		return
	}
	w.RepeatLastN = s.RepeatLastN
}

func (c *call) tools(w *wireRequest) {
	tools := dialect.OfferedTools(c.r)
	if len(tools) == 0 {
		return // an empty list, or a choice without tools, is refused by vLLM
	}
	for _, t := range tools {
		w.Tools = append(w.Tools, wireTool{Type: "function", Function: wireDeclaration{
			Name: t.Name, Description: t.Description, Parameters: dialect.ToolSchema(t.Schema), Strict: t.Strict,
		}})
	}
	switch mode := c.r.ToolChoice.Mode; mode {
	case llm.ToolUnset:
		w.ToolChoice = json.RawMessage(`"auto"`)
	case llm.ToolNamed:
		w.ToolChoice = json.RawMessage(`{"type":"function","function":{"name":` + string(dialect.Quote(c.r.ToolChoice.Name)) + `}}`)
	default:
		w.ToolChoice = dialect.Quote(string(mode))
	}
	if c.r.ToolChoice.Mode != llm.ToolNone {
		w.ParallelToolCalls = c.r.ParallelTools
	}
}

func (c *call) thinking(w *wireRequest) {
	p := dialect.PlanThinking(c.r.Thinking, c.o.Model, c.r.Origin, c.q.ladder)
	c.notes = append(c.notes, p.Notes...)
	w.ReasoningEffort = string(p.Effort)
	if p.Off {
		w.ReasoningEffort = "none"
		if !c.q.effortNone {
			w.ReasoningEffort = string(llm.EffortLow)
			c.note(llm.Note{Field: "reasoning_effort", What: "clamped", Detail: "low"})
		}
	}
	if p.Switch != nil && c.q.templateArgs {
		key := c.o.Model.ThinkingKwarg
		if key == "" {
			key = "enable_thinking"
		}
		c.templateArgument(key, *p.Switch)
		if *p.Switch && p.Budget != nil {
			if c.q.budget {
				w.ThinkingBudget = p.Budget
			} else {
				c.note(llm.Note{Field: "thinking_token_budget", What: "dropped"})
			}
		}
	}
}

// templateArgument adds a switch to chat_template_kwargs, next to what the client put there.
func (c *call) templateArgument(key string, on bool) {
	args := map[string]json.RawMessage{}
	for name, value := range dialect.Members(c.extra["chat_template_kwargs"]) {
		args[string(name)] = value
	}
	args[key] = json.RawMessage("false")
	if on {
		args[key] = json.RawMessage("true")
	}
	c.extra["chat_template_kwargs"], _ = json.Marshal(args) // values come from valid JSON
}

func (c *call) format(w *wireRequest) error {
	f := c.r.Format
	forced := c.r.ToolChoice.Mode == llm.ToolNamed || c.r.ToolChoice.Mode == llm.ToolRequired
	if f.Kind == llm.FormatText {
		return nil
	}
	if forced && len(w.Tools) > 0 {
		// A forced call leaves no text to format, and vLLM refuses the combination.
		c.note(llm.Note{Field: "response_format", What: "dropped", Semantic: true})
		return nil
	}
	switch f.Kind {
	case llm.FormatJSON:
		w.ResponseFormat = &wireFormat{Type: "json_object"}
	case llm.FormatSchema:
		name := f.Name
		if name == "" {
			name = "response"
		}
		w.ResponseFormat = &wireFormat{Type: "json_schema", JSONSchema: &wireSchema{Name: name, Schema: f.Schema, Strict: f.Strict}}
	case llm.FormatRegex:
		return c.constrain("regex", dialect.Quote(f.Text))
	case llm.FormatGrammar:
		return c.constrain("grammar", dialect.Quote(f.Text))
	case llm.FormatChoice:
		choices, err := json.Marshal(f.Choices)
		if err != nil {
			return err
		}
		return c.constrain("choice", choices)
	}
	return nil
}

func (c *call) constrain(kind string, value json.RawMessage) error {
	switch c.q.structuredKey {
	case "":
		return llm.Errorf(llm.CodeUnsupported, "the model's server cannot constrain its answer by a %s", kind)
	case "guided_":
		c.extra["guided_"+kind] = value
	default:
		c.extra[c.q.structuredKey] = json.RawMessage(`{"` + kind + `":` + string(value) + `}`)
	}
	return nil
}
