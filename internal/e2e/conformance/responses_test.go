package conformance_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// responsesRules are about what only clients of the Responses API send.
var responsesRules = []rule{
	{name: "a result without its call is told to the model as what it is", test: func(c *cell) {
		r := c.ask(responses, `{"input":[{"role":"user","content":"one"},{"type":"function_call_output","call_id":"call_9","output":"forty-two"}]}`)
		u := c.sent()
		c.is("roles", u.roles(), "user user")
		for _, part := range []string{"call_9", "forty-two"} {
			c.has("turn", u.text("messages.1.content"), part)
		}
		c.has("warnings", r.warnings(), "orphan")
	}},
	{name: "a tool that takes free text is a function to the backend and itself to the client", test: func(c *cell) {
		const patch = "*** Begin Patch\n+\"é\"\n*** End"
		input := q(patch)
		c.says(script{
			vllm: sse(opening(0, "call_p", "apply_patch", ""), fragment(0, `{"inp`), fragment(0, `ut":`+input[:5]), fragment(0, input[5:9]),
				fragment(0, input[9:]+"}"), finish("tool_calls"), done),
			ollama: lines(line(`"content":"","tool_calls":[`+ollamaCall("call_p", "apply_patch", `{"input":`+input+`}`)+`]`), last("stop", 9, 5)),
		})
		r := c.ask(responses, responses.turn("go", `"tools":[{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: begin"}}]`))
		u := c.sent()
		u.is("tools.0.function.name", `"apply_patch"`)
		u.is("tools.0.function.parameters.required", `["input"]`)
		u.is("tools.0.function.parameters.properties.input.type", `"string"`)
		c.has("description", u.text("tools.0.function.description"), "start: begin")
		c.is("order", r.order, "custom")
		c.is("call", r.called(), "apply_patch"+patch)
		if c.mode == stream {
			for _, kind := range []string{"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"} {
				if !slices.Contains(r.response.Types, kind) {
					c.errorf("no event %s in %v", kind, r.response.Types)
				}
			}
		}
	}},
	{name: "tools that run at a server are left out with a warning and refused if demanded", test: func(c *cell) {
		const tools = `"tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":{"type":"object"}}]`
		r := c.ask(responses, responses.hello(tools))
		c.is("functions", c.sent().at("tools.0.function.name"), `"f"`)
		if n := c.sent().len("tools"); n != 1 {
			c.errorf("%d tools reach the backend", n)
		}
		c.has("warnings", r.warnings(), "tools[0]=dropped:web_search")
		c.refused(responses, http.StatusBadRequest, responses.hello(tools+`,"tool_choice":{"type":"web_search"}`))
		c.refused(responses, http.StatusBadRequest, responses.hello(`"tools":[{"type":"web_search"}],"tool_choice":"required"`))
	}},
	{name: "the tools of a namespace keep it on the way back", test: func(c *cell) {
		const tools = `"tools":[{"type":"namespace","name":"ns.x","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]},
			{"type":"function","name":"f","parameters":{"type":"object"}}]`
		c.ask(responses, responses.hello(tools))
		inside, plain := c.sent().text("tools.0.function.name"), c.sent().text("tools.1.function.name")
		if inside == "f" || strings.Contains(inside, ".") || plain != "f" {
			c.errorf("the backend sees the names %q and %q", inside, plain)
		}
		c.says(talk(call("call_a", inside, `{"a":1}`), call("call_b", "f", `{}`)))
		r := c.ask(responses, responses.turn("go", tools))
		for i, want := range []string{"ns.x f", " f"} {
			if it := r.response.Output[i]; it.Namespace+" "+it.Name != want {
				c.errorf("call %d is of %q in %q, want %q", i, it.Name, it.Namespace, want)
			}
		}
	}},
	{name: "a body that is packed with zstd is unpacked and one that is not what it says is refused", test: func(c *cell) {
		send := func(packed string) *reply {
			c.asked++
			r := c.post(responses.path, packed, "Content-Encoding", "zstd", "Content-Type", "application/json")
			c.read(responses, c.mode, r, true)
			return r
		}
		body := c.body(responses, c.mode, responses.turn("[[say=unpacked]]", ""))
		if r := send(pack(body)); r.status != http.StatusOK || r.text != "unpacked" {
			c.errorf("%d %s", r.status, clip(r.raw))
		}
		c.has("request", c.sent().at("messages"), "unpacked")
		if enc := c.sim.InferenceRequests()[0].Header.Get("Content-Encoding"); enc != "" {
			c.errorf("the backend is told the encoding %q", enc)
		}
		for name, bad := range map[string]struct {
			packed string
			status int
		}{
			"bomb":    {bomb(), http.StatusRequestEntityTooLarge},
			"cut":     {pack(body)[:20], http.StatusBadRequest},
			"no zstd": {body, http.StatusBadRequest},
		} {
			if r := send(bad.packed); r.status != bad.status {
				c.errorf("%s: %d %s, want %d", name, r.status, clip(r.raw), bad.status)
			}
		}
	}},
	{name: "a body of the Responses API on the chat path is answered as a chat", test: func(c *cell) {
		body := `{"instructions":"Be brief.","input":[{"role":"user","content":[{"type":"input_text","text":"[[say=chatted]]"}]}],
			"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"max_output_tokens":40}`
		r := c.ask(chat, body)
		c.is("text", r.text, "chatted")
		c.is("reason", r.finish, "stop")
		u := c.sent()
		c.is("roles", u.roles(), "system user")
		u.is("messages.0.content", `"Be brief."`)
		u.is("tools.0.function.name", `"f"`)
		u.is(c.on("max_tokens", "options.num_predict"), "40")
		c.says(talk(call("call_a", "f", `{"a":1}`)))
		c.is("call", c.ask(chat, body).called(), `f{"a":1}`)
	}},
}

// pack packs with zstd.
func pack(body string) string {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = enc.Close() }()
	return string(enc.EncodeAll([]byte(body), nil))
}

// bomb is a body that is small until it is unpacked.
var bomb = sync.OnceValue(func() string { return pack(`{"input":"` + strings.Repeat("0", 33<<20) + `"}`) })
