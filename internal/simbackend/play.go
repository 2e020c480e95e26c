package simbackend

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

// encoder turns events into a reply. One exchange has one encoder.
type encoder interface {
	// event is called for each event, in order.
	event(ev event) error
	// end is called once, after the last choice has ended.
	end(u usage) error
}

// event is a token of one choice, or the end of something. The event that ends a choice has its finish reason set.
type event struct {
	step
	choice int
	id     string // of the call, in hex, for the kinds that belong to one
	tool   call   // stepCallOpen: the name; stepCallDone: the whole call
	finish finishReason
	stop   string // the stop string that ended the choice
	usage  usage  // so far
}

// These kinds of events are no tokens.
const (
	stepCallDone stepKind = iota + 100 // a call is complete
	stepEnd                            // the choice has ended without a further token
)

// usage counts the tokens of a reply and the time that its parts took.
type usage struct {
	prompt, cached, completion, thinking int

	total, load, queue, prefill, decode time.Duration
}

// play carries out one or several jobs as one request: their choices run side by side in one slot and are numbered
// through. It answers completely, errors included, and records how it went.
func (s *Server) play(x *exchange, jobs []*job, enc encoder) {
	p := player{s: s, x: x, enc: enc, first: jobs[0]}
	for _, j := range jobs {
		p.usage.prompt += j.tokens
		for i := range max(j.n, 1) {
			p.choices = append(p.choices, &choice{script: compose(s.cfg.Seed, i, j, j.room)})
		}
	}
	x.note(p.first, p.usage.prompt)
	err := p.run(jobs)
	if errors.Is(err, errQueueFull) {
		x.refuse(refuse(http.StatusServiceUnavailable, "%s", err))
	}
}

// note records what was understood of the request.
func (x *exchange) note(j *job, promptTokens int) {
	x.s.recorder.update(x.record, func(q *Request) {
		q.Model, q.Stream, q.PromptTokens = j.model.Name, x.wantsStream, promptTokens
	})
}

// player is a reply in the making.
type player struct {
	s       *Server
	x       *exchange
	enc     encoder
	first   *job
	choices []*choice
	usage   usage
	lease   *lease
	arrived time.Time
	last    time.Time // of the last token
}

type choice struct {
	script
	at    int
	ids   []string
	ended bool
}

func (p *player) run(jobs []*job) error {
	p.arrived = time.Now()
	// With a limit the status is not known before the request has got its place.
	if p.s.dialect.eager && p.x.wantsStream && p.s.cfg.QueueLimit <= 0 {
		p.x.begin()
	}
	lease, err := p.s.engine.admit(p.x.ctx, p.first.demand)
	if err != nil {
		return err
	}
	defer lease.release()
	p.lease = lease
	if err := p.x.strike(AfterHeaders, 0); err != nil {
		return err
	}
	if err := p.read(jobs); err != nil {
		return err
	}
	for open := len(p.choices); open > 0; {
		if err := lease.pace(p.x.ctx, p.x.slow, open); err != nil {
			return err
		}
		for i, c := range p.choices {
			if c.ended {
				continue
			}
			if err := p.advance(i, c); err != nil {
				return err
			}
			if c.ended {
				open--
			}
		}
	}
	return p.close()
}

// read reads the prompts.
func (p *player) read(jobs []*job) error {
	for _, j := range jobs {
		p.usage.cached += p.s.prefixes.visit(j.model.Name, j.cacheSalt, j.prompt())
	}
	p.s.recorder.update(p.x.record, func(q *Request) { q.CachedTokens = p.usage.cached })
	p.s.metrics.prompt(p.first.model.Name, p.usage)
	return p.lease.prefill(p.x.ctx, p.usage.prompt, p.usage.prompt-p.usage.cached)
}

// advance emits the next token of a choice, and its end with or after the last.
func (p *player) advance(i int, c *choice) error {
	if err := p.x.strike(AfterTokens, p.usage.completion); err != nil {
		return err
	}
	if c.at == len(c.steps) {
		return p.finish(i, c, event{step: step{kind: stepEnd}})
	}
	ev := event{step: c.steps[c.at]}
	c.at++
	p.token(ev.kind)
	if ev.kind == stepCallOpen || ev.kind == stepCallArgs {
		if ev.kind == stepCallOpen {
			c.ids = append(c.ids, p.s.newID())
		}
		ev.id, ev.tool = c.ids[ev.call], c.calls[ev.call]
		ev.tool.args = ""
	}
	if c.at == len(c.steps) && c.finish == finishLength {
		return p.finish(i, c, ev)
	}
	if err := p.emit(i, ev); err != nil {
		return err
	}
	if callEnds(c) {
		done := event{step: step{kind: stepCallDone, call: ev.call}, id: ev.id, tool: c.calls[ev.call]}
		if err := p.emit(i, done); err != nil {
			return err
		}
	}
	if c.at == len(c.steps) {
		// The token that ends the text is not shown; it costs no step of its own here.
		return p.finish(i, c, event{step: step{kind: stepEnd}})
	}
	return nil
}

// callEnds reports whether the token just emitted was the last of a call.
func callEnds(c *choice) bool {
	now := c.steps[c.at-1]
	if now.kind != stepCallArgs {
		return false
	}
	if c.at == len(c.steps) {
		return c.finish == finishCalls
	}
	next := c.steps[c.at]
	return next.kind != stepCallArgs || next.call != now.call
}

// finish emits the event that ends a choice. A fault that is still to come strikes before.
func (p *player) finish(i int, c *choice, ev event) error {
	if err := p.x.strike(AfterTokens, math.MaxInt); err != nil {
		return err
	}
	c.ended = true
	ev.finish, ev.stop = c.finish, c.stop
	return p.emit(i, ev)
}

func (p *player) emit(i int, ev event) error {
	ev.choice = i
	ev.usage = p.usage
	return p.enc.event(ev)
}

// token counts a token that is about to be sent.
func (p *player) token(kind stepKind) {
	now := time.Now()
	p.usage.completion++
	if kind == stepThink {
		p.usage.thinking++
	}
	p.s.metrics.token(p.first.model.Name, p.usage.completion == 1, now.Sub(p.arrived), now.Sub(p.last))
	p.last = now
	p.s.recorder.update(p.x.record, func(q *Request) { q.Tokens = p.usage.completion })
}

func (p *player) close() error {
	now := time.Now()
	p.usage.total = now.Sub(p.arrived)
	p.usage.load = p.lease.loaded
	p.usage.queue = p.lease.started.Sub(p.arrived)
	p.usage.prefill = p.lease.read.Sub(p.lease.started)
	p.usage.decode = now.Sub(p.lease.read)
	for _, c := range p.choices {
		p.s.metrics.done(p.first.model.Name, c.finish)
	}
	p.s.metrics.times(p.first.model.Name, p.usage)
	return p.enc.end(p.usage)
}

// newID returns 32 hex digits that are unique in the server and depend on the seed and the order of calls only.
func (s *Server) newID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", s.cfg.Seed, s.ids.Add(1)))
	return hex.EncodeToString(sum[:16])
}

// hold runs a request that has no text to write: it takes a slot, reads tokens tokens and then calls answer.
func (s *Server) hold(x *exchange, j *job, answer func(u usage) error) {
	x.note(j, j.tokens)
	err := func() error {
		arrived := time.Now()
		lease, err := s.engine.admit(x.ctx, j.demand)
		if err != nil {
			return err
		}
		defer lease.release()
		if err := x.strike(AfterHeaders, 0); err != nil {
			return err
		}
		u := usage{prompt: j.tokens}
		s.metrics.prompt(j.model.Name, u)
		if err := lease.prefill(x.ctx, j.tokens, j.tokens); err != nil {
			return err
		}
		if err := x.strike(AfterTokens, math.MaxInt); err != nil {
			return err
		}
		u.total, u.load = time.Since(arrived), lease.loaded
		s.metrics.done(j.model.Name, finishStop)
		return answer(u)
	}()
	if errors.Is(err, errQueueFull) {
		x.refuse(refuse(http.StatusServiceUnavailable, "%s", err))
	}
}

// collector gathers the events of a reply that is not streamed.
type collector struct {
	choices []*collected
}

type collected struct {
	think, text string
	calls       []call
	tokens      []string // of the text
	finish      finishReason
	stop        string
}

func (c *collector) event(ev event) error {
	for len(c.choices) <= ev.choice {
		c.choices = append(c.choices, &collected{})
	}
	out := c.choices[ev.choice]
	switch ev.kind {
	case stepThink:
		out.think += ev.text
	case stepText:
		out.text += ev.text
		out.tokens = append(out.tokens, ev.text)
	case stepCallOpen:
		out.calls = append(out.calls, call{id: ev.id, name: ev.tool.name})
	case stepCallArgs:
		out.calls[ev.call].args += ev.text
	}
	if ev.finish != "" {
		out.finish, out.stop = ev.finish, ev.stop
	}
	return nil
}
