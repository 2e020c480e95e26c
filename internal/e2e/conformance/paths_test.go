package conformance_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"mindrouter/internal/simbackend"
)

const noStream = "the path answers whole, whatever the client wants"

// pathRules are about paths beside the chat, and about what reaches beyond one answer.
var pathRules = []rule{
	{name: "a request to load or unload is answered here with one object and moves no model", test: func(c *cell) {
		for body, reason := range map[string]string{
			`{"messages":[]}`: "load", `{"messages":[],"keep_alive":0}`: "unload", `{"messages":[],"keep_alive":"0s"}`: "unload",
		} {
			r := c.exchange(native, c.mode, body)
			c.is(body, r.finish, reason)
			c.is(body+": content type", strings.Split(r.header.Get("Content-Type"), ";")[0], "application/json")
		}
		for body, reason := range map[string]string{`{"prompt":""}`: "load", `{}`: "load", `{"prompt":"","keep_alive":0}`: "unload"} {
			r := c.exchange(generate, c.mode, body)
			c.is(body, r.finish, reason)
			c.is(body+": content type", strings.Split(r.header.Get("Content-Type"), ";")[0], "application/json")
		}
		if n := len(c.sim.Requests()); n != 0 {
			c.errorf("%d requests reach the backend", n)
		}
	}},
	{name: "a raw prompt takes no system prompt, and what a backend cannot do is refused", test: func(c *cell) {
		c.as("filler")
		c.has("raw and system", c.refused(generate, http.StatusBadRequest, `{"prompt":"a","raw":true,"system":"s"}`).message, "raw")
		c.has("context", c.refused(generate, http.StatusBadRequest, `{"prompt":"a","context":[1,2]}`).message, "context")
		c.has("template", c.refused(generate, http.StatusBadRequest, `{"prompt":"a","template":"{{.Prompt}}"}`).message, "template")
		if c.engine == vllm {
			c.has("suffix", c.refused(generate, http.StatusBadRequest, `{"prompt":"a","suffix":"b"}`).message, "suffix")
			return
		}
		c.ask(generate, `{"prompt":"a","suffix":"b"}`)
		c.sent().is("suffix", `"b"`)
		c.sent().is("prompt", `"a"`)
	}},
	{name: "token ids go to servers that take them, and vectors have the order of their inputs", not: excuses{"stream": noStream}, test: func(c *cell) {
		c.as("vectors")
		if c.engine == ollama {
			r := c.embed(http.StatusBadRequest, `"input":[[1,2],[3]]`)
			c.has("refusal", r.raw, `"param":"input"`)
		} else {
			c.sim.Reply("/v1/embeddings", status(200, `{"object":"list","model":"e","data":[{"object":"embedding","index":1,"embedding":[0.5,-2]},{"object":"embedding","index":0,"embedding":[1,0.25]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`))
			c.is("vectors", fmt.Sprint(c.vectors(c.embed(200, `"input":[[1,2],[3]],"encoding_format":"float"`))), "[[1 0.25] [0.5 -2]]")
			c.sent().is("input", "[[1,2],[3]]")
		}
		const input = `"input":["one","two","three"]`
		floats := c.vectors(c.embed(200, input+`,"encoding_format":"float"`))
		packed := c.vectors(c.embed(200, input+`,"encoding_format":"base64"`))
		if len(floats) != 3 || fmt.Sprint(floats) != fmt.Sprint(packed) {
			c.errorf("as floats %v, as base64 %v", floats, packed)
		}
	}},
	{name: "nobody's address is called for a picture", test: func(c *cell) {
		var calls atomic.Int32
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.fatalf("listen: %v", err)
		}
		defer func() { _ = ln.Close() }()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				calls.Add(1)
				_ = conn.Close()
			}
		}()
		port := ln.Addr().(*net.TCPAddr).Port
		for _, url := range []string{
			"http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "https://intern.example.com/x.png", "file:///etc/passwd", "gs://b/x.png",
			fmt.Sprintf("http://127.0.0.1:%d/x.png", port), fmt.Sprintf("http://localhost:%d/x.png", port),
			fmt.Sprintf("http://[::ffff:127.0.0.1]:%d/x.png", port), fmt.Sprintf("http://user:pass@127.0.0.1:%d/x.png", port),
		} {
			for cl, body := range map[*client]string{
				&chat:      `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":` + q(url) + `}}]}]}`,
				&messages:  `{"max_tokens":50,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":` + q(url) + `}}]}]}`,
				&responses: `{"input":[{"role":"user","content":[{"type":"input_image","image_url":` + q(url) + `}]}]}`,
			} {
				c.refused(*cl, http.StatusBadRequest, body)
			}
			c.refused(native, http.StatusBadRequest, `{"messages":[{"role":"user","content":"x","images":[`+q(url)+`]}]}`)
		}
		if n := calls.Load(); n != 0 {
			c.errorf("%d connections were made", n)
		}
		if n := len(c.sim.InferenceRequests()); n != 0 {
			c.errorf("%d requests reach the backend, which may fetch by itself", n)
		}
		c.ask(chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+pixel+`"}}]}]}`)
	}},
	{name: "a client that leaves takes its request with it", test: func(c *cell) {
		for _, cl := range everyone {
			c.leave(cl)
		}
	}},
}

// leave asks, goes away in the middle of the answer, and wants the backend to see that and the record to say so.
func (c *cell) leave(cl client) {
	c.says(script{
		vllm:   ending(sse(delta(`"content":"aaaa"`), delta(`"content":"bbbb"`)), simbackend.EndHang),
		ollama: ending(lines(line(`"content":"aaaa"`), line(`"content":"bbbb"`)), simbackend.EndHang),
	})
	before := c.sim.State()
	body := c.body(cl, c.mode, cl.turn("go", ""))
	c.load()
	c.asked++
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	id := make(chan string, 1)
	if c.mode == stream {
		resp, err := c.open(ctx, http.MethodPost, cl.path, body)
		if err != nil {
			c.fatalf("%s: %v", cl.name, err)
		}
		id <- resp.Header.Get("X-Request-Id")
		for sc := bufio.NewScanner(resp.Body); sc.Scan() && !strings.Contains(sc.Text(), "bbbb"); {
		}
		cancel()
		_ = resp.Body.Close()
	} else {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := c.open(ctx, http.MethodPost, cl.path, body); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		c.wait(func(ctx context.Context) error {
			return c.sim.WaitFor(ctx, func(s simbackend.State) bool { return s.Received > before.Received })
		})
		cancel()
		<-gone
	}
	left := time.Now()
	c.wait(c.sim.WaitIdle)
	if d := time.Since(left); d > notice {
		c.errorf("%s: the backend sees after %v that the client has gone", cl.name, d)
	}
	if s := c.sim.State(); s.Cancelled != before.Cancelled+1 {
		c.errorf("%s: the backend saw %d cancelled requests, want one more than %d", cl.name, s.Cancelled, before.Cancelled)
	}
	if c.mode == stream {
		if got := c.row(<-id); got.outcome != "cancelled" || got.output < 1 {
			c.errorf("%s: the record says %+v, want cancelled with what was delivered", cl.name, got)
		}
	}
}

// notice is how soon a backend must see that a client has gone; a busy machine is allowed some.
const notice = 2500 * time.Millisecond

func (c *cell) wait(wait func(context.Context) error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	if err := wait(ctx); err != nil {
		c.fatalf("waiting for the backend: %v", err)
	}
}

// embed asks for embeddings.
func (c *cell) embed(status int, members string) *reply {
	c.asked++
	r := c.post("/v1/embeddings", fmt.Sprintf(`{"model":%q,%s}`, c.model, members))
	if r.status != status {
		c.fatalf("embeddings: %d %s, want %d", r.status, clip(r.raw), status)
	}
	return r
}

// vectors reads embeddings, as floats or as base64 of little-endian 32-bit floats.
func (c *cell) vectors(r *reply) [][]float32 {
	var got struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(r.raw), &got); err != nil {
		c.fatalf("%v in %s", err, clip(r.raw))
	}
	var out [][]float32
	for i, d := range got.Data {
		if d.Index != i {
			c.errorf("vector %d has index %d", i, d.Index)
		}
		var v []float32
		var text string
		if json.Unmarshal(d.Embedding, &text) == nil {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil || len(raw)%4 != 0 {
				c.fatalf("%q are no floats: %v", text, err)
			}
			for ; len(raw) > 0; raw = raw[4:] {
				v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		} else if err := json.Unmarshal(d.Embedding, &v); err != nil {
			c.fatalf("%v in %s", err, d.Embedding)
		}
		out = append(out, v)
	}
	return out
}

// delayed has a reply begin late.
func delayed(r simbackend.RawReply, by time.Duration) simbackend.RawReply {
	chunks := append([]simbackend.Chunk(nil), r.Chunks...)
	chunks[0].Delay = by
	r.Chunks = chunks
	return r
}
