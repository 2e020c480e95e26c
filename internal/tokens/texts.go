package tokens

import (
	"iter"

	"mindrouter/internal/llm"
)

// texts yields every piece of text of r's messages that a template may render. Thinking of earlier turns is among
// them although most templates leave it out.
func texts(r *llm.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		if r.Raw != nil {
			for _, p := range r.Raw.Prompts() {
				if !yield(p.Text) || !yield(p.Suffix) {
					return
				}
			}
		}
		for _, m := range r.Messages {
			if !yield(m.Name) || !blockTexts(m.Blocks, yield) {
				return
			}
		}
	}
}

func blockTexts(blocks []llm.Block, yield func(string) bool) bool {
	for _, b := range blocks {
		var ok bool
		switch {
		case b.ToolCall != nil:
			ok = yield(b.ToolCall.ID) && yield(b.ToolCall.Name) && yield(string(b.ToolCall.Arguments))
		case b.ToolResult != nil:
			ok = yield(b.ToolResult.CallID) && yield(b.ToolResult.Name) && blockTexts(b.ToolResult.Content, yield)
		case b.Kind == llm.BlockDocument && b.Media != nil:
			ok = yield(b.Media.Name) && yield(string(b.Media.Data))
		default:
			ok = yield(b.Text)
		}
		if !ok {
			return false
		}
	}
	return true
}

// toolTexts yields the declarations of r's tools and the schema of its answer, which some templates render too.
func toolTexts(r *llm.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range r.Tools {
			if !yield(t.Name) || !yield(t.Description) || !yield(string(t.Schema)) {
				return
			}
		}
		_ = yield(string(r.Format.Schema))
	}
}

// rawTokens counts the tokens of prompts that came as such.
func rawTokens(r *llm.RawPrompt) int {
	n := 0
	for _, p := range r.Prompts() {
		n += len(p.Tokens)
	}
	return n
}
