package simbackend

import "time"

// chatForm is how a dialect writes chat completions.
type chatForm struct {
	vllm         bool // with the extra fields of vLLM; otherwise those of llama.cpp
	newReasoning bool // the reasoning field is "reasoning", not "reasoning_content"
	idPrefix     string
}

// chatReply is what a whole and a streamed chat completion have in common.
type chatReply struct {
	x    *exchange
	form chatForm
	body *chatBody
	job  *job
	id   string
	made int64
}

func (s *Server) newChatReply(x *exchange, form chatForm, body *chatBody, j *job) chatReply {
	return chatReply{
		x: x, form: form, body: body, job: j, id: "chatcmpl-" + s.newID(), made: time.Now().Unix(),
	}
}

// choice builds a choice. One of message and delta is nil; finish is empty unless it is the end.
func (r *chatReply) choice(index int, message, delta *chatContent, lp *logprobsWire, finish finishReason, stop string) any {
	var reason *string
	if finish != "" {
		text := string(finish)
		if finish == finishCalls && r.job.choice == toolNamed && r.form.vllm {
			text = string(finishStop)
		}
		reason = &text
	}
	if !r.form.vllm {
		return plainChoice{Index: index, Message: message, Delta: delta, Logprobs: lp, FinishReason: reason}
	}
	out := vllmChoice{Index: index, Message: message, Delta: delta, Logprobs: lp, FinishReason: reason}
	switch {
	case stop != "":
		out.StopReason = stop
	case finish != "":
		out.StopReason = null
	}
	return out
}

// think puts reasoning into the field that the dialect has for it.
func (r *chatReply) think(c *chatContent, v any) {
	if r.form.newReasoning {
		c.Reasoning = v
		return
	}
	c.ReasoningContent = v
}

// chatWhole is a reply that is not streamed.
type chatWhole struct {
	chatReply
	collector
}

func (r *chatWhole) end(u usage) error {
	out := chatCompletion{
		ID: r.id, Object: "chat.completion", Created: r.made, Model: r.job.model.Name, Usage: r.x.s.usageOf(u),
	}
	for i, c := range r.choices {
		var lp *logprobsWire
		if r.body.Logprobs {
			lp = logprobsOf(c.tokens, r.body.TopLogprobs)
		}
		out.Choices = append(out.Choices, r.choice(i, r.message(c), nil, lp, c.finish, c.stop))
	}
	if r.form.vllm {
		out.ServiceTier, out.PromptLogprobs, out.KVTransfer = null, null, null
	} else {
		out.SystemFingerprint = &r.x.s.cfg.Version
		out.Timings = timingsOf(u)
	}
	return r.x.reply(200, out)
}

func (r *chatWhole) message(c *collected) *chatContent {
	m := &chatContent{Role: "assistant", Content: c.text}
	for _, k := range c.calls {
		m.ToolCalls = append(m.ToolCalls, toolCall{
			ID: r.form.idPrefix + k.id, Type: "function", Function: functionCall{Name: k.name, Arguments: k.args},
		})
	}
	if len(c.calls) > 0 && (r.job.choice == toolAuto || !r.form.vllm) {
		m.Content = null
	}
	if r.form.vllm {
		m.Refusal, m.Annotations, m.Audio, m.FunctionCall = null, null, null, null
		r.think(m, null)
	}
	if c.think != "" && r.body.showsThinking() {
		r.think(m, c.think)
	}
	return m
}

// chatStream is a streamed reply.
type chatStream struct {
	chatReply
	opened map[int]bool
}

func (r *chatStream) event(ev event) error {
	if !r.opened[ev.choice] {
		if err := r.open(ev); err != nil {
			return err
		}
	}
	delta := r.delta(ev)
	if delta == nil {
		if ev.finish == "" {
			return nil
		}
		delta = &chatContent{}
	}
	return r.chunk(ev, delta)
}

// open sends the chunk that names the role, before the first of a choice.
func (r *chatStream) open(ev event) error {
	if r.opened == nil {
		r.opened = map[int]bool{}
	}
	r.opened[ev.choice] = true
	role := &chatContent{Role: "assistant", Content: ""}
	if !r.form.vllm {
		role.Content = null
	}
	return r.chunk(event{choice: ev.choice, usage: usage{prompt: ev.usage.prompt, cached: ev.usage.cached}}, role)
}

// delta returns what the event adds to the message, or nil if nothing.
func (r *chatStream) delta(ev event) *chatContent {
	switch ev.kind {
	case stepThink:
		if r.body.showsThinking() {
			out := &chatContent{}
			r.think(out, ev.text)
			return out
		}
	case stepText:
		return &chatContent{Content: ev.text}
	case stepCallOpen:
		return &chatContent{ToolCalls: []toolCall{{
			ID: r.form.idPrefix + ev.id, Index: &ev.call, Type: "function", Function: functionCall{Name: ev.tool.name},
		}}}
	case stepCallArgs:
		return &chatContent{ToolCalls: []toolCall{{Index: &ev.call, Function: functionCall{Arguments: ev.text}}}}
	case stepEnd:
		if r.form.vllm {
			return &chatContent{Content: ""}
		}
	}
	return nil
}

func (r *chatStream) chunk(ev event, delta *chatContent) error {
	var lp *logprobsWire
	if r.body.Logprobs && ev.kind == stepText && ev.text != "" {
		lp = logprobsOf([]string{ev.text}, r.body.TopLogprobs)
	}
	out := r.envelope(r.choice(ev.choice, nil, delta, lp, ev.finish, ev.stop))
	if o := r.body.StreamOptions; o != nil && o.ContinuousUsage && r.form.vllm {
		out.Usage = r.x.s.usageOf(ev.usage)
	}
	return r.x.event(out)
}

func (r *chatStream) envelope(choices ...any) chatChunk {
	if choices == nil {
		choices = []any{}
	}
	return chatChunk{
		ID: r.id, Object: "chat.completion.chunk", Created: r.made, Model: r.job.model.Name, Choices: choices,
	}
}

func (r *chatStream) end(u usage) error {
	if o := r.body.StreamOptions; o != nil && o.IncludeUsage {
		out := r.envelope()
		out.Usage = r.x.s.usageOf(u)
		if !r.form.vllm {
			out.Timings = timingsOf(u)
		}
		if err := r.x.event(out); err != nil {
			return err
		}
	}
	return r.x.write([]byte(sseDone))
}
