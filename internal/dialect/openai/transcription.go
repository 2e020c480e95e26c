package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// transcriptionPasses lists the extra fields of known servers that steer the search for the text and no more.
var transcriptionPasses = set(
	"seed", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "length_penalty",
	"max_completion_tokens", "hotwords", "vad_filter", "beam_size",
)

// Limits on the lists of a transcription request.
const (
	maxKeywords = 1000
	maxSpeakers = 4
)

// DecodeTranscription decodes the form of POST /v1/audio/transcriptions. Errors are *llm.Error with the field at fault.
// It takes the values out of the form.
func DecodeTranscription(form *Form) (*llm.TranscriptionRequest, []llm.Note, error) {
	return decodeTranscription(form, func(f *fields, r *llm.TranscriptionRequest) {
		r.Language = f.text("language")
		r.Languages = f.list("languages")
		r.Keywords = f.list("keywords")
		r.SpeakerNames, r.SpeakerSamples = f.list("known_speaker_names"), f.list("known_speaker_references")
		readGranularities(f, r)
		for _, what := range f.list("include") {
			if what != "logprobs" {
				f.fail("include", "must be logprobs")
			}
			r.Logprobs = true
		}
		r.Chunking = readChunking(f)
		switch {
		case len(r.Keywords) > maxKeywords, len(r.Languages) > maxKeywords:
			f.fail("keywords", "has more than %d entries", maxKeywords)
		case len(r.SpeakerNames) > maxSpeakers, len(r.SpeakerSamples) > maxSpeakers:
			f.fail("known_speaker_names", "has more than %d entries", maxSpeakers)
		}
		for _, sample := range r.SpeakerSamples {
			if !strings.HasPrefix(sample, "data:") { // no server fetches for a client
				f.fail("known_speaker_references", "must be data URIs")
			}
		}
		if r.Logprobs && r.Format != llm.TranscriptJSON {
			f.fail("include", "goes with response_format json only")
		}
	}, llm.TranscriptDiarized)
}

// DecodeTranslation decodes the form of POST /v1/audio/translations, as DecodeTranscription does.
func DecodeTranslation(form *Form) (*llm.TranscriptionRequest, []llm.Note, error) {
	return decodeTranscription(form, func(f *fields, r *llm.TranscriptionRequest) {
		r.Translate = true
		r.Language = f.text("language") // of the sound; some servers want it
	})
}

func decodeTranscription(form *Form, read func(*fields, *llm.TranscriptionRequest), more ...llm.TranscriptFormat) (*llm.TranscriptionRequest, []llm.Note, error) {
	f := &fields{form: form}
	r := &llm.TranscriptionRequest{
		Origin: llm.DialectOpenAI, Model: f.model(), Prompt: f.text("prompt"), Temperature: f.number("temperature", 0, 1),
		Format: llm.TranscriptFormat(f.text("response_format")), Stream: f.flag("stream"),
	}
	switch files := form.Files["file"]; len(files) {
	case 0:
		f.fail("file", "is required")
	case 1:
		r.File = files[0]
	default:
		f.fail("file", "is given %d times", len(files))
	}
	if r.Format == "" {
		r.Format = llm.TranscriptJSON
	}
	formats := append([]llm.TranscriptFormat{
		llm.TranscriptJSON, llm.TranscriptText, llm.TranscriptSRT, llm.TranscriptVTT, llm.TranscriptVerbose,
	}, more...)
	if !slices.Contains(formats, r.Format) {
		f.fail("response_format", "must be one of %s", strings.Trim(fmt.Sprint(formats), "[]"))
	}
	read(f, r)
	if r.Stream && r.Format != llm.TranscriptJSON && r.Format != llm.TranscriptText && r.Format != llm.TranscriptDiarized {
		f.fail("response_format", "%s cannot be streamed", r.Format)
	}
	var notes []llm.Note
	r.Extra, notes = f.rest(transcriptionPasses)
	if f.err != nil {
		return nil, nil, f.err
	}
	return r, notes, nil
}

func readGranularities(f *fields, r *llm.TranscriptionRequest) {
	for _, what := range f.list("timestamp_granularities") {
		switch what {
		case "word":
			r.Words = true
		case "segment":
			r.Segments = true
		default:
			f.fail("timestamp_granularities", "must be word or segment")
		}
		if r.Format != llm.TranscriptVerbose {
			f.fail("timestamp_granularities", "needs response_format verbose_json")
		}
	}
}

// readChunking reads a word, an object in JSON, or an object spread over several fields.
func readChunking(f *fields) json.RawMessage {
	const name = "chunking_strategy"
	spread := map[string]any{}
	for _, key := range []string{"type", "prefix_padding_ms", "silence_duration_ms", "threshold"} {
		v := f.text(name + "[" + key + "]")
		if v == "" {
			continue
		}
		if x, err := strconv.ParseFloat(v, 64); err == nil {
			spread[key] = x
		} else {
			spread[key] = v
		}
	}
	v := f.text(name)
	switch {
	case len(spread) > 0 && v == "":
		raw, err := json.Marshal(spread)
		if err != nil {
			f.fail(name, "must be auto or an object")
		}
		return raw
	case v == "":
		return nil
	case v == "auto":
		return json.RawMessage(`"auto"`)
	case json.Valid([]byte(v)) && dialect.Kind(json.RawMessage(v)) == '{':
		return json.RawMessage(v)
	default:
		f.fail(name, "must be auto or an object")
		return nil
	}
}

// EncodeTranscriptionCall encodes r for a backend and returns the path that it is for. Backends are asked for JSON
// always: plain text and subtitles are made here from what it says, so that they look alike whoever answers, and work
// with servers that cannot write them.
func EncodeTranscriptionCall(r *llm.TranscriptionRequest, o CallOptions) (path string, u *Upload) {
	w := newUploadWriter()
	w.field("model", o.Model.Name)
	w.field("language", r.Language)
	w.fields("languages[]", r.Languages)
	w.field("prompt", r.Prompt)
	w.fields("keywords[]", r.Keywords)
	w.number("temperature", r.Temperature)
	format := r.Format
	switch format {
	case llm.TranscriptText:
		format = llm.TranscriptJSON
	case llm.TranscriptSRT, llm.TranscriptVTT:
		format = llm.TranscriptVerbose
	}
	w.field("response_format", string(format))
	if r.Words {
		w.field("timestamp_granularities[]", "word")
	}
	if r.Segments {
		w.field("timestamp_granularities[]", "segment")
	}
	if r.Logprobs {
		w.field("include[]", "logprobs")
	}
	if text, ok := dialect.Unquote(r.Chunking); ok {
		w.field("chunking_strategy", text)
	} else {
		w.field("chunking_strategy", string(r.Chunking))
	}
	w.fields("known_speaker_names[]", r.SpeakerNames)
	w.fields("known_speaker_references[]", r.SpeakerSamples)
	if r.Stream {
		w.field("stream", "true")
		if o.Engine == EngineVLLM {
			w.field("stream_include_usage", "true")
		}
	}
	w.extra(sameDialect(r.Origin, r.Extra))
	w.file("file", &r.File)
	path = "/v1/audio/transcriptions"
	if r.Translate {
		path = "/v1/audio/translations"
	}
	return path, w.close()
}

// maxTranscript is the largest transcript that is read whole, in bytes.
const maxTranscript = 16 << 20

// DecodeTranscriptReply reads a backend's answer of the given content type: events in the form of OpenAI or of vLLM, or
// a JSON body, also where a stream was asked for.
func DecodeTranscriptReply(contentType string, body io.Reader) llm.MediaStream {
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "text/event-stream" {
		return mediaEvents(body, func() (func([]byte) (llm.MediaEvent, bool, error), func() (llm.MediaEvent, error)) {
			var d transcriptDecoder
			return d.event, d.end
		})
	}
	return func(yield func(llm.MediaEvent, error) bool) {
		text, err := io.ReadAll(io.LimitReader(body, maxTranscript+1))
		switch {
		case err != nil:
			yield(llm.MediaEvent{}, dialect.ReadFault(err))
		case len(text) > maxTranscript:
			yield(llm.MediaEvent{}, dialect.UpstreamFault("the model server sent a transcript that is too long", fmt.Errorf("more than %d bytes", maxTranscript)))
		default:
			done, err := decodeTranscript(contentType, text)
			if err == nil && done.Transcript.Text != "" && !yield(llm.MediaEvent{Kind: llm.MediaText, Text: done.Transcript.Text}, nil) {
				return
			}
			yield(done, err)
		}
	}
}

type wireTranscript struct {
	Text      *string         `json:"text"`
	Language  string          `json:"language"`
	Languages []wireLanguage  `json:"languages"`
	Duration  json.RawMessage `json:"duration"` // a number; a text on some servers
	Words     []wireWord      `json:"words"`
	Segments  []wireSegment   `json:"segments"`
	Logprobs  json.RawMessage `json:"logprobs"`
	Usage     json.RawMessage `json:"usage"`
}

type wireLanguage struct {
	Code string `json:"code"`
}

type wireWord struct {
	Word  string  `json:"word"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

type wireSegment struct {
	ID               json.RawMessage `json:"id"` // a number, or a text with speakers
	Start            float64         `json:"start"`
	End              float64         `json:"end"`
	Text             string          `json:"text"`
	Speaker          string          `json:"speaker"`
	Seek             int             `json:"seek"`
	Tokens           []int           `json:"tokens"`
	Temperature      float64         `json:"temperature"`
	AvgLogprob       float64         `json:"avg_logprob"`
	CompressionRatio float64         `json:"compression_ratio"`
	NoSpeechProb     float64         `json:"no_speech_prob"`
}

func (w wireSegment) canonical() llm.Segment {
	id, ok := dialect.Unquote(w.ID)
	if !ok {
		id = string(w.ID)
	}
	return llm.Segment{
		ID: id, Start: w.Start, End: w.End, Text: w.Text, Speaker: w.Speaker, Seek: w.Seek, Tokens: w.Tokens,
		Temperature: w.Temperature, AvgLogprob: w.AvgLogprob, CompressionRatio: w.CompressionRatio, NoSpeechProb: w.NoSpeechProb,
	}
}

func decodeTranscript(contentType string, body []byte) (llm.MediaEvent, error) {
	var w wireTranscript
	if e, ok := dialect.ParseUpstreamError(body); json.Valid(body) && ok {
		return llm.MediaEvent{}, e.Classify(0)
	}
	if err := json.Unmarshal(body, &w); err != nil || w.Text == nil {
		return llm.MediaEvent{}, notMedia(contentType, body)
	}
	t := &llm.Transcript{Text: *w.Text, Language: w.Language}
	if dialect.Kind(w.Logprobs) == '[' {
		t.Logprobs = w.Logprobs
	}
	for _, l := range w.Languages {
		t.Languages = append(t.Languages, l.Code)
	}
	duration, ok := dialect.Unquote(w.Duration)
	if !ok {
		duration = string(w.Duration)
	}
	if x, err := strconv.ParseFloat(duration, 64); err == nil { // unknown where it is no number
		t.Duration = boundedSeconds(x)
	}
	for _, x := range w.Words {
		t.Words = append(t.Words, llm.Word{Text: x.Word, Start: x.Start, End: x.End})
	}
	for _, x := range w.Segments {
		t.Segments = append(t.Segments, x.canonical())
	}
	return llm.MediaEvent{Kind: llm.MediaDone, Transcript: t, Usage: readMediaUsage(w.Usage)}, nil
}

// transcriptDecoder reads one stream of a transcript.
type transcriptDecoder struct {
	text     strings.Builder
	segments []llm.Segment
	usage    *llm.MediaUsage // vLLM
	finished bool            // vLLM: the last piece of text has come
}

func (d *transcriptDecoder) event(data []byte) (llm.MediaEvent, bool, error) {
	var w struct {
		Type     string          `json:"type"`
		Delta    string          `json:"delta"`
		Text     string          `json:"text"`
		Logprobs json.RawMessage `json:"logprobs"`
		Usage    json.RawMessage `json:"usage"`
		Choices  []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
			Finish *string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent an unusable event", err)
	}
	switch w.Type {
	case "transcript.text.delta":
		return d.delta(w.Delta, w.Logprobs)
	case "transcript.text.segment":
		var s wireSegment
		if err := json.Unmarshal(data, &s); err != nil {
			return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent an unusable event", err)
		}
		segment := s.canonical()
		d.segments = append(d.segments, segment)
		return llm.MediaEvent{Kind: llm.MediaSegment, Segment: &segment}, true, nil
	case "transcript.text.done":
		t := &llm.Transcript{Text: w.Text, Segments: d.segments}
		if dialect.Kind(w.Logprobs) == '[' {
			t.Logprobs = w.Logprobs
		}
		return llm.MediaEvent{Kind: llm.MediaDone, Transcript: t, Usage: readMediaUsage(w.Usage)}, true, nil
	case "":
	default:
		return llm.MediaEvent{}, false, nil
	}
	if u := readMediaUsage(w.Usage); u != nil {
		d.usage = u
	}
	var text string
	for _, c := range w.Choices {
		text += c.Delta.Content
		d.finished = d.finished || c.Finish != nil && *c.Finish != ""
	}
	return d.delta(text, nil)
}

func (d *transcriptDecoder) delta(text string, logprobs json.RawMessage) (llm.MediaEvent, bool, error) {
	if d.text.Len()+len(text) > maxTranscript {
		return llm.MediaEvent{}, false, dialect.UpstreamFault("the model server sent a transcript that is too long", fmt.Errorf("more than %d bytes", maxTranscript))
	}
	d.text.WriteString(text)
	ev := llm.MediaEvent{Kind: llm.MediaText, Text: text}
	if dialect.Kind(logprobs) == '[' {
		ev.Logprobs = logprobs
	}
	return ev, text != "" || ev.Logprobs != nil, nil
}

// end is where vLLM's streams end: without an event of their own, but after a reason to finish.
func (d *transcriptDecoder) end() (llm.MediaEvent, error) {
	if !d.finished {
		return unfinished()
	}
	return llm.MediaEvent{Kind: llm.MediaDone, Transcript: &llm.Transcript{Text: d.text.String()}, Usage: d.usage}, nil
}

// TranscriptType returns the content type of a whole transcript.
func TranscriptType(f llm.TranscriptFormat) string {
	switch f {
	case llm.TranscriptText, llm.TranscriptSRT, llm.TranscriptVTT:
		return "text/plain; charset=utf-8"
	default:
		return "application/json"
	}
}

// EncodeTranscript encodes a whole transcript as the client asked for it. The error is an *llm.Error: the backend gave no
// times for subtitles.
func EncodeTranscript(r *llm.TranscriptionRequest, done llm.MediaEvent) ([]byte, error) {
	t := done.Transcript
	switch r.Format {
	case llm.TranscriptText:
		return []byte(t.Text + "\n"), nil
	case llm.TranscriptSRT, llm.TranscriptVTT:
		return subtitles(t, r.Format)
	}
	w := map[string]any{"text": t.Text}
	if t.Logprobs != nil {
		w["logprobs"] = t.Logprobs
	}
	if len(t.Languages) > 0 {
		w["languages"] = wireLanguages(t.Languages)
	}
	if u := transcriptUsage(done.Usage); u != nil {
		w["usage"] = u
	}
	if r.Format != llm.TranscriptJSON {
		w["task"], w["duration"] = "transcribe", t.Duration
		if r.Translate {
			w["task"] = "translate"
		}
	}
	switch {
	case r.Format == llm.TranscriptVerbose:
		w["language"] = t.Language
		segments := make([]map[string]any, 0, len(t.Segments))
		for i, s := range t.Segments {
			segments = append(segments, verboseSegment(i, s))
		}
		w["segments"] = segments
		if t.Words != nil {
			words := make([]wireWord, 0, len(t.Words))
			for _, x := range t.Words {
				words = append(words, wireWord{Word: x.Text, Start: x.Start, End: x.End})
			}
			w["words"] = words
		}
	case r.Format == llm.TranscriptDiarized:
		segments := make([]map[string]any, 0, len(t.Segments))
		for i, s := range t.Segments {
			segments = append(segments, speakerSegment(i, s))
		}
		w["segments"] = segments
	}
	out, err := marshal(w, nil)
	return append(out, '\n'), err
}

func wireLanguages(codes []string) []wireLanguage {
	out := make([]wireLanguage, 0, len(codes))
	for _, c := range codes {
		out = append(out, wireLanguage{c})
	}
	return out
}

func verboseSegment(i int, s llm.Segment) map[string]any {
	id, err := strconv.Atoi(s.ID)
	if err != nil {
		id = i
	}
	tokens := s.Tokens
	if tokens == nil {
		tokens = []int{}
	}
	return map[string]any{
		"id": id, "seek": s.Seek, "start": s.Start, "end": s.End, "text": s.Text, "tokens": tokens, "temperature": s.Temperature,
		"avg_logprob": s.AvgLogprob, "compression_ratio": s.CompressionRatio, "no_speech_prob": s.NoSpeechProb,
	}
}

func speakerSegment(i int, s llm.Segment) map[string]any {
	id := s.ID
	if id == "" {
		id = "seg_" + strconv.Itoa(i)
	}
	return map[string]any{
		"type": "transcript.text.segment", "id": id, "start": s.Start, "end": s.End, "text": s.Text, "speaker": s.Speaker,
	}
}

func transcriptUsage(u *llm.MediaUsage) map[string]any {
	switch {
	case u == nil:
		return nil
	case u.Total() > 0:
		return encodeTokens(u, "input_token_details", "audio_tokens", true)
	default:
		return map[string]any{"type": "duration", "seconds": u.Seconds}
	}
}

// subtitles writes segments as SubRip or WebVTT.
func subtitles(t *llm.Transcript, f llm.TranscriptFormat) ([]byte, error) {
	segments := t.Segments
	if len(segments) == 0 && strings.TrimSpace(t.Text) != "" {
		if t.Duration <= 0 {
			return nil, dialect.UpstreamFault("the model server gave no times for subtitles", errors.New("neither segments nor duration"))
		}
		segments = []llm.Segment{{End: t.Duration, Text: t.Text}}
	}
	var b strings.Builder
	separator := byte(',')
	if f == llm.TranscriptVTT {
		separator = '.'
		b.WriteString("WEBVTT\n\n")
	}
	for i, s := range segments {
		if f == llm.TranscriptSRT {
			b.WriteString(strconv.Itoa(i+1) + "\n")
		}
		b.WriteString(cueTime(s.Start, separator) + " --> " + cueTime(s.End, separator) + "\n")
		b.WriteString(cueText(s.Text) + "\n\n")
	}
	return []byte(b.String()), nil
}

// cueText keeps a text from ending its cue or from looking like the times of the next.
func cueText(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "-->", "->")
}

func cueTime(seconds float64, separator byte) string {
	const most = 100 * 3600 * 1000
	ms := 0
	if seconds > 0 {
		ms = int(min(seconds*1000+0.5, most))
	}
	return fmt.Sprintf("%02d:%02d:%02d%c%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, separator, ms%1000)
}

// NewTranscriptEncoder returns the encoder of a streamed transcript.
func NewTranscriptEncoder(w io.Writer) *MediaEncoder {
	segments := 0
	return &MediaEncoder{w: w, event: func(ev llm.MediaEvent) (string, any) {
		switch ev.Kind {
		case llm.MediaText:
			const name = "transcript.text.delta"
			v := map[string]any{"type": name, "delta": ev.Text}
			if ev.Logprobs != nil {
				v["logprobs"] = ev.Logprobs
			}
			return name, v
		case llm.MediaSegment:
			v := speakerSegment(segments, *ev.Segment)
			segments++
			return "transcript.text.segment", v
		case llm.MediaDone:
			const name = "transcript.text.done"
			v := map[string]any{"type": name, "text": ev.Transcript.Text}
			if ev.Transcript.Logprobs != nil {
				v["logprobs"] = ev.Transcript.Logprobs
			}
			if len(ev.Transcript.Languages) > 0 {
				v["languages"] = wireLanguages(ev.Transcript.Languages)
			}
			if u := transcriptUsage(ev.Usage); u != nil {
				v["usage"] = u
			}
			return name, v
		default:
			return "", nil
		}
	}}
}
