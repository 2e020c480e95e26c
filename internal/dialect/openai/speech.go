package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// maxSpeech is the longest text of one request, in characters.
const maxSpeech = 4096

// audioTypes are the formats of speech and their media types.
var audioTypes = map[string]string{
	"mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm",
}

// audioFormats are the formats of speech by the media types that servers give them.
var audioFormats = map[string]string{
	"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/ogg": "opus", "audio/opus": "opus", "audio/aac": "aac", "audio/flac": "flac",
	"audio/x-flac": "flac", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav",
	"audio/pcm": "pcm", "audio/l16": "pcm",
}

// AudioType returns the media type of a format of speech.
func AudioType(format string) string { return audioTypes[format] }

// speechPasses lists the extra fields of known speech servers that steer sampling and no more.
var speechPasses = set("seed", "temperature", "top_p", "top_k", "repetition_penalty", "lang_code", "language", "sample_rate")

// DecodeSpeech decodes the body of POST /v1/audio/speech. Errors are *llm.Error with the field at fault.
func DecodeSpeech(body []byte) (*llm.SpeechRequest, []llm.Note, error) {
	f, err := dialect.ReadBody(body)
	if err != nil {
		return nil, nil, err
	}
	r := &llm.SpeechRequest{
		Origin: llm.DialectOpenAI, Model: mediaModel(f), Input: f.String("input"), Instructions: f.String("instructions"),
		Format: f.String("response_format"), Speed: f.Float("speed"),
	}
	switch n := utf8.RuneCountInString(r.Input); {
	case n == 0:
		f.Fail("input", "is required")
	case n > maxSpeech:
		f.Fail("input", "has %d characters, which is more than %d", n, maxSpeech)
	}
	if utf8.RuneCountInString(r.Instructions) > maxSpeech {
		f.Fail("instructions", "has more than %d characters", maxSpeech)
	}
	readVoice(f, r)
	if r.Format == "" {
		r.Format = "mp3"
	}
	if audioTypes[r.Format] == "" {
		f.Fail("response_format", "must be one of mp3, opus, aac, flac, wav, pcm")
	}
	if r.Speed != nil && !(*r.Speed >= 0.25 && *r.Speed <= 4) {
		f.Fail("speed", "must be between 0.25 and 4")
	}
	switch f.String("stream_format") {
	case "", "audio":
	case "sse":
		r.Stream = true
	default:
		f.Fail("stream_format", "must be audio or sse")
	}
	var notes []llm.Note
	r.Extra, notes = mediaRest(f, speechPasses)
	if err := f.Err(); err != nil {
		return nil, nil, err
	}
	return r, notes, nil
}

func readVoice(f *dialect.Fields, r *llm.SpeechRequest) {
	const most = 256
	raw := f.Take("voice")
	if name, ok := dialect.Unquote(raw); ok {
		r.Voice = name
	} else if dialect.Kind(raw) == '{' {
		o := dialect.ReadFields(raw, "voice")
		r.VoiceID = o.String("id")
		f.Adopt(o.Err())
	}
	if n := len(r.Voice) + len(r.VoiceID); n == 0 || n > most {
		f.Fail("voice", "is required: a name, or an object with an id")
	}
}

func mediaModel(f *dialect.Fields) string {
	m := f.String("model")
	switch {
	case m == "":
		f.Fail("model", "is required")
	case len(m) > maxModelName:
		f.Fail("model", "is longer than %d bytes", maxModelName)
	}
	return m
}

// mediaRest sorts the fields that nobody took, as extras does for chat.
func mediaRest(f *dialect.Fields, passes map[string]bool) (map[string]json.RawMessage, []llm.Note) {
	extra := map[string]json.RawMessage{}
	var notes []llm.Note
	for _, name := range f.Rest() {
		if passes[name] {
			extra[name] = f.Take(name)
		} else {
			notes = append(notes, llm.Note{Field: dialect.NoteName(name), What: "dropped"})
		}
	}
	return extra, notes
}

// EncodeSpeechCall encodes r for a backend.
func EncodeSpeechCall(r *llm.SpeechRequest, o CallOptions) ([]byte, error) {
	type voiceID struct {
		ID string `json:"id"`
	}
	w := struct {
		Model        string   `json:"model"`
		Input        string   `json:"input"`
		Voice        any      `json:"voice"`
		Instructions string   `json:"instructions,omitempty"`
		Format       string   `json:"response_format"`
		Speed        *float64 `json:"speed,omitempty"`
		Stream       string   `json:"stream_format,omitempty"`
	}{o.Model.Name, r.Input, r.Voice, r.Instructions, r.Format, r.Speed, ""}
	if r.VoiceID != "" {
		w.Voice = voiceID{r.VoiceID}
	}
	if r.Stream {
		w.Stream = "sse"
	}
	return marshal(w, sameDialect(r.Origin, r.Extra))
}

func sameDialect(origin llm.Dialect, extra map[string]json.RawMessage) map[string]json.RawMessage {
	if origin != llm.DialectOpenAI {
		return nil
	}
	return extra
}

// audioChunk is how many bytes of a sound are read at once.
const audioChunk = 32 << 10

// DecodeSpeechReply reads a backend's answer of the given content type: events, or the bytes of the sound, whichever it
// chose to send. Anything else is no sound and does not pass for one.
func DecodeSpeechReply(contentType string, body io.Reader) llm.MediaStream {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	switch {
	case kind == "text/event-stream":
		return mediaEvents(body, func() (func([]byte) (llm.MediaEvent, bool, error), func() (llm.MediaEvent, error)) {
			return speechEvent, unfinished
		})
	case strings.HasPrefix(kind, "audio/"), kind == "application/octet-stream":
		return audioBytes(body, audioFormats[strings.ToLower(kind)])
	default:
		return noMedia(contentType, body)
	}
}

// noMedia is the answer of a server that sent something else, which may be an error under a status that says otherwise.
func noMedia(contentType string, body io.Reader) llm.MediaStream {
	return func(yield func(llm.MediaEvent, error) bool) {
		text, err := io.ReadAll(io.LimitReader(body, 64<<10))
		if err != nil {
			yield(llm.MediaEvent{}, dialect.ReadFault(err))
			return
		}
		yield(llm.MediaEvent{}, notMedia(contentType, text))
	}
}

func notMedia(contentType string, text []byte) error {
	if json.Valid(text) {
		if e, ok := dialect.ParseUpstreamError(text); ok {
			return e.Classify(0)
		}
	}
	return dialect.UpstreamFault("the model server sent something of another kind", errors.New("content type "+contentType+": "+sample(text)))
}

func audioBytes(body io.Reader, format string) llm.MediaStream {
	return func(yield func(llm.MediaEvent, error) bool) {
		buf := make([]byte, audioChunk)
		any := false
		for {
			n, err := body.Read(buf)
			if n > 0 {
				any = true
				if !yield(llm.MediaEvent{Kind: llm.MediaAudio, Audio: buf[:n], AudioFormat: format}, nil) {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF) && any:
				yield(llm.MediaEvent{Kind: llm.MediaDone}, nil)
				return
			case errors.Is(err, io.EOF):
				yield(llm.MediaEvent{}, dialect.UpstreamFault("the model server sent an empty answer", io.ErrUnexpectedEOF))
				return
			case err != nil:
				yield(llm.MediaEvent{}, dialect.ReadFault(err))
				return
			}
		}
	}
}

// mediaEvents reads server-sent events. For each stream start returns a function that reads one event (false: it says
// nothing) and one for the end of a stream that had no event of kind Done.
func mediaEvents(body io.Reader, start func() (one func(data []byte) (llm.MediaEvent, bool, error), end func() (llm.MediaEvent, error))) llm.MediaStream {
	return func(yield func(llm.MediaEvent, error) bool) {
		one, end := start()
		events := dialect.NewSSEReader(body)
		for {
			ev, err := events.Next()
			switch {
			case errors.Is(err, io.EOF), err == nil && !ev.Comment && string(ev.Data) == "[DONE]":
				yield(end())
				return
			case err != nil:
				yield(llm.MediaEvent{}, dialect.ReadFault(err))
				return
			case ev.Comment:
				if !yield(llm.MediaEvent{Kind: llm.MediaKeepAlive}, nil) {
					return
				}
				continue
			}
			got, ok, err := readMediaEvent(ev.Data, one)
			if err != nil {
				yield(llm.MediaEvent{}, err)
				return
			}
			if ok && (!yield(got, nil) || got.Kind == llm.MediaDone) {
				return
			}
		}
	}
}

func readMediaEvent(data []byte, one func([]byte) (llm.MediaEvent, bool, error)) (llm.MediaEvent, bool, error) {
	if !json.Valid(data) {
		return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent something that is not JSON", errors.New(sample(data)))
	}
	if e, ok := dialect.ParseUpstreamError(data); ok {
		return llm.MediaEvent{}, false, e.Classify(0)
	}
	return one(data)
}

func unfinished() (llm.MediaEvent, error) {
	return llm.MediaEvent{}, dialect.UpstreamFault("the model server ended the answer early", io.ErrUnexpectedEOF)
}

func speechEvent(data []byte) (llm.MediaEvent, bool, error) {
	var w struct {
		Type  string          `json:"type"`
		Audio string          `json:"audio"`
		Usage json.RawMessage `json:"usage"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent an unusable event", err)
	}
	switch w.Type {
	case "speech.audio.delta", "audio.delta":
		audio, err := base64.StdEncoding.DecodeString(w.Audio)
		if err != nil {
			return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent an unusable event", err)
		}
		return llm.MediaEvent{Kind: llm.MediaAudio, Audio: audio}, len(audio) > 0, nil
	case "speech.audio.done", "audio.done":
		return llm.MediaEvent{Kind: llm.MediaDone, Usage: readMediaUsage(w.Usage)}, true, nil
	default:
		return llm.MediaEvent{}, false, nil
	}
}

// wireUsage is the usage of media: tokens, or seconds. Servers name the tokens in two ways.
type wireUsage struct {
	Seconds    float64 `json:"seconds"`
	Input      int     `json:"input_tokens"`
	Output     int     `json:"output_tokens"`
	Prompt     int     `json:"prompt_tokens"`
	Completion int     `json:"completion_tokens"`
	// The details have one name in audio and another in images.
	Detail  wireUsageDetail `json:"input_token_details"`
	Details wireUsageDetail `json:"input_tokens_details"`
}

type wireUsageDetail struct {
	Text  int `json:"text_tokens"`
	Audio int `json:"audio_tokens"`
	Image int `json:"image_tokens"`
}

// readMediaUsage returns nil where a server tells nothing, or what cannot be read: an answer is not worth less for that.
func readMediaUsage(raw json.RawMessage) *llm.MediaUsage {
	var w wireUsage
	if raw == nil || json.Unmarshal(raw, &w) != nil {
		return nil
	}
	u := &llm.MediaUsage{Seconds: boundedSeconds(w.Seconds)}
	u.Input, u.Output = min(max(w.Input, w.Prompt, 0), maxTokens), min(max(w.Output, w.Completion, 0), maxTokens)
	u.TextInput, u.MediaInput = max(w.Detail.Text, w.Details.Text, 0), max(w.Detail.Audio, w.Details.Image, 0)
	if *u == (llm.MediaUsage{}) {
		return nil
	}
	return u
}

// maxSeconds bounds how long a sound is believed to be: months.
const maxSeconds = 1e7

// boundedSeconds keeps what a server says of a length from being no number, or one that cannot be counted with.
func boundedSeconds(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, maxSeconds)
}

// encodeTokens returns the usage in tokens as clients get it. Details are named detail and media.
func encodeTokens(u *llm.MediaUsage, detail, media string, typed bool) map[string]any {
	out := map[string]any{"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Total()}
	if typed {
		out["type"] = "tokens"
	}
	if u.TextInput > 0 || u.MediaInput > 0 || !typed {
		out[detail] = map[string]int{"text_tokens": u.TextInput, media: u.MediaInput}
	}
	return out
}

// MediaEncoder writes an answer of media as server-sent events. It does not flush; the caller does, after each call.
type MediaEncoder struct {
	w      io.Writer
	event  func(ev llm.MediaEvent) (name string, v any)
	named  bool // events carry their name beside the data
	buffer []byte
}

// NewSpeechEncoder returns the encoder of an answer of speech.
func NewSpeechEncoder(w io.Writer) *MediaEncoder {
	return &MediaEncoder{w: w, event: func(ev llm.MediaEvent) (string, any) {
		switch ev.Kind {
		case llm.MediaAudio:
			const name = "speech.audio.delta"
			return name, map[string]any{"type": name, "audio": ev.Audio}
		case llm.MediaDone:
			const name = "speech.audio.done"
			usage := ev.Usage
			if usage == nil {
				usage = &llm.MediaUsage{}
			}
			return name, map[string]any{"type": name, "usage": map[string]int{
				"input_tokens": usage.Input, "output_tokens": usage.Output, "total_tokens": usage.Total(),
			}}
		default:
			return "", nil
		}
	}}
}

// ContentType of the stream.
func (e *MediaEncoder) ContentType() string { return "text/event-stream" }

// Encode writes one event. Events that mean nothing to the client write nothing.
func (e *MediaEncoder) Encode(ev llm.MediaEvent) error {
	name, v := e.event(ev)
	if v == nil {
		return nil
	}
	data, err := marshal(v, nil)
	if err != nil {
		return err
	}
	if !e.named {
		name = ""
	}
	if cap(e.buffer) > audioChunk*4 {
		e.buffer = nil
	}
	e.buffer = dialect.AppendSSE(e.buffer[:0], name, data)
	_, err = e.w.Write(e.buffer)
	return err
}

// EncodeError ends the stream with an explicit error.
func (e *MediaEncoder) EncodeError(err *llm.Error) error {
	name := ""
	if e.named {
		name = "error"
	}
	_, werr := e.w.Write(dialect.AppendSSE(nil, name, appendError(nil, err)))
	return werr
}

// KeepAlive writes a comment.
func (e *MediaEncoder) KeepAlive() error {
	_, err := io.WriteString(e.w, ": ka\n\n")
	return err
}

// Close writes nothing: the last event says that the stream is complete.
func (e *MediaEncoder) Close() error { return nil }
