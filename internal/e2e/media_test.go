package e2e_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

const mediaModels = `
models: [{name: tts, capabilities: [speech]}, {name: stt, capabilities: [transcription]}, {name: pics, capabilities: [image]}, {name: chat, capabilities: [chat]}]`

func mediaConfig(t *testing.T, d simbackend.Dialect) simbackend.Config {
	t.Helper()
	m, err := simbackend.ParseModels("tts:speech@8192,stt:transcription@8192,pics:image@8192,chat:chat@8192,mute:chat@8192")
	if err != nil {
		t.Fatal(err)
	}
	return simbackend.Config{Dialect: d, Models: m}
}

// mediaServer is a gateway to an OpenAI-compatible server that can do everything.
func mediaServer(t *testing.T) (*e2e.Server, openai.Client) {
	t.Helper()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": mediaConfig(t, simbackend.DialectOpenAI)},
		Cluster:  `backends: [{name: sim, engine: openai, url: "%sim%"}]` + mediaModels,
	})
	return s, client(s, s.Key(app.NewKey{}))
}

// mediaPair is two such servers, so that one can stand in for the other.
func mediaPair(t *testing.T) *e2e.Server {
	t.Helper()
	cfg := mediaConfig(t, simbackend.DialectOpenAI)
	return e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"a": cfg, "b": cfg},
		Cluster: `
backends: [{name: a, engine: openai, url: "%a%", priority: 5}, {name: b, engine: openai, url: "%b%"}]
settings: {retry: {first_output: 1s, idle: 1s}}` + mediaModels,
	})
}

func speak(text string) openai.AudioSpeechNewParams {
	return openai.AudioSpeechNewParams{
		Model: "tts", Input: text, Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("alloy")},
		ResponseFormat: openai.AudioSpeechNewParamsResponseFormatWAV,
	}
}

// sound has a text spoken through the gateway.
func sound(t *testing.T, c openai.Client, text string) []byte {
	t.Helper()
	resp, err := c.Audio.Speech.New(t.Context(), speak(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "audio/wav" {
		t.Errorf("content type %q, want audio/wav", got)
	}
	if resp.Header.Get("X-Mindrouter-Backend") == "" || resp.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v lack the backend or the id", resp.Header)
	}
	return data
}

func write(data []byte) openai.AudioTranscriptionNewParams {
	return openai.AudioTranscriptionNewParams{Model: "stt", File: openai.File(bytes.NewReader(data), "speech.wav", "audio/wav")}
}

const sentence = "Grüezi, this sentence was spoken and written down again."

func TestSpeechIsWrittenDownAgain(t *testing.T) {
	t.Parallel()
	s, c := mediaServer(t)
	data := sound(t, c, sentence)
	got, err := c.Audio.Transcriptions.New(t.Context(), write(data))
	if err != nil || got.Text != sentence {
		t.Fatalf("%q, %v; want %q", got.Text, err, sentence)
	}
	if got.Usage.Type != "tokens" || got.Usage.OutputTokens == 0 || got.Usage.TotalTokens == 0 {
		t.Errorf("usage %s", got.RawJSON())
	}
	p := write(data)
	p.ResponseFormat = openai.AudioResponseFormatVerboseJSON
	p.TimestampGranularities = []string{"word", "segment"}
	got, err = c.Audio.Transcriptions.New(t.Context(), p)
	if err != nil || got.Text != sentence || got.Duration == 0 || got.Language != "en" || len(got.Segments) != 2 || len(got.Words) == 0 {
		t.Fatalf("verbose: %s, %v", got.RawJSON(), err)
	}
	if got.Usage.Type != "duration" || got.Usage.Seconds != got.Duration {
		t.Errorf("verbose: usage %s, want the duration %v", got.RawJSON(), got.Duration)
	}
	if sent, _ := s.Backends["sim"].LastRequest("/v1/audio/transcriptions"); bytes.Count(sent.Body, []byte("timestamp_granularities[]")) != 2 {
		t.Errorf("the granularities did not reach the backend")
	}
	translated, err := c.Audio.Translations.New(t.Context(), openai.AudioTranslationNewParams{ //nolint:staticcheck // deprecated there, used by clients
		Model: "stt", File: openai.File(bytes.NewReader(data), "speech.wav", "audio/wav"),
	})
	if err != nil || translated.Text != "In English: "+sentence {
		t.Errorf("translation: %+v, %v", translated, err)
	}
	if got := ended(t, s); got["success"] != 4 || len(got) != 1 {
		t.Errorf("the record holds %v, want 4 success", got)
	}
}

// ended counts the requests on record by outcome once all have ended.
func ended(t *testing.T, s *e2e.Server) (got map[string]int) {
	t.Helper()
	s.Eventually("on record", func() error {
		if got = outcomes(t, s.DataDir); got[""] != 0 {
			return fmt.Errorf("%d requests without an end", got[""])
		}
		return nil
	})
	return got
}

func TestSpeechAsEvents(t *testing.T) {
	t.Parallel()
	s, c := mediaServer(t)
	whole := sound(t, c, sentence)
	p := speak(sentence)
	p.StreamFormat = openai.AudioSpeechNewParamsStreamFormatSSE
	resp, err := c.Audio.Speech.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	var joined []byte
	var last string
	for line := range strings.SplitSeq(string(body), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var ev struct {
			Type  string
			Audio []byte
			Usage map[string]int
		}
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		joined, last = append(joined, ev.Audio...), ev.Type
		if ev.Type == "speech.audio.done" && ev.Usage["output_tokens"] == 0 {
			t.Errorf("usage %v", ev.Usage)
		}
	}
	if !bytes.Equal(joined, whole) || last != "speech.audio.done" {
		t.Errorf("%d bytes in events that end with %q, want %d bytes and speech.audio.done", len(joined), last, len(whole))
	}
	// The usage of the events is the backend's own; that of plain bytes is an estimate.
	if estimated, reported := mediaUsage(t, s); estimated != 1 || reported != 1 {
		t.Errorf("%d estimated and %d reported on record, want 1 and 1", estimated, reported)
	}
}

func mediaUsage(t *testing.T, s *e2e.Server) (estimated, reported int) {
	t.Helper()
	ended(t, s)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.DataDir, "mindrouter.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(t.Context(), "SELECT COALESCE(SUM(CASE WHEN usage_estimated THEN 1 ELSE 0 END), 0), "+
		"COALESCE(SUM(CASE WHEN usage_estimated THEN 0 ELSE 1 END), 0) FROM requests WHERE input_tokens > 0 AND output_tokens > 0").Scan(&estimated, &reported)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return estimated, reported
}

func TestTranscriptAsEvents(t *testing.T) {
	t.Parallel()
	for _, d := range []simbackend.Dialect{simbackend.DialectOpenAI, simbackend.DialectVLLM} { // two kinds of events, one answer
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, e2e.Options{
				Backends: map[string]simbackend.Config{"sim": mediaConfig(t, d), "tts": mediaConfig(t, simbackend.DialectOpenAI)},
				Cluster: fmt.Sprintf(`
backends: [{name: sim, engine: %s, url: "%%sim%%", models: [{name: stt}]}, {name: tts, engine: openai, url: "%%tts%%", models: [{name: tts}]}]`, d) + mediaModels,
			})
			c := client(s, s.Key(app.NewKey{}))
			stream := c.Audio.Transcriptions.NewStreaming(t.Context(), write(sound(t, c, sentence)))
			var text string
			var events []string
			for stream.Next() {
				ev := stream.Current()
				text += ev.Delta
				if events = append(events, ev.Type); ev.Type == "transcript.text.done" && (ev.Text != sentence || ev.Usage.TotalTokens == 0) {
					t.Errorf("the last event is %s", ev.RawJSON())
				}
			}
			if err := errors.Join(stream.Err(), stream.Close()); err != nil {
				t.Fatal(err)
			}
			if text != sentence || len(events) < 4 || events[len(events)-1] != "transcript.text.done" {
				t.Errorf("%q in the events %v", text, events)
			}
		})
	}
}

// upload is a form of files and values: name, value, name, value ... A file is a name with an @ in front.
func upload(t *testing.T, s *e2e.Server, path, key string, fields ...string) e2e.Answer {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		var part io.Writer
		var err error
		if name, ok := strings.CutPrefix(fields[i], "@"); ok {
			part, err = w.CreateFormFile(name, "some\"thing.bin")
		} else {
			part, err = w.CreateFormField(fields[i])
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Post(path, key, b.String(), "Content-Type", w.FormDataContentType())
}

func TestTranscriptForms(t *testing.T) {
	t.Parallel()
	s, c := mediaServer(t)
	key := s.Key(app.NewKey{})
	wav := string(sound(t, c, "one two three four"))
	for format, want := range map[string]string{
		"text": "one two three four\n",
		"srt":  "1\n00:00:00,000 --> 00:00:00,180\none two\n\n2\n00:00:00,180 --> 00:00:00,360\nthree four\n\n",
		"vtt":  "WEBVTT\n\n00:00:00.000 --> 00:00:00.180\none two\n\n00:00:00.180 --> 00:00:00.360\nthree four\n\n",
	} {
		got := upload(t, s, "/v1/audio/transcriptions", key, "@file", wav, "model", "stt", "response_format", format, "vad_filter", "true", "shiny", "yes")
		if got.Status != 200 || got.Body != want || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s %q, want %q", format, got.Status, got.Header.Get("Content-Type"), got.Body, want)
		}
		warnings := got.Header.Get("X-Mindrouter-Warnings")
		if !strings.Contains(warnings, "shiny=dropped") || strings.Contains(warnings, "vad_filter") {
			t.Errorf("%s: warnings %q, want that shiny is dropped and nothing of vad_filter", format, warnings)
		}
		if format != "text" && !strings.Contains(warnings, "usage=in_seconds:0.36") {
			t.Errorf("%s: warnings %q, want the seconds", format, warnings)
		}
		sent, _ := s.Backends["sim"].LastRequest("/v1/audio/transcriptions")
		if body := string(sent.Body); !strings.Contains(body, "vad_filter") || strings.Contains(body, "shiny") || strings.Contains(body, "some\\") || !strings.Contains(body, `filename="file.wav"`) {
			t.Errorf("%s: the backend got %.400q", format, body)
		}
	}
}

func TestSpeechInAnotherFormatThanAsked(t *testing.T) {
	t.Parallel()
	s, _ := mediaServer(t)
	key := s.Key(app.NewKey{})
	body := `{"model":"tts","voice":{"id":"voice_1"},"input":"hi","seed":7,"shiny":1}`
	got := s.Post("/v1/audio/speech", key, body)
	if got.Status != 200 || got.Header.Get("Content-Type") != "audio/wav" || !strings.Contains(got.Header.Get("X-Mindrouter-Warnings"), "response_format=changed:wav") {
		t.Errorf("%d %v: a sound of another format is not told", got.Status, got.Header)
	}
	sent, _ := s.Backends["sim"].LastRequest("/v1/audio/speech")
	if want := `{"model":"tts","input":"hi","voice":{"id":"voice_1"},"response_format":"mp3","seed":7}`; string(sent.Body) != want {
		t.Errorf("sent %s, want %s", sent.Body, want)
	}
	got = s.Post("/v1/audio/speech", key, strings.Replace(body, `,"shiny":1`, "", 1), "X-Mindrouter-Strict", "1")
	if e := decodeError(t, got.Body); got.Status != 400 || !strings.Contains(e.Error.Message, "response_format") {
		t.Errorf("strict: %d %s", got.Status, got.Body)
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	s, c := mediaServer(t)
	draw := func(prompt string) openai.ImagesResponse {
		t.Helper()
		got, err := c.Images.Generate(t.Context(), openai.ImageGenerateParams{Model: "pics", Prompt: prompt, N: openai.Int(2), Size: "1024x1024"})
		if err != nil {
			t.Fatal(err)
		}
		return *got
	}
	got := draw("a red house")
	if len(got.Data) != 2 || got.Data[0].B64JSON == got.Data[1].B64JSON || got.Data[0].B64JSON == draw("a blue house").Data[0].B64JSON {
		t.Fatalf("%d images, or the same for two prompts", len(got.Data))
	}
	if got.Usage.OutputTokens != 2112 || got.Created == 0 || got.OutputFormat != "png" || got.Data[1].RevisedPrompt != "A picture of: a red house" {
		t.Errorf("%.300s", got.RawJSON())
	}
	first, err := base64.StdEncoding.DecodeString(got.Data[0].B64JSON)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	file := func() io.Reader { return openai.File(bytes.NewReader(first), "house.png", "image/png") }
	edited, err := c.Images.Edit(t.Context(), openai.ImageEditParams{Model: "pics", Prompt: "add a tree", Image: openai.ImageEditParamsImageUnion{OfFile: file()}})
	if err != nil || len(edited.Data) != 1 || edited.Data[0].B64JSON == got.Data[0].B64JSON {
		t.Fatalf("edit: %v", err)
	}
	twice, err := c.Images.Edit(t.Context(), openai.ImageEditParams{
		Model: "pics", Prompt: "add a tree", Image: openai.ImageEditParamsImageUnion{OfFileArray: []io.Reader{file(), file()}}, Mask: file(),
	})
	if err != nil || twice.Data[0].B64JSON == edited.Data[0].B64JSON {
		t.Fatalf("edit of two with a mask: %v", err)
	}
	byURL, err := c.Images.Generate(t.Context(), openai.ImageGenerateParams{Model: "pics", Prompt: "a red house", ResponseFormat: openai.ImageGenerateParamsResponseFormatURL})
	if err != nil || byURL.Data[0].URL != "data:image/png;base64,"+got.Data[0].B64JSON || byURL.Data[0].B64JSON != "" {
		t.Errorf("by address: %v", err)
	}
	if got := ended(t, s); got["success"] != 5 || len(got) != 1 {
		t.Errorf("the record holds %v, want 5 success", got)
	}
}

func TestImagesAsEvents(t *testing.T) {
	t.Parallel()
	_, c := mediaServer(t)
	stream := c.Images.GenerateStreaming(t.Context(), openai.ImageGenerateParams{Model: "pics", Prompt: "a red house", PartialImages: openai.Int(2)})
	var got []string
	var pictures []string
	for stream.Next() {
		ev := stream.Current()
		got = append(got, fmt.Sprint(ev.Type, ev.PartialImageIndex, ev.Usage.OutputTokens, ev.OutputFormat, ev.Size))
		pictures = append(pictures, ev.B64JSON)
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{"image_generation.partial_image0 0png1024x1024", "image_generation.partial_image1 0png1024x1024", "image_generation.completed0 1056png1024x1024"}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("events %q, want %q", got, want)
	}
	data, err := base64.StdEncoding.DecodeString(pictures[0])
	if err != nil {
		t.Fatal(err)
	}
	edit := c.Images.EditStreaming(t.Context(), openai.ImageEditParams{
		Model: "pics", Prompt: "add a tree", Image: openai.ImageEditParamsImageUnion{OfFile: openai.File(bytes.NewReader(data), "house.png", "image/png")},
	})
	var last string
	for edit.Next() {
		last = edit.Current().Type
	}
	if err := errors.Join(edit.Err(), edit.Close()); err != nil || last != "image_edit.completed" {
		t.Errorf("edit ends with %q, %v", last, err)
	}
}

// TestImageServersThatMisbehave is about what comes back instead of an image: none of it may reach the client.
func TestImageServersThatMisbehave(t *testing.T) {
	t.Parallel()
	s, _ := mediaServer(t)
	key := s.Key(app.NewKey{})
	for name, c := range map[string]struct {
		reply  string
		status int
	}{
		"an address":      {`{"data":[{"url":"http://10.0.0.1/secret.png"}]}`, 502},
		"a script":        {`{"data":[{"b64_json":"` + base64.StdEncoding.EncodeToString([]byte("<svg onload=alert(1)></svg>")) + `"}]}`, 502},
		"no base64":       {`{"data":[{"b64_json":"\",\"x\":\""}]}`, 502},
		"nothing":         {`{"data":[]}`, 502},
		"no JSON":         {`{"data":[`, 502},
		"a refusal":       {`{"error":{"message":"not that","code":400}}`, 400},
		"an address that": {`{"data":[{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}]}`, 200},
	} {
		s.Backends["sim"].Reply("/v1/images/generations", simbackend.RawReply{Chunks: simbackend.Chunks(c.reply)})
		got := s.Post("/v1/images/generations", key, `{"model":"pics","prompt":"x"}`)
		if got.Status != c.status || strings.Contains(got.Body, "secret") || strings.Contains(got.Body, "svg") {
			t.Errorf("%s: %d %s, want %d", name, got.Status, got.Body, c.status)
		}
		s.Eventually("up again", func() error { // three faults in a row open the breaker
			if got := s.Post("/v1/images/generations", key, `{"model":"pics","prompt":"x"}`); got.Status != 200 {
				return errBody(got.Body)
			}
			return nil
		})
	}
}

func TestMediaRefusals(t *testing.T) {
	t.Parallel()
	s, c := mediaServer(t)
	key := s.Key(app.NewKey{})
	narrow := s.Key(app.NewKey{Models: []string{"chat"}})
	wav := string(sound(t, c, "hi"))
	picture := "\x89PNG\r\n\x1a\n0123"
	before := len(s.Backends["sim"].InferenceRequests())
	const speech, stt, pics, edits = "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/images/generations", "/v1/images/edits"
	for name, tt := range map[string]struct {
		path, key, body string
		form            []string
		status          int
		param, words    string
	}{
		"no input":             {path: speech, body: `{"model":"tts","voice":"a"}`, status: 400, param: "input"},
		"no voice":             {path: speech, body: `{"model":"tts","input":"a"}`, status: 400, param: "voice"},
		"long input":           {path: speech, body: `{"model":"tts","voice":"a","input":"` + strings.Repeat("é", 4097) + `"}`, status: 400, param: "input"},
		"bad format":           {path: speech, body: `{"model":"tts","voice":"a","input":"a","response_format":"midi"}`, status: 400, param: "response_format"},
		"bad speed":            {path: speech, body: `{"model":"tts","voice":"a","input":"a","speed":9}`, status: 400, param: "speed"},
		"a model that chats":   {path: speech, body: `{"model":"chat","voice":"a","input":"a"}`, status: 400, words: "does not support speech"},
		"model not allowed":    {path: speech, key: narrow, body: `{"model":"tts","voice":"a","input":"a"}`, status: 403},
		"unknown model":        {path: speech, body: `{"model":"nobody","voice":"a","input":"a"}`, status: 404},
		"no form":              {path: stt, body: `{"model":"stt"}`, status: 400, param: "Content-Type"},
		"no file":              {path: stt, form: []string{"model", "stt"}, status: 400, param: "file"},
		"empty file":           {path: stt, form: []string{"@file", "", "model", "stt"}, status: 400, param: "file"},
		"two files":            {path: stt, form: []string{"@file", wav, "@file", wav, "model", "stt"}, status: 400, param: "file"},
		"unknown format":       {path: stt, form: []string{"@file", "GIF89a and then something", "model", "stt"}, status: 400, param: "file", words: "MP3"},
		"no model":             {path: stt, form: []string{"@file", wav}, status: 400, param: "model"},
		"two models":           {path: stt, form: []string{"@file", wav, "model", "stt", "model", "tts"}, status: 400, param: "model"},
		"bad temperature":      {path: stt, form: []string{"@file", wav, "model", "stt", "temperature", "NaN"}, status: 400, param: "temperature"},
		"srt stream":           {path: stt, form: []string{"@file", wav, "model", "stt", "response_format", "srt", "stream", "true"}, status: 400, param: "response_format"},
		"a sample by address":  {path: stt, form: []string{"@file", wav, "model", "stt", "known_speaker_references[]", "http://10.0.0.1/x"}, status: 400, param: "known_speaker_references"},
		"another capability":   {path: stt, form: []string{"@file", wav, "model", "tts"}, status: 400, words: "does not support transcription"},
		"form, not allowed":    {path: stt, key: narrow, form: []string{"@file", wav, "model", "stt"}, status: 403},
		"too large":            {path: stt, form: []string{"model", "stt", "@file", wav + strings.Repeat("x", 25<<20)}, status: 413},
		"much too large":       {path: stt, form: []string{"model", "stt", "@file", wav + strings.Repeat("x", 40<<20)}, status: 413},
		"large field":          {path: stt, form: []string{"model", "stt", "@file", wav, "prompt", strings.Repeat("x", 5<<20)}, status: 413},
		"no prompt":            {path: pics, body: `{"model":"pics"}`, status: 400, param: "prompt"},
		"bad size":             {path: pics, body: `{"model":"pics","prompt":"x","size":"huge"}`, status: 400, param: "size"},
		"many":                 {path: pics, body: `{"model":"pics","prompt":"x","n":11}`, status: 400, param: "n"},
		"stream by address":    {path: pics, body: `{"model":"pics","prompt":"x","stream":true,"response_format":"url"}`, status: 400, param: "response_format"},
		"images of a chat":     {path: pics, body: `{"model":"chat","prompt":"x"}`, status: 400, words: "images"},
		"edit of nothing":      {path: edits, form: []string{"model", "pics", "prompt", "x"}, status: 400, param: "image"},
		"edit of a sound":      {path: edits, form: []string{"model", "pics", "prompt", "x", "@image", wav}, status: 400, param: "image"},
		"a mask that is text":  {path: edits, form: []string{"model", "pics", "prompt", "x", "@image", picture, "@mask", "text"}, status: 400, param: "mask"},
		"images too large":     {path: edits, form: []string{"model", "pics", "prompt", "x", "@image", picture + strings.Repeat("x", 17<<20), "@image", picture + strings.Repeat("x", 17<<20)}, status: 413},
		"a body that is short": {path: stt, body: "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nRIFF", status: 400},
	} {
		if tt.key == "" {
			tt.key = key
		}
		var got e2e.Answer
		switch {
		case tt.form != nil:
			got = upload(t, s, tt.path, tt.key, tt.form...)
		case strings.HasPrefix(tt.body, "--x"):
			got = s.Post(tt.path, tt.key, tt.body, "Content-Type", "multipart/form-data; boundary=x")
		default:
			got = s.Post(tt.path, tt.key, tt.body)
		}
		if got.Status != tt.status {
			t.Errorf("%s: %d %.300s, want %d", name, got.Status, got.Body, tt.status)
			continue
		}
		e := decodeError(t, got.Body)
		if tt.param != "" && (e.Error.Param == nil || *e.Error.Param != tt.param) || !strings.Contains(e.Error.Message, tt.words) {
			t.Errorf("%s: %s, want it to name %q with %q", name, got.Body, tt.param, tt.words)
		}
	}
	if after := len(s.Backends["sim"].InferenceRequests()); after != before {
		t.Errorf("%d refused requests reached the backend", after-before)
	}
}

// TestMediaOfAModelThatNobodyDescribed is about a server without such endpoints: it is not ill, and the client learns
// what is wrong.
func TestMediaOfAModelThatNobodyDescribed(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": mediaConfig(t, simbackend.DialectVLLM)},
		Cluster:  `backends: [{name: sim, engine: vllm, url: "%sim%"}]`,
	})
	key := s.Key(app.NewKey{})
	for range 5 { // more than open a breaker
		got := s.Post("/v1/audio/speech", key, `{"model":"mute","voice":"a","input":"a"}`)
		if e := decodeError(t, got.Body); got.Status != 400 || !strings.Contains(e.Error.Message, "does not support speech") {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	if got := s.Post("/v1/chat/completions", key, `{"model":"mute","messages":[{"role":"user","content":"[[say=well]]"}]}`); got.Status != 200 {
		t.Errorf("the server counts as ill: %d %s", got.Status, got.Body)
	}
}

func TestMediaBackendDown(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Cluster: `
backends: [{name: gone, engine: openai, url: "http://127.0.0.1:9", models: [{name: tts}]}]` + mediaModels})
	got := s.Post("/v1/audio/speech", s.Key(app.NewKey{}), `{"model":"tts","voice":"a","input":"a"}`)
	if e := decodeError(t, got.Body); got.Status != 503 || *e.Error.Code != "overloaded" || got.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

func TestMediaGoesToAnotherBackendBeforeItsFirstByte(t *testing.T) {
	t.Parallel()
	wav := spoken(t, sentence)
	for name, fault := range faultsBefore {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mediaPair(t)
			s.Backends["a"].Script(func(simbackend.Request) *simbackend.Fault { return &fault })
			key := s.Key(app.NewKey{})
			got := upload(t, s, "/v1/audio/transcriptions", key, "@file", string(wav), "model", "stt") // the file is sent twice
			if got.Status != 200 || got.Header.Get("X-Mindrouter-Backend") != "b" || !strings.Contains(got.Body, sentence) {
				t.Errorf("transcription: %d from %q: %s", got.Status, got.Header.Get("X-Mindrouter-Backend"), got.Body)
			}
			if len(s.Backends["a"].InferenceRequests()) == 0 {
				t.Error("the broken backend was never asked: the test shows nothing")
			}
			if name == "garbage" {
				return // of a sound nobody can tell
			}
			got = s.Post("/v1/audio/speech", key, `{"model":"tts","voice":"a","response_format":"wav","input":"`+sentence+`"}`)
			if got.Status != 200 || got.Body != string(wav) {
				t.Errorf("speech: %d, %d bytes, want %d", got.Status, len(got.Body), len(wav))
			}
		})
	}
}

// spoken is a text as the simulated server speaks it.
func spoken(t *testing.T, text string) []byte {
	t.Helper()
	_, c := mediaServer(t)
	return sound(t, c, text)
}

func TestMediaBackendDiesInsideItsAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range faultsAfter {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mediaPair(t)
			c := client(s, s.Key(app.NewKey{}))
			s.Backends["a"].Script(func(simbackend.Request) *simbackend.Fault { return &fault })
			if name == "reset" || name == "hang" || name == "abort" { // the others look like the end of a sound, or like sound
				resp, err := c.Audio.Speech.New(t.Context(), speak(sentence))
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				if err == nil || n == 0 {
					t.Errorf("a broken sound of %d bytes looks complete", n)
				}
				_ = resp.Body.Close()
			}
			p := speak(sentence)
			p.StreamFormat = openai.AudioSpeechNewParamsStreamFormatSSE
			resp, err := c.Audio.Speech.New(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(body, []byte(`data: {"error":`)) || bytes.Contains(body, []byte("speech.audio.done")) {
				t.Errorf("a broken stream of events ends with %q", body[max(0, len(body)-200):])
			}
			if n := len(s.Backends["b"].InferenceRequests()); n != 0 {
				t.Errorf("%d retries after the first byte", n)
			}
			if got := ended(t, s); got["success"] != 0 {
				t.Errorf("the record holds %v", got)
			}
		})
	}
}

// TestBrokenSoundOverTLS is the same over TLS and, by its framing, another protocol.
func TestBrokenSoundOverTLS(t *testing.T) {
	t.Parallel()
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			s := overTLS(t, http2)
			sim, err := simbackend.Start(mediaConfig(t, simbackend.DialectOpenAI), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sim.Shutdown() }()
			s.Apply(fmt.Sprintf("backends: [{name: media, engine: openai, url: %q}]", sim.URL) + mediaModels)
			c := s.sdk(t, proto)
			s.Eventually("the model is known", func() error {
				resp, err := c.Audio.Speech.New(t.Context(), speak("hi"))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					err = errors.Join(err, resp.Body.Close())
				}
				return err
			})
			sim.Script(func(simbackend.Request) *simbackend.Fault {
				return &simbackend.Fault{Kind: simbackend.FaultReset, Stage: simbackend.AfterTokens, Tokens: 3}
			})
			resp, err := c.Audio.Speech.New(t.Context(), speak(sentence))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, resp.Body); err == nil || n == 0 {
				t.Errorf("a broken sound of %d bytes looks complete", n)
			}
			_ = resp.Body.Close()
		})
	}
}

// TestSoundPassesAsItIsMade has a backend wait behind the first word: what it has said must be heard by then.
func TestSoundPassesAsItIsMade(t *testing.T) {
	t.Parallel()
	s, c := mediaServer(t)
	heard := make(chan struct{})
	s.Backends["sim"].Script(func(simbackend.Request) *simbackend.Fault {
		return &simbackend.Fault{Kind: simbackend.FaultPause, Stage: simbackend.AfterTokens, Tokens: 1, Until: heard}
	})
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()
	resp, err := c.Audio.Speech.New(ctx, speak("a b"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 44+640)); err != nil {
		t.Errorf("the first word does not come before the second is made: %v", err)
	}
	close(heard)
	rest, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || len(rest) != 2*640 {
		t.Errorf("%d bytes behind the first word, %v", len(rest), err)
	}
}

func TestMediaClientLeaves(t *testing.T) {
	t.Parallel()
	cfg := mediaConfig(t, simbackend.DialectOpenAI)
	cfg.TimeScale = 1
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": cfg},
		Cluster:  `backends: [{name: sim, engine: openai, url: "%sim%", max_concurrent: 1}]` + mediaModels,
	})
	sim, c := s.Backends["sim"], client(s, s.Key(app.NewKey{}))
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
	defer cancel()
	left := 0
	for _, format := range []openai.AudioSpeechNewParamsStreamFormat{"audio", "sse"} {
		gone, leave := context.WithCancel(ctx)
		p := speak(strings.Repeat("word ", 800)) // many seconds
		p.StreamFormat = format
		resp, err := c.Audio.Speech.New(gone, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil { // it has begun, so it is not buffered
			t.Fatal(err)
		}
		leave()
		_ = resp.Body.Close()
		left++
		if err := sim.WaitCancelled(ctx, left); err != nil {
			t.Fatalf("%s: the backend was not told: %v", format, err)
		}
		if data := sound(t, c, "hi"); len(data) == 0 { // the only slot is free again
			t.Error("no sound")
		}
	}
	if got := ended(t, s); got["cancelled"] != 2 || got["success"] != 2 {
		t.Errorf("the record holds %v, want 2 cancelled and 2 success", got)
	}
}

func TestMediaTakesFromTheBudget(t *testing.T) {
	t.Parallel()
	s, _ := mediaServer(t)
	key := s.Key(app.NewKey{Limits: app.Limits{TokenBudget: 3000}})
	statuses := []int{}
	for range 3 { // 1,024 tokens each by the estimate, 1,056 by the backend's count
		statuses = append(statuses, s.Post("/v1/images/generations", key, `{"model":"pics","prompt":"x"}`).Status)
	}
	if fmt.Sprint(statuses) != "[200 200 429]" {
		t.Errorf("statuses %v, want two images and a refusal", statuses)
	}
}

// generated is a sound of so many bytes that takes no memory.
type generated struct{ left int }

func (g *generated) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), g.left)
	clear(p[:n])
	g.left -= n
	return n, nil
}

// TestUploadsAreNotHeldInMemory is not parallel: it looks at what the whole process allocates.
func TestUploadsAreNotHeldInMemory(t *testing.T) { //nolint:paralleltest // see above
	const size, most = 24 << 20, 8 << 20
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	var received atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"stt"}]}`)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		received.Store(n)
		if names, err := os.ReadDir(spool); err != nil || len(names) != 0 {
			t.Errorf("the spool holds %v, %v", names, err)
		}
		_, _ = io.WriteString(w, `{"text":"done"}`)
	}))
	defer backend.Close()
	s := e2e.Start(t, e2e.Options{Cluster: fmt.Sprintf(`backends: [{name: real, engine: openai, url: %q}]`, backend.URL) + mediaModels})
	key := s.Key(app.NewKey{})
	head, tail := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n", "\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nstt\r\n--x--\r\n"
	send := func(size int) {
		t.Helper()
		body := io.MultiReader(strings.NewReader(head+"RIFF0000WAVE"), &generated{size}, strings.NewReader(tail))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/audio/transcriptions", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s %v", resp.StatusCode, text, err)
		}
	}
	send(1 << 10) // what is allocated once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	send(size)
	runtime.ReadMemStats(&after)
	if n := received.Load(); n < size {
		t.Fatalf("the backend got %d bytes", n)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("an upload of %d bytes allocated %d bytes, want at most %d", size, got, most)
	} else {
		t.Logf("%d bytes allocated in %v", got, time.Since(started))
	}
}
