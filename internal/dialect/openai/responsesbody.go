package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// ending is how a response stands.
type ending struct {
	status  string
	reason  string // why it is incomplete
	failure *llm.Error
}

// endingOf maps a stop reason. A refusal that the model worded itself ends like any answer.
func (e *responsesEncoder) endingOf(r llm.StopReason) ending {
	switch {
	case r == llm.StopMaxTokens || r == llm.StopContextFull:
		return ending{status: "incomplete", reason: "max_output_tokens"}
	case r == llm.StopRefusal && !e.refused:
		return ending{status: "incomplete", reason: "content_filter"}
	default:
		return ending{status: "completed"}
	}
}

// responseEcho are the fields of the request that a response repeats, as the client wrote them.
type responseEcho map[string]json.RawMessage

// append appends a field, or what the protocol has in its place.
func (r responseEcho) append(dst []byte, key, otherwise string) []byte {
	raw := r[key]
	if raw == nil {
		return append(dst, otherwise...)
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, bytes.ToValidUTF8(raw, []byte("\ufffd"))); err != nil { // an event is one line
		return append(dst, otherwise...)
	}
	return append(dst, buf.Bytes()...)
}

// appendResponse appends the response object. All required fields are there in every state of it, because typed clients
// insist on them.
func (e *responsesEncoder) appendResponse(dst []byte, end ending, usage *llm.Usage) []byte {
	r := e.echo
	dst = append(dst, `{"id":"`...)
	dst = append(dst, e.responseID()...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, e.reply.Created.Unix(), 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, end.status...)
	dst = append(dst, `","background":false,"error":`...)
	dst = appendFailure(dst, end.failure)
	dst = append(dst, `,"incomplete_details":`...)
	if end.reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"reason":"`...)
		dst = append(dst, end.reason...)
		dst = append(dst, `"}`...)
	}
	for _, f := range []struct{ key, otherwise string }{
		{"instructions", "null"},
		{"max_output_tokens", "null"},
		{"metadata", "{}"},
		{"previous_response_id", "null"},
		{"prompt_cache_key", "null"},
		{"safety_identifier", "null"},
		{"store", "false"},
		{"temperature", "null"},
		{"tool_choice", `"auto"`},
		{"tools", "[]"},
		{"top_logprobs", "0"},
		{"top_p", "null"},
	} {
		dst = append(dst, `,"`...)
		dst = append(dst, f.key...)
		dst = append(dst, `":`...)
		dst = r.append(dst, f.key, f.otherwise)
	}
	dst = append(dst, `,"model":`...)
	dst = dialect.AppendString(dst, e.reply.Model)
	dst = append(dst, `,"parallel_tool_calls":`...)
	dst = strconv.AppendBool(dst, e.parallel())
	dst = append(dst, `,"reasoning":{"effort":`...)
	dst = r.append(dst, "reasoning.effort", "null")
	dst = append(dst, `,"summary":`...)
	dst = r.append(dst, "reasoning.summary", "null")
	dst = append(dst, `},"text":{"format":`...)
	dst = r.append(dst, "text.format", `{"type":"text"}`)
	if r["text.verbosity"] != nil {
		dst = append(dst, `,"verbosity":`...)
		dst = r.append(dst, "text.verbosity", "null")
	}
	dst = append(dst, `},"service_tier":"default","truncation":"disabled","max_tool_calls":null,"output":[`...)
	dst = append(dst, e.output...)
	dst = append(dst, `],"usage":`...)
	dst = appendResponsesUsage(dst, usage)
	return append(dst, '}')
}

func (e *responsesEncoder) responseID() string { return "resp_" + e.id }

func (e *responsesEncoder) parallel() bool {
	r := e.reply.Request
	return r == nil || r.ParallelTools == nil || *r.ParallelTools
}

func appendResponsesUsage(dst []byte, u *llm.Usage) []byte {
	if u == nil {
		return append(dst, "null"...)
	}
	number := func(key string, n int) {
		dst = append(dst, key...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	number(`{"input_tokens":`, u.Input)
	number(`,"input_tokens_details":{"cached_tokens":`, u.CachedInput)
	number(`,"cache_write_tokens":`, 0)
	number(`},"output_tokens":`, u.Output)
	number(`,"output_tokens_details":{"reasoning_tokens":`, u.Reasoning)
	number(`},"total_tokens":`, u.Total())
	return append(dst, '}')
}

// appendFailure appends why a response failed. Agents read the wait from the text.
func appendFailure(dst []byte, err *llm.Error) []byte {
	if err == nil {
		return append(dst, "null"...)
	}
	text := message(err)
	if err.Code == llm.CodeRateLimited && err.RetryAfter > 0 {
		text += fmt.Sprintf(" Please try again in %.3gs.", max(err.RetryAfter, time.Millisecond).Seconds())
	}
	dst = append(dst, `{"code":"`...)
	dst = append(dst, failureCode(err.Code)...)
	dst = append(dst, `","message":`...)
	dst = dialect.AppendString(dst, text)
	return append(dst, '}')
}

// failureCode returns the code of a failed response: one of those that the protocol lists, and two more by which agents
// know that they must shorten their history or stop.
func failureCode(code llm.Code) string {
	switch code {
	case llm.CodeContextTooLong:
		return "context_length_exceeded"
	case llm.CodeBudgetSpent:
		return "insufficient_quota"
	case llm.CodeRateLimited:
		return "rate_limit_exceeded"
	case llm.CodeInvalidRequest, llm.CodeUnsupported, llm.CodeTooLarge:
		return "invalid_prompt"
	default:
		return "server_error"
	}
}

// keep hands the response to the store, if the client wants it stored.
func (e *responsesEncoder) keep(end ending) error {
	if e.codec.Keep == nil || e.echo["store"] == nil {
		return nil
	}
	previous, _ := dialect.Unquote(e.echo["previous_response_id"])
	r := Record{
		ID:       e.responseID(),
		Previous: previous,
		Input:    e.inputItems(),
		Response: e.appendResponse(nil, end, e.usage),
		Failed:   end.failure != nil,
	}
	begin := 0
	for _, to := range e.items {
		r.Output = append(r.Output, bytes.Clone(e.output[begin:to]))
		begin = to + 1
	}
	return e.codec.Keep(r)
}

// inputItems returns the items of the request's own input in full: a text as a message, and every item with a type and
// an id.
func (e *responsesEncoder) inputItems() []json.RawMessage {
	raw := e.echo["input"]
	if dialect.Kind(raw) == '"' {
		text := append([]byte(`[{"role":"user","content":[{"type":"input_text","text":`), raw...)
		raw = slices.Concat(text, []byte("}]}]"))
	}
	var items []json.RawMessage
	for i, item := range dialect.Elements(raw) {
		kind, id := "item_reference", ""
		for key, value := range dialect.Members(item) {
			switch k := string(key); {
			case k == "role" && kind == "item_reference":
				kind = "message"
			case k == "id":
				id, _ = dialect.Unquote(value)
			case k == "type" && !dialect.Null(value):
				kind, _ = dialect.Unquote(value)
			}
		}
		items = append(items, e.fullItem(item, i, kind, id))
	}
	return items
}

// fullItem returns an item that begins with its type and id. The other members keep their bytes.
func (e *responsesEncoder) fullItem(item json.RawMessage, i int, kind, id string) json.RawMessage {
	if id == "" {
		id = itemPrefix(kind) + e.id + "_in_" + strconv.Itoa(i)
	}
	b := append([]byte(`{"type":`), dialect.Quote(kind)...)
	b = append(b, `,"id":`...)
	b = dialect.AppendString(b, id)
	for key, value := range dialect.Members(item) {
		if k := string(key); k == "type" || k == "id" {
			continue
		}
		b = append(b, ',')
		b = dialect.AppendString(b, string(key))
		b = append(b, ':')
		b = append(b, value...)
	}
	return bytes.ToValidUTF8(append(b, '}'), []byte("\ufffd"))
}

func itemPrefix(kind string) string {
	switch kind {
	case "message":
		return "msg_"
	case "reasoning":
		return "rs_"
	case "function_call":
		return "fc_"
	case "function_call_output":
		return "fco_"
	case "custom_tool_call":
		return "ctc_"
	case "custom_tool_call_output":
		return "ctco_"
	default:
		return "item_"
	}
}
