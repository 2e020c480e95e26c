package openai

import (
	"encoding/json"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// EncodeResponse writes a whole answer. It says the same as the stream of the same events.
func (e *encoder) EncodeResponse(resp *llm.Response) error {
	if e.ended {
		return errEnded
	}
	e.ended = true
	b := e.appendHead(e.buf[:0], "chat.completion")
	b = append(b, `,"choices":[`...)
	for i := range resp.Choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendChoice(b, i, &resp.Choices[i])
	}
	b = append(b, `],"usage":`...)
	b = appendUsage(b, resp.Usage)
	b = append(b, "}\n"...)
	e.buf = b
	return e.flush()
}

func (e *encoder) appendChoice(b []byte, i int, c *llm.Choice) []byte {
	var text, thinking, refusal string
	for _, block := range c.Blocks {
		switch block.Kind {
		case llm.BlockText:
			text += block.Text
		case llm.BlockThinking:
			thinking += block.Text
		case llm.BlockRefusal:
			refusal += block.Text
		}
	}
	calls := c.ToolCalls()
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	if text == "" && (len(calls) > 0 || refusal != "") {
		b = append(b, "null"...)
	} else {
		b = dialect.AppendString(b, text)
	}
	b = append(b, `,"refusal":`...)
	b = appendStringOrNull(b, refusal)
	if thinking != "" {
		b = append(b, ',')
		b = e.appendThinking(b, thinking)
	}
	b = e.appendCalls(b, calls)
	b = append(b, `},"logprobs":`...)
	b = appendLogprobs(b, c.Logprobs)
	b = append(b, `,"finish_reason":`...)
	b = dialect.AppendString(b, finishReason(c.StopReason, len(calls) > 0, refusal != "", e.legacy))
	return append(b, '}')
}

func (e *encoder) appendCalls(b []byte, calls []llm.ToolCall) []byte {
	if len(calls) == 0 {
		return b
	}
	if e.legacy {
		b = append(b, `,"function_call":`...)
		return appendFunction(b, calls[0])
	}
	b = append(b, `,"tool_calls":[`...)
	for i, call := range calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = dialect.AppendString(b, call.ID)
		b = append(b, `,"type":"function","function":`...)
		b = appendFunction(b, call)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendFunction(b []byte, call llm.ToolCall) []byte {
	arguments := string(call.Arguments)
	if arguments == "" {
		arguments = "{}"
	}
	b = append(b, `{"name":`...)
	b = dialect.AppendString(b, call.Name)
	b = append(b, `,"arguments":`...)
	b = dialect.AppendString(b, arguments)
	return append(b, '}')
}

func appendLogprobs(b []byte, parts []json.RawMessage) []byte {
	if len(parts) == 0 {
		return append(b, "null"...)
	}
	b = append(b, `{"content":[`...)
	first := true
	for _, part := range parts {
		for _, token := range dialect.Elements(part) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(b, token...)
		}
	}
	return append(b, `],"refusal":null}`...)
}
