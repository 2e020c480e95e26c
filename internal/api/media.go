package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

func (a *API) speech(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := openai.DecodeSpeech(body)
	if err != nil {
		return err
	}
	m := mediaAnswer{meta: meta, start: func(ctx context.Context) (*gateway.MediaStream, error) {
		return a.cfg.Gateway.Speak(ctx, gateway.SpeechCall{Principal: p, Request: req, Notes: notes, Meta: meta})
	}}
	if req.Stream {
		return a.mediaEvents(w, r, m, openai.NewSpeechEncoder(w))
	}
	return a.mediaBytes(w, r, m, func(first llm.MediaEvent) (string, func(llm.MediaEvent) error) {
		format := req.Format
		if first.AudioFormat != "" {
			format = first.AudioFormat
		}
		return openai.AudioType(format), func(ev llm.MediaEvent) error {
			_, err := w.Write(ev.Audio)
			return err
		}
	})
}

func (a *API) transcriptions(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.transcribe(w, r, p, openai.DecodeTranscription)
}

func (a *API) translations(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	return a.transcribe(w, r, p, openai.DecodeTranslation)
}

func (a *API) transcribe(w http.ResponseWriter, r *http.Request, p identity.Principal,
	decode func(*openai.Form) (*llm.TranscriptionRequest, []llm.Note, error),
) error {
	meta, err := a.meta(w, r)
	if err != nil {
		return err
	}
	up, err := a.upload(w, r, a.sounds())
	if err != nil {
		return err
	}
	defer a.discard(w, up)
	req, notes, err := decode(&up.form)
	if err != nil {
		return err
	}
	m := mediaAnswer{meta: meta, start: func(ctx context.Context) (*gateway.MediaStream, error) {
		return a.cfg.Gateway.Transcribe(ctx, gateway.TranscriptionCall{Principal: p, Request: req, Notes: notes, Meta: meta})
	}}
	if req.Stream {
		return a.mediaEvents(w, r, m, openai.NewTranscriptEncoder(w))
	}
	return a.transcript(w, r, m, req)
}

// transcript answers with one body.
func (a *API) transcript(w http.ResponseWriter, r *http.Request, m mediaAnswer, req *llm.TranscriptionRequest) error {
	ctx := r.Context()
	s, err := m.start(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	var out []byte
	for ev, err := range s.Events(ctx) {
		if err == nil && ev.Kind == llm.MediaDone {
			out, err = openai.EncodeTranscript(req, ev)
		}
		if err != nil {
			return err
		}
	}
	a.mediaHeaders(w, m, s, openai.TranscriptType(req.Format))
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err = w.Write(out)
	return a.delivered(w, err)
}

func (a *API) imageGenerations(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, body, err := a.receive(w, r)
	if err != nil {
		return err
	}
	req, notes, err := openai.DecodeImageGeneration(body)
	if err != nil {
		return err
	}
	return a.draw(w, r, gateway.ImageCall{Principal: p, Request: req, Notes: notes, Meta: meta})
}

func (a *API) imageEdits(w http.ResponseWriter, r *http.Request, p identity.Principal) error {
	meta, err := a.meta(w, r)
	if err != nil {
		return err
	}
	up, err := a.upload(w, r, a.images())
	if err != nil {
		return err
	}
	defer a.discard(w, up)
	req, notes, err := openai.DecodeImageEdit(&up.form)
	if err != nil {
		return err
	}
	return a.draw(w, r, gateway.ImageCall{Principal: p, Request: req, Notes: notes, Meta: meta})
}

func (a *API) draw(w http.ResponseWriter, r *http.Request, call gateway.ImageCall) error {
	m := mediaAnswer{meta: call.Meta, start: func(ctx context.Context) (*gateway.MediaStream, error) {
		return a.cfg.Gateway.Draw(ctx, call)
	}}
	reply := openai.ImageReply{Created: call.Meta.Arrived.Unix(), URL: call.Request.URL, Edit: call.Request.Edit}
	if call.Request.Stream {
		return a.mediaEvents(w, r, m, openai.NewImageEncoder(w, reply))
	}
	return a.mediaBytes(w, r, m, func(llm.MediaEvent) (string, func(llm.MediaEvent) error) {
		return "application/json", openai.NewImageWriter(w, reply).Encode
	})
}

// mediaAnswer is an answer of media that has not begun.
type mediaAnswer struct {
	meta  gateway.Meta
	start func(ctx context.Context) (*gateway.MediaStream, error)
}

func (a *API) mediaHeaders(w http.ResponseWriter, m mediaAnswer, s *gateway.MediaStream, contentType string) {
	setFacts(w.Header(), s.Facts())
	openAI.headers(w.Header(), requestID(w), time.Since(m.meta.Arrived))
	w.Header().Set("Content-Type", contentType)
}

// mediaEvents answers event by event.
func (a *API) mediaEvents(w http.ResponseWriter, r *http.Request, m mediaAnswer, enc *openai.MediaEncoder) error {
	ctx := r.Context()
	openAI.headers(w.Header(), requestID(w), 0)
	out := newStreamWriter(w, enc, a.cfg.KeepAlive)
	defer out.stop()
	s, err := m.start(ctx)
	if err != nil {
		return out.refuse(err)
	}
	defer s.Close(ctx)
	out.facts(s.Facts())
	for ev, err := range s.Events(ctx) {
		if err != nil {
			out.fail(err)
			return nil
		}
		if ev.Kind == llm.MediaKeepAlive {
			continue // the timer writes ours
		}
		if out.write(func() error { return enc.Encode(ev) }) != nil {
			return nil // the client has gone; Close records it
		}
	}
	out.close()
	return nil
}

// mediaBytes answers piece by piece in a form that has no place for an error: an answer that fails on the way is broken
// off, so that the client cannot take what it has for the whole.
func (a *API) mediaBytes(w http.ResponseWriter, r *http.Request, m mediaAnswer,
	begin func(first llm.MediaEvent) (contentType string, write func(llm.MediaEvent) error),
) error {
	ctx := r.Context()
	s, err := m.start(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	contentType, write := begin(s.First())
	a.mediaHeaders(w, m, s, contentType)
	rc := http.NewResponseController(w)
	for ev, err := range s.Events(ctx) {
		if err != nil {
			a.cfg.Log.Info("answer broken off", slog.String("request_id", requestID(w)), slog.String("error_code", string(llm.CodeOf(err))))
			// With no time left the end of the body cannot be written: HTTP/1 closes the connection instead, HTTP/2 resets
			// the stream.
			return a.delivered(w, rc.SetWriteDeadline(time.Now().Add(-time.Second)))
		}
		err := rc.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err == nil {
			err = write(ev)
		}
		if err == nil {
			err = rc.Flush()
		}
		if err != nil {
			return a.delivered(w, err) // Close records it
		}
	}
	return nil
}

// discard gives the files of an upload up.
func (a *API) discard(w http.ResponseWriter, up *upload) {
	if err := up.close(); err != nil {
		a.cfg.Log.Error("upload not removed", slog.String("request_id", requestID(w)), slog.Any("error", err))
	}
}
