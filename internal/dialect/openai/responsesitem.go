package openai

import (
	"encoding/json"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// outputItem is one item of an answer, finished or not.
type outputItem struct {
	block     llm.BlockKind
	custom    bool
	id        string
	callID    string
	name      string
	namespace string

	text     []byte // what is said, thought or refused; the arguments of a call, or the input of a custom one
	logprobs json.RawMessage
	input    inputReader // of a custom call
	broken   bool        // the arguments are not JSON, because the answer was cut or the model wrote them so
	sealed   string
}

// newItem returns the item for a block; nil if the protocol has none. Its id follows from the place in the answer.
func (e *responsesEncoder) newItem(block llm.BlockKind, call *llm.ToolCall) *outputItem {
	it := &outputItem{block: block}
	prefix := "msg_"
	switch {
	case block == llm.BlockText || block == llm.BlockRefusal:
	case block == llm.BlockThinking:
		prefix = "rs_"
	case block == llm.BlockToolCall && call != nil:
		prefix = "fc_"
		it.callID, it.name = call.ID, call.Name
		if tool := e.tool(call.Name); tool != nil {
			it.custom = tool.Kind == llm.ToolCustom
			if it.namespace = tool.Namespace; it.namespace != "" {
				it.name = tool.Member
			}
		}
		if it.custom {
			prefix = "ctc_"
		}
	default:
		return nil
	}
	it.id = prefix + e.id + "_" + strconv.Itoa(e.index)
	return it
}

// tool returns the declaration of the function that the model called. Models that know namespaces by heart may write
// the name with a dot.
func (e *responsesEncoder) tool(name string) *llm.Tool {
	if e.reply.Request == nil {
		return nil
	}
	tools := e.reply.Request.Tools
	for i := range tools {
		if tools[i].Name == name {
			return &tools[i]
		}
	}
	for i := range tools {
		if tools[i].Namespace != "" && tools[i].Namespace+"."+tools[i].Member == name {
			return &tools[i]
		}
	}
	return nil
}

// add takes the next text of the block and returns what the client gets of it.
func (it *outputItem) add(text string, logprobs json.RawMessage) string {
	if it.custom {
		text = it.input.write(text)
	}
	it.text = append(it.text, text...)
	if it.block == llm.BlockText {
		it.logprobs = dialect.JoinArrays(it.logprobs, logprobs)
	}
	return text
}

// end takes notice of the end of the block and returns what the client gets at the end only.
func (it *outputItem) end() string {
	var rest string
	switch {
	case it.custom:
		var whole bool
		rest, whole = it.input.close()
		it.broken = !whole
	case it.block == llm.BlockToolCall && len(it.text) == 0:
		rest = "{}"
	case it.block == llm.BlockToolCall:
		it.broken = !json.Valid(it.text)
	}
	it.text = append(it.text, rest...)
	return rest
}

// status is what a finished item says of itself. A call that cannot be run is flagged.
func (it *outputItem) status() string {
	if it.broken {
		return "incomplete"
	}
	return "completed"
}

const inProgress = "in_progress"

// appendItem appends the item as it begins (in progress, without its content) or as it ends.
func (e *responsesEncoder) appendItem(dst []byte, it *outputItem, status string) []byte {
	text := string(it.text)
	if status == inProgress {
		text = ""
	}
	dst = append(dst, `{"id":"`...)
	dst = append(dst, it.id...)
	switch {
	case it.block == llm.BlockThinking:
		dst = append(dst, `","type":"reasoning","summary":[`...)
		if e.summary && text != "" {
			dst = appendPart(dst, "summary_text", text, nil)
		}
		dst = append(dst, `],"content":[`...)
		if text != "" {
			dst = appendPart(dst, "reasoning_text", text, nil)
		}
		dst = append(dst, `],"encrypted_content":`...)
		dst = appendStringOrNull(dst, it.sealed)
	case it.custom:
		dst = append(dst, `","type":"custom_tool_call","call_id":`...)
		dst = it.appendCall(dst, "input", text)
	case it.block == llm.BlockToolCall:
		dst = append(dst, `","type":"function_call","call_id":`...)
		dst = it.appendCall(dst, "arguments", text)
	default:
		dst = append(dst, `","type":"message","role":"assistant","content":[`...)
		if status != inProgress {
			dst = appendPart(dst, partType(it.block), text, it.logprobs)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	return append(dst, `"}`...)
}

func (it *outputItem) appendCall(dst []byte, key, text string) []byte {
	dst = dialect.AppendString(dst, it.callID)
	dst = append(dst, `,"name":`...)
	dst = dialect.AppendString(dst, it.name)
	if it.namespace != "" {
		dst = append(dst, `,"namespace":`...)
		dst = dialect.AppendString(dst, it.namespace)
	}
	dst = append(dst, `,"`...)
	dst = append(dst, key...)
	dst = append(dst, `":`...)
	return dialect.AppendString(dst, text)
}

func partType(block llm.BlockKind) string {
	switch block {
	case llm.BlockThinking:
		return "reasoning_text"
	case llm.BlockRefusal:
		return "refusal"
	default:
		return "output_text"
	}
}

// appendPart appends a part of the content of an item.
func appendPart(dst []byte, kind, text string, logprobs json.RawMessage) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	if kind == "refusal" {
		dst = append(dst, `","refusal":`...)
		return append(dialect.AppendString(dst, text), '}')
	}
	dst = append(dst, `","text":`...)
	dst = dialect.AppendString(dst, text)
	if kind == "output_text" {
		dst = append(dst, `,"annotations":[],"logprobs":`...)
		dst = appendArray(dst, logprobs)
	}
	return append(dst, '}')
}

func appendArray(dst []byte, raw json.RawMessage) []byte {
	if raw == nil {
		return append(dst, "[]"...)
	}
	return append(dst, raw...)
}
