package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// reportedTranslationRules stand for faults between protocols that users of other gateways reported.
var reportedTranslationRules = []rule{
	{name: "a call after some text ends the turn for the call", test: func(c *cell) {
		for _, reason := range []string{"", "stop"} {
			c.says(ends(reason, say("Let me check"), call("call_a", "f", `{"a":1}`)))
			wantCalls(c, `f{"a":1}`)
			r := c.ask(messages, messages.turn("go", messages.tools("f")))
			c.is("order", r.order, "text call")
			c.is("reason", r.finish, "tool_use")
			c.is("text", r.text, "Let me check")
		}
	}},
	{name: "thinking of a backend is a block of thinking with a signature", test: func(c *cell) {
		c.as("qwen")
		c.says(talk(think("one "), think("two "), think("three"), say("text")))
		r := c.ask(messages, messages.turn("go", messages.thinking()))
		c.is("order", r.order, "thinking text")
		c.is("thinking", r.thinking, "one two three")
		if r.anthropic.Content[0].Signature == "" {
			c.errorf("no signature")
		}
		c.has("OpenAI's answer", c.ask(chat, chat.turn("go", chat.thinking())).raw, `"reasoning_content":`)
	}},
	{name: "every delta fits its block, and a message starts once", test: func(c *cell) {
		c.as("qwen")
		c.says(talk(think("a"), say("b"), think("c"), say("d"), call("call_a", "f", "{}"), say("e")))
		r := c.ask(messages, messages.turn("go", messages.thinking()+","+messages.tools("f"))) // the checker looks at each delta
		c.is("order", r.order, "thinking text thinking text call text")
		if n := strings.Count(r.raw, "event: message_start"); c.mode == stream && n != 1 {
			c.errorf("%d starts", n)
		}
		r = c.ask(responses, responses.turn("go", responses.thinking()+","+responses.tools("f")))
		c.is("order", r.order, "thinking text thinking text call text")
	}},
	{name: "an empty list of calls beside text is no call", test: func(c *cell) {
		c.says(script{
			vllm:   sse(delta(`"content":"a","tool_calls":[]`), delta(`"content":"b","tool_calls":null`), finish("stop"), done),
			ollama: lines(line(`"content":"a","tool_calls":[]`), line(`"content":"b","tool_calls":null`), last("stop", 9, 5)),
		})
		wantText(c, "ab")
		c.is("order", c.ask(messages, messages.turn("go", "")).order, "text")
	}},
	{name: "one stop sequence is a list for every backend, and told when it matched", test: func(c *cell) {
		key := c.on("stop", "options.stop")
		for cl, member := range map[*client]string{
			&messages: `"stop_sequences":["END"]`, &chat: `"stop":"END"`, &native: `"options":{"stop":["END"]}`,
		} {
			c.ask(*cl, cl.hello(member))
			c.sent().is(key, `["END"]`)
		}
		c.ask(native, native.hello(`"options":{"stop":"END"}`)) // some clients send a string
		c.sent().is(key, `["END"]`)
		if c.engine == vllm {
			c.says(script{vllm: sse(delta(`"content":"a"`), finish("stop", `"stop_reason":"END"`), done)})
			c.is("reason", c.ask(messages, messages.turn("go", `"stop_sequences":["END"]`)).finish, "stop_sequence:END")
		}
	}},
	{name: "no tools may be called is told as such and nothing about parallel calls", test: func(c *cell) {
		for cl, choice := range map[*client]string{
			&chat:      `"tool_choice":"none","parallel_tool_calls":false`,
			&responses: `"tool_choice":"none","parallel_tool_calls":false`,
			&messages:  `"tool_choice":{"type":"none"}`,
		} {
			c.ask(*cl, cl.turn("please use f", cl.tools("f")+","+choice))
			u := c.sent()
			u.is("parallel_tool_calls", "")
			if c.engine == vllm {
				u.is("tool_choice", `"none"`)
			} else {
				u.is("tools", "")
				u.is("format", "")
			}
		}
	}},
	{name: "a choice of tools keeps its meaning, and one call at a time forces none", test: func(c *cell) {
		type want struct{ choice, parallel string }
		for cl, choices := range map[*client]map[string]want{
			&messages: {
				`"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`:            {`"auto"`, "false"},
				`"tool_choice":{"type":"any"}`:                                              {`"required"`, ""},
				`"tool_choice":{"type":"tool","name":"g"}`:                                  {`named`, ""},
				`"tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true}`: {`named`, "false"},
				`"tool_choice":{"type":"none"}`:                                             {`"none"`, ""},
				`"tool_choice":{"type":"auto"}`:                                             {`"auto"`, ""},
			},
			&chat: {
				`"parallel_tool_calls":false`:                               {`"auto"`, "false"},
				`"tool_choice":"required"`:                                  {`"required"`, ""},
				`"tool_choice":{"type":"function","function":{"name":"g"}}`: {`named`, ""},
				`"tool_choice":"none"`:                                      {`"none"`, ""},
				`"tool_choice":"auto"`:                                      {`"auto"`, ""},
			},
		} {
			for member, w := range choices {
				c.says(talk(say("ok")))
				switch {
				case c.engine == vllm:
				case w.choice == "named":
					c.says(talk(say(`{"name":"g","arguments":{"city":"x"}}`)))
				case w.choice == `"required"`:
					c.says(talk(say(`{"name":"f","arguments":{"city":"x"}}`)))
				}
				r := c.ask(*cl, cl.turn("go", cl.tools("f", "g")+","+member))
				u := c.sent()
				if c.engine == vllm {
					if w.choice == "named" {
						w.choice = `{"type":"function","function":{"name":"g"}}`
					}
					u.is("tool_choice", w.choice)
					u.is("parallel_tool_calls", w.parallel)
					continue
				}
				names := fmt.Sprint(u.text("tools.0.function.name"), u.text("tools.1.function.name"))
				switch w.choice {
				case "named":
					c.is(member+": tools", names, "g")
					c.is(member+": calls", r.called(), `g{"city":"x"}`)
				case `"required"`:
					c.is(member+": tools", names, "fg")
					c.is(member+": calls", r.called(), `f{"city":"x"}`)
				case `"none"`:
					c.is(member+": tools", names, "")
				default:
					c.is(member+": tools", names, "fg")
					u.is("format", "")
				}
			}
		}
		c.says(talk(call("a", "f", "{}"), call("b", "g", "{}")))
		c.is("calls when one is wanted", c.ask(chat, chat.turn("go", chat.tools("f", "g")+`,"parallel_tool_calls":false`)).called(), "f{}")
	}},
	{name: "several results are several messages in their order, and text follows them", test: func(c *cell) {
		calls := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
			{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`
		c.ask(chat, `{"messages":[{"role":"user","content":"go"},`+calls+`,{"role":"tool","tool_call_id":"a","content":"ra"},{"role":"tool","tool_call_id":"b","content":"rb"},{"role":"user","content":"T"}]}`)
		want := c.sent()
		c.is("roles", want.roles(), "user assistant tool tool user")
		want.is("messages.2.tool_call_id", `"a"`)
		want.is("messages.3.tool_call_id", `"b"`)
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"go"},
			{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"ra"},{"type":"tool_result","tool_use_id":"b","content":"rb"},{"type":"text","text":"T"}]}]}`)
		c.is("the same of another client", c.sent().at("messages"), want.at("messages"))
		c.ask(responses, `{"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
			{"type":"function_call","call_id":"b","name":"g","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"ra"},
			{"type":"function_call_output","call_id":"b","output":"rb"},{"role":"user","content":"T"}]}`)
		c.is("the same of a third", c.sent().at("messages"), want.at("messages"))
	}},
	{name: "a picture is a data URL for one backend and bare base64 for the other", test: func(c *cell) {
		const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}}`
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":[{"type":"text","text":"what?"},`+image+`]}]}`)
		if c.engine == vllm {
			c.sent().is("messages.0.content.1.image_url.url", q("data:image/png;base64,"+pixel))
		} else {
			c.sent().is("messages.0.images", "["+q(pixel)+"]")
		}
		c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[`+image+`]}]}]}`)
		if c.engine == vllm {
			c.sent().is("messages.3.content.0.image_url.url", q("data:image/png;base64,"+pixel))
		} else {
			c.sent().is("messages.2.images", "["+q(pixel)+"]")
		}
	}},
	{name: "tokens can be counted for every model and that says nothing about its health", not: excuses{"stream": noStream}, test: func(c *cell) {
		for profile := range profiles {
			if profile == "vectors" {
				continue
			}
			c.as(profile)
			c.sim.Reply("/tokenize", status(404, `{"detail":"Not Found"}`))
			for range 2 {
				c.asked++
				r := c.post("/v1/messages/count_tokens?beta=true", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, c.model, strings.Repeat("word ", 50)))
				var got struct {
					Tokens int `json:"input_tokens"`
				}
				if err := json.Unmarshal([]byte(r.raw), &got); err != nil || r.status != http.StatusOK || got.Tokens < 40 || got.Tokens > 200 {
					c.errorf("%s: %d %s", profile, r.status, clip(r.raw))
				}
			}
			c.ask(messages, messages.hello(""))
		}
	}},
	{name: "developer and system messages at the beginning are one system message where the role is not known", test: func(c *cell) {
		const body = `{"messages":[{"role":"system","content":"A"},{"role":"developer","content":"B"},{"role":"user","content":"hi"}]}`
		c.as("qwen")
		c.ask(chat, body)
		c.is("roles", c.sent().roles(), "system user")
		c.sent().is("messages.0.content", `"A\n\nB"`)
		c.as("gptoss")
		c.ask(chat, body)
		c.is("roles", c.sent().roles(), c.on("system developer user", "system user"))
	}},
	{name: "either name of the bound of an answer bounds it, here and at the backend", test: func(c *cell) {
		for _, member := range []string{`"max_tokens":9`, `"max_completion_tokens":9`, `"max_tokens":500,"max_completion_tokens":9`} {
			r := c.ask(chat, chat.turn("[[tokens=50]]", member))
			c.sent().is(c.on("max_tokens", "options.num_predict"), "9")
			c.sent().is("max_completion_tokens", "")
			c.is("reason", r.finish, "length")
			if got := c.row(r.id()); got.reserved < got.input+9 || got.reserved > got.input+9+64 {
				c.errorf("%s: %d tokens are reserved for %d and 9", member, got.reserved, got.input)
			}
		}
	}},
	{name: "no turn of the assistant is lost for want of content", test: func(c *cell) {
		calls := `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`
		for _, content := range []string{`"content":null,`, `"content":"",`, ``} {
			c.ask(chat, `{"messages":[{"role":"user","content":"go"},{"role":"assistant",`+content+calls+`},{"role":"tool","tool_call_id":"a","content":"r"}]}`)
			c.is("roles", c.sent().roles(), "user assistant tool")
			c.sent().is("messages.1.content", c.on("null", `""`))
			c.ask(chat, `{"messages":[{"role":"user","content":"go"},{`+content+`"role":"assistant"},{"role":"user","content":"on"}]}`)
			c.is("roles", c.sent().roles(), "user assistant user")
			c.sent().is("messages.1.content", `""`)
		}
	}},
	{name: "vectors have the form that was asked for, and a width that is not is refused", not: excuses{"stream": noStream}, test: func(c *cell) {
		c.as("vectors")
		wide := make([]string, 768)
		for i := range wide {
			wide[i] = fmt.Sprintf("%g", float32(i)/7-50)
		}
		vector := "[" + strings.Join(wide, ",") + "]"
		path := c.on("/v1/embeddings", "/api/embed")
		answer := status(200, c.on(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":`+vector+`}],"usage":{"prompt_tokens":2,"total_tokens":2}}`,
			`{"model":"e","embeddings":[`+vector+`],"prompt_eval_count":2}`))
		for _, format := range []string{"base64", "float"} {
			c.sim.Reply(path, answer)
			r := c.embed(200, `"input":"hi","encoding_format":"`+format+`"`)
			if got := c.vectors(r); len(got) != 1 || len(got[0]) != 768 || got[0][700] != float32(700)/7-50 {
				c.errorf("%s: %d vectors", format, len(got))
			}
			if packed := strings.Contains(r.raw, `"embedding":"`); packed != (format == "base64") {
				c.errorf("%s: %s", format, clip(r.raw))
			}
		}
		c.sim.Reply(path, answer) // the server takes no notice of the width
		r := c.embed(http.StatusBadRequest, `"input":"hi","dimensions":256`)
		c.has("refusal", r.raw, `"param":"dimensions"`)
	}},
	{name: "arguments in the history are an object for Ollama and a string for vLLM, and broken ones are told", test: func(c *cell) {
		history := func(args string) string {
			return `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":` +
				q(args) + `}}]},{"role":"tool","tool_call_id":"a","content":"r"}]}`
		}
		const key = "messages.1.tool_calls.0.function.arguments"
		c.ask(chat, history(`{"a":1}`))
		c.sent().is(key, c.on(`"{\"a\":1}"`, `{"a":1}`))
		if c.engine == ollama {
			r := c.refused(chat, http.StatusBadRequest, history(`{"a":`))
			c.has("param", r.param, "messages[1]")
			return
		}
		r := c.ask(chat, history(`{"a":`)) // templates parse the string, so it is wrapped
		c.sent().is(key, q(`{"_raw":"{\"a\":"}`))
		c.has("warnings", r.warnings(), "arguments=wrapped")
	}},
	{name: "a prompt is never cut: the context is told, and what does not fit is refused", test: func(c *cell) {
		c.as("small")
		c.ask(chat, chat.hello(""))
		if c.engine == ollama {
			c.sent().is("options.num_ctx", fmt.Sprint(smallWindow))
			c.sent().is("truncate", "false")
			c.sent().is("shift", "false")
		}
		before := len(c.sim.InferenceRequests())
		for _, cl := range everyone {
			r := c.refused(cl, http.StatusBadRequest, strings.Replace(cl.turn(strings.Repeat("word ", smallWindow+100), ""), "5000", "100", 1))
			c.is(cl.name+": code", r.code, cl.word("context_length_exceeded", "", "context_length_exceeded", ""))
		}
		if n := len(c.sim.InferenceRequests()); n != before {
			c.errorf("%d prompts that do not fit reach the backend", n-before)
		}
		// A bound of the answer that is too high is lowered, and that is told.
		r := c.exchange(chat, c.mode, chat.hello(fmt.Sprintf(`"max_tokens":%d`, smallWindow+1)))
		c.has("warnings", r.warnings(), "max_tokens=clamped:")
		c.is("text", r.text, "ok")
	}},
	{name: "the data URL of a picture loses its head for Ollama and a bare picture gets one for vLLM", test: func(c *cell) {
		for cl, body := range map[*client]string{
			&chat:      `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + pixel + `"}}]}]}`,
			&responses: `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + pixel + `"}]}]}`,
			&native:    `{"messages":[{"role":"user","content":"","images":["` + pixel + `"]}]}`,
		} {
			c.ask(*cl, body)
			if c.engine == ollama {
				c.sent().is("messages.0.images", "["+q(pixel)+"]")
			} else {
				c.has(cl.name, c.sent().at("messages.0.content"), `"url":"data:image/png;base64,`+pixel+`"`)
			}
		}
	}},
	{name: "a schema for the answer is the bare schema for Ollama and has a name for vLLM", test: func(c *cell) {
		const schema = `{"type":"object","required":["p"],"properties":{"p":{"type":"string"}}}`
		for cl, member := range map[*client]string{
			&chat:      `"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":` + schema + `}}`,
			&responses: `"text":{"format":{"type":"json_schema","name":"r","schema":` + schema + `}}`,
			&messages:  `"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`,
			&native:    `"format":` + schema,
		} {
			r := c.ask(*cl, cl.turn("An object please", member))
			if c.engine == ollama {
				c.sent().is("format", schema)
			} else {
				c.sent().is("response_format.type", `"json_schema"`)
				c.sent().is("response_format.json_schema.schema", schema)
				if c.sent().text("response_format.json_schema.name") == "" {
					c.errorf("%s: the schema has no name", cl.name)
				}
			}
			var got struct{ P *string }
			if err := json.Unmarshal([]byte(r.text), &got); err != nil || got.P == nil {
				c.errorf("%s: answer %s", cl.name, r.text)
			}
		}
		for cl, member := range map[*client]string{
			&chat: `"response_format":{"type":"json_object"}`, &responses: `"text":{"format":{"type":"json_object"}}`, &native: `"format":"json"`,
		} {
			c.ask(*cl, cl.turn("An object please", member))
			c.sent().is(c.on("response_format.type", "format"), c.on(`"json_object"`, `"json"`))
		}
	}},
	{name: "thinking that is switched off or set to a level stays so on the way", test: func(c *cell) {
		off := map[*client]string{&chat: `"reasoning_effort":"none"`, &responses: `"reasoning":{"effort":"none"}`, &native: `"think":false`, &messages: `"thinking":{"type":"disabled"}`}
		c.as("qwen")
		for cl, member := range off {
			c.ask(*cl, cl.hello(member))
			c.sent().is(c.on("chat_template_kwargs.enable_thinking", "think"), "false")
		}
		c.as("gptoss")
		for _, level := range []string{"low", "medium", "high"} {
			for cl, member := range map[*client]string{
				&chat: `"reasoning_effort":"` + level + `"`, &responses: `"reasoning":{"effort":"` + level + `"}`, &native: `"think":"` + level + `"`,
				&messages: `"thinking":{"type":"adaptive"},"output_config":{"effort":"` + level + `"}`,
			} {
				c.ask(*cl, cl.hello(member))
				c.sent().is(c.on("reasoning_effort", "think"), q(level))
			}
		}
	}},
}
