package ollama_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

var pixel = []byte("\x89PNG\r\n\x1a\n0123456789")

// with returns a client's body with a user message and the given members.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + members + `}`
}

func talk(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }

func decode(t *testing.T, body string) *llm.Request {
	t.Helper()
	r, _, err := openai.Chat{}.DecodeChat([]byte(body))
	if err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return r
}

func words(notes []llm.Note) string {
	var s []string
	for _, n := range notes {
		s = append(s, n.String())
	}
	return strings.Join(s, ", ")
}

const tools = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"n":{"enum":[1.0]}}}}},{"type":"function","function":{"name":"g"}}]`

func TestEncodeChat(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString(pixel)
	thinks := llm.Model{Thinking: llm.ProfileToggle}
	f := `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"n":{"enum":[1.0]}}}}}`
	g := `{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}`
	for name, c := range map[string]struct {
		in    string
		o     ollama.CallOptions
		names []string
		want  string
		notes string
	}{
		"the least": {
			in: with(""), o: ollama.CallOptions{NumCtx: 8192, KeepAlive: "30m"},
			names: []string{"model", "messages", "stream", "tools", "format", "think", "options", "keep_alive", "truncate", "shift", "logprobs", "top_logprobs"},
			want:  `{"model":"served:8b","messages":[{"role":"user","content":"hi"}],"stream":true,"options":{"num_ctx":8192},"keep_alive":"30m","truncate":false,"shift":false}`,
		},
		"options": {
			in:    with(`"max_completion_tokens":16.0,"temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,"typical_p":0.9,"repetition_penalty":1.5,"repeat_last_n":-1,"presence_penalty":1,"frequency_penalty":-1,"seed":9007199254740993,"stop":"END"`),
			names: []string{"options"},
			want:  `{"options":{"num_predict":16,"temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,"typical_p":0.9,"repeat_penalty":1.5,"repeat_last_n":-1,"presence_penalty":1,"frequency_penalty":-1,"seed":9007199254740993,"stop":["END"]}}`,
		},
		"nothing is forced": {in: with(""), names: []string{"options"}, want: `{"options":{}}`},
		"what it has no place for": {
			in: with(`"logit_bias":{"1":1},"stop_token_ids":[1],"min_tokens":1,"ignore_eos":true,"length_penalty":1,"add_generation_prompt":true`), names: []string{"logit_bias"},
			want: `{}`, notes: "logit_bias=dropped, stop_token_ids=dropped, min_tokens=dropped, ignore_eos=dropped, add_generation_prompt=dropped, length_penalty=dropped",
		},
		"logprobs":     {in: with(`"logprobs":true,"top_logprobs":2`), names: []string{"logprobs", "top_logprobs"}, want: `{"logprobs":true,"top_logprobs":2}`},
		"logprobs off": {in: with(`"logprobs":false,"top_logprobs":2`), names: []string{"logprobs", "top_logprobs"}, want: `{}`},
		"tools":        {in: with(tools), names: []string{"tools", "tool_choice"}, want: `{"tools":[` + f + `,` + g + `]}`},
		"none":         {in: with(tools + `,"tool_choice":"none"`), names: []string{"tools"}, want: `{}`},
		"none in a conversation with tools": {
			in: strings.Replace(talk(`{"role":"tool","tool_call_id":"c","content":"r"}`), "]}", `],"tool_choice":"none",`+tools+"}", 1), names: []string{"tools"}, want: `{}`, notes: "tools=dropped",
		},
		"required": {in: with(tools + `,"tool_choice":"required"`), names: []string{"tools"}, want: `{"tools":[` + f + `,` + g + `]}`, notes: "tool_choice=emulated"},
		"named":    {in: with(tools + `,"tool_choice":{"type":"function","name":"g"}`), names: []string{"tools"}, want: `{"tools":[` + g + `]}`, notes: "tool_choice=emulated"},
		"required: the form of a call": {
			in: with(tools + `,"tool_choice":"required"`), names: []string{"format"}, notes: "tool_choice=emulated",
			want: `{"format":{"anyOf":[{"type":"object","properties":{"name":{"type":"string","enum":["f"]},"arguments":` + parametersOf(f) + `},"required":["name","arguments"]},{"type":"object","properties":{"name":{"type":"string","enum":["g"]},"arguments":` + parametersOf(g) + `},"required":["name","arguments"]}]}}`,
		},
		"named, and a format": {
			in: with(tools + `,"tool_choice":{"type":"function","name":"g"},"response_format":{"type":"json_object"}`), names: []string{"format"}, notes: "tool_choice=emulated, response_format=dropped",
			want: `{"format":{"type":"object","properties":{"name":{"type":"string","enum":["g"]},"arguments":` + parametersOf(g) + `},"required":["name","arguments"]}}`,
		},
		"allowed": {
			in: with(tools + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`), names: []string{"tools"}, want: `{"tools":[` + f + `]}`,
		},
		"one call at a time": {in: with(tools + `,"parallel_tool_calls":false`), names: []string{"parallel_tool_calls"}, want: `{}`, notes: "parallel_tool_calls=emulated"},
		"references are inlined": {
			in: with(`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","$defs":{"p":{"type":"object","properties":{"n":{"type":"integer"}}}},"properties":{"a":{"$ref":"#/$defs/p"},"b":{"type":"array","items":{"$ref":"#/$defs/p"}}}}}}]`), names: []string{"tools"}, notes: "tools=inlined",
			want: `{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","$defs":{"p":{"type":"object","properties":{"n":{"type":"integer"}}}},"properties":{"a":{"type":"object","properties":{"n":{"type":"integer"}}},"b":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}}]}`,
		},
		"references that lead nowhere stay": {
			in: with(`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/q"},"b":{"$ref":"http://x"}}}}}]`), names: []string{"tools"},
			want: `{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/q"},"b":{"$ref":"http://x"}}}}}]}`,
		},
		"JSON":             {in: with(`"response_format":{"type":"json_object"}`), names: []string{"format"}, want: `{"format":"json"}`},
		"schema":           {in: with(`"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{"type":"object","required":["p"],"properties":{"p":{"type":"string"}}}}}`), names: []string{"format"}, want: `{"format":{"type":"object","required":["p"],"properties":{"p":{"type":"string"}}}}`},
		"choice":           {in: with(`"guided_choice":["a","b"]`), names: []string{"format"}, want: `{"format":{"type":"string","enum":["a","b"]}}`, notes: "structured_outputs.choice=emulated"},
		"format and tools": {in: with(`"response_format":{"type":"json_object"},` + tools), names: []string{"format"}, want: `{}`, notes: "response_format=dropped"},

		"think on":             {in: with(`"think":true`), o: ollama.CallOptions{Model: thinks}, names: []string{"think"}, want: `{"think":true}`},
		"think off":            {in: with(`"reasoning_effort":"none"`), o: ollama.CallOptions{Model: thinks}, names: []string{"think"}, want: `{"think":false}`},
		"think unset":          {in: with(``), o: ollama.CallOptions{Model: thinks}, names: []string{"think"}, want: `{}`},
		"effort":               {in: with(`"reasoning_effort":"xhigh"`), o: ollama.CallOptions{Model: llm.Model{Thinking: llm.ProfileEffort}}, names: []string{"think"}, want: `{"think":"high"}`, notes: "reasoning_effort=clamped:high"},
		"effort cannot be off": {in: with(`"reasoning_effort":"none"`), o: ollama.CallOptions{Model: llm.Model{Thinking: llm.ProfileEffort}}, names: []string{"think"}, want: `{"think":"low"}`, notes: "reasoning_effort=clamped:low"},
		"levels":               {in: with(`"reasoning_effort":"max"`), o: ollama.CallOptions{Model: llm.Model{Thinking: llm.ProfileLevels}}, names: []string{"think"}, want: `{"think":"max"}`},
		"levels off":           {in: with(`"reasoning_effort":"none"`), o: ollama.CallOptions{Model: llm.Model{Thinking: llm.ProfileLevels}}, names: []string{"think"}, want: `{"think":false}`},
		"always":               {in: with(`"reasoning_effort":"none"`), o: ollama.CallOptions{Model: llm.Model{Thinking: llm.ProfileAlways}}, names: []string{"think"}, want: `{"think":true}`, notes: "reasoning_effort=clamped:hidden"},
		"plain model":          {in: with(`"reasoning_effort":"high"`), names: []string{"think"}, want: `{}`, notes: "reasoning_effort=dropped"},

		"messages": {
			in: talk(`{"role":"developer","content":"d"},{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64 + `"}},{"type":"text","text":"b"}]},
				{"role":"assistant","content":null,"reasoning":"t","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1.0}"}},{"id":"e","function":{"name":"g","arguments":""}}]},
				{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64 + `"}}]},{"role":"tool","tool_call_id":"e","content":"q"}`),
			names: []string{"messages"},
			want: `{"messages":[{"role":"system","content":"d\n\ns"},{"role":"user","content":"ab","images":["` + b64 + `"]},` +
				`{"role":"assistant","content":"","thinking":"t","tool_calls":[{"id":"c","function":{"index":0,"name":"f","arguments":{"a":1.0}}},{"id":"e","function":{"index":1,"name":"g","arguments":{}}}]},` +
				`{"role":"tool","content":"r","images":["` + b64 + `"],"tool_name":"f","tool_call_id":"c"},{"role":"tool","content":"q","tool_name":"g","tool_call_id":"e"}]}`,
		},
		"old thinking stays away": {
			in: talk(`{"role":"user","content":"1"},{"role":"assistant","content":"a","reasoning":"old"},{"role":"user","content":"2"}`), names: []string{"messages"},
			want: `{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"a"},{"role":"user","content":"2"}]}`,
		},
	} {
		r := decode(t, c.in)
		if c.o.Model.Name == "" {
			c.o.Model.Name = "served:8b"
		}
		out, notes, err := ollama.EncodeChat(r, c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal(out, &body); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, n := range c.names {
			if v := body[n]; v != nil {
				parts = append(parts, `"`+n+`":`+string(v))
			}
		}
		if got := "{" + strings.Join(parts, ",") + "}"; got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if words(notes) != c.notes {
			t.Errorf("%s: notes %q, want %q", name, words(notes), c.notes)
		}
	}
}

func TestEncodeChatRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, param string
		code      llm.Code
	}{
		"arguments that are not JSON": {
			talk(`{"role":"developer","content":"d"},{"role":"system","content":"s"},{"role":"assistant","content":"x","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{oops"}}]}`),
			"messages[2].tool_calls[1].function.arguments", llm.CodeInvalidRequest,
		},
		"arguments that are no object": {
			talk(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"[1]"}}]}`),
			"messages[0].tool_calls[0].function.arguments", llm.CodeInvalidRequest,
		},
		"several answers": {with(`"n":2`), "n", llm.CodeUnsupported},
		"regex":           {with(`"guided_regex":"a"`), "", llm.CodeUnsupported},
		"grammar":         {with(`"guided_grammar":"a"`), "", llm.CodeUnsupported},
		"remote image":    {talk(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://10.0.0.1/"}}]}`), "messages", llm.CodeInvalidRequest},
		"audio":           {talk(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}`), "messages", llm.CodeUnsupported},
		"document":        {talk(`{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0="}}]}`), "messages", llm.CodeUnsupported},
	} {
		_, _, err := ollama.EncodeChat(decode(t, c.in), ollama.CallOptions{})
		if e := llm.AsError(err); e == nil || e.Code != c.code || e.Param != c.param {
			t.Errorf("%s: %v, want %s of %q", name, err, c.code, c.param)
		}
	}
	r := &llm.Request{Model: "m", Origin: llm.DialectOllama, Thinking: llm.Thinking{Mode: llm.ThinkingOn}}
	if _, _, err := ollama.EncodeChat(r, ollama.CallOptions{}); err == nil || !strings.Contains(err.Error(), `"m" does not support thinking`) {
		t.Errorf("an Ollama client that asks a plain model to think: %v", err)
	}
}

func TestSchemaThatRefersToItselfStaysBounded(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","$defs":{"n":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"},"c":{"$ref":"#/$defs/n"},"d":{"$ref":"#/$defs/n"}}}},"properties":{"root":{"$ref":"#/$defs/n"}}}`
	r := decode(t, with(`"tools":[{"type":"function","function":{"name":"f","parameters":`+schema+`}}]`))
	out, _, err := ollama.EncodeChat(r, ollama.CallOptions{})
	if err != nil || !json.Valid(out) || len(out) > 1<<20 {
		t.Errorf("%d bytes, valid %t, %v", len(out), json.Valid(out), err)
	}
}

// parametersOf is the schema in a tool as it is sent.
func parametersOf(tool string) string {
	_, rest, _ := strings.Cut(tool, `"parameters":`)
	return strings.TrimSuffix(rest, "}}")
}
