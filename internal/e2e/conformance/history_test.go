package conformance_test

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// historyRules are about earlier turns that a client sends again.
var historyRules = []rule{
	{name: "the result of a call goes before the text of its turn", test: func(c *cell) {
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
			{"role":"user","content":[{"type":"text","text":"T"},{"type":"tool_result","tool_use_id":"t1","content":"r"}]}]}`)
		u := c.sent()
		c.is("roles", u.roles(), "user assistant tool user")
		u.is("messages.2.content", `"r"`)
		u.is("messages.2.tool_call_id", `"t1"`)
		u.is("messages.3.content", `"T"`)
	}},
	{name: "pictures of results follow all results of the turn, or stand in them for Ollama", test: func(c *cell) {
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r1"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+pixel+`"}}]},
				{"type":"tool_result","tool_use_id":"t2","content":"r2"}]}]}`)
		u := c.sent()
		u.is("messages.2.content", `"r1"`)
		u.is("messages.3.content", `"r2"`)
		if c.engine == ollama {
			c.is("roles", u.roles(), "user assistant tool tool")
			u.is("messages.2.images.0", q(pixel))
			return
		}
		c.is("roles", u.roles(), "user assistant tool tool user")
		u.is("messages.4.content.0.image_url.url", q("data:image/png;base64,"+pixel))
	}},
	{name: "a result that is an error says so to the model", test: func(c *cell) {
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no such file"}]}]}`)
		c.sent().is("messages.2.content", `"Error: no such file"`)
	}},
	{name: "numbers in arguments keep their digits both ways", test: func(c *cell) {
		const input = `{"id":12345678901234567890,"x":1.0}`
		c.says(talk(call("t2", "f", input)))
		r := c.ask(messages, `{"max_tokens":50,`+messages.tools("f")+`,"messages":[{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":`+input+`}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}]}`)
		c.sent().is("messages.1.tool_calls.0.function.arguments", c.on(q(input), input))
		c.is("input", r.called(), "f"+input)
		for _, cl := range everyone {
			c.is(cl.name, c.ask(cl, cl.turn("go", cl.tools("f"))).called(), "f"+input)
		}
	}},
}
