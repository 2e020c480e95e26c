package tokens

import (
	"mindrouter/internal/llm"
)

// Allowances of [UpperBound], in tokens.
const (
	basePerPrompt  = 256  // preamble, default system prompt, date, opening of the answer
	basePerMessage = 32   // role and turn markers, names and ids
	basePerTools   = 1024 // instructions on how to call tools
)

// Fixed figures for media, in tokens. They are what common vision models use for a picture of about one megapixel and
// common audio models for half a minute.
const (
	ImageTokens = 1536
	AudioTokens = 1024
)

const bytesPerToken = 4 // of English prose and code; other scripts have fewer characters but as many bytes

// UpperBound returns a number of tokens that the prompt of r does not exceed for any byte-level vocabulary, apart from
// media, which counts a fixed figure.
func UpperBound(r *llm.Request) int {
	s := measure(r)
	if r.Raw != nil {
		s.text += rawTokens(r.Raw)
	}
	n := s.text + s.media + basePerPrompt + basePerMessage*s.messages
	if len(r.Tools) > 0 {
		n += basePerTools + 2*s.tools // indented JSON: the white space of a line rarely exceeds the line
	}
	return n
}

// Estimate returns the likely number of tokens of the prompt of r, from the kinds of its characters alone.
func Estimate(r *llm.Request) int {
	n := 8
	if r.Raw != nil {
		n += rawTokens(r.Raw)
	}
	for text := range texts(r) {
		n += estimateText(text)
	}
	for text := range toolTexts(r) {
		n += estimateText(text)
	}
	for _, m := range r.Messages {
		n += 4*max(1, len(m.Blocks)) + media(m.Blocks)
	}
	return n
}

// estimateText counts a token for every four ASCII bytes and for every character of another script: their words are
// rarer in a vocabulary, the more so the more bytes a character takes. Two bytes (Greek, Cyrillic, accents) count half.
func estimateText(text string) int {
	ascii, lead2, lead3 := 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c < 0x80:
			ascii++
		case c >= 0xe0:
			lead3++
		case c >= 0xc0:
			lead2++
		}
	}
	return (ascii+bytesPerToken-1)/bytesPerToken + (lead2+1)/2 + lead3
}

// EstimateInputs returns the likely number of tokens of the inputs of an embedding request.
func EstimateInputs(r *llm.EmbedRequest) int {
	n := 0
	for _, in := range r.Inputs {
		if in.Tokens != nil {
			n += len(in.Tokens)
		} else {
			n += estimateText(in.Text) + 2
		}
	}
	return n
}

// EstimateRank returns the likely number of tokens that a model reads to rank: every text with its query.
func EstimateRank(r *llm.RankRequest) int {
	n, query := 0, 0
	for i, text := range r.Texts {
		if i < len(r.Queries) {
			query = estimateText(r.Queries[i])
		}
		n += query + estimateText(text) + 4
	}
	return n
}

// size is what bounds a prompt: bytes of text and of tools, tokens of media, number of messages.
type size struct{ text, tools, media, messages int }

func measure(r *llm.Request) size {
	var s size
	for text := range texts(r) {
		s.text += len(text)
	}
	for text := range toolTexts(r) {
		s.tools += len(text)
	}
	for _, m := range r.Messages {
		s.messages += max(1, len(m.Blocks))
		s.media += media(m.Blocks)
	}
	return s
}

func media(blocks []llm.Block) int {
	n := 0
	for _, b := range blocks {
		switch b.Kind {
		case llm.BlockImage:
			n += ImageTokens
		case llm.BlockAudio:
			n += AudioTokens
		case llm.BlockToolResult:
			if b.ToolResult != nil {
				n += media(b.ToolResult.Content)
			}
		}
	}
	return n
}
