package conformance_test

import (
	"fmt"
	"net/http"
	"strings"

	"mindrouter/internal/simbackend"
)

// script is what the backend of each kind answers.
type script map[engine]simbackend.RawReply

// Counts that answers report unless they say otherwise.
const (
	promptTokens = 26
	answerTokens = 7
)

// part is a piece of an answer.
type part struct {
	kind, text string
	id, name   string
}

func say(s string) part               { return part{kind: "text", text: s} }
func think(s string) part             { return part{kind: "thinking", text: s} }
func call(id, name, args string) part { return part{kind: "call", text: args, id: id, name: name} }

// talk is an answer of parts, in both dialects, that ends well.
func talk(parts ...part) script { return ends("", parts...) }

// ends is an answer of parts that ends for a reason; empty is the usual one.
func ends(reason string, parts ...part) script {
	var v, o []string
	calls := 0
	for _, p := range parts {
		switch p.kind {
		case "text":
			v = append(v, delta(`"content":`+q(p.text)))
			o = append(o, line(`"content":`+q(p.text)))
		case "thinking":
			v = append(v, delta(`"reasoning":`+q(p.text)))
			o = append(o, line(`"content":"","thinking":`+q(p.text)))
		case "call":
			v = append(v, toolDelta(fmt.Sprintf(`"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":%s}`, calls, q(p.id), q(p.name), q(p.text))))
			o = append(o, line(`"content":"","tool_calls":[`+ollamaCall(p.id, p.name, p.text)+`]`))
			calls++
		}
	}
	vReason, oReason := reason, reason
	if reason == "" {
		vReason, oReason = "stop", "stop"
		if calls > 0 {
			vReason = "tool_calls"
		}
	}
	return script{
		vllm:   sse(append(v, finish(vReason), counts(promptTokens, answerTokens), done)...),
		ollama: lines(append(o, last(oReason, promptTokens, answerTokens))...),
	}
}

const done = "[DONE]"

// sse is a stream of events with the given data; each is written by itself.
func sse(data ...string) simbackend.RawReply {
	out := make([]string, len(data))
	for i, d := range data {
		out[i] = "data: " + d + "\n\n"
	}
	return events(out...)
}

// events is a stream of bytes in the given pieces.
func events(pieces ...string) simbackend.RawReply {
	return simbackend.RawReply{Header: http.Header{"Content-Type": {"text/event-stream"}}, Chunks: simbackend.Chunks(pieces...)}
}

// lines is a stream of lines.
func lines(text ...string) simbackend.RawReply {
	out := make([]string, len(text))
	for i, l := range text {
		out[i] = l + "\n"
	}
	return ndjson(out...)
}

func ndjson(pieces ...string) simbackend.RawReply {
	return simbackend.RawReply{Header: http.Header{"Content-Type": {"application/x-ndjson"}}, Chunks: simbackend.Chunks(pieces...)}
}

// ending returns the reply with another end.
func ending(r simbackend.RawReply, end simbackend.End) simbackend.RawReply {
	r.End = end
	return r
}

// status is a reply with a status and a body.
func status(code int, body string, header ...string) simbackend.RawReply {
	r := simbackend.RawReply{Status: code, Chunks: simbackend.Chunks(body), Header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// everywhere is the same reply in both dialects.
func everywhere(r simbackend.RawReply) script { return script{vllm: r, ollama: r} }

const chunkHead = `{"id":"chatcmpl-up","object":"chat.completion.chunk","created":1,"model":"up","choices":`

// delta is a chunk with members of a delta.
func delta(members string) string {
	return chunkHead + `[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`
}

// toolDelta is a chunk with one fragment of a tool call.
func toolDelta(members string) string { return delta(`"tool_calls":[{` + members + `}]`) }

// fragment is a chunk with the next bytes of the arguments of a call.
func fragment(index int, args string) string {
	return toolDelta(fmt.Sprintf(`"index":%d,"function":{"arguments":%s}`, index, q(args)))
}

// opening is a chunk that begins a call.
func opening(index int, id, name, args string) string {
	return toolDelta(fmt.Sprintf(`"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":%s}`, index, q(id), q(name), q(args)))
}

// finish is the chunk that ends a choice; more are further members of the choice.
func finish(reason string, more ...string) string {
	return chunkHead + `[{"index":0,"delta":{},"finish_reason":` + q(reason) + strings.Join(append([]string{""}, more...), ",") + `}]}`
}

// counts is the chunk with usage only.
func counts(in, out int, details ...string) string {
	return chunkHead + `[],"usage":` + usage(in, out, details...) + `}`
}

func usage(in, out int, details ...string) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d%s}`, in, out, in+out, strings.Join(append([]string{""}, details...), ","))
}

const lineHead = `{"model":"up","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant",`

// line is a line with members of a message.
func line(members string) string { return lineHead + members + `},"done":false}` }

func ollamaCall(id, name, args string) string {
	head := "{"
	if id != "" {
		head = `{"id":` + q(id) + `,`
	}
	return head + `"function":{"index":0,"name":` + q(name) + `,"arguments":` + args + `}}`
}

// last is the line that ends an answer. Counts of zero are left out, as the original does.
func last(reason string, in, out int) string {
	s := lineHead + `"content":""},"done":true`
	if reason != "" {
		s += `,"done_reason":` + q(reason)
	}
	s += `,"total_duration":1000,"load_duration":1`
	if in > 0 {
		s += fmt.Sprintf(`,"prompt_eval_count":%d`, in)
	}
	if out > 0 {
		s += fmt.Sprintf(`,"eval_count":%d`, out)
	}
	return s + "}"
}
