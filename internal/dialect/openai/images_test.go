package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

var (
	pngHead  = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n0123"))
	webpHead = base64.StdEncoding.EncodeToString([]byte("RIFF0000WEBP"))
)

func TestImagesOfManyServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, body, want string }{
		"facts behind":    {"application/json", `{"data":[{"b64_json":"` + pngHead + `"},{"b64_json":"` + webpHead + `"}],"created":1,"usage":{"input_tokens":1}}`, "image=png image=webp done+usage"},
		"facts in front":  {"application/json; charset=utf-8", `{"created":"soon","data":[{"b64_json":"` + pngHead + `"}]}`, "image=png done"},
		"no list":         {"application/json", `{"data":{}}`, "!upstream"},
		"null":            {"application/json", `{"data":null}`, "!upstream"},
		"a list":          {"application/json", `[]`, "!upstream"},
		"cut":             {"application/json", `{"data":[{"b64_json":"` + pngHead + `"}`, "image=png !upstream"},
		"number":          {"application/json", `{"data":[{"b64_json":7}]}`, "!upstream"},
		"an error":        {"application/json", `{"error":{"message":"no","code":400}}`, "!invalid_request"},
		"a picture":       {"image/png", "\x89PNG", "!upstream"},
		"events":          {events, "event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"" + pngHead + "\"}\n\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"" + pngHead + "\"}\n\n", "image=png image=png done"},
		"events, partial": {events, "data: {\"type\":\"image_edit.partial_image\",\"b64_json\":\"" + pngHead + "\"}\n\n", "image=png !upstream"},
		"events, address": {events, "data: {\"type\":\"image_edit.completed\",\"url\":\"http://x/y\"}\n\n", "!upstream"},
	} {
		if got := heard(openai.DecodeImageReply(c.kind, strings.NewReader(c.body))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestImageWriterMakesOneDocument(t *testing.T) {
	t.Parallel()
	image := llm.MediaEvent{Kind: llm.MediaImage, Image: &llm.Image{Data: "AAAA", Format: "png", RevisedPrompt: `"`}}
	partial := llm.MediaEvent{Kind: llm.MediaImage, Image: &llm.Image{Data: "BBBB", Format: "png", Partial: true}}
	for want, done := range map[string]llm.MediaEvent{
		`{"created":7,"data":[{"url":"data:image/png;base64,AAAA","revised_prompt":"\""},{"url":"data:image/png;base64,AAAA","revised_prompt":"\""}]}`:              {Kind: llm.MediaDone},
		`{"created":7,"data":[{"url":"data:image/png;base64,AAAA","revised_prompt":"\""},{"url":"data:image/png;base64,AAAA","revised_prompt":"\""}],"size":"8x8"}`: {Kind: llm.MediaDone, Image: &llm.Image{Size: "8x8"}},
	} {
		var b bytes.Buffer
		w := openai.NewImageWriter(&b, openai.ImageReply{Created: 7, URL: true})
		for _, ev := range []llm.MediaEvent{image, partial, image, done} {
			if err := w.Encode(ev); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.TrimSpace(b.String()); got != want || !json.Valid(b.Bytes()) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestImageRequestsFitTheirModel(t *testing.T) {
	t.Parallel()
	r, _, err := openai.DecodeImageGeneration([]byte(`{"model":"m","prompt":"x","n":2,"quality":"high","seed":3,"response_format":"url"}`))
	if err != nil || !r.URL {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		"flux":        `{"model":"flux","prompt":"x","n":2,"quality":"high","response_format":"b64_json","seed":3}`,
		"gpt-image-1": `{"model":"gpt-image-1","prompt":"x","n":2,"quality":"high","seed":3}`,
	} {
		got, err := openai.EncodeImageCall(r, openai.CallOptions{Model: llm.Model{Name: model}})
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
