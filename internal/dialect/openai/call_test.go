package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// call decodes a client's body and encodes it for a backend.
func call(t *testing.T, body string, o openai.CallOptions) (map[string]json.RawMessage, string) {
	t.Helper()
	r, _ := decode(t, body)
	return callOf(t, r, o)
}

func callOf(t *testing.T, r *llm.Request, o openai.CallOptions) (map[string]json.RawMessage, string) {
	t.Helper()
	if o.Model.Name == "" {
		o.Model.Name = "served"
	}
	if o.Engine == "" {
		o.Engine = openai.EngineVLLM
	}
	before := shown(r.Messages) + compact(t, r.Extra)
	out, notes, err := openai.EncodeChat(r, o)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if shown(r.Messages)+compact(t, r.Extra) != before {
		t.Error("EncodeChat changes the request")
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(out, &body); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return body, words(notes)
}

// pick returns the named members of a body as one JSON object.
func pick(body map[string]json.RawMessage, names ...string) string {
	var parts []string
	for _, n := range names {
		if v := body[n]; v != nil {
			parts = append(parts, `"`+n+`":`+string(v))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

const tool = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"n":{"const":12345678901234567890}}},"strict":true}}`

func TestEncodeChatForVLLM(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString(pixel)
	two := `"tools":[` + tool + `,{"type":"function","function":{"name":"g"}}]`
	for name, c := range map[string]struct {
		in    string
		o     openai.CallOptions
		names []string
		want  string
		notes string
	}{
		"the least": {
			in: with(""), names: []string{"model", "messages", "stream", "stream_options", "temperature", "top_p", "stop", "tools", "tool_choice", "n", "seed", "max_tokens", "cache_salt"},
			want: `{"model":"served","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
		},
		"continuous usage": {
			in: with(""), o: openai.CallOptions{ContinuousUsage: true}, names: []string{"stream_options"},
			want: `{"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		},
		"cache salt": {in: with(""), o: openai.CallOptions{CacheSalt: "s"}, names: []string{"cache_salt"}, want: `{"cache_salt":"s"}`},
		"sampling": {
			in:    with(`"max_tokens":5,"max_completion_tokens":9,"temperature":0,"top_k":1,"repetition_penalty":1.5,"seed":9007199254740993,"stop":["a","b","c","d","e","f"],"n":2,"logit_bias":{"7":-1},"stop_token_ids":[3],"min_tokens":1,"ignore_eos":true,"length_penalty":1.25`),
			names: []string{"max_tokens", "max_completion_tokens", "temperature", "top_k", "repetition_penalty", "repeat_penalty", "seed", "stop", "n", "logit_bias", "stop_token_ids", "min_tokens", "ignore_eos", "length_penalty"},
			want:  `{"max_tokens":9,"temperature":0,"top_k":1,"repetition_penalty":1.5,"seed":9007199254740993,"stop":["a","b","c","d","e","f"],"n":2,"logit_bias":{"7":-1},"stop_token_ids":[3],"min_tokens":1,"ignore_eos":true,"length_penalty":1.25}`,
		},
		"generic servers have other names": {
			in: with(`"repetition_penalty":1.5,"repeat_last_n":7`), o: openai.CallOptions{Engine: openai.EngineOpenAI}, names: []string{"repetition_penalty", "repeat_penalty", "repeat_last_n"},
			want: `{"repetition_penalty":1.5,"repeat_penalty":1.5,"repeat_last_n":7}`,
		},
		"what vLLM ignores is told": {
			in: with(`"typical_p":0.5,"repeat_last_n":7`), names: []string{"typical_p", "repeat_last_n"}, want: `{}`, notes: "typical_p=dropped, repeat_last_n=dropped",
		},
		"top_logprobs needs logprobs": {in: with(`"top_logprobs":2`), names: []string{"logprobs", "top_logprobs"}, want: `{"logprobs":true,"top_logprobs":2}`},
		"logprobs off":                {in: with(`"logprobs":false,"top_logprobs":2`), names: []string{"logprobs", "top_logprobs"}, want: `{}`},
		"empty tools":                 {in: with(`"tools":[],"tool_choice":"auto"`), names: []string{"tools", "tool_choice"}, want: `{}`},
		"tools are sent with auto": {
			in: with(`"tools":[` + tool + `]`), names: []string{"tools", "tool_choice", "parallel_tool_calls"}, want: `{"tools":[` + tool + `],"tool_choice":"auto"}`,
		},
		"a tool without schema": {
			in: with(`"tools":[{"type":"function","function":{"name":"g"}}]`), names: []string{"tools"},
			want: `{"tools":[{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}]}`,
		},
		"a schema without type": {
			in: with(`"tools":[{"type":"function","function":{"name":"g","parameters":{"properties":{"z":{},"a":{}}}}}]`), names: []string{"tools"},
			want: `{"tools":[{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}]}`,
		},
		"none keeps the tools": {in: with(two + `,"tool_choice":"none","parallel_tool_calls":false`), names: []string{"tool_choice", "parallel_tool_calls"}, want: `{"tool_choice":"none"}`},
		"required":             {in: with(two + `,"tool_choice":"required","parallel_tool_calls":false`), names: []string{"tool_choice", "parallel_tool_calls"}, want: `{"tool_choice":"required","parallel_tool_calls":false}`},
		"named":                {in: with(two + `,"tool_choice":{"type":"function","function":{"name":"g"}}`), names: []string{"tool_choice"}, want: `{"tool_choice":{"type":"function","function":{"name":"g"}}}`},
		"allowed tools": {
			in: with(two + `,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}`), names: []string{"tools", "tool_choice"},
			want: `{"tools":[` + tool + `],"tool_choice":"required"}`,
		},
		"JSON object": {in: with(`"response_format":{"type":"json_object"}`), names: []string{"response_format"}, want: `{"response_format":{"type":"json_object"}}`},
		"schema": {
			in: with(`"response_format":{"type":"json_schema","json_schema":{"schema":{"b":1.0,"a":2}}}`), names: []string{"response_format"},
			want: `{"response_format":{"type":"json_schema","json_schema":{"name":"response","schema":{"b":1.0,"a":2}}}}`,
		},
		"guided on a new server":   {in: with(`"guided_regex":"a+"`), names: []string{"guided_regex", "structured_outputs"}, want: `{"structured_outputs":{"regex":"a+"}}`},
		"structured on an old one": {in: with(`"structured_outputs":{"choice":["a"]}`), o: openai.CallOptions{Version: "0.9.2"}, names: []string{"guided_choice", "structured_outputs"}, want: `{"guided_choice":["a"]}`},
		"format and a forced call": {
			in: with(`"response_format":{"type":"json_object"},"tool_choice":"required",` + two), names: []string{"response_format"}, want: `{}`, notes: "response_format=dropped",
		},
		"developer":         {in: talk(`{"role":"developer","content":"d"},{"role":"user","content":"u"}`), names: []string{"messages"}, want: `{"messages":[{"role":"system","content":"d"},{"role":"user","content":"u"}]}`},
		"developer is kept": {in: talk(`{"role":"developer","content":"d"},{"role":"user","content":"u"}`), o: openai.CallOptions{Model: llm.Model{DeveloperRole: "developer"}}, names: []string{"messages"}, want: `{"messages":[{"role":"developer","content":"d"},{"role":"user","content":"u"}]}`},
		"late system": {
			in: talk(`{"role":"user","content":"u"},{"role":"system","content":"s"}`), names: []string{"messages"}, notes: "messages.system=folded",
			want: `{"messages":[{"role":"user","content":"u\n\n<system-reminder>\ns\n</system-reminder>"}]}`,
		},
		"null content with calls": {
			in: talk(`{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"id\":12345678901234567890,\"x\":1.0}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"},{"type":"text","text":"s"}]}`), names: []string{"messages"},
			want: `{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"id\":12345678901234567890,\"x\":1.0}"}}]},{"role":"tool","content":"r\ns","tool_call_id":"c"}]}`,
		},
		"empty assistant": {in: talk(`{"role":"user","content":"u"},{"role":"assistant"}`), names: []string{"messages"}, want: `{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":""}]}`},
		"broken arguments": {
			in: talk(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{oops"}}]}`), names: []string{"messages"}, notes: "tool_calls.arguments=wrapped",
			want: `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"_raw\":\"{oops\"}"}}]}]}`,
		},
		"thinking of this turn only": {
			in: talk(`{"role":"user","content":"1"},{"role":"assistant","content":"a","reasoning_content":"old"},{"role":"user","content":"2"},{"role":"assistant","content":null,"reasoning_content":"new","tool_calls":[{"id":"c","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":""}`), names: []string{"messages"},
			want: `{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"a"},{"role":"user","content":"2"},{"role":"assistant","content":null,"reasoning":"new","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"","tool_call_id":"c"}]}`,
		},
		"thinking of every turn, old key": {
			in: talk(`{"role":"user","content":"1"},{"role":"assistant","content":"a","reasoning":"old"},{"role":"user","content":"2"}`), names: []string{"messages"},
			o:    openai.CallOptions{Version: "v0.15.1rc2.dev3+gabc", Model: llm.Model{Thinking: llm.ProfileAlways}},
			want: `{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"a","reasoning_content":"old"},{"role":"user","content":"2"}]}`,
		},
		"image": {
			in: talk(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:;base64,` + b64 + `","detail":"high"}}]}`), names: []string{"messages"},
			want: `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64 + `","detail":"high"}}]}]}`,
		},
		"audio and text file": {
			in: talk(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}},{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}]}`), names: []string{"messages"},
			want: `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}},{"type":"text","text":"a.txt:\nhi"}]}]}`,
		},
		"images of tool results follow all results": {
			in: talk(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}},{"id":"d","function":{"name":"g"}}]},
				{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64 + `"}}]},
				{"role":"tool","tool_call_id":"d","content":"s"},{"role":"assistant","content":"x"}`), names: []string{"messages"},
			want: `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]},` +
				`{"role":"tool","content":"r","tool_call_id":"c"},{"role":"tool","content":"s","tool_call_id":"d"},` +
				`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64 + `"}}]},{"role":"assistant","content":"x"}]}`,
		},
		"toggle": {
			in: with(`"reasoning_effort":"none"`), o: openai.CallOptions{Model: llm.Model{Thinking: llm.ProfileToggle}}, names: []string{"chat_template_kwargs", "reasoning_effort"},
			want: `{"chat_template_kwargs":{"enable_thinking":false}}`,
		},
		"toggle by another name, next to the client's own": {
			in: with(`"chat_template_kwargs":{"enable_thinking":true,"x":1.0}`), o: openai.CallOptions{Model: llm.Model{Thinking: llm.ProfileToggle, ThinkingKwarg: "thinking"}}, names: []string{"chat_template_kwargs"},
			want: `{"chat_template_kwargs":{"thinking":true,"x":1.0}}`,
		},
		"budget": {
			in: with(`"thinking":{"type":"enabled","budget_tokens":4096}`), o: openai.CallOptions{Model: llm.Model{Thinking: llm.ProfileToggle}}, names: []string{"chat_template_kwargs", "thinking_token_budget"},
			want: `{"chat_template_kwargs":{"enable_thinking":true},"thinking_token_budget":4096}`,
		},
		"budget on an old server": {
			in: with(`"thinking":{"type":"enabled","budget_tokens":4096}`), o: openai.CallOptions{Version: "0.11.0", Model: llm.Model{Thinking: llm.ProfileToggle}}, names: []string{"thinking_token_budget"},
			want: `{}`, notes: "thinking_token_budget=dropped",
		},
		"effort": {
			in: with(`"reasoning_effort":"xhigh"`), o: openai.CallOptions{Version: "0.11.0", Model: llm.Model{Thinking: llm.ProfileEffort}}, names: []string{"reasoning_effort", "chat_template_kwargs"},
			want: `{"reasoning_effort":"high"}`, notes: "reasoning_effort=clamped:high",
		},
		"levels": {in: with(`"reasoning_effort":"none"`), o: openai.CallOptions{Model: llm.Model{Thinking: llm.ProfileLevels}}, names: []string{"reasoning_effort"}, want: `{"reasoning_effort":"none"}`},
		"levels on an old server": {
			in: with(`"reasoning_effort":"none"`), o: openai.CallOptions{Version: "0.11.0", Model: llm.Model{Thinking: llm.ProfileLevels}}, names: []string{"reasoning_effort"},
			want: `{"reasoning_effort":"low"}`, notes: "reasoning_effort=clamped:low",
		},
		"always": {in: with(`"reasoning_effort":"none"`), o: openai.CallOptions{Model: llm.Model{Thinking: llm.ProfileAlways}}, names: []string{"reasoning_effort", "chat_template_kwargs"}, want: `{}`, notes: "reasoning_effort=clamped:hidden"},
		"plain":  {in: with(`"reasoning_effort":"high"`), names: []string{"reasoning_effort", "chat_template_kwargs"}, want: `{}`, notes: "reasoning_effort=dropped"},
	} {
		body, notes := call(t, c.in, c.o)
		if got := pick(body, c.names...); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if notes != c.notes {
			t.Errorf("%s: notes %q, want %q", name, notes, c.notes)
		}
	}
}

func TestEffortOfGPTOSSIsOneOfThreeOnEveryServer(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"none": "low", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"} {
		body, _ := call(t, with(`"reasoning_effort":"`+in+`"`), openai.CallOptions{Version: "0.17.0", Model: llm.Model{Thinking: llm.ProfileEffort}})
		if got := string(body["reasoning_effort"]); got != `"`+want+`"` {
			t.Errorf("%s is sent as %s, want %s", in, got, want)
		}
	}
}

func TestEncodeChatRefusesWhatTheServerCannotDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     string
		engine openai.Engine
		code   llm.Code
	}{
		"remote image":          {talk(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}`), openai.EngineVLLM, llm.CodeInvalidRequest},
		"document":              {talk(`{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0="}}]}`), openai.EngineVLLM, llm.CodeUnsupported},
		"regex without support": {with(`"guided_regex":"a"`), openai.EngineOpenAI, llm.CodeUnsupported},
	} {
		r, _ := decode(t, c.in)
		_, _, err := openai.EncodeChat(r, openai.CallOptions{Engine: c.engine})
		if llm.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

func TestExtraFieldsStayInTheirDialect(t *testing.T) {
	t.Parallel()
	r := &llm.Request{Origin: llm.DialectOllama, Extra: map[string]json.RawMessage{"num_gpu": json.RawMessage("1")}}
	if body, _ := callOf(t, r, openai.CallOptions{}); body["num_gpu"] != nil {
		t.Error("a field of another dialect was sent")
	}
}

func TestRoundTripKeepsSharedFacts(t *testing.T) {
	t.Parallel()
	in := `{"model":"served","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		base64.StdEncoding.EncodeToString(pixel) + `","detail":"low"}}]},{"role":"assistant","content":"t","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"r"}],"tools":[` + tool + `],"tool_choice":"required","parallel_tool_calls":false,"temperature":0.25,"top_p":0.5,"seed":9007199254740993,` +
		`"stop":["x"],"max_tokens":7,"n":2,"logprobs":true,"top_logprobs":1,"top_k":3,"min_p":0.5,"length_penalty":1.25,"stream":true,"stream_options":{"include_usage":true}}`
	first, _ := decode(t, in)
	out, notes, err := openai.EncodeChat(first, openai.CallOptions{Model: llm.Model{Name: "served"}, Engine: openai.EngineVLLM})
	if err != nil || len(notes) > 0 {
		t.Fatalf("encode: %v, %v", notes, err)
	}
	second, noted := decode(t, string(out))
	if compact(t, first) != compact(t, second) || len(noted) > 0 {
		t.Errorf("round trip, notes %s:\nfirst  %s\nsecond %s", words(noted), compact(t, first), compact(t, second))
	}
}

func TestDecodeOptionsFollowTheRequest(t *testing.T) {
	t.Parallel()
	r, _ := decode(t, with(`"reasoning_effort":"none","tools":[`+tool+`],"parallel_tool_calls":false`))
	got := openai.CallOptions{Model: llm.Model{ContextLength: 5, ThinkingPromote: true, ThinkingTags: true}, InputTokens: 3}.Decode(r)
	want := openai.DecodeOptions{
		SequencerOptions: dialect.SequencerOptions{HideThinking: true, PromoteThinking: true, ThinkTags: true, OneToolCall: true},
		ContextLength:    5, InputTokens: 3,
	}
	if got != want {
		t.Errorf("Decode = %+v, want %+v", got, want)
	}
}

func TestTokenize(t *testing.T) {
	t.Parallel()
	r, _ := decode(t, with(`"tools":[`+tool+`],"temperature":1,"chat_template_kwargs":{"x":1}`))
	out, err := openai.EncodeTokenize(r, openai.CallOptions{Model: llm.Model{Name: "served"}, Engine: openai.EngineVLLM})
	want := `{"model":"served","messages":[{"role":"user","content":"hi"}],"tools":[` + tool + `],"chat_template_kwargs":{"x":1}}`
	if err != nil || string(out) != want {
		t.Errorf("tokenize\n got %s, %v\nwant %s", out, err, want)
	}
	count, context, err := openai.DecodeTokenize([]byte(`{"count":17,"max_model_len":4096,"tokens":[1,2,3],"token_strs":null}`))
	if err != nil || count != 17 || context != 4096 {
		t.Errorf("DecodeTokenize = %d, %d, %v", count, context, err)
	}
	for _, broken := range []string{`{"tokens":[1]}`, `{"count":"x"}`, `oops`, ``} {
		if _, _, err := openai.DecodeTokenize([]byte(broken)); err == nil {
			t.Errorf("%q is accepted", broken)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	got := string(openai.EncodeModels([]openai.ModelCard{{ID: "a/b:c", Created: 1, OwnedBy: "o", ContextLength: 8}, {ID: "d", Created: 1, OwnedBy: "o"}}))
	want := `{"object":"list","data":[{"id":"a/b:c","object":"model","created":1,"owned_by":"o","max_model_len":8,"context_length":8,"root":"a/b:c"},` +
		`{"id":"d","object":"model","created":1,"owned_by":"o","root":"d"}],"has_more":false,"first_id":"a/b:c","last_id":"d"}` + "\n"
	if got != want {
		t.Errorf("models\n got %s\nwant %s", got, want)
	}
	models, err := openai.DecodeModels([]byte(got))
	if err != nil || len(models) != 2 || models[0].Name != "a/b:c" || models[0].ContextLength != 8 || models[1].ContextLength != 0 {
		t.Errorf("read back: %+v, %v", models, err)
	}
	models, err = openai.DecodeModels([]byte(`{"data":[{"id":"l","meta":{"n_ctx_train":4096,"n_params":7}},{"object":"model"}]}`))
	if err != nil || len(models) != 1 || models[0].ContextLength != 4096 {
		t.Errorf("llama.cpp: %+v, %v", models, err)
	}
	for _, broken := range []string{`{"error":"x"}`, `[]`, `<html>`, ``} {
		if _, err := openai.DecodeModels([]byte(broken)); err == nil {
			t.Errorf("%q is accepted", broken)
		}
	}
	if v, err := openai.DecodeVersion([]byte(`{"version":"0.17.1"}`)); err != nil || v != "0.17.1" {
		t.Errorf("version %q, %v", v, err)
	}
	if _, err := openai.DecodeVersion([]byte(`{}`)); err == nil {
		t.Error("an answer without version is accepted")
	}
}

func TestDecodeErrorIsClassified(t *testing.T) {
	t.Parallel()
	err := openai.DecodeError(http.StatusBadRequest, nil, []byte(`{"error":{"message":"no","param":"top_p","code":400}}`))
	if err.Code != llm.CodeInvalidRequest || err.Param != "top_p" {
		t.Errorf("%v of %q", err, err.Param)
	}
}

func TestOtherServersGetTextBesideCalls(t *testing.T) {
	t.Parallel()
	body, _ := call(t, talk(`{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`),
		openai.CallOptions{Engine: openai.EngineOpenAI})
	if got := string(body["messages"]); !strings.Contains(got, `"role":"assistant","content":"","tool_calls"`) {
		t.Errorf("messages %s", got)
	}
}
