package simbackend

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
)

// The sounds that are made: mono, 16 bits. Each byte of the text is one frame of equal samples.
const (
	sampleRate  = 16_000
	frameLength = 320 // samples
	wavHeader   = 44
	loudness    = 200 // of one step of a byte
)

// soundOf speaks a text: bytes of PCM.
func soundOf(text string) []byte {
	out := make([]byte, 0, 2*frameLength*len(text))
	for i := range len(text) {
		sample := uint16((int(text[i]) - 128) * loudness)
		for range frameLength {
			out = binary.LittleEndian.AppendUint16(out, sample)
		}
	}
	return out
}

// wavHead is the header of a WAV of so many bytes of PCM.
func wavHead(size int) []byte {
	b := []byte("RIFF")
	b = binary.LittleEndian.AppendUint32(b, uint32(size+wavHeader-8))
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1) // PCM
	b = binary.LittleEndian.AppendUint16(b, 1) // channels
	b = binary.LittleEndian.AppendUint32(b, sampleRate)
	b = binary.LittleEndian.AppendUint32(b, 2*sampleRate)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 16)
	b = append(b, "data"...)
	return binary.LittleEndian.AppendUint32(b, uint32(size))
}

// hear reads a text back and tells the length in seconds. What is no sound of ours is told by its length.
func hear(sound []byte) (text string, seconds float64) {
	if len(sound) < wavHeader || string(sound[:4]) != "RIFF" {
		seconds = float64(len(sound)) / sampleRate
		return fmt.Sprintf("This is a simulated transcript of %.1f seconds.", seconds), seconds
	}
	pcm := sound[wavHeader:]
	seconds = float64(len(pcm)) / (2 * sampleRate)
	var b strings.Builder
	for ; len(pcm) >= 2*frameLength; pcm = pcm[2*frameLength:] {
		sample := int(int16(binary.LittleEndian.Uint16(pcm)))
		if sample%loudness != 0 || !bytes.Equal(pcm[:frameLength], pcm[frameLength:2*frameLength]) {
			return fmt.Sprintf("This is a simulated transcript of %.1f seconds.", seconds), seconds
		}
		b.WriteByte(byte(sample/loudness + 128))
	}
	return strings.ToValidUTF8(b.String(), "?"), seconds
}

// playMedia runs a request whose answer is written in steps, each in the time of one token.
func (s *Server) playMedia(x *exchange, j *job, steps int, step func(i int) error, end func(u usage) error) {
	x.note(j, j.tokens)
	err := func() error {
		lease, err := s.engine.admit(x.ctx, j.demand)
		if err != nil {
			return err
		}
		defer lease.release()
		if err := x.strike(AfterHeaders, 0); err != nil {
			return err
		}
		u := usage{prompt: j.tokens}
		if err := lease.prefill(x.ctx, j.tokens, j.tokens); err != nil {
			return err
		}
		for i := range steps {
			if err := lease.pace(x.ctx, x.slow, 1); err != nil {
				return err
			}
			if err := step(i); err != nil {
				return err
			}
			u.completion++
			s.recorder.update(x.record, func(q *Request) { q.Tokens = u.completion })
			if err := x.strike(AfterTokens, i+1); err != nil {
				return err
			}
		}
		if err := x.strike(AfterTokens, math.MaxInt); err != nil {
			return err
		}
		s.metrics.done(j.model.Name, finishStop)
		return end(u)
	}()
	if errors.Is(err, errQueueFull) {
		x.refuse(refuse(http.StatusServiceUnavailable, "%s", err))
	}
}

// speech answers POST /v1/audio/speech.
func (s *Server) speech(x *exchange) {
	var body struct {
		Model  string          `json:"model"`
		Input  string          `json:"input"`
		Voice  json.RawMessage `json:"voice"`
		Format string          `json:"response_format"`
		Stream string          `json:"stream_format"`
	}
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.refuse(badBody(err))
		return
	}
	j, no := s.mediaJob(body.Model, CapSpeech, body.Input)
	if no == nil && (body.Input == "" || len(body.Voice) == 0) {
		no = refuse(http.StatusBadRequest, "input and voice are required")
	}
	if no != nil {
		x.refuse(no)
		return
	}
	x.wantsStream = body.Stream == "sse"
	x.contentType = "audio/wav"
	if body.Format == "pcm" {
		x.contentType = "audio/pcm"
	}
	var words []string
	for p := range pieces(body.Input) {
		words = append(words, p)
	}
	s.playMedia(x, j, len(words), func(i int) error {
		sound := soundOf(words[i])
		if i == 0 && body.Format != "pcm" {
			sound = append(wavHead(len(body.Input)*2*frameLength), sound...)
		}
		if x.wantsStream {
			return x.event(object{"type": "speech.audio.delta", "audio": sound})
		}
		x.start()
		return x.write(sound)
	}, func(u usage) error {
		if !x.wantsStream {
			return nil
		}
		return x.event(object{"type": "speech.audio.done", "usage": object{
			"input_tokens": u.prompt, "output_tokens": u.completion, "total_tokens": u.prompt + u.completion,
		}})
	})
}

// mediaJob is a job of a model with the capability that reads a text.
func (s *Server) mediaJob(model string, c Capability, text string) (*job, *refusal) {
	m := s.model(model)
	switch {
	case m == nil:
		return nil, noModel(model)
	case !m.Can(c):
		return nil, refuse(http.StatusBadRequest, "The model does not support %s", c)
	}
	return textJob(m, []string{text})
}

// form is a multipart body.
type form struct {
	values map[string][]string
	files  map[string][][]byte
	names  map[string]string // of files
}

func (f *form) value(name string) string {
	if v := f.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (x *exchange) form() (*form, *refusal) {
	_, params, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "body is no form")
	}
	f := &form{values: map[string][]string{}, files: map[string][][]byte{}, names: map[string]string{}}
	for r := multipart.NewReader(bytes.NewReader(x.body), params["boundary"]); ; {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(part)
		}
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "body is no form: %v", err)
		}
		if name := part.FormName(); part.FileName() != "" {
			f.files[name] = append(f.files[name], data)
			f.names[name] = part.FileName()
		} else {
			f.values[name] = append(f.values[name], string(data))
		}
	}
}

// transcription answers POST /v1/audio/transcriptions and /v1/audio/translations. A translation says what it is.
func (s *Server) transcription(x *exchange) {
	f, no := x.form()
	if no != nil {
		x.refuse(no)
		return
	}
	files := f.files["file"]
	j, no := s.mediaJob(f.value("model"), CapTranscription, f.value("prompt"))
	switch {
	case no != nil:
	case len(files) != 1:
		no = refuse(http.StatusBadRequest, "file is required")
	case !strings.Contains(f.names["file"], "."):
		no = refuse(http.StatusBadRequest, "the file's name has no extension")
	}
	if no != nil {
		x.refuse(no)
		return
	}
	t := transcript{s: s, x: x, j: j, format: f.value("response_format")}
	t.text, t.seconds = hear(files[0])
	if strings.HasSuffix(x.r.URL.Path, "translations") {
		t.text = "In English: " + t.text
	}
	t.language = f.value("language")
	setDefault(&t.language, "en")
	for p := range pieces(t.text) {
		t.words = append(t.words, p)
	}
	x.wantsStream = f.value("stream") == "true"
	s.playMedia(x, j, len(t.words), func(i int) error {
		if !x.wantsStream {
			return nil
		}
		return t.delta(t.words[i])
	}, t.end)
}

// transcript is an answer in the making.
type transcript struct {
	s                      *Server
	x                      *exchange
	j                      *job
	format, text, language string
	seconds                float64
	words                  []string
}

func (t *transcript) chunk(v object) object {
	v["id"], v["object"], v["model"], v["created"] = "trsc-sim", "transcription.chunk", t.j.model.Name, t.s.born.Unix()
	return v
}

func (t *transcript) delta(text string) error {
	if t.s.cfg.Dialect == DialectVLLM {
		return t.x.event(t.chunk(object{"choices": []object{{"delta": object{"content": text}, "finish_reason": nil}}}))
	}
	return t.x.event(object{"type": "transcript.text.delta", "delta": text})
}

func (t *transcript) end(u usage) error {
	vllm := t.s.cfg.Dialect == DialectVLLM
	tokens := object{
		"type": "tokens", "input_tokens": u.prompt, "output_tokens": u.completion, "total_tokens": u.prompt + u.completion,
		"input_token_details": object{"text_tokens": 0, "audio_tokens": u.prompt},
	}
	if t.x.wantsStream && vllm {
		last := []object{
			{"choices": []object{{"delta": object{"content": ""}, "finish_reason": "stop"}}},
			{"choices": []object{}, "usage": t.s.usageOf(u)},
		}
		for _, v := range last {
			if err := t.x.event(t.chunk(v)); err != nil {
				return err
			}
		}
		return t.x.write([]byte(sseDone))
	}
	if t.x.wantsStream {
		return t.x.event(object{"type": "transcript.text.done", "text": t.text, "usage": tokens})
	}
	body := object{"text": t.text, "usage": tokens}
	switch t.format {
	case "", "json":
		if vllm {
			body["usage"] = object{"type": "duration", "seconds": t.seconds}
		}
	case "verbose_json":
		body["usage"] = object{"type": "duration", "seconds": t.seconds}
		body["task"], body["language"], body["duration"] = "transcribe", t.language, t.seconds
		if vllm {
			body["duration"] = fmt.Sprint(t.seconds)
		}
		body["segments"], body["words"] = t.times()
	default: // like vLLM, which writes neither text nor subtitles in every version
		t.x.refuse(refuse(http.StatusBadRequest, "Currently only support response_format `json` or `verbose_json`"))
		return nil
	}
	return t.x.reply(200, body)
}

// times are one segment for each half of the words, and the words.
func (t *transcript) times() (segments, words []object) {
	each := t.seconds / float64(max(len(t.words), 1))
	for i, w := range t.words {
		words = append(words, object{"word": strings.TrimSpace(w), "start": each * float64(i), "end": each * float64(i+1)})
	}
	half := (len(t.words) + 1) / 2
	for i, part := range [][]string{t.words[:half], t.words[half:]} {
		if len(part) == 0 {
			continue
		}
		from := half * i
		segments = append(segments, object{
			"id": i, "seek": 0, "start": each * float64(from), "end": each * float64(from+len(part)), "text": strings.Join(part, ""),
			"tokens": []int{1, 2, 3}, "temperature": 0.0, "avg_logprob": -0.1, "compression_ratio": 1.0, "no_speech_prob": 0.01,
		})
	}
	return segments, words
}
