package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// heard is an answer in one line: its events, then how it ended.
func heard(s llm.MediaStream) string {
	var b strings.Builder
	for ev, err := range s {
		if err != nil {
			b.WriteString("!" + string(llm.CodeOf(err)))
			return b.String()
		}
		b.WriteString(string(ev.Kind))
		switch {
		case ev.Audio != nil:
			b.WriteString("=" + string(ev.Audio))
		case ev.Kind == llm.MediaText:
			b.WriteString("=" + ev.Text)
		case ev.Segment != nil:
			b.WriteString("=" + ev.Segment.Speaker + ":" + ev.Segment.Text)
		case ev.Transcript != nil:
			b.WriteString("=" + ev.Transcript.Text)
		case ev.Image != nil && ev.Kind == llm.MediaImage:
			b.WriteString("=" + ev.Image.Format)
		}
		if ev.Usage != nil {
			b.WriteString("+usage")
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

const events = "text/event-stream; charset=utf-8"

func TestTranscriptsOfManyServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, body, want string }{
		"whole":             {"application/json", `{"text":"hi","usage":{"type":"duration","seconds":3}}`, "text=hi done=hi+usage"},
		"silence":           {"application/json", `{"text":""}`, "done="},
		"unreadable usage":  {"application/json", `{"text":"hi","usage":"much"}`, "text=hi done=hi"},
		"duration as text":  {"application/json", `{"text":"hi","duration":"3.5"}`, "text=hi done=hi"},
		"no text":           {"application/json", `{"words":[]}`, "!upstream"},
		"no JSON":           {"text/plain", `hi`, "!upstream"},
		"an error":          {"application/json", `{"error":{"message":"too noisy","code":400}}`, "!invalid_request"},
		"OpenAI's events":   {events, "data: {\"type\":\"transcript.text.delta\",\"delta\":\"h\"}\n\n: ping\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"hi\",\"usage\":{\"input_tokens\":1}}\n\n", "text=h keep_alive done=hi+usage"},
		"speakers":          {events, "data: {\"type\":\"transcript.text.segment\",\"id\":\"s\",\"speaker\":\"A\",\"text\":\"hi\",\"start\":0,\"end\":1}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"hi\"}\n\n", "segment=A:hi done=hi"},
		"events of later":   {events, "data: {\"type\":\"transcript.mood\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"hi\"}\n\n", "done=hi"},
		"vLLM's events":     {events, "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"i\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n", "text=h text=i done=hi+usage"},
		"vLLM cut":          {events, "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\n", "text=h !upstream"},
		"vLLM cut, DONE":    {events, "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\ndata: [DONE]\n\n", "text=h !upstream"},
		"no event":          {events, "", "!upstream"},
		"no end":            {events, "data: {\"type\":\"transcript.text.delta\",\"delta\":\"h\"}\n\n", "text=h !upstream"},
		"an error inside":   {events, "data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\n", "!upstream"},
		"an event, no JSON": {events, "data: {\"type\n\n", "!upstream"},
	} {
		for way, r := range map[string]io.Reader{"at once": strings.NewReader(c.body), "byte by byte": iotest.OneByteReader(strings.NewReader(c.body))} {
			if got := heard(openai.DecodeTranscriptReply(c.kind, r)); got != c.want {
				t.Errorf("%s, %s: %q, want %q", name, way, got, c.want)
			}
		}
	}
	cut := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(`{"text":"hi"}`)))
	if got := heard(openai.DecodeTranscriptReply("application/json", cut)); got != "!upstream" {
		t.Errorf("a reader that fails: %q", got)
	}
}

// form makes a form of name, value, name, value ...
func form(fields ...string) *openai.Form {
	f := &openai.Form{Values: map[string][]string{}, Files: map[string][]llm.File{
		"file": {{Format: "wav", MediaType: "audio/wav", Size: 4, Content: strings.NewReader("RIFF")}},
	}}
	for i := 0; i+1 < len(fields); i += 2 {
		f.Values[fields[i]] = append(f.Values[fields[i]], fields[i+1])
	}
	return f
}

// TestTranscriptionFields sends every field of a form on its way to a backend: what a client asks is what it gets.
func TestTranscriptionFields(t *testing.T) {
	t.Parallel()
	r, notes, err := openai.DecodeTranscription(form("model", "asked", "language", "de", "languages[]", "de", "languages[]", "fr", "prompt", "p\r\nq",
		"keywords[0]", "MindRouter", "keywords[1]", "GPU", "temperature", "0.5", "response_format", "verbose_json", "timestamp_granularities[]", "word",
		"timestamp_granularities[]", "segment", "chunking_strategy[type]", "server_vad", "chunking_strategy[threshold]", "0.5", "known_speaker_names[]", "A",
		"known_speaker_references[]", "data:audio/wav;base64,AAAA", "beam_size", "5", "priority", "9", "stream", "false"))
	if err != nil || words(notes) != "priority=dropped" {
		t.Fatalf("%v, %v", err, notes)
	}
	path, u := openai.EncodeTranscriptionCall(r, openai.CallOptions{Model: llm.Model{Name: "whisper"}, Engine: openai.EngineOpenAI})
	for range 2 { // a retry reads it again
		body, err := io.ReadAll(u.Reader())
		if err != nil || int64(len(body)) != u.Size || path != "/v1/audio/transcriptions" {
			t.Fatalf("%d bytes of %d for %s, %v", len(body), u.Size, path, err)
		}
		_, params, err := mime.ParseMediaType(u.ContentType)
		if err != nil {
			t.Fatal(err)
		}
		got, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(got.Value)
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"beam_size":["5"],"chunking_strategy":["{\"threshold\":0.5,\"type\":\"server_vad\"}"],"keywords[]":["MindRouter","GPU"],` +
			`"known_speaker_names[]":["A"],"known_speaker_references[]":["data:audio/wav;base64,AAAA"],"language":["de"],"languages[]":["de","fr"],` +
			`"model":["whisper"],"prompt":["p\r\nq"],"response_format":["verbose_json"],"temperature":["0.5"],"timestamp_granularities[]":["word","segment"]}`
		if string(text) != want {
			t.Errorf("sent %s\nwant %s", text, want)
		}
		if f := got.File["file"]; len(f) != 1 || f[0].Size != 4 || f[0].Filename != "file.wav" {
			t.Errorf("file %+v", f)
		}
	}
}

func TestSubtitlesWithoutTimes(t *testing.T) {
	t.Parallel()
	r := &llm.TranscriptionRequest{Format: llm.TranscriptSRT}
	done := llm.MediaEvent{Kind: llm.MediaDone, Transcript: &llm.Transcript{Text: "a\n\n2\n00:00:00,000 --> 00:00:01,000\nb"}}
	if _, err := openai.EncodeTranscript(r, done); llm.CodeOf(err) != llm.CodeUpstream {
		t.Errorf("%v, want an upstream error", err)
	}
	done.Transcript.Duration = 3725.5
	got, err := openai.EncodeTranscript(r, done)
	if want := "1\n00:00:00,000 --> 01:02:05,500\na 2 00:00:00,000 -> 00:00:01,000 b\n\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	done.Transcript.Text = " "
	if got, err := openai.EncodeTranscript(r, done); err != nil || len(got) != 0 {
		t.Errorf("silence: %q, %v", got, err)
	}
}

// TestLengthsThatAreNoLengths: what a server says of a length is counted and charged, so it must be a number.
func TestLengthsThatAreNoLengths(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]float64{
		`{"text":"","duration":"NaN"}`: 0, `{"text":"","duration":"Inf"}`: 1e7, `{"text":"","duration":-1}`: 0, `{"text":"","duration":1e300}`: 1e7,
		`{"text":"","duration":{}}`: 0, `{"text":"","usage":{"seconds":-5,"input_tokens":-7}}`: 0, `{"text":"","duration":"2.5"}`: 2.5,
	} {
		for ev, err := range openai.DecodeTranscriptReply("application/json", strings.NewReader(body)) {
			if err != nil || ev.Transcript.Duration != want || ev.Usage != nil {
				t.Errorf("%s: %v, %+v, %v; want %v and no usage", body, ev.Transcript, ev.Usage, err, want)
			}
			if out, err := openai.EncodeTranscript(&llm.TranscriptionRequest{Format: llm.TranscriptVerbose}, ev); err != nil || !json.Valid(out) {
				t.Errorf("%s: %s, %v", body, out, err)
			}
		}
	}
}

func TestDiarizedTranscript(t *testing.T) {
	t.Parallel()
	r := &llm.TranscriptionRequest{Format: llm.TranscriptDiarized}
	got, err := openai.EncodeTranscript(r, llm.MediaEvent{Transcript: &llm.Transcript{
		Text: "hi", Duration: 1.5, Segments: []llm.Segment{{Start: 0, End: 1.5, Text: "hi", Speaker: "A"}},
	}})
	const want = `{"duration":1.5,"segments":[{"end":1.5,"id":"seg_0","speaker":"A","start":0,"text":"hi","type":"transcript.text.segment"}],"task":"transcribe","text":"hi"}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
