package conformance_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"time"

	"mindrouter/internal/simbackend"
)

// reportedStreamRules stand for faults in streams that users of other gateways reported.
var reportedStreamRules = []rule{
	{name: "a call that comes in one piece keeps its id and its name", test: func(c *cell) {
		c.says(talk(call("call_a", "add", `{"x":1}`)))
		for _, cl := range everyone {
			r := c.ask(cl, cl.turn("go", cl.tools("add")))
			c.is(cl.name+": call", r.called(), `add{"x":1}`)
			c.is(cl.name+": id", r.ids()[0], "call_a")
		}
	}},
	{name: "later fragments of arguments without an id are not lost", not: excuses{"ollama": wholeCalls}, test: func(c *cell) {
		c.says(script{vllm: sse(opening(0, "call_b", "f", `{"c`), fragment(0, `ity":`), fragment(0, `"Oslo"}`), finish("tool_calls"), done)})
		wantCalls(c, `f{"city":"Oslo"}`)
	}},
	{name: "parallel calls in lines of their own are numbered apart, and a cut answer stays cut", test: func(c *cell) {
		two := []part{call("", "f", `{"k":1}`), call("", "g", `{"k":2}`)}
		c.says(talk(two...))
		wantCalls(c, `f{"k":1} g{"k":2}`)
		c.says(ends("length", two...))
		for _, cl := range everyone {
			r := c.ask(cl, cl.turn("go", cl.tools("f", "g")))
			c.is(cl.name+": reason", r.finish, cl.word("length", "max_tokens", "incomplete:max_output_tokens", "length"))
		}
	}},
	{name: "usage is the last frame before the end and has no choices", not: excuses{"whole": "a whole answer has no frames"}, test: func(c *cell) {
		c.says(script{
			vllm: sse(delta(`"content":"a"`), finish("stop"),
				strings.Replace(counts(26, 7), `"choices":[]`, `"choices":[{"index":0,"delta":{},"finish_reason":null}]`, 1), done),
			ollama: lines(line(`"content":"a"`), last("stop", 26, 7)),
		})
		r := c.ask(chat, chat.turn("go", "")) // the checker wants it once, last, without choices, and none before
		frames := strings.Split(strings.TrimSpace(r.raw), "\n\n")
		c.has("last frame but one", frames[len(frames)-2], `"choices":[],"usage":{"prompt_tokens":26,"completion_tokens":7,"total_tokens":33`)
		c.is("last frame", frames[len(frames)-1], "data: [DONE]")
	}},
	{name: "usage that the client did not ask for is asked for and billed and not handed on", test: func(c *cell) {
		c.says(talk(say("ok")))
		c.whileChatting(false, func() {
			r := c.ask(chat, chat.turn("go", ""))
			if c.mode == stream {
				c.lacks("stream", r.raw, "usage")
			}
			if got := c.row(r.id()); got.input != 26 || got.output != 7 || got.estimated {
				c.errorf("the record says %+v, want 26 and 7 as measured", got)
			}
		})
		c.sent().is("stream", "true")
		c.sent().is("stream_options.include_usage", c.on("true", ""))
	}},
	{name: "an answer whose usage the backend does not tell ends all the same", test: func(c *cell) {
		c.says(script{
			vllm:   sse(delta(`"content":"some words of text"`), finish("stop"), done),
			ollama: lines(line(`"content":"some words of text"`), last("stop", 0, 0)),
		})
		for _, cl := range everyone {
			r := c.ask(cl, cl.turn("go", ""))
			c.is(cl.name+": reason", r.finish, cl.word("stop", "end_turn", "completed", "stop"))
			if r.out < 1 || r.in < 1 {
				c.errorf("%s: usage %d %d, want an estimate", cl.name, r.in, r.out)
			}
		}
	}},
	{name: "a character stays whole wherever a write is cut", test: func(c *cell) {
		const text = "你好é"
		one := func(r simbackend.RawReply, at int) simbackend.RawReply {
			first := string(r.Chunks[0].Data)
			i := strings.Index(first, text) + at
			chunks := simbackend.Chunks(first[:i], first[i:])
			chunks[1].Delay = 2 * time.Millisecond
			r.Chunks = append(chunks, r.Chunks[1:]...)
			return r
		}
		s := talk(say(text))
		for at := range len(text) + 1 {
			c.says(script{vllm: one(s[vllm], at), ollama: one(s[ollama], at)})
			wantText(c, text)
		}
	}},
	{name: "an answer that ends without a reason is an error and no silent success", test: func(c *cell) {
		c.says(script{
			vllm:   sse(delta(`"content":"aaaa"`), counts(9, 1), done),
			ollama: lines(line(`"content":"aaaa"`), last("", 9, 1)),
		})
		wantBroken(c, "aaaa")
		recordedError(c)
	}},
	{name: "an error frame after the first text has the form of the client's protocol", test: func(c *cell) {
		c.says(script{
			vllm:   sse(delta(`"content":"aaaa"`), delta(`"content":"bbbb"`), `{"error":{"message":"boom","code":500}}`),
			ollama: lines(line(`"content":"aaaa"`), line(`"content":"bbbb"`), `{"error":"boom"}`),
		})
		wantBroken(c, "aaaabbbb")
		if c.mode == stream {
			for _, cl := range everyone {
				raw := c.exchange(cl, stream, cl.turn("go", "")).raw
				c.has(cl.name, raw, cl.word(`data: {"error":{`, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"", "event: response.failed\n", `{"error":"`))
				c.lacks(cl.name, raw, "[DONE]")
				c.lacks(cl.name, raw, "boom") // what a broken server says is not for clients
			}
		}
		recordedError(c)
	}},
	{name: "a backend that dies within an event leaves no half event", test: func(c *cell) {
		c.says(script{
			vllm:   ending(events("data: "+delta(`"content":"aaaa"`)+"\n\n", `data: {"id":"half","cho`), simbackend.EndAbort),
			ollama: ending(ndjson(line(`"content":"aaaa"`)+"\n", `{"model":"half","mess`), simbackend.EndAbort),
		})
		wantBroken(c, "aaaa") // the checkers read every frame
		if c.mode == stream {
			for _, cl := range everyone {
				c.lacks(cl.name, c.exchange(cl, stream, cl.turn("go", "")).raw, "half")
			}
		}
	}},
	{name: "signs of life neither count as output nor forbid another attempt", not: excuses{"whole": "a whole answer has no room for signs of life"}, test: func(c *cell) {
		c.as("twin")
		c.patience()
	}},
	{name: "thinking and text in one delta are both there and in this order", test: func(c *cell) {
		c.as("qwen")
		c.says(script{
			vllm:   sse(delta(`"reasoning_content":"a"`), delta(`"reasoning_content":"b.","content":"Hi"`), delta(`"content":"!"`), finish("stop"), done),
			ollama: lines(line(`"thinking":"a","content":""`), line(`"thinking":"b.","content":"Hi"`), line(`"content":"!"`), last("stop", 9, 5)),
		})
		for _, cl := range everyone {
			r := c.ask(cl, cl.turn("go", cl.thinking()))
			c.is(cl.name+": thinking", r.thinking, "ab.")
			c.is(cl.name+": text", r.text, "Hi!")
			if cl.name == "messages" || cl.name == "responses" {
				c.is(cl.name+": order", r.order, "thinking text")
			}
		}
	}},
	{name: "every frame is handed on at once and nothing is packed", not: excuses{"whole": "a whole answer has no frames"}, test: func(c *cell) {
		for _, cl := range everyone {
			c.stepwise(cl)
		}
	}},
}

// patience has the first backend be silent for long and then die, as every client at once. Each must see signs of life
// and then the answer of the other backend.
func (c *cell) patience() {
	dead := simbackend.RawReply{
		Header: http.Header{"Content-Type": {c.on("text/event-stream", "application/x-ndjson")}},
		Chunks: []simbackend.Chunk{{Delay: silence}}, End: simbackend.EndAbort,
	}
	type result struct {
		cl  client
		r   *reply
		err error
	}
	results := make(chan result, len(everyone))
	for _, cl := range everyone {
		c.sim.Reply(chatPaths[c.engine][0], dead)
		body := c.body(cl, stream, cl.turn("[[say=from the other]]", ""))
		c.asked++
		go func() {
			r, err := c.fetch(c.t.Context(), http.MethodPost, cl.path, body)
			results <- result{cl, r, err}
		}()
	}
	for range everyone {
		got := <-results
		if got.err != nil {
			c.errorf("%s: %v", got.cl.name, got.err)
			continue
		}
		c.read(got.cl, stream, got.r, true)
		c.is(got.cl.name+": text", got.r.text, "from the other")
		c.has(got.cl.name+": signs of life", got.r.raw, got.cl.word(": ka\n\n", "event: ping\n", ": ka\n\n", `"content":""`))
		if row := c.row(got.r.id()); row.outcome != "success" || row.firstTokenUS < silence.Microseconds() {
			c.errorf("%s: the record says %+v, want a first token after %v", got.cl.name, row, silence)
		}
	}
}

// stepwise has the backend send each frame only after the client has the one before.
func (c *cell) stepwise(cl client) {
	const frames = 20
	gates := make([]chan struct{}, frames)
	var chunks []simbackend.Chunk
	for i := range gates {
		gates[i] = make(chan struct{})
		text := "<" + strings.Repeat("x", i) + ">"
		data := "data: " + delta(`"content":`+q(text)) + "\n\n"
		if c.engine == ollama {
			data = line(`"content":`+q(text)) + "\n"
		}
		chunks = append(chunks, simbackend.Chunk{Data: []byte(data), Until: gates[i]})
	}
	s := talk()
	reply := s[c.engine]
	reply.Chunks = append(chunks, reply.Chunks...)
	c.says(script{c.engine: reply})
	body := c.body(cl, stream, cl.turn("go", ""))
	c.load()
	c.asked++
	close(gates[0])
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	resp, err := c.open(ctx, http.MethodPost, cl.path, body, "Accept-Encoding", "gzip, br, zstd")
	if err != nil {
		c.fatalf("%s: %v", cl.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if enc := resp.Header.Get("Content-Encoding"); enc != "" {
		c.fatalf("%s: the stream is packed with %s", cl.name, enc)
	}
	lines := bufio.NewReader(resp.Body)
	for i := range gates {
		want := "<" + strings.Repeat("x", i) + ">"
		for {
			l, err := lines.ReadString('\n')
			if err != nil {
				c.fatalf("%s: frame %d does not arrive while the backend waits: %v", cl.name, i, err)
			}
			if strings.Contains(l, want) || strings.Contains(l, `\u003c`+want[1:len(want)-1]+`\u003e`) {
				break
			}
		}
		if i+1 < len(gates) {
			close(gates[i+1])
		}
	}
	for err == nil {
		_, err = lines.ReadString('\n')
	}
}
