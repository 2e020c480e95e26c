package simbackend

import (
	"encoding/json"
	"net/http"
	"time"
)

func (s *Server) ollamaChat(x *exchange) {
	var b ollamaBody
	if no := ollamaDecode(x, &b); no != nil {
		x.refuse(no)
		return
	}
	reply := ollamaReply{x: x, model: b.Model, chat: true}
	m := s.ollamaModel(b.Model)
	if m == nil {
		x.refuse(ollamaMissing(b.Model))
		return
	}
	if len(b.Messages) == 0 && b.KeepAlive != nil && b.KeepAlive.Duration == 0 {
		reply.unload(m)
		return
	}
	j, no := s.ollamaJob(&b, m, "chat")
	if no != nil {
		x.refuse(no)
		return
	}
	if len(b.Messages) == 0 {
		reply.load(j)
		return
	}
	for _, msg := range b.Messages {
		t, no := msg.turn(m)
		if no != nil {
			x.refuse(no)
			return
		}
		j.turns = append(j.turns, t)
	}
	if no := b.fit(j); no != nil {
		x.refuse(no)
		return
	}
	reply.run(&b, j)
}

func (s *Server) ollamaGenerate(x *exchange) {
	var b ollamaBody
	if no := ollamaDecode(x, &b); no != nil {
		x.refuse(no)
		return
	}
	reply := ollamaReply{x: x, model: b.Model, context: !b.Raw}
	m := s.ollamaModel(b.Model)
	if m == nil {
		x.refuse(ollamaMissing(b.Model))
		return
	}
	if b.Prompt == "" && b.KeepAlive != nil && b.KeepAlive.Duration == 0 {
		reply.unload(m)
		return
	}
	if b.Raw && (b.Template != "" || b.System != "" || len(b.Context) > 0) {
		x.refuse(refuse(http.StatusBadRequest, "raw mode does not support template, system, or context"))
		return
	}
	b.Messages, b.Tools = nil, nil
	j, no := s.ollamaJob(&b, m, "generate")
	if no != nil {
		x.refuse(no)
		return
	}
	if b.Prompt == "" {
		reply.load(j)
		return
	}
	if len(b.Context) > 0 {
		j.turns = append(j.turns, turn{role: "context", text: s.vocab.decode(b.Context)})
	}
	if b.System != "" {
		j.turns = append(j.turns, turn{role: "system", text: b.System})
	}
	images, no := ollamaImages(b.Images, m)
	if no == nil {
		j.raw = b.Raw
		j.turns = append(j.turns, turn{role: "user", text: b.Prompt, images: images})
		no = b.fit(j)
	}
	if no != nil {
		x.refuse(no)
		return
	}
	reply.run(&b, j)
}

// ollamaReply writes the reply of /api/chat or /api/generate.
type ollamaReply struct {
	x       *exchange
	model   string // as the client wrote it
	chat    bool
	context bool // the last line has the tokens of the conversation
	job     *job
	written string
}

func (r ollamaReply) run(b *ollamaBody, j *job) {
	r.job = j
	r.x.wantsStream = b.streams()
	if r.x.wantsStream {
		r.x.s.play(r.x, []*job{j}, &ollamaStream{ollamaReply: r})
		return
	}
	r.x.s.play(r.x, []*job{j}, &ollamaWhole{ollamaReply: r})
}

// load answers a request without a prompt, which has the model loaded.
func (r ollamaReply) load(j *job) {
	r.x.s.hold(r.x, j, func(usage) error { return r.x.reply(200, r.line("", "", nil, "load")) })
}

func (r ollamaReply) unload(m *Model) {
	r.x.s.engine.unload(m.Name)
	_ = r.x.reply(200, r.line("", "", nil, "unload"))
}

// ollamaLine is one object of a reply. Ollama leaves out what is zero.
type ollamaLine struct {
	Model      string         `json:"model"`
	CreatedAt  time.Time      `json:"created_at"`
	Message    *ollamaContent `json:"message,omitempty"`  // chat
	Response   *string        `json:"response,omitempty"` // generate
	Thinking   string         `json:"thinking,omitempty"` // generate
	Done       bool           `json:"done"`
	DoneReason string         `json:"done_reason,omitempty"`
	Context    []int          `json:"context,omitempty"`

	TotalDuration      time.Duration `json:"total_duration,omitempty"`
	LoadDuration       time.Duration `json:"load_duration,omitempty"`
	PromptEvalCount    int           `json:"prompt_eval_count,omitempty"`
	PromptEvalDuration time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount          int           `json:"eval_count,omitempty"`
	EvalDuration       time.Duration `json:"eval_duration,omitempty"`
}

type ollamaContent struct {
	Role      string       `json:"role"`
	Content   string       `json:"content"`
	Thinking  string       `json:"thinking,omitempty"`
	ToolCalls []ollamaCall `json:"tool_calls,omitempty"`
}

type ollamaCall struct {
	ID       string `json:"id"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// line is one object of the reply; done is the reason if it is the last.
func (r *ollamaReply) line(text, think string, calls []ollamaCall, done string) *ollamaLine {
	out := &ollamaLine{Model: r.model, CreatedAt: time.Now().UTC(), Done: done != "", DoneReason: done}
	if r.chat {
		out.Message = &ollamaContent{Role: "assistant", Content: text, Thinking: think, ToolCalls: calls}
		return out
	}
	out.Response, out.Thinking = &text, think
	return out
}

// last completes the object that ends a reply.
func (r *ollamaReply) last(out *ollamaLine, u usage) *ollamaLine {
	out.TotalDuration, out.LoadDuration = u.total, u.load
	out.PromptEvalCount, out.PromptEvalDuration = u.prompt, u.prefill
	out.EvalCount, out.EvalDuration = u.completion, u.decode
	if r.context {
		out.Context = r.x.s.vocab.encode(r.job.prompt() + r.written)
	}
	return out
}

func newOllamaCall(ev event) ollamaCall {
	out := ollamaCall{ID: "call_" + ev.id[:8]}
	out.Function.Index, out.Function.Name = ev.call, ev.tool.name
	out.Function.Arguments = json.RawMessage(ev.tool.args)
	return out
}

func doneReason(f finishReason) string {
	if f == finishLength {
		return "length"
	}
	return "stop"
}

type ollamaStream struct {
	ollamaReply
	done string
}

func (r *ollamaStream) event(ev event) error {
	if ev.finish != "" {
		r.done = doneReason(ev.finish)
	}
	switch ev.kind {
	case stepThink:
		return r.x.event(r.line("", ev.text, nil, ""))
	case stepText:
		r.written += ev.text
		return r.x.event(r.line(ev.text, "", nil, ""))
	case stepCallDone:
		return r.x.event(r.line("", "", []ollamaCall{newOllamaCall(ev)}, ""))
	}
	return nil
}

func (r *ollamaStream) end(u usage) error {
	return r.x.event(r.last(r.line("", "", nil, r.done), u))
}

type ollamaWhole struct {
	ollamaReply
	collector
	whole []ollamaCall // the calls that are complete
}

func (r *ollamaWhole) event(ev event) error {
	if ev.kind == stepCallDone {
		r.whole = append(r.whole, newOllamaCall(ev))
	}
	return r.collector.event(ev)
}

func (r *ollamaWhole) end(u usage) error {
	c := r.choices[0]
	r.written = c.text
	return r.x.reply(200, r.last(r.line(c.text, c.think, r.whole, doneReason(c.finish)), u))
}
