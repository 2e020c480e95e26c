package llm

import "encoding/json"

// EmbedRequest asks for embeddings.
type EmbedRequest struct {
	Model      string
	Inputs     []EmbedInput
	Dimensions *int
	EndUser    string
	// Truncate says whether an input above the context may be cut; nil means the backend's default.
	Truncate *bool
	Base64   bool // the client wants vectors as base64 of little-endian float32
	Origin   Dialect
	Extra    map[string]json.RawMessage
}

// EmbedInput is one text, or one list of token ids.
type EmbedInput struct {
	Text   string
	Tokens []int // if not nil, it counts instead of Text
}

// EmbedResponse holds a vector per input, in the order of the inputs.
type EmbedResponse struct {
	Model   string
	Vectors [][]float32
	Usage   Usage
}
