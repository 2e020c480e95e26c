package simbackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/simbackend"
)

func vllmServer(t *testing.T, version string) *simbackend.Server {
	t.Helper()
	models, err := simbackend.ParseModels("sim-chat@400,sim-think,sim-embed,plain:chat")
	if err != nil {
		t.Fatal(err)
	}
	return newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models, Version: version})
}

func TestVLLMRefusesWhatVLLMRefuses(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	long := strings.Repeat("word ", 500)
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"empty tools":                  {chat("sim-chat", "x", `,"tools":[]`), 400, "`tools` must not be an empty array"},
		"choice without tools":         {chat("sim-chat", "x", `,"tool_choice":"auto"`), 400, "`tools` must be set"},
		"named choice without tools":   {chat("sim-chat", "x", `,"tool_choice":{"type":"function","function":{"name":"f"}}`), 400, "`tools` must be set"},
		"unknown named tool":           {chat("sim-chat", "x", twoTools+`,"tool_choice":{"type":"function","function":{"name":"f"}}`), 400, "does not match"},
		"odd choice":                   {chat("sim-chat", "x", twoTools+`,"tool_choice":"any"`), 400, "tool_choice"},
		"tools without a parser":       {chat("plain", "x", twoTools), 400, "--enable-auto-tool-choice"},
		"stream options, no stream":    {chat("sim-chat", "x", `,"stream_options":{"include_usage":true}`), 400, "Stream options"},
		"top_logprobs, no logprobs":    {chat("sim-chat", "x", `,"top_logprobs":2`), 400, "top_logprobs"},
		"prompt_logprobs with stream":  {chat("sim-chat", "x", `,"stream":true,"prompt_logprobs":1`), 400, "prompt_logprobs"},
		"two structured outputs":       {chat("sim-chat", "x", `,"structured_outputs":{"json":{},"regex":"a"}`), 400, "only use one kind"},
		"both prompt endings":          {chat("sim-chat", "x", `,"continue_final_message":true`), 400, "continue_final_message"},
		"priority":                     {chat("sim-chat", "x", `,"priority":3`), 400, "priority"},
		"n of zero":                    {chat("sim-chat", "x", `,"n":0`), 400, "n must be at least 1"},
		"stop that is no text":         {chat("sim-chat", "x", `,"stop":[1]`), 400, "validation error"},
		"prompt that is too long":      {chat("sim-chat", long, ""), 400, "This model's maximum context length is 400 tokens. However, your messages resulted in 504 tokens."},
		"no messages":                  {`{"model":"sim-chat","messages":[]}`, 400, "message"},
		"bad JSON":                     {`{"model":`, 400, "validation error"},
		"image on a text model":        {`{"model":"sim-think","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]}`, 400, "not a multimodal model"},
		"image that is none":           {`{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`, 400, "cannot identify image file"},
		"unknown part":                 {`{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"odd"}]}]}`, 400, "unknown part type"},
		"chat on an embedding model":   {chat("sim-embed", "x", ""), 400, "does not support Chat Completions"},
		"unknown model":                {chat("nobody", "x", ""), 404, "The model `nobody` does not exist."},
		"schema that is no schema":     {chat("sim-chat", "x", `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":[1]}}`), 400, "invalid schema"},
		"response format without type": {chat("sim-chat", "x", `,"response_format":{"type":"xml"}`), 400, "unknown response_format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ask(s, "POST", chatPath, c.body)
			if r.status != c.status {
				t.Fatalf("status %d, want %d: %s", r.status, c.status, r.body)
			}
			o := r.json(t)
			if !strings.Contains(o.str("error.message"), c.want) {
				t.Errorf("message %q lacks %q", o.str("error.message"), c.want)
			}
			if o.num("error.code") != c.status || !strings.HasSuffix(o.str("error.type"), "Error") {
				t.Errorf("code or type: %s", r.body)
			}
			o.at("error.param")
		})
	}
}

func TestVLLMAcceptsWhatVLLMAccepts(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	for name, body := range map[string]string{
		"unknown fields":             chat("sim-chat", "x", `,"guided_json":{"type":"object"},"nonsense":{"a":[1]},"temperature":0.5`),
		"seed above 2^53":            chat("sim-chat", "x", `,"seed":9007199254740993`),
		"null stop":                  chat("sim-chat", "x", `,"stop":null`),
		"null content":               `{"model":"sim-chat","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"42"}]}]}`,
		"choice none without tools":  chat("sim-chat", "x", `,"tool_choice":"none"`),
		"max_tokens beyond the room": chat("sim-chat", "x", `,"max_tokens":100000`),
		"image by address":           `{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"image_url","image_url":"http://x/y.png"}]}]}`,
	} {
		if r := ask(s, "POST", chatPath, body); r.status != 200 {
			t.Errorf("%s: status %d: %s", name, r.status, r.body)
		}
	}
	if r := ask(s, "POST", chatPath, chat("sim-chat", "[[tokens=500]]", "")); r.json(t).num("usage.total_tokens") != 400 {
		t.Errorf("an answer is not limited to the context: %s", r.body)
	}
}

func TestVLLMReasoningFieldFollowsTheVersion(t *testing.T) {
	t.Parallel()
	for version, field := range map[string]string{
		"": "reasoning", "0.16.0": "reasoning", "1.0.0": "reasoning", "0.15.9": "reasoning_content", "0.9.2": "reasoning_content",
	} {
		s := vllmServer(t, version)
		body := chat("sim-think", "[[think=hm]][[say=yes]]", "")
		o := ask(s, "POST", chatPath, body).json(t)
		if o.str("choices.0.message."+field) != "hm" || o.str("choices.0.message.content") != "yes" {
			t.Errorf("version %q: %s", version, o.text)
		}
		streamed := ask(s, "POST", chatPath, strings.TrimSuffix(body, "}")+`,"stream":true}`).events(t)
		if got := parse(t, streamed[1]).str("choices.0.delta." + field); got != "hm" {
			t.Errorf("version %q: first delta %s", version, streamed[1])
		}
		if o.num("usage.completion_tokens_details.reasoning_tokens") != 1 {
			t.Errorf("reasoning tokens: %s", o.text)
		}
	}
}

func TestThinkingCanBeSwitchedOffAndHidden(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	for extra, tokens := range map[string]int{
		`,"chat_template_kwargs":{"enable_thinking":false}`:                                1,
		`,"chat_template_kwargs":{"thinking":false}`:                                       1,
		`,"reasoning_effort":"none"`:                                                       1,
		`,"reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true}`:       2,
		`,"include_reasoning":false`:                                                       2,
		`,"include_reasoning":false,"stream":true,"stream_options":{"include_usage":true}`: 2,
	} {
		r := ask(s, "POST", chatPath, chat("sim-think", "[[think=hm]][[say=yes]]", extra))
		shown := strings.Contains(extra, `"enable_thinking":true`)
		if strings.Contains(r.body, `"hm"`) != shown {
			t.Errorf("%s: thinking shown is not %v: %s", extra, shown, r.body)
		}
		if !strings.Contains(r.body, fmt.Sprintf(`"completion_tokens":%d`, tokens)) {
			t.Errorf("%s: not %d tokens: %s", extra, tokens, r.body)
		}
	}
	if r := ask(s, "POST", chatPath, chat("sim-chat", "[[think=hm]][[say=yes]]", "")); strings.Contains(r.body, "hm") {
		t.Errorf("a model that does not think thinks: %s", r.body)
	}
}

func TestAMarkGivesTheArgumentsOfACall(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	o := ask(s, "POST", chatPath, chat("sim-chat", `[[call=get_time {"zone": {"name": "Zürich"}}]]`, twoTools)).json(t)
	args := parse(t, o.str("choices.0.message.tool_calls.0.function.arguments"))
	if name, zone := o.str("choices.0.message.tool_calls.0.function.name"), args.str("zone.name"); name != "get_time" || zone != "Zürich" {
		t.Errorf("the call is %s(%s)", name, args.text)
	}
}

func TestVLLMToolChoice(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	named := `,"tool_choice":{"type":"function","function":{"name":"add"}}`
	for name, c := range map[string]struct {
		text, extra, finish string
		calls               []string
	}{
		"auto and no name":        {"hello", twoTools, "stop", nil},
		"auto and a name":         {"use add now", twoTools, "tool_calls", []string{"add"}},
		"what to answer first":    {"[[say=No]] to add", twoTools, "stop", nil},
		"a mark without its tool": {`[[call=sub {}]]`, twoTools, "stop", nil},
		"name inside a word":      {"please address it", twoTools, "stop", nil},
		"two names in text order": {"add, get_time", twoTools, "tool_calls", []string{"add", "get_time"}},
		"not in parallel":         {"add, get_time", twoTools + `,"parallel_tool_calls":false`, "tool_calls", []string{"add"}},
		"none":                    {"add", twoTools + `,"tool_choice":"none"`, "stop", nil},
		"required without a name": {"hello", twoTools + `,"tool_choice":"required"`, "tool_calls", []string{"get_time"}},
		"named finishes by stop":  {"hello", twoTools + named, "stop", []string{"add"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ask(s, "POST", chatPath, chat("sim-chat", c.text, c.extra)).json(t)
			if got := o.str("choices.0.finish_reason"); got != c.finish {
				t.Errorf("finish_reason %q, want %q", got, c.finish)
			}
			if c.calls == nil {
				if _, ok := o.find("choices.0.message.tool_calls"); ok {
					t.Errorf("unexpected calls: %s", o.text)
				}
				return
			}
			calls := o.list("choices.0.message.tool_calls")
			if len(calls) != len(c.calls) {
				t.Fatalf("%d calls, want %d: %s", len(calls), len(c.calls), o.text)
			}
			for i, want := range c.calls {
				at := fmt.Sprintf("choices.0.message.tool_calls.%d.", i)
				if got := o.str(at + "function.name"); got != want {
					t.Errorf("call %d is %q, want %q", i, got, want)
				}
				if id := o.str(at + "id"); !strings.HasPrefix(id, "chatcmpl-tool-") {
					t.Errorf("id %q", id)
				}
				args := parse(t, o.str(at+"function.arguments"))
				if want == "add" {
					args.num("a")
					args.num("b")
				}
			}
		})
	}
}

func TestVLLMStreamShape(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	r := ask(s, "POST", chatPath, chat("sim-chat", "[[say=Blue sky]]",
		`,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`))
	events := r.events(t)
	if len(events) != 6 || events[5] != "[DONE]" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d events, content type %q:\n%s", len(events), r.header.Get("Content-Type"), r.body)
	}
	first, id := parse(t, events[0]), parse(t, events[0]).str("id")
	if first.str("choices.0.delta.role") != "assistant" || first.str("choices.0.delta.content") != "" {
		t.Errorf("first chunk %s", events[0])
	}
	for i, text := range []string{"Blue", " sky"} {
		o := parse(t, events[1+i])
		if o.str("choices.0.delta.content") != text || o.str("id") != id || o.num("usage.completion_tokens") != 1+i {
			t.Errorf("chunk %d: %s", 1+i, events[1+i])
		}
	}
	finish := parse(t, events[3])
	if finish.str("choices.0.finish_reason") != "stop" || finish.at("choices.0.stop_reason") != nil {
		t.Errorf("finish chunk %s", events[3])
	}
	last := parse(t, events[4])
	if len(last.list("choices")) != 0 || last.num("usage.completion_tokens") != 2 {
		t.Errorf("usage chunk %s", events[4])
	}
	plain := ask(s, "POST", chatPath, chat("sim-chat", "[[say=Blue sky]]", `,"stream":true`))
	if strings.Contains(plain.body, "usage") {
		t.Errorf("usage without being asked: %s", plain.body)
	}
}

func TestLimitsOfTheAnswer(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	for name, c := range map[string]struct {
		text, extra, content, finish string
		stop                         any
		tokens                       int
	}{
		"max_tokens":             {"[[say=a b c d]]", `,"max_tokens":2`, "a b", "length", nil, 2},
		"max_completion_tokens":  {"[[say=a b c d]]", `,"max_tokens":1,"max_completion_tokens":3`, "a b c", "length", nil, 3},
		"stop string":            {"[[say=a b c d]]", `,"stop":["x"," c"]`, "a b", "stop", " c", 2},
		"stop string kept":       {"[[say=a b c d]]", `,"stop":"c","include_stop_str_in_output":true`, "a b c", "stop", "c", 3},
		"first of two stops":     {"[[say=a b c d]]", `,"stop":["c","b"]`, "a ", "stop", "b", 2},
		"order of stops is idle": {"[[say=a b c d]]", `,"stop":["b","c"]`, "a ", "stop", "b", 2},
		"no escapes for HTML":    {"[[say=<b>&]]", "", "<b>&", "stop", nil, 1},
		"limit before the stop":  {"[[say=a b c d]]", `,"stop":"d","max_tokens":2`, "a b", "length", nil, 2},
		"exactly so many tokens": {"[[tokens=3]]", "", "the model reads", "stop", nil, 3},
		"ignore_eos":             {"[[say=a]]", `,"ignore_eos":true,"max_tokens":3`, "a the model", "length", nil, 3},
		"min_tokens":             {"[[say=a]]", `,"min_tokens":2`, "a the", "stop", nil, 2},
		"empty answer":           {"[[say=]]", "", "", "stop", nil, 0},
		"choice":                 {"x", `,"structured_outputs":{"choice":["yes"]}`, "yes", "stop", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ask(s, "POST", chatPath, chat("sim-chat", c.text, c.extra)).json(t)
			if strings.Contains(o.text, `\u003c`) {
				t.Errorf("escapes that no Python server writes: %s", o.text)
			}
			if got := o.str("choices.0.message.content"); got != c.content {
				t.Errorf("content %q, want %q", got, c.content)
			}
			if o.str("choices.0.finish_reason") != c.finish || o.at("choices.0.stop_reason") != c.stop {
				t.Errorf("finish %s", o.text)
			}
			if got := o.num("usage.completion_tokens"); got != c.tokens {
				t.Errorf("%d tokens, want %d", got, c.tokens)
			}
			var streamed, finish string
			for _, e := range ask(s, "POST", chatPath, chat("sim-chat", c.text, c.extra+`,"stream":true`)).events(t) {
				if e == "[DONE]" {
					break
				}
				chunk := parse(t, e)
				streamed += chunk.str("choices.0.delta.content")
				if f, ok := chunk.at("choices.0.finish_reason").(string); ok {
					finish = f
				}
			}
			if streamed != c.content || finish != c.finish {
				t.Errorf("streamed %q, %q, want %q, %q", streamed, finish, c.content, c.finish)
			}
		})
	}
}

func TestSeveralChoicesAreInterleaved(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	var order []int
	for _, e := range ask(s, "POST", chatPath, chat("sim-chat", "[[say=a b]]", `,"n":2,"stream":true`)).events(t) {
		if e != "[DONE]" {
			order = append(order, parse(t, e).num("choices.0.index"))
		}
	}
	if fmt.Sprint(order) != "[0 0 1 1 0 0 1 1]" {
		t.Errorf("order of the choices = %v", order)
	}
	o := ask(s, "POST", chatPath, chat("sim-chat", "tell me", `,"n":2`)).json(t)
	if o.str("choices.0.message.content") == o.str("choices.1.message.content") {
		t.Error("both choices are the same")
	}
}

func TestAnswersDependOnSeedModelAndConversationOnly(t *testing.T) {
	t.Parallel()
	answer := func(seed uint64, text, extra string) string {
		s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Seed: seed})
		return ask(s, "POST", chatPath, chat("sim-chat", text, extra)).json(t).str("choices.0.message.content")
	}
	first := answer(1, "a question", "")
	if again := answer(1, "a question", `,"temperature":1.5,"seed":7`); again != first {
		t.Errorf("same question, other answer:\n%s\n%s", first, again)
	}
	if other := answer(2, "a question", ""); other == first {
		t.Error("the seed of the server does not matter")
	}
}

func TestLogprobs(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	o := ask(s, "POST", chatPath, chat("sim-chat", "[[say=a b]]", `,"logprobs":true,"top_logprobs":2`)).json(t)
	if o.str("choices.0.logprobs.content.1.token") != " b" || len(o.list("choices.0.logprobs.content.0.top_logprobs")) != 2 {
		t.Errorf("logprobs: %s", o.text)
	}
}

func TestVLLMServerPaths(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	card := ask(s, "GET", "/v1/models", "").json(t)
	if card.str("data.0.id") != "sim-chat" || card.num("data.0.max_model_len") != 400 || card.str("data.0.root") != "sim-chat" {
		t.Errorf("model card: %s", card.text)
	}
	card.at("data.0.parent")
	card.at("data.0.permission.0")
	if r := ask(s, "GET", "/health", ""); r.status != 200 || r.body != "" {
		t.Errorf("health: %d %q", r.status, r.body)
	}
	if v := ask(s, "GET", "/version", "").json(t).str("version"); v != "0.16.0" {
		t.Errorf("version %q", v)
	}
	if r := ask(s, "GET", "/nowhere", ""); r.status != 404 || r.body != `{"detail":"Not Found"}` {
		t.Errorf("unknown path: %d %s", r.status, r.body)
	}
	if r := ask(s, "GET", chatPath, ""); r.status != 405 || r.body != `{"detail":"Method Not Allowed"}` {
		t.Errorf("wrong method: %d %s", r.status, r.body)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	cfg := simbackend.Config{Dialect: simbackend.DialectVLLM, APIKey: "test-key"}
	s := serve(t, cfg)
	if r := ask(s, "POST", chatPath, chat("sim-chat", "x", "")); r.status != 401 || r.body != `{"error":"Unauthorized"}` {
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
	if r := ask(s, "GET", "/health", ""); r.status != 200 {
		t.Errorf("health without a key: %d", r.status)
	}
	c := openAIClient(s)
	// The client cannot decode an error that is a string, as this one of vLLM is.
	_, err := c.Chat.Completions.New(testContext(t), userSays("sim-chat", "x"), option.WithAPIKey("other-key"))
	if r, _ := s.LastRequest(chatPath); err == nil || r.Status != 401 {
		t.Errorf("with another key: %v, status %d", err, r.Status)
	}
	if _, err := c.Chat.Completions.New(testContext(t), userSays("sim-chat", "x")); err != nil {
		t.Errorf("with the key: %v", err)
	}
}

func TestPrefixCacheIsReported(t *testing.T) {
	t.Parallel()
	s := newServer(t, simbackend.Config{Dialect: simbackend.DialectVLLM, PrefixCacheTokens: 1024})
	text := strings.Repeat("same start of it ", 10)
	cached := func(text, extra string) int {
		return ask(s, "POST", chatPath, chat("sim-chat", text, extra)).json(t).num("usage.prompt_tokens_details.cached_tokens")
	}
	if n := cached(text, ""); n != 0 {
		t.Errorf("%d tokens known at first", n)
	}
	if n := cached(text+"and another end", ""); n < 32 || n%16 != 0 {
		t.Errorf("%d tokens of a common start known", n)
	}
	if n := cached(text, `,"cache_salt":"other"`); n != 0 {
		t.Errorf("%d tokens known under another salt", n)
	}
	for i := range 40 {
		cached(fmt.Sprintf("%d %s", i, text), "")
	}
	if n := cached(text, ""); n != 0 {
		t.Errorf("%d tokens known after the cache was filled with others", n)
	}
}
