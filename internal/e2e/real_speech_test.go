//go:build real

package e2e_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/realmodels"
)

// TestRealSpeechIsHeardAgain has digits spoken by one program and understood by another. What passes between them is
// sound, so a byte that is lost or changed on the way is heard.
func TestRealSpeechIsHeardAgain(t *testing.T) {
	t.Parallel()
	server := realmodels.Speech(t)
	s := e2e.Start(t, e2e.Options{Cluster: fmt.Sprintf(`
backends: [{name: real, engine: openai, url: %q, max_concurrent: 2}]
models: [{name: %s, capabilities: [speech]}, {name: %s, capabilities: [transcription]}]`, server.URL, realmodels.FliteModel, realmodels.SphinxModel)})
	key := s.Key(app.NewKey{})
	c := client(s, key)
	for _, text := range realmodels.DigitTexts {
		p := speak(text)
		p.Model = realmodels.FliteModel
		resp, err := c.Audio.Speech.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var wav bytes.Buffer
		if _, err := wav.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		q := write(wav.Bytes())
		q.Model = realmodels.SphinxModel
		got, err := c.Audio.Transcriptions.New(t.Context(), q)
		if err != nil || got.Text != text || got.Usage.Seconds < 1 {
			t.Errorf("heard %q after %v seconds, %v; want %q", got.Text, got.Usage.Seconds, err, text)
		}
		srt := upload(t, s, "/v1/audio/transcriptions", key, "@file", wav.String(), "model", realmodels.SphinxModel, "response_format", "srt")
		if srt.Status != 200 || !strings.HasPrefix(srt.Body, "1\n00:00:00,000 --> 00:00:0") || !strings.HasSuffix(srt.Body, "\n"+text+"\n\n") {
			t.Errorf("subtitles: %d %q", srt.Status, srt.Body)
		}
	}
	if got, want := record(t, s)["success"], 3*len(realmodels.DigitTexts); got != want {
		t.Errorf("%d successes on record, want %d", got, want)
	}
}
