package openai_test

import (
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai"
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
