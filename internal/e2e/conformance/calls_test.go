package conformance_test

import (
	"fmt"
	"slices"
	"strings"
)

// args is the arguments of a call with an escape that a stream may be cut in.
const args = `{"city":"Caf\u00e9 \"x\"","n":1}`

const (
	wholeCalls  = "Ollama sends every call whole, with an object as its arguments"
	noNumbering = "Ollama numbers calls by itself or not at all; calls are counted as they come"
)

// wantCalls asks as every client and wants the calls, in the form name{arguments}, and a reason that says so.
func wantCalls(c *cell, want string) {
	for _, cl := range everyone {
		r := c.ask(cl, cl.turn("go", cl.tools("f", "g")))
		c.is(cl.name+": calls", r.called(), want)
		c.is(cl.name+": reason", r.finish, cl.word("tool_calls", "tool_use", "completed", "stop"))
		ids := r.ids()
		for i, id := range ids {
			if id == "" || slices.Index(ids, id) != i {
				c.errorf("%s: ids %q", cl.name, ids)
			}
		}
	}
}

// callRules are about the calls of tools that a backend streams.
var callRules = []rule{
	{name: "arguments that arrive in fragments are put together byte for byte", not: excuses{"ollama": wholeCalls}, test: func(c *cell) {
		at := strings.Index(args, `u00e9`)
		pieces := []string{args[:3], args[3:7], args[7:at], args[at : at+3], args[at+3 : at+5], args[at+5 : at+9], args[at+9:]}
		chunks := []string{opening(0, "call_a", "f", "")}
		for _, p := range pieces {
			chunks = append(chunks, fragment(0, p))
		}
		c.says(script{vllm: sse(append(chunks, finish("tool_calls"), counts(promptTokens, answerTokens), done)...)})
		wantCalls(c, "f"+args)
	}},
	{name: "calls are numbered without gaps whatever the backend numbers", not: excuses{"ollama": noNumbering}, test: func(c *cell) {
		c.says(script{vllm: sse(opening(0, "call_a", "f", `{"a":1}`), opening(2, "call_b", "g", `{"b":2}`), finish("tool_calls"), done)})
		wantCalls(c, `f{"a":1} g{"b":2}`)
	}},
	{name: "interleaved fragments of parallel calls leave one call after the other", not: excuses{"ollama": wholeCalls}, test: func(c *cell) {
		c.says(script{vllm: sse(opening(0, "call_a", "f", `{"a"`), opening(1, "call_b", "g", `{"b"`), fragment(0, `:1`), fragment(1, `:2`),
			fragment(0, `}`), fragment(1, `}`), finish("tool_calls"), done)})
		wantCalls(c, `f{"a":1} g{"b":2}`)
	}},
	{name: "a call begins with id and name even if the backend tells them late", not: excuses{"ollama": wholeCalls}, test: func(c *cell) {
		c.says(script{vllm: sse(toolDelta(`"index":0,"type":"function","function":{"arguments":""}`),
			toolDelta(`"index":0,"id":"call_late","function":{"name":"f"}`), fragment(0, `{"a":1}`), finish("tool_calls"), done)})
		wantCalls(c, `f{"a":1}`)
		c.is("id", c.ask(chat, chat.turn("go", chat.tools("f"))).calls[0].id, "call_late")
	}},
	{name: "fragments without a number belong to the call of their id or to the last", not: excuses{"ollama": noNumbering}, test: func(c *cell) {
		c.says(script{vllm: sse(toolDelta(`"id":"call_a","type":"function","function":{"name":"f","arguments":"{\"a\""}`),
			toolDelta(`"function":{"arguments":":1}"}`), toolDelta(`"id":"call_b","type":"function","function":{"name":"g","arguments":"{\"b\":"}`),
			toolDelta(`"id":"call_b","function":{"arguments":"2}"}`), finish("tool_calls"), done)})
		wantCalls(c, `f{"a":1} g{"b":2}`)
	}},
	{name: "calls without ids get distinct ones that later results find again", test: func(c *cell) {
		c.says(script{
			vllm: sse(toolDelta(`"index":0,"type":"function","function":{"name":"f","arguments":"{}"}`),
				toolDelta(`"index":1,"id":"","type":"function","function":{"name":"g","arguments":"{}"}`), finish("tool_calls"), done),
			ollama: lines(line(`"content":"","tool_calls":[`+ollamaCall("", "f", "{}")+`,`+ollamaCall("", "g", "{}")+`]`), last("stop", 9, 5)),
		})
		wantCalls(c, "f{} g{}")
		r := c.ask(chat, chat.turn("go", chat.tools("f", "g")))
		a, b := r.calls[0].id, r.calls[1].id
		c.says(talk(say("ok")))
		// The results come in the other order.
		c.ask(chat, fmt.Sprintf(`{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[
			{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}},{"id":%q,"type":"function","function":{"name":"g","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":%q,"content":"of g"},{"role":"tool","tool_call_id":%q,"content":"of f"}]}`, a, b, b, a))
		u := c.sent()
		u.is("messages.2.tool_call_id", q(b))
		u.is("messages.2.content", `"of g"`)
		u.is("messages.3.tool_call_id", q(a))
		if c.engine == ollama {
			u.is("messages.2.tool_name", `"g"`)
			u.is("messages.3.tool_name", `"f"`)
		}
	}},
	{name: "a call without arguments has an empty object and no empty delta", test: func(c *cell) {
		for _, empty := range []string{"", "{}"} {
			c.says(script{
				vllm:   sse(opening(0, "call_a", "f", empty), finish("tool_calls"), done),
				ollama: lines(line(`"content":"","tool_calls":[`+ollamaCall("call_a", "f", "{}")+`]`), last("stop", 9, 5)),
			})
			wantCalls(c, "f{}")
		}
	}},
	{name: "an answer with calls ends with the reason for calls even if the backend says stop", test: func(c *cell) {
		c.says(ends("stop", call("call_a", "f", `{"a":1}`)))
		wantCalls(c, `f{"a":1}`)
		for _, cl := range []client{chat, messages} {
			choice := cl.word(`"tool_choice":{"type":"function","function":{"name":"f"}}`, `"tool_choice":{"type":"tool","name":"f"}`, "", "")
			c.is(cl.name+": reason of a named choice", c.ask(cl, cl.turn("go", cl.tools("f")+","+choice)).finish, cl.word("tool_calls", "tool_use", "", ""))
		}
	}},
}
