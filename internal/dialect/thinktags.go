package dialect

import (
	"strings"

	"mindrouter/internal/llm"
)

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// tagSplitter takes the thinking out of a text in which a model wraps it in tags. A tag may be cut between deltas, so
// what could be the beginning of one is held back. The opening tag may be missing: templates of some models end with
// it; then everything up to the closing tag has already gone out as text, and only the tag itself is removed.
type tagSplitter struct {
	inside  bool
	held    string
	trimmed bool // white space after a closing tag is being skipped
}

// split hands the parts of text to emit, in order, and reports what emit reports.
func (t *tagSplitter) split(text string, emit func(llm.BlockKind, string) bool) bool {
	text = t.held + text
	t.held = ""
	for text != "" {
		if t.trimmed {
			if text = strings.TrimLeft(text, "\n"); text == "" {
				return true
			}
			t.trimmed = false
		}
		kind := llm.BlockText
		if t.inside {
			kind = llm.BlockThinking
		}
		at, tag := firstTag(text)
		if at < 0 {
			keep := partialTag(text)
			t.held = text[len(text)-keep:]
			text = text[:len(text)-keep]
			return text == "" || emit(kind, text)
		}
		if at > 0 && !emit(kind, text[:at]) {
			return false
		}
		t.inside = tag == thinkOpen
		t.trimmed = true
		text = text[at+len(tag):]
	}
	return true
}

// flush hands out what was held back.
func (t *tagSplitter) flush(emit func(llm.BlockKind, string) bool) bool {
	held := t.held
	t.held = ""
	if held == "" {
		return true
	}
	kind := llm.BlockText
	if t.inside {
		kind = llm.BlockThinking
	}
	return emit(kind, held)
}

func firstTag(s string) (at int, tag string) {
	open, end := strings.Index(s, thinkOpen), strings.Index(s, thinkClose)
	if open >= 0 && (end < 0 || open < end) {
		return open, thinkOpen
	}
	return end, thinkClose
}

// partialTag returns how many bytes at the end of s may be the beginning of a tag.
func partialTag(s string) int {
	for n := min(len(thinkClose)-1, len(s)); n > 0; n-- {
		tail := s[len(s)-n:]
		if strings.HasPrefix(thinkOpen, tail) || strings.HasPrefix(thinkClose, tail) {
			return n
		}
	}
	return 0
}
