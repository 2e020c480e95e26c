package conformance_test

import (
	"net/http"
	"strings"
	"time"
)

// thinkingRules are about thinking, and about what is told at the end of an answer.
var thinkingRules = []rule{
	{name: "thinking between calls keeps its place", test: func(c *cell) {
		c.as("qwen")
		c.says(talk(think("first"), call("call_a", "f", `{"a":1}`), think("second"), say("text")))
		for _, cl := range []client{messages, responses} {
			r := c.ask(cl, cl.turn("go", cl.tools("f")+","+cl.thinking()))
			c.is(cl.name+": order", r.order, "thinking call thinking text")
			c.is(cl.name+": thinking", r.thinking, "firstsecond")
		}
		for _, cl := range []client{chat, native} {
			r := c.ask(cl, cl.turn("go", cl.tools("f")+","+cl.thinking()))
			c.is(cl.name, r.thinking+r.called()+r.text, `firstsecondf{"a":1}text`)
		}
	}},
	{name: "thinking that comes under two names counts once", not: excuses{"ollama": "Ollama has one name for thinking"}, test: func(c *cell) {
		c.as("qwen")
		c.says(script{vllm: sse(delta(`"reasoning":"a","reasoning_content":"a"`), delta(`"reasoning_content":"b","reasoning":"b"`), delta(`"content":"x"`), finish("stop"), done)})
		for _, cl := range everyone {
			r := c.ask(cl, cl.turn("go", cl.thinking()))
			c.is(cl.name+": thinking", r.thinking, "ab")
			c.is(cl.name+": text", r.text, "x")
		}
	}},
	{name: "thinking in tags is split from the text for models that write it so", test: func(c *cell) {
		for profile, want := range map[string][2]string{"tags": {"x", "y"}, "qwen": {"", "<think>x</think>y"}} {
			c.as(profile)
			c.says(talk(say("<thi"), say("nk>x</th"), say("ink>y")))
			for _, cl := range everyone {
				r := c.ask(cl, cl.turn("go", cl.thinking()))
				c.is(profile+" "+cl.name+": thinking", r.thinking, want[0])
				c.is(profile+" "+cl.name+": text", r.text, want[1])
			}
		}
	}},
	{name: "an answer that arrives as thinking although thinking is off is text only for models that do that", test: func(c *cell) {
		off := func(cl client) string {
			return cl.word(`"reasoning_effort":"none"`, "", `"reasoning":{"effort":"none"}`, `"think":false`)
		}
		for profile, want := range map[string]string{"promote": "forty-two", "qwen": ""} {
			c.as(profile)
			c.says(talk(think("forty-"), think("two")))
			for _, cl := range everyone {
				r := c.ask(cl, cl.turn("go", off(cl)))
				c.is(profile+" "+cl.name+": text", r.text, want)
				c.is(profile+" "+cl.name+": thinking", r.thinking, "")
			}
		}
	}},
	{name: "a budget of thinking switches thinking on and is passed where it is known", test: func(c *cell) {
		c.as("qwen")
		c.ask(messages, `{"max_tokens":8000,"thinking":{"type":"enabled","budget_tokens":4096},"messages":[{"role":"user","content":"hi"}]}`)
		if c.engine == vllm {
			c.sent().is("chat_template_kwargs.enable_thinking", "true")
			c.sent().is("thinking_token_budget", "4096")
		} else {
			c.sent().is("think", "true")
		}
	}},
	{name: "an effort above what the model knows is its highest, with a warning", test: func(c *cell) {
		c.as("gptoss")
		r := c.ask(messages, `{"max_tokens":8000,"thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"},"messages":[{"role":"user","content":"hi"}]}`)
		c.sent().is(c.on("reasoning_effort", "think"), `"high"`)
		c.has("warnings", r.warnings(), "thinking=clamped:high")
	}},
	{name: "a model that always thinks is not told to stop and its thinking is hidden", test: func(c *cell) {
		c.as("r1")
		c.says(talk(think("secret"), say("ok")))
		r := c.ask(chat, chat.turn("go", `"reasoning_effort":"none"`))
		c.is("text", r.text, "ok")
		c.is("thinking", r.thinking, "")
		c.lacks("answer", r.raw, "secret")
		c.has("warnings", r.warnings(), "reasoning_effort=")
		c.sent().is("reasoning_effort", "")
		c.sent().is("chat_template_kwargs", "")
		c.sent().is("think", c.on("", "true"))
	}},
	{name: "thinking that a model cannot do is dropped with a warning and refused as Ollama refuses it", test: func(c *cell) {
		c.as("plain")
		for _, cl := range []client{chat, messages, responses} {
			r := c.ask(cl, cl.hello(cl.thinking()))
			if r.warnings() == "" {
				c.errorf("%s: no warning", cl.name)
			}
			for _, key := range []string{"think", "reasoning_effort", "chat_template_kwargs", "thinking_token_budget"} {
				c.sent().is(key, "")
			}
		}
		if c.engine == vllm { // no such refusal is known of it
			c.has("warnings", c.ask(native, native.hello(native.thinking())).warnings(), "think=dropped")
			return
		}
		c.has("refusal", c.refused(native, http.StatusBadRequest, native.hello(native.thinking())).message, `"`+c.model+`" does not support thinking`)
	}},
	{name: "redacted thinking in the history is dropped in silence and the order stays", test: func(c *cell) {
		c.as("qwen")
		r := c.ask(messages, `{"max_tokens":50,"messages":[{"role":"user","content":"one"},
			{"role":"assistant","content":[{"type":"redacted_thinking","data":"c2VhbGVk"},{"type":"text","text":"A"},
			{"type":"tool_use","id":"t1","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}]}`)
		c.is("warnings", r.warnings(), "")
		c.is("roles", c.sent().roles(), "user assistant tool")
		c.sent().is("messages.1.content", `"A"`)
		c.lacks("request", c.sent().String(), "c2VhbGVk")
	}},
	{name: "thinking is signed and may come back with any signature", test: func(c *cell) {
		c.as("qwen")
		c.says(talk(think("because"), say("A")))
		r := c.ask(messages, messages.turn("one", messages.thinking()))
		c.is("order", r.order, "thinking text")
		signature := r.anthropic.Content[0].Signature
		if signature == "" {
			c.errorf("no signature")
		}
		c.says(talk(say("B")))
		for _, sent := range []struct{ text, signature string }{{"because", signature}, {"for another reason", signature}, {"because", "forged"}, {"because", ""}} {
			got := c.ask(messages, `{"max_tokens":5000,`+messages.thinking()+`,"messages":[{"role":"user","content":"one"},
				{"role":"assistant","content":[{"type":"thinking","thinking":`+q(sent.text)+`,"signature":`+q(sent.signature)+`},{"type":"text","text":"A"}]},
				{"role":"user","content":"two"}]}`)
			c.is("answer", got.text, "B")
		}
	}},
	{name: "a silent backend makes pings after the start of the message", not: excuses{"whole": "a whole answer has no room for signs of life"}, test: func(c *cell) {
		s := talk(say("ok"))
		c.says(script{vllm: delayed(s[vllm], silence), ollama: delayed(s[ollama], silence)})
		r := c.exchange(messages, stream, messages.turn("go", "")) // the checker refuses a ping before message_start
		if r.anthropic.Pings == 0 || r.text != "ok" {
			c.errorf("%d pings and text %q", r.anthropic.Pings, r.text)
		}
	}},
	{name: "usage is a total that is told once and leaves out what was cached", test: func(c *cell) {
		c.says(script{
			vllm: sse(strings.Replace(delta(`"content":"a"`), `"choices"`, `"usage":`+usage(100, 1, `"prompt_tokens_details":{"cached_tokens":40}`)+`,"choices"`, 1),
				delta(`"content":"b"`), finish("stop"), counts(100, 12, `"prompt_tokens_details":{"cached_tokens":40}`), done),
			ollama: lines(line(`"content":"ab"`), last("stop", 100, 12)),
		})
		r := c.ask(messages, messages.turn("go", ""))
		in, cached := 60, 40
		if c.engine == ollama { // it does not tell what was cached
			in, cached = 100, 0
		}
		if r.in != in || r.cached != cached || r.out != 12 {
			c.errorf("input %d, cached %d, output %d; want %d, %d, 12", r.in, r.cached, r.out, in, cached)
		}
		if n := strings.Count(r.raw, "event: message_delta"); c.mode == stream && n != 1 {
			c.errorf("%d events message_delta", n)
		}
	}},
	{name: "a stop sequence that matched is named where the protocol can name it", not: excuses{"ollama": "Ollama does not tell whether a stop sequence matched"}, test: func(c *cell) {
		c.says(script{vllm: sse(delta(`"content":"a"`), finish("stop", `"stop_reason":"END"`), done)})
		c.is("Anthropic's reason", c.ask(messages, messages.turn("go", `"stop_sequences":["END","FIN"]`)).finish, "stop_sequence:END")
		r := c.ask(chat, chat.turn("go", `"stop":["END","FIN"]`))
		c.is("OpenAI's reason", r.finish, "stop")
		c.lacks("chunk", r.raw, "stop_reason")
	}},
	{name: "a token that stops is the model's own end", not: excuses{"ollama": "Ollama does not tell which token ended an answer"}, test: func(c *cell) {
		c.says(script{vllm: sse(delta(`"content":"a"`), finish("stop", `"stop_reason":151645`), done)})
		c.is("reason", c.ask(messages, messages.turn("go", `"stop_sequences":["END"]`)).finish, "end_turn")
	}},
}

// silence is longer than the gateway lets a stream be silent.
const silence = 16 * time.Second
