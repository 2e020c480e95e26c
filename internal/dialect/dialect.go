// Package dialect declares what a wire protocol must offer and holds what all of them share: SSE and NDJSON framing and
// the sequencer that turns a backend's fragments into the grammar of llm.
//
// A dialect has two halves. The client-facing half (serve.go) is a [Codec]: it decodes requests and encodes answers. The
// backend-facing half (call.go) encodes requests and decodes answers. Neither does any I/O beyond the reader and the
// writer it is given.
package dialect

import (
	"io"
	"net/http"
	"time"

	"mindrouter/internal/llm"
)

// Codec is the client-facing half of a dialect for one kind of endpoint.
type Codec interface {
	// DecodeChat decodes a request body. Errors are *llm.Error with the field at fault in Param.
	DecodeChat(body []byte) (*llm.Request, []llm.Note, error)
	// NewEncoder returns the encoder of one answer.
	NewEncoder(w io.Writer, reply Reply) Encoder
	// WriteError answers with err's true status, headers and the dialect's body. Nothing may have been written before.
	WriteError(w http.ResponseWriter, err *llm.Error, requestID string)
}

// Reply says what an encoder needs to know about the request that it answers.
type Reply struct {
	RequestID string // UUID; ids in bodies derive from it
	Model     string // as the client asked for it
	Created   time.Time
	Request   *llm.Request
	// ReasoningField is the key of thinking on the OpenAI surface: reasoning_content (also if empty), reasoning or both.
	ReasoningField string
}

// Encoder writes one answer to a client, either as a stream (Encode, then Close or EncodeError) or whole
// (EncodeResponse). It does not flush; the caller does, after each call.
type Encoder interface {
	// ContentType of the stream or, if the request is not streamed, of the whole answer.
	ContentType() string
	// Encode writes one event. Events that mean nothing to the client write nothing.
	Encode(ev llm.Event) error
	// EncodeResponse writes a whole answer.
	EncodeResponse(resp *llm.Response) error
	// EncodeError ends a stream with an explicit error, never with a terminator that claims success.
	EncodeError(err *llm.Error) error
	// KeepAlive writes what the protocol allows as a sign of life; nothing where it has none.
	KeepAlive() error
	// Close writes the terminator of a complete stream.
	Close() error
}
