package tokens_test

import (
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"mindrouter/internal/llm"
	"mindrouter/internal/tokens"
)

func prompt(text string) *llm.Request {
	return &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{llm.TextBlock(text)}}}}
}

func TestCountMatchesTheVocabulary(t *testing.T) {
	t.Parallel()
	c := tokens.NewCounter()
	for text, want := range map[string]int{
		"":                      0,
		"hello world":           2,
		"The sky is blue.":      5,
		"<|endoftext|>":         7, // in a prompt it is text, not the control token
		strings.Repeat("a ", 9): 10,
	} {
		if got := c.CountText(text); got != want {
			t.Errorf("CountText(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestUpperBoundIsNeverBelowTheCount(t *testing.T) {
	t.Parallel()
	c := tokens.NewCounter()
	rapid.Check(t, func(t *rapid.T) {
		r := prompt(rapid.String().Draw(t, "text"))
		r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{
			{Kind: llm.BlockThinking, Text: rapid.String().Draw(t, "thinking")},
			{Kind: llm.BlockToolCall, ToolCall: &llm.ToolCall{ID: "c", Name: "f", Arguments: []byte(rapid.String().Draw(t, "args"))}},
		}}, llm.Message{Role: llm.RoleTool, Blocks: []llm.Block{
			{Kind: llm.BlockToolResult, ToolResult: &llm.ToolResult{CallID: "c", Content: []llm.Block{llm.TextBlock(rapid.String().Draw(t, "result"))}}},
		}})
		r.Tools = []llm.Tool{{Name: "f", Description: rapid.String().Draw(t, "description")}}
		if bound, count := tokens.UpperBound(r), c.Count(r); bound < count {
			t.Fatalf("bound %d is below count %d of %+v", bound, count, r)
		}
	})
}

func TestHostilePromptIsCountedInLinearTime(t *testing.T) {
	t.Parallel()
	c := tokens.NewCounter()
	for name, text := range map[string]string{
		"one word":     strings.Repeat("a", 400_000),
		"white space":  strings.Repeat(" ", 400_000),
		"line feeds":   strings.Repeat("\n", 400_000),
		"punctuation":  strings.Repeat("=", 400_000),
		"wide runes":   strings.Repeat("\u4e16", 130_000),
		"invalid utf8": strings.Repeat("\xff", 100_000),
	} {
		if n := c.CountText(text); n <= 0 || n > 3*len(text) {
			t.Errorf("%s: count %d of %d bytes", name, n, len(text))
		}
	}
}

func TestLongTextIsExtrapolated(t *testing.T) {
	t.Parallel()
	c := tokens.NewCounter()
	one := strings.Repeat("The sky is blue and the sea is wide. ", 20_000)
	n, twice := c.CountText(one), c.CountText(one+one)
	if twice < 2*n-n/50 || twice > 2*n+n/50 {
		t.Errorf("twice the text counts %d, want about %d", twice, 2*n)
	}
}

func TestCounterLearnsFromReports(t *testing.T) {
	t.Parallel()
	c := tokens.NewCounter()
	r := prompt(strings.Repeat("The sky is blue. ", 100))
	plain := c.Count(r)
	for range 40 {
		c.Learn("m", c.Count(r), plain*3/2)
	}
	if got := c.Count(r); got < plain*3/2-plain/20 || got > plain*3/2+plain/20 {
		t.Errorf("after reports of %d the count is %d", plain*3/2, got)
	}
	other := *r
	other.Model = "other"
	if got := c.Count(&other); got != plain {
		t.Errorf("another model counts %d, want %d", got, plain)
	}
	c.Learn("other", 1, 1000)
	c.Learn("other", plain, 1000*plain)
	if got := c.Count(&other); got > 2*plain {
		t.Errorf("one absurd report moves the count from %d to %d", plain, got)
	}
}

func TestCounterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := tokens.NewCounter()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r := prompt("The sky is blue.")
			c.Learn(r.Model, 100, 100+c.Count(r))
		})
	}
	wg.Wait()
}

func TestMediaCountsFixedFigures(t *testing.T) {
	t.Parallel()
	r := prompt("look")
	without := tokens.Estimate(r)
	r.Messages[0].Blocks = append(r.Messages[0].Blocks, llm.Block{Kind: llm.BlockImage, Media: &llm.Media{Data: make([]byte, 1<<20)}})
	if got := tokens.Estimate(r) - without; got < tokens.ImageTokens || got > tokens.ImageTokens+16 {
		t.Errorf("an image adds %d tokens, want %d", got, tokens.ImageTokens)
	}
}

func TestEstimateInputsCountsTokenIDs(t *testing.T) {
	t.Parallel()
	r := &llm.EmbedRequest{Inputs: []llm.EmbedInput{{Tokens: make([]int, 7)}, {Text: "twelve bytes"}}}
	if got := tokens.EstimateInputs(r); got != 7+3+2 {
		t.Errorf("EstimateInputs = %d, want 12", got)
	}
}

func BenchmarkCount(b *testing.B) {
	c := tokens.NewCounter()
	r := prompt(strings.Repeat("The sky is blue and the sea is wide. ", 50))
	c.Count(r)
	b.SetBytes(int64(len(r.Messages[0].Text())))
	b.ReportAllocs()
	for b.Loop() {
		c.Count(r)
	}
}
