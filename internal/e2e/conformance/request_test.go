package conformance_test

import (
	"net/http"
	"strings"
)

// requestRules are about what becomes of a request on its way to the backend.
var requestRules = []rule{
	{name: "an assistant turn of calls alone has null content, or an empty text for Ollama", test: func(c *cell) {
		c.ask(chat, `{"messages":[{"role":"user","content":"go"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"done"}]}`)
		u := c.sent()
		u.is("messages.1.content", c.on("null", `""`))
		u.is("messages.1.tool_calls.0.id", `"c1"`)
		u.is("messages.1.tool_calls.0.function.name", `"f"`)
		u.is("messages.1.tool_calls.0.function.arguments", c.on(`"{\"a\":1}"`, `{"a":1}`))
		c.is("messages", u.roles(), "user assistant tool")
	}},
	{name: "an empty list of tools is no list of tools", test: func(c *cell) {
		c.ask(chat, chat.hello(`"tools":[],"tool_choice":"auto"`))
		c.sent().is("tools", "")
		c.sent().is("tool_choice", "")
	}},
	{name: "stop is a string or a list of strings and nothing else", test: func(c *cell) {
		key := c.on("stop", "options.stop")
		for sent, want := range map[string]string{`"x"`: `["x"]`, `["x","y"]`: `["x","y"]`, `null`: "", `[]`: ""} {
			c.ask(chat, chat.hello(`"stop":`+sent))
			c.sent().is(key, want)
		}
		for sent, param := range map[string]string{`[1,"x"]`: "stop[0]", `["x",{}]`: "stop[1]", `7`: "stop"} {
			r := c.refused(chat, http.StatusBadRequest, chat.hello(`"stop":`+sent))
			c.is("type", r.kind, "invalid_request_error")
			c.is("param", r.param, param)
		}
		c.refused(messages, http.StatusBadRequest, messages.hello(`"stop_sequences":[1]`))
	}},
	{name: "more than four stop strings pass", test: func(c *cell) {
		const six = `["a1","b2","c3","d4","e5","f6"]`
		c.ask(chat, chat.hello(`"stop":`+six))
		c.sent().is(c.on("stop", "options.stop"), six)
		c.ask(messages, messages.hello(`"stop_sequences":`+six))
		c.sent().is(c.on("stop", "options.stop"), six)
	}},
	{name: "whole numbers may be written as floats and keep every digit", test: func(c *cell) {
		c.ask(chat, chat.hello(`"max_tokens":16.0,"seed":9007199254740993`))
		c.sent().is(c.on("max_tokens", "options.num_predict"), "16")
		c.sent().is(c.on("seed", "options.seed"), "9007199254740993")
		c.is("param", c.refused(chat, http.StatusBadRequest, chat.hello(`"max_tokens":16.5`)).param, "max_tokens")
		c.ask(native, native.hello(`"options":{"num_predict":16.0,"seed":9007199254740993}`))
		c.sent().is(c.on("max_tokens", "options.num_predict"), "16")
		c.sent().is(c.on("seed", "options.seed"), "9007199254740993")
		c.refused(native, http.StatusBadRequest, native.hello(`"options":{"num_predict":16.5}`))
	}},
	{name: "a temperature of zero is told and no temperature is not", test: func(c *cell) {
		key := c.on("temperature", "options.temperature")
		for _, cl := range everyone {
			member := `"temperature":0`
			if cl.name == "native" {
				member = `"options":{"temperature":0}`
			}
			c.ask(cl, cl.hello(member))
			c.sent().is(key, "0")
			c.ask(cl, cl.hello(""))
			c.sent().is(key, "")
		}
	}},
	{name: "of two bounds of the answer the newer name wins", test: func(c *cell) {
		for _, body := range []string{`"max_tokens":5,"max_completion_tokens":9`, `"max_completion_tokens":9,"max_tokens":5`} {
			c.ask(chat, chat.hello(body))
			c.sent().is(c.on("max_tokens", "options.num_predict"), "9")
			c.sent().is("max_completion_tokens", "")
		}
	}},
	{name: "a developer message is a system message unless the model knows the role", test: func(c *cell) {
		const body = `{"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"hi"}]}`
		c.as("qwen")
		c.ask(chat, body)
		c.is("roles", c.sent().roles(), "system user")
		c.sent().is("messages.0.content", `"Be brief."`)
		c.as("gptoss")
		c.ask(chat, body)
		c.is("roles", c.sent().roles(), c.on("developer user", "system user"))
		c.ask(responses, `{"input":[{"role":"developer","content":"Be brief."},{"role":"user","content":"hi"}]}`)
		c.is("roles", c.sent().roles(), c.on("developer user", "system user"))
	}},
	{name: "a late system message is folded into the turn of the user and the prefix stays", test: func(c *cell) {
		c.as("qwen")
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"first"},{"role":"system","content":"S"}]}`)
		u := c.sent()
		c.is("roles", u.roles(), "user")
		if got := u.text("messages.0.content"); !strings.HasPrefix(got, "first") || !strings.HasSuffix(got, "<system-reminder>\nS\n</system-reminder>") {
			c.errorf("the turn is %q, want the system message folded at its end", got)
		}
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"first"},{"role":"system","content":"S"},
			{"role":"assistant","content":"A"},{"role":"user","content":"second"}]}`)
		c.is("roles", c.sent().roles(), "user assistant user")
		c.is("the first turn of the next request", c.sent().at("messages.0"), u.at("messages.0"))
	}},
	{name: "a billing line never reaches the model, so its hash does not change the prompt", test: func(c *cell) {
		body := func(hash string) string {
			return `{"max_tokens":50,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=` + hash + `;"},
				{"type":"text","text":"B"}],"messages":[{"role":"user","content":"hi"}]}`
		}
		c.ask(messages, body("aaaa"))
		u := c.sent()
		c.is("roles", u.roles(), "system user")
		u.is("messages.0.content", `"B"`)
		c.ask(messages, body("bbbb"))
		c.is("request with another hash", c.sent().String(), u.String())
	}},
	{name: "cache marks of clients are dropped in silence", test: func(c *cell) {
		const mark = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
		r := c.ask(messages, `{"max_tokens":50,`+mark+`,"system":[{"type":"text","text":"B",`+mark+`}],
			"tools":[{"name":"f","input_schema":{"type":"object"},`+mark+`}],
			"messages":[{"role":"user","content":[{"type":"text","text":"hi",`+mark+`}]}]}`)
		c.lacks("request", c.sent().String(), "cache_control")
		c.is("warnings", r.warnings(), "")
	}},
}
