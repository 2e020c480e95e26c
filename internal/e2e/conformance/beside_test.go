package conformance_test

import (
	"net/http"
	"strings"
	"sync"
)

// besideRules are cheap ones beside the others.
var besideRules = []rule{
	{name: "a value of null is no value", test: func(c *cell) {
		c.exchange(chat, whole, chat.hello(`"stream":null`))
		c.ask(chat, chat.hello(`"temperature":null,"tools":null,"tool_choice":null,"stop":null,"response_format":null,"seed":null,"user":null`))
		for _, key := range []string{"temperature", "tools", "tool_choice", "stop", "response_format", "seed", "options.temperature", "format"} {
			c.sent().is(key, "")
		}
	}},
	{name: "no answers and half an answer cannot be asked for", test: func(c *cell) {
		c.is("param", c.refused(chat, http.StatusBadRequest, chat.hello(`"n":0`)).param, "n")
		c.is("param", c.refused(chat, http.StatusBadRequest, chat.hello(`"n":1.5`)).param, "n")
	}},
	{name: "a byte order mark in front of a body does no harm", test: func(c *cell) {
		for _, cl := range everyone {
			c.asked++
			r := c.post(cl.path, "\ufeff"+c.body(cl, c.mode, cl.hello("")))
			c.read(cl, c.mode, r, true)
			c.is(cl.name, r.text, "ok")
		}
	}},
	{name: "a role that nobody knows is the user's", test: func(c *cell) {
		for _, cl := range []client{chat, messages, native} {
			c.ask(cl, strings.Replace(cl.hello(""), `"role":"user"`, `"role":"ctx"`, 1))
			c.is(cl.name, c.sent().roles(), "user")
		}
	}},
	{name: "an answer without any choice is a fault of the backend", test: func(c *cell) {
		c.says(script{vllm: status(200, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[]}`), ollama: status(200, `{"model":"m"}`)})
		for _, cl := range everyone {
			c.refused(cl, http.StatusBadGateway, cl.turn("go", ""))
		}
	}},
	{name: "a backend that answers whole although a stream was asked for is understood", test: func(c *cell) {
		c.says(script{
			vllm:   status(200, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":`+usage(9, 5)+`}`),
			ollama: status(200, strings.Replace(last("stop", 9, 5), `"content":""`, `"content":"a"`, 1)),
		})
		wantText(c, "a")
	}},
	{name: "of a member that stands twice in a body the last counts", test: func(c *cell) {
		c.ask(chat, chat.hello(`"temperature":1,"temperature":0.5`))
		c.sent().is(c.on("temperature", "options.temperature"), "0.5")
	}},
	{name: "a history of absurd length is refused and not choked on", test: func(c *cell) {
		if r := c.exchange(chat, c.mode, endlessTalk()); r.status != http.StatusBadRequest {
			c.errorf("%d %s", r.status, clip(r.raw))
		}
	}},
	{name: "whoever looks whether anybody is there is answered", not: excuses{"stream": noStream}, test: func(c *cell) {
		for _, path := range []string{"/", "/api/version", "/api/tags", "/api/hello"} {
			for _, method := range []string{http.MethodHead, http.MethodGet} {
				c.asked++
				if r := c.do(method, path, ""); r.status != http.StatusOK {
					c.errorf("%s %s: %d", method, path, r.status)
				}
			}
		}
	}},
	{name: "queries that clients add to a path do not matter", test: func(c *cell) {
		for path, cl := range map[string]client{"/v1/messages?beta=true": messages, "/v1/responses?client_version=1.2.3": responses, "/v1/chat/completions?api-version=1": chat} {
			c.asked++
			r := c.post(path, c.body(cl, c.mode, cl.hello("")))
			c.read(cl, c.mode, r, true)
			c.is(path, r.text, "ok")
		}
	}},
	{name: "a server that refuses the developer role is asked again with a system message", not: excuses{"ollama": "it is never sent that role"}, test: func(c *cell) {
		c.as("gptoss")
		path := chatPaths[c.engine][0]
		c.sim.Reply(path, status(400, `{"error":{"message":"Unexpected message role: developer","type":"BadRequestError","param":null,"code":400}}`))
		r := c.exchange(chat, c.mode, `{"messages":[{"role":"developer","content":"B"},{"role":"user","content":"[[say=ok]]"}]}`)
		if r.status != http.StatusOK {
			c.errorf("%d %s", r.status, clip(r.raw))
		}
		c.is("roles", c.sent().roles(), "system user")
	}},
}

// endlessTalk is a body with a hundred thousand messages.
var endlessTalk = sync.OnceValue(func() string {
	return `{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"x"},`, 100_000), ",") + `]}`
})
