package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/scheduler"
	"mindrouter/internal/tokens"
)

// Tokens of what is no text. Limits and budgets are in tokens, so sounds and images are counted in them, too: before the
// call, to reserve, and after it where the backend counts in another unit or not at all. Such counts are marked as
// estimates in the record.
const (
	// soundTokens is how many tokens a second of sound is: the positions of Whisper's encoder, 1,500 for 30 seconds.
	soundTokens = 50
	// spokenTokens is how many tokens of text a second of speech has: 150 words a minute, and a margin.
	spokenTokens = 4
	// spokenCharacters is how many characters are spoken in a second.
	spokenCharacters = 15
	// compressedRate is how many bytes of a compressed sound make a second: 128 kbit/s. A sound of lower rate is longer
	// than that and costs more than was reserved; what counts in the end is what the backend reports.
	compressedRate = 16_000
	// patch is the side of the square, in pixels, that counts as a token of an image; one of no stated size has
	// defaultSide squared pixels.
	patch        = 32
	defaultSide  = 1024
	defaultImage = (defaultSide / patch) * (defaultSide / patch)
	// partialTokens is what each step on the way to an image costs.
	partialTokens = 100
)

// SpeechCall is a request of a known caller for a text to be spoken.
type SpeechCall struct {
	Principal identity.Principal
	Request   *llm.SpeechRequest
	Notes     []llm.Note
	Meta      Meta
}

// TranscriptionCall is a request of a known caller for the text of a sound. The file must be readable until the stream is
// closed.
type TranscriptionCall struct {
	Principal identity.Principal
	Request   *llm.TranscriptionRequest
	Notes     []llm.Note
	Meta      Meta
}

// ImageCall is a request of a known caller for images. The files must be readable until the stream is closed.
type ImageCall struct {
	Principal identity.Principal
	Request   *llm.ImageRequest
	Notes     []llm.Note
	Meta      Meta
}

// Speak has a text spoken. It returns when the answer has begun; the caller consumes the stream and closes it. Errors are
// *llm.Error, or the cause of the context's end.
func (g *Gateway) Speak(ctx context.Context, call SpeechCall) (*MediaStream, error) {
	req := call.Request
	r := g.newRun(call.Principal, call.Meta, req.Model, call.Notes)
	r.stream = req.Stream
	return media{
		need: llm.CapSpeech, input: textTokens(req.Input + req.Instructions), output: speechTokens(req), content: req,
		call: func(ctx context.Context, t target) (*backend.MediaAnswer, error) {
			sent := *req
			sent.Model = t.model.Name
			return t.client.Speak(ctx, &sent, t.model)
		},
		losses: func(head llm.MediaEvent) []llm.Note {
			if head.AudioFormat == "" || head.AudioFormat == req.Format {
				return nil
			}
			return []llm.Note{{Field: "response_format", What: "changed", Detail: head.AudioFormat, Semantic: true}}
		},
	}.serve(ctx, r)
}

// Transcribe has a sound written down, as Speak has a text spoken.
func (g *Gateway) Transcribe(ctx context.Context, call TranscriptionCall) (*MediaStream, error) {
	req := call.Request
	r := g.newRun(call.Principal, call.Meta, req.Model, call.Notes)
	r.stream = req.Stream
	seconds := soundSeconds(req.File)
	return media{
		need: llm.CapTranscription, input: textTokens(req.Prompt) + count(seconds*soundTokens), output: count(seconds * spokenTokens),
		content: req,
		call: func(ctx context.Context, t target) (*backend.MediaAnswer, error) {
			sent := *req
			sent.Model = t.model.Name
			return t.client.Transcribe(ctx, &sent, t.model)
		},
	}.serve(ctx, r)
}

// Draw has images made or changed, as Speak has a text spoken.
func (g *Gateway) Draw(ctx context.Context, call ImageCall) (*MediaStream, error) {
	req := call.Request
	r := g.newRun(call.Principal, call.Meta, req.Model, call.Notes)
	r.stream = req.Stream
	return media{
		need: llm.CapImage, input: textTokens(req.Prompt) + len(req.Images)*defaultImage, output: images(req) * imageTokens(req),
		content: req,
		call: func(ctx context.Context, t target) (*backend.MediaAnswer, error) {
			sent := *req
			sent.Model = t.model.Name
			return t.client.Draw(ctx, &sent, t.model)
		},
	}.serve(ctx, r)
}

func textTokens(text string) int {
	return tokens.EstimateInputs(&llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: text}}})
}

func count(x float64) int { return int(math.Ceil(x)) }

func speechTokens(r *llm.SpeechRequest) int {
	seconds := float64(utf8.RuneCountInString(r.Input)) / spokenCharacters
	if r.Speed != nil {
		seconds /= *r.Speed
	}
	return count(seconds * soundTokens)
}

func soundSeconds(f llm.File) float64 {
	if f.Duration > 0 {
		return f.Duration.Seconds()
	}
	return float64(f.Size) / compressedRate
}

func images(r *llm.ImageRequest) int {
	if r.N == nil {
		return 1
	}
	return *r.N
}

// imageTokens is what one image costs.
func imageTokens(r *llm.ImageRequest) int {
	width, height := defaultSide, defaultSide
	if w, h, ok := strings.Cut(r.Size, "x"); ok {
		if n, err := strconv.Atoi(w); err == nil && n > 0 {
			width = n
		}
		if n, err := strconv.Atoi(h); err == nil && n > 0 {
			height = n
		}
	}
	n := ((width + patch - 1) / patch) * ((height + patch - 1) / patch)
	if r.PartialImages != nil {
		n += *r.PartialImages * partialTokens
	}
	return n
}

// media is a call for speech, a transcript or images. It takes the same steps as Generate.
type media struct {
	need          llm.Capability
	input, output int // estimated tokens
	content       any // what is recorded of the request; files are not part of it
	call          func(ctx context.Context, t target) (*backend.MediaAnswer, error)
	// losses tells by its first event what of an answer is not as asked; nil for nothing.
	losses func(head llm.MediaEvent) []llm.Note
}

func (m media) serve(ctx context.Context, r *run) (*MediaStream, error) {
	if err := r.resolve(ctx); err != nil {
		return nil, r.refuse(ctx, err)
	}
	r.need.Capabilities = []llm.Capability{m.need}
	r.input, r.maxTokens, r.estimated = m.input, m.output, true
	if err := r.reserve(ctx, m.input+m.output); err != nil {
		return nil, r.refuse(ctx, err)
	}
	if err := r.begin(ctx, func() json.RawMessage { return marshal(m.content) }); err != nil {
		return nil, err
	}
	up, err := attempt(ctx, r, func(ctx context.Context, t target) (*mediaUpstream, error) { return m.open(ctx, r, t) })
	if errors.Is(err, backend.ErrUnsupported) {
		err = llm.Errorf(llm.CodeUnsupported, "The model does not support %s.", capabilityWords(m.need)).With(err)
	}
	if err != nil {
		return nil, r.fail(ctx, err)
	}
	return &MediaStream{run: r, media: m, up: up, began: time.Now()}, nil
}

// mediaUpstream is an answer that has begun. Head is its first semantic event.
type mediaUpstream struct {
	head  llm.MediaEvent
	next  func() (llm.MediaEvent, error, bool)
	stop  func()
	watch *watchdog
}

// open calls the backend and pulls until the first semantic event. Until then nothing has reached the client, so a
// failure may be tried elsewhere.
func (m media) open(ctx context.Context, r *run, t target) (*mediaUpstream, error) {
	retry := r.view.Settings().Retry
	ctx, watch := newWatchdog(ctx, retry.FirstOutput, retry.Idle)
	watch.wait(errFirstOutput)
	answer, err := m.call(ctx, t)
	if err != nil {
		watch.close()
		return nil, err
	}
	next, stop := iter.Pull2(answer.Events)
	up := &mediaUpstream{next: next, stop: func() { stop(); answer.Close(); watch.close() }, watch: watch}
	for {
		ev, err, ok := next()
		if err == nil && !ok {
			err = &llm.Error{Code: llm.CodeUpstream, Message: "The model server sent an empty answer."}
		}
		if err != nil {
			up.stop()
			return nil, err
		}
		if ev.Semantic() {
			watch.pause()
			up.head = ev
			break
		}
	}
	if m.losses == nil {
		return up, nil
	}
	notes := m.losses(up.head)
	if r.meta.Strict {
		if err := refuseLosses(notes); err != nil {
			up.stop()
			return nil, err
		}
	}
	r.notes = append(r.notes, notes...)
	return up, nil
}

// MediaStream is an answer of media that has begun. It is used by one goroutine.
type MediaStream struct {
	run   *run
	media media
	up    *mediaUpstream
	began time.Time

	last     llm.MediaUsage // what the backend reported
	reported bool
	bytes    int // of text, delivered
	sound    int // bytes
	images   int
	text     *string // the whole transcript
	err      error
	done     bool
	closed   bool
}

// Facts tells how the request went so far.
func (s *MediaStream) Facts() Facts {
	return Facts{
		Backend: string(s.run.lease.Backend().ID), Model: s.run.lease.Model().Name, Queue: s.run.queue, Notes: s.run.notes,
	}
}

// First is the first event of the answer, which Events yields again.
func (s *MediaStream) First() llm.MediaEvent { return s.up.head }

// Events yields the answer. An error ends it; what was delivered before counts.
func (s *MediaStream) Events(ctx context.Context) llm.MediaStream {
	return func(yield func(llm.MediaEvent, error) bool) {
		ev, err, ok := s.up.head, error(nil), true
		for ok {
			if err != nil {
				s.fail(ctx, err)
				yield(llm.MediaEvent{}, s.err)
				return
			}
			s.follow(ev)
			if ev.Kind == llm.MediaDone {
				s.end()
			}
			if !yield(ev, nil) || s.done {
				return
			}
			s.up.watch.resume()
			ev, err, ok = s.up.next()
			s.up.watch.pause()
		}
		s.fail(ctx, &llm.Error{Code: llm.CodeUpstream, Message: "The model server ended the answer early."})
		yield(llm.MediaEvent{}, s.err)
	}
}

func (s *MediaStream) fail(ctx context.Context, err error) {
	s.err = classify(ctx, err)
	if blamesBackend(err) && ctx.Err() == nil {
		last := &s.run.attempts[len(s.run.attempts)-1]
		s.run.g.cfg.Fleet.Failed(s.run.lease.Backend().ID)
		last.Outcome, last.Error = "error", string(llm.CodeOf(err))
	}
}

func (s *MediaStream) follow(ev llm.MediaEvent) {
	switch ev.Kind {
	case llm.MediaAudio:
		s.sound += len(ev.Audio)
	case llm.MediaText:
		s.bytes += len(ev.Text)
	case llm.MediaImage:
		if !ev.Image.Partial {
			s.images++
		}
	}
	if ev.Transcript != nil {
		s.text = &ev.Transcript.Text
		s.bytes = max(s.bytes, len(ev.Transcript.Text))
		s.last.Seconds = ev.Transcript.Duration
	}
	if ev.Usage == nil {
		return
	}
	s.reported = true
	seconds := max(s.last.Seconds, ev.Usage.Seconds)
	s.last = *ev.Usage
	s.last.Seconds = seconds
}

// end notes that the backend has answered to the end. The slot is free from here on, however slowly the client reads.
func (s *MediaStream) end() {
	s.done = true
	if s.last.Seconds > 0 && s.last.Total() == 0 {
		s.run.notes = append(s.run.notes, llm.Note{
			Field: "usage", What: "in_seconds", Detail: strconv.FormatFloat(s.last.Seconds, 'f', -1, 64),
		})
	}
	s.run.g.cfg.Fleet.Succeeded(s.run.lease.Backend().ID)
	s.run.lease.Release(scheduler.Actual{Usage: s.usage()})
}

// Close ends the upstream call if it still runs, settles, releases and records. The caller must call it.
func (s *MediaStream) Close(ctx context.Context) {
	if s.closed {
		return
	}
	s.closed = true
	s.up.stop()
	e := end{err: s.err, answered: true, usage: s.usage(), firstToken: s.began.Sub(s.run.meta.Arrived), stop: llm.StopEnd}
	if e.err == nil && !s.done {
		e.err = cancelled(ctx)
	}
	if e.err != nil {
		e.stop = ""
	}
	if s.run.keepsContent() {
		e.content = marshal(struct {
			Text    *string `json:"text,omitempty"`
			Sound   int     `json:"sound_bytes,omitempty"`
			Images  int     `json:"images,omitempty"`
			Seconds float64 `json:"seconds,omitempty"`
		}{s.text, s.sound, s.images, s.last.Seconds})
	}
	s.run.finish(ctx, e)
}

// usage is what the backend reported in tokens, or our estimate: of a sound whose length was told by that, otherwise what
// was reserved. A sound or an image from which the client turned away has been made all the same; one that the backend did
// not finish is not charged.
func (s *MediaStream) usage() llm.Usage {
	if s.reported && s.last.Total() > 0 {
		return s.last.Usage
	}
	u := llm.Usage{Input: s.media.input, Output: s.media.output, Estimated: true}
	if s.err != nil && llm.CodeOf(s.err) != llm.CodeCancelled {
		u.Output = 0
	}
	if s.media.need == llm.CapTranscription {
		u.Output = (s.bytes + bytesPerToken - 1) / bytesPerToken
		if s.last.Seconds > 0 {
			u.Input = count(s.last.Seconds * soundTokens)
		}
	}
	return u
}
