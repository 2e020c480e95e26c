package conformance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"mindrouter/internal/simbackend"
)

const onlySSE = "only server-sent events have this; Ollama sends lines of JSON"

// wantText asks as every client and wants the text.
func wantText(c *cell, want string) {
	for _, cl := range everyone {
		r := c.ask(cl, cl.turn("go", ""))
		c.is(cl.name+": text", r.text, want)
		c.is(cl.name+": reason", r.finish, cl.word("stop", "end_turn", "completed", "stop"))
	}
}

// wantBroken asks as every client and wants an error after the text, if the answer is streamed.
func wantBroken(c *cell, text string) {
	for _, cl := range everyone {
		r := c.broken(cl, cl.turn("go", ""))
		switch {
		case c.mode == whole:
		case cl.name == "responses": // its last event repeats what is finished, and this is not
			c.has(cl.name+": deltas", strings.Join(deltas(r.raw), ""), text)
		default:
			c.is(cl.name+": text before the error", r.text, text)
		}
		c.is(cl.name+": kind of error", r.kind, cl.word("server_error", "api_error", "server_error", "error"))
	}
}

// deltas are the texts of the deltas of a stream of the Responses API.
func deltas(raw string) []string {
	var list []string
	for l := range strings.SplitSeq(raw, "\n") {
		var ev struct{ Type, Delta string }
		if data, ok := strings.CutPrefix(l, "data: "); ok && json.Unmarshal([]byte(data), &ev) == nil && ev.Type == "response.output_text.delta" {
			list = append(list, ev.Delta)
		}
	}
	return list
}

// whileChatting has chat streams ask for usage or not while do runs.
func (c *cell) whileChatting(usage bool, do func()) {
	c.withUsage = &usage
	do()
	c.withUsage = nil
}

// framingRules are about how a backend frames what it streams.
var framingRules = []rule{
	{name: "the chunk of usage is handed on only if it was asked for", test: func(c *cell) {
		c.says(talk(say("ok")))
		for _, asked := range []bool{true, false} {
			c.whileChatting(asked, func() {
				r := c.ask(chat, chat.turn("go", ""))
				if want := asked || c.mode == whole; r.counted != want || strings.Contains(r.raw, `"usage"`) != want {
					c.errorf("usage asked %v: %s", asked, clip(r.raw))
				}
				if r.counted && (r.in != promptTokens || r.out != answerTokens) {
					c.errorf("usage %d %d", r.in, r.out)
				}
			})
		}
		if c.engine == vllm {
			c.sent().is("stream_options.include_usage", "true")
		}
	}},
	{name: "usage that a backend forces on us is kept from a client that did not ask", not: excuses{"whole": "a whole answer always has its usage"}, test: func(c *cell) {
		c.says(script{
			vllm: sse(strings.Replace(delta(`"content":"a"`), `"choices"`, `"usage":`+usage(9, 1)+`,"choices"`, 1),
				strings.Replace(finish("stop"), `"choices"`, `"usage":`+usage(9, 2)+`,"choices"`, 1), counts(9, 2), done),
			ollama: lines(line(`"content":"a"`), last("stop", 9, 2)),
		})
		c.whileChatting(false, func() {
			c.lacks("stream", c.ask(chat, chat.turn("go", "")).raw, `"usage"`)
		})
	}},
	{name: "an end without the final mark is an end if a reason came before and an error otherwise", test: func(c *cell) {
		c.says(script{
			vllm:   events("data: "+delta(`"content":"a"`)+"\n\n", "data: "+finish("stop")),
			ollama: ndjson(line(`"content":"a"`)+"\n", last("stop", 9, 5)),
		})
		wantText(c, "a")
		c.says(script{vllm: sse(delta(`"content":"a"`)), ollama: lines(line(`"content":"a"`))})
		wantBroken(c, "a")
	}},
	{name: "comments that keep a connection alive do not leak", not: excuses{"ollama": onlySSE}, test: func(c *cell) {
		c.says(script{vllm: events(": ping\n\n", ": ping - 2026\n", "\n", "data: "+delta(`"content":"a"`)+"\n\n", ": ping\n\n", ":\n\n",
			"data: "+delta(`"content":"b"`)+"\n\n", "data: "+finish("stop")+"\n\n", ": ping\n\n", "data: [DONE]\n\n")})
		wantText(c, "ab")
		for _, cl := range everyone {
			c.lacks(cl.name, c.ask(cl, cl.turn("go", "")).raw, "ping -")
		}
	}},
	{name: "lines that end in carriage return and line feed are read and not written", test: func(c *cell) {
		crlf := func(r simbackend.RawReply) simbackend.RawReply {
			var pieces []string
			for _, chunk := range r.Chunks {
				pieces = append(pieces, strings.ReplaceAll(string(chunk.Data), "\n", "\r\n"))
			}
			r.Chunks = simbackend.Chunks(pieces...)
			return r
		}
		s := talk(say("a"), say("b"))
		c.says(script{vllm: crlf(s[vllm]), ollama: crlf(s[ollama])})
		wantText(c, "ab") // the checkers refuse a carriage return
	}},
	{name: "data needs no space after its colon and may have some at its end", not: excuses{"ollama": onlySSE}, test: func(c *cell) {
		c.says(script{vllm: events("data:"+delta(`"content":"a"`)+"\n\n", "data:"+finish("stop")+" \n\n", "data: [DONE] \n\n")})
		wantText(c, "a")
	}},
	{name: "data in several lines is one event", not: excuses{"ollama": "a line of Ollama's is always one object"}, test: func(c *cell) {
		two := strings.Replace(delta(`"content":"a b"`), `"choices":`, "\"choices\":\ndata: ", 1)
		c.says(script{vllm: events("event: message\nid: 7\nretry: 10\ndata: "+two+"\n\n", "data: "+finish("stop")+"\n\n", "data: [DONE]\n\n")})
		wantText(c, "a b")
	}},
	{name: "a character that is cut between two reads stays whole", test: func(c *cell) {
		const emoji = "🟦"
		cut := func(text string, n int) []simbackend.Chunk {
			i := strings.Index(text, emoji) + n
			chunks := simbackend.Chunks(text[:i], text[i:])
			chunks[1].Delay = 5 * time.Millisecond
			return chunks
		}
		for n := 1; n < len(emoji); n++ {
			v := sse(delta(`"content":"a` + emoji + `b"`))
			v.Chunks = append(cut(string(v.Chunks[0].Data), n), simbackend.Chunks("data: "+finish("stop")+"\n\n", "data: [DONE]\n\n")...)
			o := lines(line(`"content":"a` + emoji + `b"`))
			o.Chunks = append(cut(string(o.Chunks[0].Data), n), simbackend.Chunks(last("stop", 9, 5)+"\n")...)
			c.says(script{vllm: v, ollama: o})
			wantText(c, "a"+emoji+"b")
		}
	}},
	{name: "a long line is cut into small deltas and one without end is an error", test: func(c *cell) {
		for _, cl := range everyone {
			long := strings.Repeat("0123456789abcdef", 3<<16)
			if cl.name != "chat" {
				long = long[:300<<10]
			}
			c.says(talk(say(long)))
			r := c.ask(cl, cl.turn("go", ""))
			if r.text != long {
				c.errorf("%s: %d bytes arrived, want %d", cl.name, len(r.text), len(long))
			}
			if c.mode != stream {
				continue
			}
			for l := range strings.SplitSeq(r.raw, "\n") {
				if len(l) > 65<<10 && !repeats(l) {
					c.errorf("%s: a line of %d bytes", cl.name, len(l))
				}
			}
		}
		c.says(endless())
		r := c.exchange(chat, c.mode, chat.turn("go", "")) // once: it is large
		if r.status != http.StatusBadGateway || r.code != "upstream_error" {
			c.errorf("33 MiB in one line: %d and %d bytes", r.status, len(r.raw))
		}
	}},
	{name: "an error that comes with status 200 and before anything else has its true status", test: func(c *cell) {
		c.says(script{
			vllm:   sse(`{"error":{"message":"stop is not supported","type":"BadRequestError","param":null,"code":400}}`, done),
			ollama: lines(`{"error":"the runner has stopped"}`),
		})
		for _, cl := range everyone {
			if c.engine == vllm {
				r := c.refused(cl, http.StatusBadRequest, cl.turn("go", ""))
				c.is(cl.name+": kind", r.kind, cl.word("invalid_request_error", "invalid_request_error", "invalid_request_error", "error"))
				c.lacks(cl.name, r.raw, `"code":4`)
			} else {
				c.refused(cl, http.StatusBadGateway, cl.turn("go", ""))
			}
		}
	}},
	{name: "an error in the middle of a stream ends it in the client's own form and is on record", not: excuses{"ollama": "errors of Ollama come as lines, which have a rule of their own"}, test: func(c *cell) {
		c.says(script{vllm: sse(delta(`"content":"aaaa"`), delta(`"content":"bbbb"`), delta(`"content":"cccc"`), `{"error":{"message":"boom","type":"x","code":500}}`, done)})
		wantBroken(c, "aaaabbbbcccc")
		recordedError(c)
	}},
	{name: "an error line of Ollama in the middle of a stream ends it in the client's own form", not: excuses{"vllm": "errors of vLLM come as events, which have a rule of their own"}, test: func(c *cell) {
		c.says(script{ollama: lines(line(`"content":"aaaa"`), line(`"content":"bbbb"`), line(`"content":"cccc"`), `{"error":"boom"}`)})
		wantBroken(c, "aaaabbbbcccc")
		recordedError(c)
	}},
}

// recordedError wants that an answer which broke off is on record as one, with an estimate of what was made of it.
func recordedError(c *cell) {
	for _, cl := range everyone {
		got := c.row(c.exchange(cl, c.mode, cl.turn("go", "")).id())
		if got.outcome != "error" || !got.estimated || got.output < 1 || got.input < 1 {
			c.errorf("%s: the record says %+v, want an error with an estimate", cl.name, got)
		}
	}
}

// repeats reports whether a line is an event that repeats the whole text, which the Responses API has.
func repeats(line string) bool {
	for _, kind := range []string{
		`"type":"response.output_text.done"`, `"type":"response.content_part.done"`, `"type":"response.output_item.done"`, `"type":"response.completed"`,
	} {
		if strings.Contains(line, kind) {
			return true
		}
	}
	return false
}

// endless is a line that is longer than any that is read.
var endless = sync.OnceValue(func() script {
	text := strings.Repeat("0123456789abcdef", 33<<16)
	return script{vllm: sse(delta(`"content":"` + text + `"`)), ollama: lines(line(`"content":"` + text + `"`))}
})
