package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// EncodeResponse writes a whole answer. It says the same as the stream of the same events. An answer that the protocol
// cannot express is an *llm.Error, and nothing is written then.
func (e *encoder) EncodeResponse(resp *llm.Response) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	if len(resp.Choices) == 0 {
		return noAnswer()
	}
	c := &resp.Choices[0]
	for _, b := range c.Blocks {
		var args []byte
		if b.ToolCall != nil {
			args = b.ToolCall.Arguments
		}
		e.end.add(b.Kind, args)
	}
	reason, sequence, err := e.end.of(c.StopReason, c.StopSequence)
	if err != nil {
		return err
	}
	b := e.appendHead(e.buf[:0])
	b = append(b, `,"content":[`...)
	for _, block := range c.Blocks {
		part := e.appendBlock(nil, block)
		if len(part) > 0 && b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, part...)
	}
	b = append(b, "],"...)
	b = appendStop(b, reason, sequence)
	b = append(b, `,"container":null,"diagnostics":null,"usage":`...)
	b = appendUsage(b, resp.Usage)
	b = append(b, "}\n"...)
	e.buf = b
	return e.flush()
}

// appendHead appends the members that a message begins with.
func (e *encoder) appendHead(dst []byte) []byte {
	dst = append(dst, `{"id":"msg_`...)
	dst = append(dst, strings.ReplaceAll(e.reply.RequestID, "-", "")...)
	dst = append(dst, `","type":"message","role":"assistant","model":`...)
	return dialect.AppendString(dst, e.reply.Model)
}

// appendBlock appends a block; nothing if the protocol has no such block.
func (e *encoder) appendBlock(dst []byte, b llm.Block) []byte {
	switch {
	case b.Kind == llm.BlockText || b.Kind == llm.BlockRefusal:
		dst = append(dst, `{"type":"text","text":`...)
		dst = dialect.AppendString(dst, b.Text)
		return append(dst, `,"citations":null}`...)
	case b.Kind == llm.BlockThinking:
		text := b.Text
		if e.omit {
			text = ""
		}
		dst = append(dst, `{"type":"thinking","thinking":`...)
		dst = dialect.AppendString(dst, text)
		dst = append(dst, `,"signature":`...)
		dst = dialect.AppendString(dst, e.sign.of(b.Signature, []byte(b.Text)))
		return append(dst, '}')
	case b.Kind == llm.BlockToolCall && b.ToolCall != nil:
		input := bytes.ToValidUTF8(bytes.TrimSpace(b.ToolCall.Arguments), []byte("\ufffd"))
		if len(input) == 0 || !isInput(input) { // not an object: the answer was cut, and its stop reason says so
			input = []byte("{}")
		}
		return appendCall(dst, b.ToolCall, input)
	default:
		return dst
	}
}

func appendCall(dst []byte, call *llm.ToolCall, input json.RawMessage) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = dialect.AppendString(dst, call.ID)
	dst = append(dst, `,"name":`...)
	dst = dialect.AppendString(dst, call.Name)
	dst = append(dst, `,"input":`...)
	dst = append(dst, input...)
	return append(dst, '}')
}

// appendStop appends why a message ended; no reason means that it has not.
func appendStop(dst []byte, reason, sequence string) []byte {
	dst = append(dst, `"stop_reason":`...)
	dst = appendStringOrNull(dst, reason)
	dst = append(dst, `,"stop_sequence":`...)
	dst = appendStringOrNull(dst, sequence)
	if reason == "refusal" {
		return append(dst, `,"stop_details":{"type":"refusal","category":null,"explanation":null}`...)
	}
	return append(dst, `,"stop_details":null`...)
}

// appendUsage appends the usage. What was read from the cache is not part of input_tokens in this protocol.
func appendUsage(dst []byte, u llm.Usage) []byte {
	number := func(key string, n int) {
		dst = append(dst, key...)
		dst = strconv.AppendInt(dst, int64(max(n, 0)), 10)
	}
	number(`{"input_tokens":`, u.Input-u.CachedInput)
	number(`,"cache_creation_input_tokens":`, 0)
	number(`,"cache_read_input_tokens":`, u.CachedInput)
	number(`,"output_tokens":`, u.Output)
	if u.Reasoning > 0 {
		number(`,"output_tokens_details":{"thinking_tokens":`, u.Reasoning)
		dst = append(dst, '}')
	}
	return append(dst, `,"server_tool_use":null}`...)
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return dialect.AppendString(dst, s)
}

// signer makes the signatures of thinking blocks: gw1. and 16 bytes of a digest over model and text.
type signer struct {
	model  string
	digest func([]byte) [32]byte
}

// of returns the signature of a block: given, if the backend had one, or ours.
func (s signer) of(given string, text []byte) string {
	if given != "" {
		return given
	}
	digest := s.digest
	if digest == nil {
		digest = sha256.Sum256
	}
	data := append([]byte(s.model+"\x00"), text...)
	sum := digest(data)
	return "gw1." + base64.RawURLEncoding.EncodeToString(sum[:16])
}
