package llm_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mindrouter/internal/llm"
)

func drawBlock(t *rapid.T) llm.Block {
	switch kind := rapid.SampledFrom([]llm.BlockKind{llm.BlockText, llm.BlockThinking, llm.BlockRefusal, llm.BlockToolCall}).Draw(t, "kind"); kind {
	case llm.BlockToolCall:
		call := &llm.ToolCall{ID: rapid.StringN(1, 9, -1).Draw(t, "id"), Name: rapid.StringN(1, 9, -1).Draw(t, "name")}
		if args := rapid.String().Draw(t, "arguments"); args != "" {
			call.Arguments = json.RawMessage(args)
		}
		return llm.Block{Kind: kind, ToolCall: call}
	case llm.BlockThinking:
		return llm.Block{Kind: kind, Text: rapid.String().Draw(t, "text"), Signature: rapid.String().Draw(t, "signature")}
	default:
		return llm.Block{Kind: kind, Text: rapid.String().Draw(t, "text")}
	}
}

func drawResponse(t *rapid.T) *llm.Response {
	r := &llm.Response{Usage: llm.Usage{
		Input: rapid.IntRange(0, 99).Draw(t, "input"), Output: rapid.IntRange(0, 99).Draw(t, "output"), Estimated: rapid.Bool().Draw(t, "estimated"),
	}}
	for range rapid.IntRange(1, 3).Draw(t, "choices") {
		c := llm.Choice{
			StopReason:   rapid.SampledFrom([]llm.StopReason{llm.StopEnd, llm.StopToolUse, llm.StopSequence, llm.StopMaxTokens}).Draw(t, "reason"),
			StopSequence: rapid.SampledFrom([]string{"", "END"}).Draw(t, "sequence"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "blocks") {
			c.Blocks = append(c.Blocks, drawBlock(t))
		}
		if len(c.Blocks) > 0 {
			for range rapid.IntRange(0, 2).Draw(t, "logprobs") {
				c.Logprobs = append(c.Logprobs, json.RawMessage(`[{"token":"a"}]`))
			}
		}
		r.Choices = append(r.Choices, c)
	}
	return r
}

func TestCollectIsTheInverseOfEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawResponse(t)
		got, err := llm.Collect(llm.Check(llm.Events(want)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("Collect(Events(r)) = %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestEventsStopsWithItsConsumer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawResponse(t)
		count := func(limit int) int {
			seen := 0
			for _, err := range llm.Events(r) {
				if seen++; err != nil || seen == limit {
					break
				}
			}
			return seen
		}
		limit := rapid.IntRange(1, count(-1)).Draw(t, "limit")
		seen := count(limit)
		if seen != limit {
			t.Fatalf("%d events, want %d", seen, limit)
		}
	})
}

func TestAccumulatorIsLinear(t *testing.T) {
	t.Parallel()
	var a llm.Accumulator
	a.Add(openText)
	const n = 200_000 // quadratic copying would move 20 GB
	for range n {
		a.Add(say)
	}
	if got := a.Response().Choices[0].Text(); got != strings.Repeat("a", n) {
		t.Errorf("%d bytes, want %d", len(got), n)
	}
	if a.Finished() {
		t.Error("finished before a stop")
	}
	a.Add(closeText)
	a.Add(stop)
	if !a.Finished() {
		t.Error("not finished after the stop")
	}
}

func TestWhatWasCollectedDoesNotChangeLater(t *testing.T) {
	t.Parallel()
	var a llm.Accumulator
	a.Add(openText)
	a.Add(say)
	before := a.Response().Choices[0].Blocks[0].Text
	a.Add(say)
	if before != "a" {
		t.Errorf("the text that was read turned into %q", before)
	}
}

func TestDeltaWithoutBlockIsIgnored(t *testing.T) {
	t.Parallel()
	var a llm.Accumulator
	a.Add(say)
	a.Add(closeText)
	if got := a.Response().Choices[0]; len(got.Blocks) != 0 {
		t.Errorf("blocks %+v", got.Blocks)
	}
}
