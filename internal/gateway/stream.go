package gateway

import (
	"context"
	"encoding/json"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/scheduler"
)

// Stream is an answer that has begun. It is used by one goroutine.
type Stream struct {
	run   *run
	up    *upstream
	req   *llm.Request
	began time.Time

	acc      llm.Accumulator
	open     map[int]llm.Event // the block start of the open block of each choice
	produced int               // bytes of text delivered, for top-ups and estimates
	reported bool
	err      error
	done     bool
	closed   bool
}

// Facts tells how the request went so far.
func (s *Stream) Facts() Facts {
	return s.run.facts()
}

// Events yields the answer. An error ends it; what was delivered before counts.
func (s *Stream) Events(ctx context.Context) llm.Stream {
	return func(yield func(llm.Event, error) bool) {
		for ev, err := range s.pull(ctx) {
			if err != nil {
				s.err = classify(ctx, err)
				if blamesBackend(err) && ctx.Err() == nil {
					s.run.g.cfg.Fleet.Failed(s.run.lease.Backend().ID)
					s.run.attempts[len(s.run.attempts)-1].Outcome = "error"
					s.run.attempts[len(s.run.attempts)-1].Error = string(llm.CodeOf(err))
				}
				yield(llm.Event{}, s.err)
				return
			}
			s.acc.Add(ev)
			s.follow(ev)
			s.produced += len(ev.Text)
			s.run.lease.Charge(s.produced / bytesPerToken)
			s.reported = s.reported || ev.Usage != nil
			if !yield(ev, nil) {
				return
			}
			if !s.topUp() {
				s.cut(yield)
				return
			}
		}
		s.end()
	}
}

// end notes that the backend has answered to the end. The slot is free from here on, however slowly the client reads.
func (s *Stream) end() {
	s.done = true
	s.run.g.cfg.Fleet.Succeeded(s.run.lease.Backend().ID)
	s.run.lease.Release(scheduler.Actual{Usage: s.usage(s.acc.Response())})
}

// pull yields the head and then what the backend sends.
func (s *Stream) pull(context.Context) llm.Stream {
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range s.up.head {
			if !yield(ev, nil) {
				return
			}
		}
		for {
			s.up.watch.resume()
			ev, err, ok := s.up.next()
			s.up.watch.pause()
			if !ok {
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// topUpTokens is the step by which an answer without explicit bound extends its reservation.
const topUpTokens = 4096

// bytesPerToken is how many bytes of text a token has on average; it is used only until the backend reports.
const bytesPerToken = 4

// topUp extends the reservation when the answer outgrows it, and reports whether there was room.
func (s *Stream) topUp() bool {
	if s.run.explicit { // the backend keeps the bound
		return true
	}
	reserved := s.run.reservation.Tokens() - s.run.input
	if s.produced/bytesPerToken < reserved {
		return true
	}
	return s.run.reservation.Extend(topUpTokens)
}

// follow keeps track of the open blocks, so that cut can close them.
func (s *Stream) follow(ev llm.Event) {
	switch ev.Kind {
	case llm.EventBlockStart:
		if s.open == nil {
			s.open = map[int]llm.Event{}
		}
		s.open[ev.Choice] = ev
	case llm.EventBlockStop:
		delete(s.open, ev.Choice)
	}
}

// cut ends the answer because the budget is spent: as if it had reached its bound.
func (s *Stream) cut(yield func(llm.Event, error) bool) {
	for choice, c := range s.acc.Response().Choices {
		if c.StopReason != "" {
			continue
		}
		var last []llm.Event
		if start, ok := s.open[choice]; ok {
			last = append(last, llm.Event{Kind: llm.EventBlockStop, Choice: choice, Index: start.Index, Block: start.Block})
		}
		last = append(last, llm.Event{Kind: llm.EventStop, Choice: choice, StopReason: llm.StopMaxTokens})
		for _, ev := range last {
			s.acc.Add(ev)
			if !yield(ev, nil) {
				return
			}
		}
	}
	s.done = true
}

// Close ends the upstream call if it still runs, settles, releases and records. The caller must call it.
func (s *Stream) Close(ctx context.Context) {
	if s.closed {
		return
	}
	s.closed = true
	s.up.stop()
	resp := s.acc.Response()
	e := end{
		err: s.err, answered: true, usage: s.usage(resp), response: resp,
		firstToken: s.began.Sub(s.run.meta.Arrived),
	}
	if e.err == nil && !s.done {
		e.err = cancelled(ctx)
	}
	if len(resp.Choices) > 0 {
		e.stop = resp.Choices[0].StopReason
	}
	if s.run.counted && s.reported && s.done {
		s.run.g.cfg.Counter.Learn(s.run.model, s.run.input, resp.Usage.Input)
	}
	if s.run.keepsContent() {
		e.content = contentOfResponse(resp)
	}
	s.run.finish(ctx, e)
}

// usage is what the backend reported, or our estimate of what was delivered.
func (s *Stream) usage(resp *llm.Response) llm.Usage {
	u := resp.Usage
	if s.reported && s.done && !u.Estimated {
		return u
	}
	if u.Input == 0 {
		u.Input = s.run.input
	}
	u.Output = max(u.Output, (s.produced+bytesPerToken-1)/bytesPerToken)
	u.Estimated = true
	return u
}

func contentOf(req *llm.Request) func() json.RawMessage {
	return func() json.RawMessage {
		return marshal(struct {
			Prompt   *llm.RawPrompt `json:"prompt,omitempty"`
			Messages []llm.Message  `json:"messages,omitempty"`
			Tools    []llm.Tool     `json:"tools,omitempty"`
		}{req.Raw, req.Messages, req.Tools})
	}
}

func contentOfResponse(resp *llm.Response) json.RawMessage {
	return marshal(struct {
		Choices []llm.Choice `json:"choices"`
	}{resp.Choices})
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`{"unrecordable":true}`) // a tool argument that is not JSON
	}
	return b
}
