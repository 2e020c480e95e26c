package simbackend

import (
	"encoding/json"
	"net/http"
	"time"
)

// completionBody is the body of a plain completion.
type completionBody struct {
	Model  string     `json:"model"`
	Prompt promptList `json:"prompt"`
	Suffix *string    `json:"suffix"`
	Echo   bool       `json:"echo"`
	sampling
}

// promptList is text in one of four forms: a string, several, a list of tokens, several of those.
type promptList struct {
	texts  []string
	tokens [][]int
}

func (p *promptList) UnmarshalJSON(data []byte) error {
	var text string
	var ids []int
	switch {
	case string(data) == "null":
		return nil
	case json.Unmarshal(data, &text) == nil:
		p.texts = []string{text}
		return nil
	case json.Unmarshal(data, &p.texts) == nil:
		return nil
	case json.Unmarshal(data, &ids) == nil:
		p.texts, p.tokens = nil, [][]int{ids}
		return nil
	}
	p.texts = nil
	return json.Unmarshal(data, &p.tokens)
}

// resolve returns the prompts as text.
func (p *promptList) resolve(v *vocabulary) []string {
	texts := p.texts
	for _, ids := range p.tokens {
		texts = append(texts, v.decode(ids))
	}
	return texts
}

// defaultCompletionTokens is max_tokens of a plain completion that names none.
const defaultCompletionTokens = 16

func (s *Server) completions(x *exchange, vllm bool) {
	var body completionBody
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.refuse(badBody(err))
		return
	}
	jobs, no := s.completionJobs(&body, vllm)
	if no != nil {
		x.refuse(no)
		return
	}
	x.wantsStream = body.Stream
	reply := completionReply{
		x: x, body: &body, jobs: jobs, vllm: vllm, id: "cmpl-" + s.newID(), made: time.Now().Unix(),
	}
	if body.Stream {
		s.play(x, jobs, &completionStream{completionReply: reply})
		return
	}
	s.play(x, jobs, &completionWhole{completionReply: reply})
}

func (s *Server) completionJobs(body *completionBody, vllm bool) ([]*job, *refusal) {
	m := s.model(body.Model)
	if m == nil {
		return nil, noModel(body.Model)
	}
	bad := func(param, text string) *refusal {
		no := refuse(http.StatusBadRequest, "%s", text)
		no.param = param
		return no
	}
	prompts := body.Prompt.resolve(s.vocab)
	switch {
	case !m.Can(CapChat):
		return nil, refuse(http.StatusBadRequest, "The model does not support Completions API")
	case len(prompts) == 0:
		return nil, bad("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	case body.Suffix != nil && *body.Suffix != "" && vllm:
		return nil, bad("suffix", "suffix is not currently supported")
	}
	if vllm {
		if no := body.sampling.check(bad); no != nil {
			return nil, no
		}
	}
	var jobs []*job
	for _, text := range prompts {
		j := body.sampling.job(m)
		if body.MaxTokens == nil {
			j.maxTokens = defaultCompletionTokens
		}
		j.raw, j.turns = true, []turn{{role: "user", text: text}}
		j.measure(m.Context)
		if j.room < 1 {
			return nil, tooLong(m, j.tokens)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

type completionReply struct {
	x    *exchange
	body *completionBody
	jobs []*job
	vllm bool
	id   string
	made int64
}

// completionWire is a whole completion or one event of a streamed one.
type completionWire struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *usageWire         `json:"usage,omitempty"`
}

type completionChoice struct {
	Index        int             `json:"index"`
	Text         string          `json:"text"`
	Logprobs     json.RawMessage `json:"logprobs"`
	FinishReason *finishReason   `json:"finish_reason"`
	StopReason   any             `json:"stop_reason,omitempty"`
}

func (r *completionReply) envelope(choices ...completionChoice) completionWire {
	if choices == nil {
		choices = []completionChoice{}
	}
	return completionWire{
		ID: r.id, Object: "text_completion", Created: r.made, Model: r.jobs[0].model.Name, Choices: choices,
	}
}

func (r *completionReply) choice(index int, text string, finish finishReason, stop string) completionChoice {
	c := completionChoice{Index: index, Text: text}
	if finish != "" {
		c.FinishReason = &finish
	}
	if r.vllm {
		c.StopReason = null
		if stop != "" {
			c.StopReason = stop
		}
	}
	return c
}

// echo returns the prompt of a choice if it is to be repeated.
func (r *completionReply) echo(index int) string {
	if !r.body.Echo {
		return ""
	}
	return r.jobs[index/max(r.jobs[0].n, 1)].turns[0].text
}

type completionWhole struct {
	completionReply
	collector
}

func (r *completionWhole) end(u usage) error {
	out := r.envelope()
	for i, c := range r.choices {
		out.Choices = append(out.Choices, r.choice(i, r.echo(i)+c.text, c.finish, c.stop))
	}
	out.Usage = r.x.s.usageOf(u)
	return r.x.reply(200, out)
}

type completionStream struct {
	completionReply
	opened map[int]bool
}

func (r *completionStream) event(ev event) error {
	text := ev.text
	if !r.opened[ev.choice] {
		if r.opened == nil {
			r.opened = map[int]bool{}
		}
		r.opened[ev.choice] = true
		text = r.echo(ev.choice) + text
	}
	out := r.envelope(r.choice(ev.choice, text, ev.finish, ev.stop))
	if o := r.body.StreamOptions; o != nil && o.ContinuousUsage && r.vllm {
		out.Usage = r.x.s.usageOf(ev.usage)
	}
	return r.x.event(out)
}

func (r *completionStream) end(u usage) error {
	if o := r.body.StreamOptions; o != nil && o.IncludeUsage {
		out := r.envelope()
		out.Usage = r.x.s.usageOf(u)
		if err := r.x.event(out); err != nil {
			return err
		}
	}
	return r.x.write([]byte(sseDone))
}
