package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
)

func prompt(text string) openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model: "chat", MaxTokens: openai.Int(40), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(text)},
	}
}

// completeBothWays asks whole and streamed; both must agree.
func completeBothWays(t *testing.T, c openai.Client, p openai.CompletionNewParams) openai.Completion {
	t.Helper()
	whole, err := c.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatalf("whole: %v", err)
	}
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Completions.NewStreaming(t.Context(), p)
	var text strings.Builder
	var finish string
	var usage openai.CompletionUsage
	for stream.Next() {
		chunk := stream.Current()
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Text)
			if choice.FinishReason != "" {
				finish = string(choice.FinishReason)
			}
		}
		if chunk.Usage.TotalTokens > 0 {
			usage = chunk.Usage
		}
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		t.Fatalf("streamed: %v", err)
	}
	w := whole.Choices[0]
	if w.Text != text.String() || string(w.FinishReason) != finish || whole.Usage.TotalTokens != usage.TotalTokens || usage.TotalTokens == 0 {
		t.Errorf("whole %q %s %d and streamed %q %s %d differ", w.Text, w.FinishReason, whole.Usage.TotalTokens, text.String(), finish, usage.TotalTokens)
	}
	return *whole
}

// completeAll returns the texts by choice.
func completeAll(t *testing.T, c openai.Client, p openai.CompletionNewParams, stream bool) (map[int64]string, openai.CompletionUsage) {
	t.Helper()
	texts := map[int64]string{}
	if !stream {
		whole, err := c.Completions.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, choice := range whole.Choices {
			texts[choice.Index] += choice.Text
		}
		return texts, whole.Usage
	}
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	var usage openai.CompletionUsage
	s := c.Completions.NewStreaming(t.Context(), p)
	for s.Next() {
		for _, choice := range s.Current().Choices {
			texts[choice.Index] += choice.Text
		}
		if s.Current().Usage.TotalTokens > 0 {
			usage = s.Current().Usage
		}
	}
	if err := errors.Join(s.Err(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return texts, usage
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, s *e2e.Server, _ openai.Client) {
		c := client(s, s.Key(app.NewKey{}))
		got := completeBothWays(t, c, prompt("[[say=Blue — синий]]"))
		if got.Choices[0].Text != "Blue — синий" || got.Object != "text_completion" || got.Model != "chat" {
			t.Errorf("got %+v", got)
		}
		p := prompt("[[tokens=50]]")
		p.MaxTokens = openai.Int(7)
		if got := completeBothWays(t, c, p); got.Choices[0].FinishReason != "length" || got.Usage.CompletionTokens != 7 {
			t.Errorf("finish %s after %d tokens, want length after 7", got.Choices[0].FinishReason, got.Usage.CompletionTokens)
		}
		p = openai.CompletionNewParams{Model: "chat", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("[[tokens=50]]")}}
		if got := completeBothWays(t, c, p); got.Usage.CompletionTokens != 16 {
			t.Errorf("without a bound: %d tokens, want the protocol's 16", got.Usage.CompletionTokens)
		}
		p = prompt("")
		p.Prompt = openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"[[say=one]]"}}
		if got := completeBothWays(t, c, p); got.Choices[0].Text != "one" {
			t.Errorf("a list with one prompt: %q", got.Choices[0].Text)
		}
		p.Prompt = openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"[[say=one]]", "[[say=two and more]]", "[[say=three]]"}}
		for _, stream := range []bool{false, true} {
			texts, usage := completeAll(t, c, p, stream)
			if fmt.Sprint(texts) != "map[0:one 1:two and more 2:three]" || usage.CompletionTokens < 5 || usage.PromptTokens == 0 {
				t.Errorf("three prompts, stream %v: %v, usage %+v", stream, texts, usage)
			}
		}
		p.Prompt = openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"one", ""}}
		_, err := c.Completions.New(t.Context(), p)
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusBadRequest || apiErr.Param != "prompt[1]" {
			t.Errorf("an empty prompt: %v, want 400 naming it", err)
		}
	})
}
