package simbackend_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/openai/openai-go/v3"

	"mindrouter/internal/simbackend"
)

func mediaModels(t *testing.T) simbackend.Config {
	t.Helper()
	m, err := simbackend.ParseModels("tts:speech,stt:transcription,pics:image")
	if err != nil {
		t.Fatal(err)
	}
	return simbackend.Config{Dialect: simbackend.DialectOpenAI, Models: m}
}

// TestSoundsAreReadBack: any text survives being spoken, and a sound of others is told by its length.
func TestSoundsAreReadBack(t *testing.T) {
	t.Parallel()
	c := openAIClient(serve(t, mediaModels(t)))
	hear := func(sound []byte) openai.AudioTranscriptionNewResponseUnion {
		t.Helper()
		got, err := c.Audio.Transcriptions.New(testContext(t), openai.AudioTranscriptionNewParams{Model: "stt", File: openai.File(bytes.NewReader(sound), "a.wav", "audio/wav")})
		if err != nil {
			t.Fatal(err)
		}
		return *got
	}
	for _, text := range []string{"x", "Grüezi 東京 🙂", "two  spaces and\na line"} {
		resp, err := c.Audio.Speech.New(testContext(t), openai.AudioSpeechNewParams{
			Model: "tts", Input: text, Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("v")},
		})
		if err != nil {
			t.Fatal(err)
		}
		sound, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := hear(sound); err != nil || got.Text != text {
			t.Errorf("%q, %v; want %q", got.Text, err, text)
		}
		if len(sound) != 44+640*len(text) {
			t.Errorf("%d bytes of sound for %d bytes of text", len(sound), len(text))
		}
		sound[50]++ // no sound of ours any more
		if got := hear(sound); got.Text == text {
			t.Errorf("noise is heard as %q", got.Text)
		}
	}
	if got := hear(make([]byte, 32_000)); got.Text != "This is a simulated transcript of 2.0 seconds." {
		t.Errorf("%q", got.Text)
	}
}

func TestImagesDependOnTheirPrompt(t *testing.T) {
	t.Parallel()
	c := openAIClient(serve(t, mediaModels(t)))
	draw := func(prompt string) string {
		t.Helper()
		got, err := c.Images.Generate(testContext(t), openai.ImageGenerateParams{Model: "pics", Prompt: prompt, ResponseFormat: openai.ImageGenerateParamsResponseFormatB64JSON})
		if err != nil {
			t.Fatal(err)
		}
		return got.Data[0].B64JSON
	}
	if a, b := draw("a"), draw("b"); a == b || a != draw("a") {
		t.Error("images do not depend on the prompt alone")
	}
}
