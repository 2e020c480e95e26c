package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

func TestSpeechOfManyServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, body, want string }{
		"sound":            {"audio/mpeg", "abc", "audio=abc done"},
		"untold":           {"application/octet-stream", "abc", "audio=abc done"},
		"nothing":          {"audio/mpeg", "", "!upstream"},
		"an error":         {"application/json", `{"error":{"message":"no such voice","code":400}}`, "!invalid_request"},
		"JSON":             {"application/json", `{"audio":"abc"}`, "!upstream"},
		"a page":           {"text/html", `<html>`, "!upstream"},
		"no type":          {"", "abc", "!upstream"},
		"events":           {events, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"YWJj\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}\n\n", "audio=abc done+usage"},
		"events, no end":   {events, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"YWJj\"}\n\ndata: [DONE]\n\n", "audio=abc !upstream"},
		"events, no audio": {events, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"%%\"}\n\n", "!upstream"},
	} {
		if got := heard(openai.DecodeSpeechReply(c.kind, strings.NewReader(c.body))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// FuzzMediaReplies: whatever a server sends, an answer ends with Done or an error, and the client gets JSON.
func FuzzMediaReplies(f *testing.F) {
	for _, seed := range []string{
		`{"text":"hi","segments":[{"id":0,"start":0,"end":1,"text":"hi"}],"words":[{"word":"hi"}],"duration":"1.5","usage":{"seconds":2}}`,
		`{"created":1,"data":[{"b64_json":"` + pngHead + `"}],"usage":{"input_tokens":3}}`,
		"data: {\"type\":\"transcript.text.done\",\"text\":\"hi\"}\n\n",
		"data: {\"type\":\"image_edit.completed\",\"b64_json\":\"" + pngHead + "\"}\n\n",
		"data: {\"type\":\"speech.audio.delta\",\"audio\":\"YWJj\"}\n\ndata: {\"type\":\"speech.audio.done\"}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"h\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
	} {
		for kind := range 2 {
			f.Add(kind, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, kind int, body []byte) {
		contentType := []string{"application/json", events}[uint(kind)%2]
		for name, decode := range map[string]func(string, io.Reader) llm.MediaStream{
			"speech": openai.DecodeSpeechReply, "transcript": openai.DecodeTranscriptReply, "image": openai.DecodeImageReply,
		} {
			var image, sse bytes.Buffer
			whole := openai.NewImageWriter(&image, openai.ImageReply{})
			enc := map[string]*openai.MediaEncoder{
				"speech": openai.NewSpeechEncoder(&sse), "transcript": openai.NewTranscriptEncoder(&sse), "image": openai.NewImageEncoder(&sse, openai.ImageReply{}),
			}[name]
			done, failed := 0, false
			for ev, err := range decode(contentType, bytes.NewReader(body)) {
				if failed = err != nil; failed {
					break
				}
				if done > 0 {
					t.Fatalf("%s: an event behind Done", name)
				}
				if err := enc.Encode(ev); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if name == "image" {
					if err := whole.Encode(ev); err != nil {
						t.Fatal(err)
					}
				}
				if ev.Kind != llm.MediaDone {
					continue
				}
				done++
				if name != "transcript" {
					continue
				}
				for _, format := range []llm.TranscriptFormat{llm.TranscriptJSON, llm.TranscriptVerbose, llm.TranscriptDiarized} {
					if out, err := openai.EncodeTranscript(&llm.TranscriptionRequest{Format: format}, ev); err != nil || !json.Valid(out) {
						t.Fatalf("%s: %q, %v", format, out, err)
					}
				}
			}
			if failed == (done == 1) {
				t.Fatalf("%s: failed %t with %d Done", name, failed, done)
			}
			if name == "image" && !failed && !json.Valid(image.Bytes()) {
				t.Fatalf("%q is no JSON", image.Bytes())
			}
			for line := range strings.SplitSeq(sse.String(), "\n") {
				if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) {
					t.Fatalf("%s: %q is no JSON", name, data)
				}
			}
		}
	})
}
