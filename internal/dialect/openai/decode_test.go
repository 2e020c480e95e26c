package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// pixel is the beginning of a PNG, enough to be taken for one.
var pixel = []byte("\x89PNG\r\n\x1a\n0123456789")

func decode(t *testing.T, body string) (*llm.Request, []llm.Note) {
	t.Helper()
	r, notes, err := openai.Chat{}.DecodeChat([]byte(body))
	if err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return r, notes
}

// with returns a body with a user message and the given members.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// talk returns a body with the given messages.
func talk(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }

func words(notes []llm.Note) string {
	var s []string
	for _, n := range notes {
		s = append(s, n.String())
	}
	return strings.Join(s, ", ")
}

// compact prints a value as JSON, for comparisons.
func compact(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDecodeNamesTheFieldAtFault(t *testing.T) {
	t.Parallel()
	image := func(url string) string {
		return talk(`{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}`)
	}
	for name, c := range map[string]struct{ body, param, message string }{
		"no JSON":                   {`{"model":"m",}`, "", "byte 13"},
		"no object":                 {`[]`, "", "must be a JSON object"},
		"too deep":                  {with(`"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70)), "", "deeper than 64"},
		"no model":                  {`{"messages":[{"role":"user","content":"a"}]}`, "model", "required"},
		"model of a wrong type":     {`{"model":7,"messages":[{"role":"user","content":"a"}]}`, "model", "string"},
		"no messages":               {`{"model":"m"}`, "messages", "required"},
		"empty messages":            {talk(``), "messages", "empty"},
		"messages null":             {`{"model":"m","messages":null}`, "messages", "required"},
		"input of a wrong type":     {`{"model":"m","input":7}`, "input", "string or a list"},
		"message is no object":      {talk(`"hi"`), "messages[0]", "object"},
		"no role":                   {talk(`{"content":"a"}`), "messages[0].role", "required"},
		"user without content":      {talk(`{"role":"user"}`), "messages[0].content", "required"},
		"user with null content":    {talk(`{"role":"user","content":null}`), "messages[0].content", "required"},
		"content is a number":       {talk(`{"role":"user","content":7}`), "messages[0].content", "string or a list"},
		"part without type":         {talk(`{"role":"user","content":[{"text":"a"}]}`), "messages[0].content[0].type", "required"},
		"part of unknown type":      {talk(`{"role":"user","content":[{"type":"hologram"}]}`), "messages[0].content[0].type", "unknown"},
		"text is a number":          {talk(`{"role":"user","content":[{"type":"text","text":1}]}`), "messages[0].content[0].text", "string"},
		"image without URL":         {talk(`{"role":"user","content":[{"type":"image_url","image_url":{}}]}`), "messages[0].content[0].image_url.url", "required"},
		"image of a file scheme":    {image("file:///etc/passwd"), "messages[1].content[1].image_url.url", "data URI or"},
		"image of a bucket":         {image("s3://bucket/x.png"), "messages[1].content[1].image_url.url", "data URI or"},
		"image with userinfo":       {image("https://a:b@example.org/x.png"), "messages[1].content[1].image_url.url", "data URI or"},
		"image not base64":          {image("data:image/png;base64,%%%"), "messages[1].content[1].image_url.url", "base64"},
		"image not encoded":         {image("data:image/png,abc"), "messages[1].content[1].image_url.url", "base64"},
		"image is SVG":              {image("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte("<svg xmlns='x'/>"))), "messages[1].content[1].image_url.url", "not a PNG"},
		"image lies about its type": {image("data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("MZ executable"))), "messages[1].content[1].image_url.url", "not a PNG"},
		"audio of unknown format":   {talk(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"midi"}}]}`), "messages[0].content[0].input_audio.format", "wav or mp3"},
		"stored file":               {talk(`{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}`), "messages[0].content[0].file.file_id", "stored files"},
		"video":                     {talk(`{"role":"user","content":[{"type":"video_url","video_url":{"url":"x"}}]}`), "messages[0].content[0].type", "not supported"},
		"call without name":         {talk(`{"role":"assistant","tool_calls":[{"id":"c","function":{}}]}`), "messages[0].tool_calls[0].function.name", "required"},
		"result without id":         {talk(`{"role":"tool","content":"x"}`), "messages[0].tool_call_id", "required"},
		"function without call":     {talk(`{"role":"function","name":"f","content":"x"}`), "messages[0].name", "no function call"},
		"numeric stop":              {with(`"stop":[1,"x"]`), "stop[0]", "string"},
		"stop is an object":         {with(`"stop":{}`), "stop", "string or a list"},
		"max_tokens not whole":      {with(`"max_tokens":16.5`), "max_tokens", "whole number"},
		"max_tokens zero":           {with(`"max_tokens":0`), "max_tokens", "between"},
		"max_tokens is a string":    {with(`"max_completion_tokens":"16"`), "max_completion_tokens", "whole number"},
		"n zero":                    {with(`"n":0`), "n", "between 1 and 128"},
		"top_logprobs too many":     {with(`"top_logprobs":21`), "top_logprobs", "between 0 and 20"},
		"temperature is a string":   {with(`"temperature":"hot"`), "temperature", "number"},
		"seed too large":            {with(`"seed":9223372036854775808`), "seed", "whole number"},
		"logit_bias value":          {with(`"logit_bias":{"17":"x"}`), "logit_bias.17", "number"},
		"stream is a string":        {with(`"stream":"yes"`), "stream", "true or false"},
		"stream_options is a list":  {with(`"stream_options":[]`), "stream_options", "object"},
		"include_usage is a number": {with(`"stream_options":{"include_usage":1}`), "stream_options.include_usage", "true or false"},
		"tools is an object":        {with(`"tools":{}`), "tools", "list"},
		"tool without name":         {with(`"tools":[{"type":"function","function":{}}]`), "tools[0].function.name", "required"},
		"tool of another type":      {with(`"tools":[{"type":"web_search"}]`), "tools[0].type", "only tools of type function"},
		"parameters is a list":      {with(`"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`), "tools[0].function.parameters", "schema object"},
		"too many tools":            {with(`"tools":[` + strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 128) + `{"type":"function","function":{"name":"f"}}]`), "tools", "more than 128"},
		"choice without tools":      {with(`"tool_choice":"required"`), "tool_choice", "needs tools"},
		"choice of an unknown tool": {with(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`), "tool_choice", "not declared"},
		"choice is a strange word":  {with(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"maybe"`), "tool_choice", "auto, none"},
		"functions and tools":       {with(`"tools":[{"type":"function","function":{"name":"f"}}],"functions":[{"name":"f"}]`), "functions", "together"},
		"response_format type":      {with(`"response_format":{"type":"xml"}`), "response_format.type", "json_schema"},
		"schema missing":            {with(`"response_format":{"type":"json_schema","json_schema":{"name":"r"}}`), "response_format.json_schema.schema", "schema object"},
		"two constraints":           {with(`"structured_outputs":{"regex":"a","choice":["b"]}`), "structured_outputs", "only one"},
		"two guided constraints":    {with(`"guided_regex":"a","guided_choice":["b"]`), "", "only one"},
		"effort is a strange word":  {with(`"reasoning_effort":"heroic"`), "reasoning_effort", "none, minimal"},
		"audio out":                 {with(`"modalities":["text","audio"]`), "modalities", "only text"},
	} {
		_, _, err := openai.Chat{}.DecodeChat([]byte(c.body))
		e := llm.AsError(err)
		if e == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if e.Param != c.param || !strings.Contains(e.Message, c.message) {
			t.Errorf("%s: %q of %q, want %q of %q", name, e.Message, e.Param, c.message, c.param)
		}
	}
}

func TestDecodeTooManyMessages(t *testing.T) {
	t.Parallel()
	one := `{"role":"user","content":"a"}`
	_, _, err := openai.Chat{}.DecodeChat([]byte(talk(strings.Repeat(one+",", 10_000) + one)))
	if e := llm.AsError(err); e == nil || e.Param != "messages" {
		t.Errorf("10,001 messages: %v", err)
	}
}

func TestDecodeOptions(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, "\ufeff"+with(`"max_tokens":5,"max_completion_tokens":9.0,"temperature":0,"top_p":0.5,"top_k":40,"min_p":0.1,
		"repetition_penalty":1.1,"presence_penalty":-1,"frequency_penalty":1,"seed":9007199254740993,"stop":"END","n":2,
		"logit_bias":{"17":-100},"logprobs":true,"top_logprobs":3,"stop_token_ids":[1,2],"min_tokens":2,"ignore_eos":true,
		"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"user":"u","safety_identifier":"s",
		"prompt_cache_key":"k","metadata":{"a":"b"},"store":true,"service_tier":"auto","parallel_tool_calls":false,
		"response_format":{"type":"text"},"tools":null,"tool_choice":null,"top_logprobs":3`))
	if len(notes) != 0 {
		t.Errorf("notes: %s", words(notes))
	}
	if *r.MaxTokens != 9 {
		t.Errorf("max_completion_tokens does not win: %d", *r.MaxTokens)
	}
	if r.Sampling.Temperature == nil || *r.Sampling.Temperature != 0 {
		t.Error("temperature 0 is taken for absent")
	}
	if *r.Sampling.Seed != 9007199254740993 {
		t.Errorf("seed lost digits: %d", *r.Sampling.Seed)
	}
	want := `{"Temperature":0,"TopP":0.5,"TopK":40,"MinP":0.1,"TypicalP":null,"RepeatPenalty":1.1,"RepeatLastN":null,` +
		`"PresencePenalty":-1,"FrequencyPenalty":1,"Seed":9007199254740993,"LogitBias":{"17":-100},"StopTokenIDs":[1,2],"MinTokens":2,"IgnoreEOS":true}`
	if got := compact(t, r.Sampling); got != want {
		t.Errorf("sampling\n got %s\nwant %s", got, want)
	}
	if r.Stop[0] != "END" || *r.N != 2 || !*r.Logprobs || *r.TopLogprobs != 3 || !r.Stream || !r.IncludeUsage || r.EndUser != "s" ||
		r.CacheKey != "k" || *r.ParallelTools || r.Tools != nil || r.Origin != llm.DialectOpenAI {
		t.Errorf("options: %+v", r)
	}
}

func TestDecodeAbsentValuesStayAbsent(t *testing.T) {
	t.Parallel()
	for _, members := range []string{
		``, `"stop":null`, `"stop":[]`, `"tools":[],"tool_choice":"auto"`, `"tool_choice":"none"`, `"n":1`, `"stream":null`,
		`"temperature":null,"max_tokens":null,"seed":null,"response_format":null,"logit_bias":{}`,
		`"stream_options":{"include_usage":true}`, `"store":false`, `"modalities":["text"]`, `"reasoning_effort":null`,
		`"response_format":{"type":"text"}`, `"chat_template_kwargs":{}`, `"format":""`,
	} {
		got, notes := decode(t, with(members))
		want, _ := decode(t, with(""))
		if compact(t, got) != compact(t, want) || len(notes) != 0 {
			t.Errorf("%s changes the request: %s, notes %s", members, compact(t, got), words(notes))
		}
	}
}

func TestDecodeLastOfTwoKeysCounts(t *testing.T) {
	t.Parallel()
	r, _ := decode(t, with(`"temperature":1,"temperature":0.5,"model":"second"`))
	if r.Model != "second" || *r.Sampling.Temperature != 0.5 {
		t.Errorf("model %q, temperature %v", r.Model, *r.Sampling.Temperature)
	}
}

func TestDecodeUnknownFieldsAreDroppedAndNoted(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, with(`"verbosity":"low","kv_transfer_params":{},"priority":1,"cache_salt":"x","chat_template":"t",
		"bad,name":1,"length_penalty":1.5,"add_generation_prompt":true,"future_field":[1]`))
	want := "unknown_field=dropped, cache_salt=dropped, chat_template=dropped, future_field=dropped, kv_transfer_params=dropped, priority=dropped, verbosity=dropped"
	if got := words(notes); got != want {
		t.Errorf("notes\n got %s\nwant %s", got, want)
	}
	if got := compact(t, r.Extra); got != `{"add_generation_prompt":true,"length_penalty":1.5}` {
		t.Errorf("extra %s", got)
	}
}

func TestDecodeMessages(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString(pixel)
	for name, c := range map[string]struct{ in, want string }{
		"string":                      {`{"role":"user","content":"a","name":"n"}`, `user/n text:a`},
		"empty string":                {`{"role":"user","content":""}`, `user`},
		"parts":                       {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},"b",{"type":"input_text","text":"c"}]}`, `user text:a text:b text:c`},
		"system and developer":        {`{"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d"}]}`, `system text:s / developer text:d`},
		"assistant null":              {`{"role":"assistant","content":null}`, `assistant`},
		"assistant empty":             {`{"role":"assistant","content":""}`, `assistant`},
		"assistant missing":           {`{"role":"assistant"}`, `assistant`},
		"assistant with refusal":      {`{"role":"assistant","content":null,"refusal":"no"}`, `assistant refusal:no`},
		"null content with calls":     {`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, `assistant f({"a":1})#c1`},
		"digits of arguments":         {`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"id\":12345678901234567890,\"x\":1.0}"}}]}`, `assistant f({"id":12345678901234567890,"x":1.0})#c`},
		"arguments as object":         {`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a":1.0}}}]}`, `assistant f({"a":1.0})#c`},
		"arguments not JSON":          {`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{oops"}}]}`, `assistant f({oops)#c`},
		"arguments empty":             {`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]}`, `assistant f()#c`},
		"thinking before text":        {`{"role":"assistant","content":"a","reasoning_content":"t"}`, `assistant thinking:t text:a`},
		"thinking by its new name":    {`{"role":"assistant","content":"a","reasoning":"t","reasoning_content":""}`, `assistant thinking:t text:a`},
		"thinking under both names":   {`{"role":"assistant","content":"a","reasoning":"t","reasoning_content":"t"}`, `assistant thinking:t text:a`},
		"thinking as details":         {`{"role":"assistant","content":"a","reasoning_details":[{"type":"reasoning.text","text":"t"},{"type":"reasoning.summary","summary":"u"}]}`, `assistant thinking:tu text:a`},
		"tool result":                 {`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}`, `assistant f()#c1 / tool f#c1=text:r`},
		"tool result in parts":        {`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64 + `"}}]}`, `assistant f()#c1 / tool f#c1=text:r image:image/png`},
		"tool result null":            {`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c1","content":null}`, `assistant f()#c1 / tool f#c1=`},
		"tool result without id":      {`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f"}},{"id":"c2","function":{"name":"g"}}]},{"role":"tool","content":"1"},{"role":"tool","content":"2"}`, `assistant f()#c1 g()#c2 / tool f#c1=text:1 / tool g#c2=text:2`},
		"empty ids are replaced":      {`{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f"}},{"id":"","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"","content":"1"}`, `user text:u / assistant f()#call_000000000001000000000000 f()#call_000000000001000000000001 / tool f#call_000000000001000000000000=text:1`},
		"orphan result":               {`{"role":"tool","tool_call_id":"zz","content":"r"}`, `tool #zz=text:r`},
		"legacy function":             {`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}`, `assistant f({})#call_000000000000000000000000 / tool f#call_000000000000000000000000=text:r`},
		"image":                       {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,` + b64 + `","detail":"low"}}]}`, `user image:image/png/low`},
		"image without padding":       {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.TrimRight(b64, "=") + `"}}]}`, `user image:image/png`},
		"image in the URL alphabet":   {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/gif;base64,` + base64.URLEncoding.EncodeToString([]byte("GIF89a\xff\xfe\xfb\xef")) + `"}}]}`, `user image:image/gif`},
		"image with line breaks":      {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64[:8] + `\r\n` + b64[8:] + `"}}]}`, `user image:image/png`},
		"image as a bare URL":         {`{"role":"user","content":[{"type":"image_url","image_url":"https://example.org/x.png"}]}`, `user image:https://example.org/x.png`},
		"audio":                       {`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}]}`, `user audio:audio/mpeg`},
		"file":                        {`{"role":"user","content":[{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}]}`, `user document:text/plain`},
		"file without type":           {`{"role":"user","content":[{"type":"file","file":{"file_data":"` + base64.StdEncoding.EncodeToString([]byte("%PDF-1.7")) + `"}}]}`, `user document:application/pdf`},
		"file that is an image":       {`{"role":"user","content":[{"type":"file","file":{"file_data":"data:image/png;base64,` + b64 + `"}}]}`, `user image:image/png`},
		"unknown members are nothing": {`{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}],"annotations":[]}`, `user text:a`},
		"unknown role":                {`{"role":"ctx","content":"a"}`, `user text:a`},
	} {
		r, _ := decode(t, talk(c.in))
		if got := shown(r.Messages); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestDecodeNotesWhatItMendsInMessages(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"role":"assistant"}`:                                  "messages[0].content=empty",
		`{"role":"ctx","content":"a"}`:                          "messages[0].role=user",
		`{"role":"assistant","content":""}`:                     "",
		`{"role":"user","content":"a"}`:                         "",
		`{"role":"assistant","content":null,"refusal":"no"}`:    "",
		`{"role":"assistant","function_call":{"name":"f"}}`:     "",
		`{"role":"assistant","content":null,"tool_calls":null}`: "messages[0].content=empty",
	} {
		if _, notes := decode(t, talk(in)); words(notes) != want {
			t.Errorf("%s: notes %q, want %q", in, words(notes), want)
		}
	}
}

// shown prints a conversation as one line.
func shown(msgs []llm.Message) string {
	var turns []string
	for _, m := range msgs {
		s := string(m.Role)
		if m.Name != "" {
			s += "/" + m.Name
		}
		if blocks := shownBlocks(m.Blocks); blocks != "" {
			s += " " + blocks
		}
		turns = append(turns, s)
	}
	return strings.Join(turns, " / ")
}

func shownBlocks(blocks []llm.Block) string {
	var parts []string
	for _, b := range blocks {
		switch b.Kind {
		case llm.BlockToolCall:
			parts = append(parts, fmt.Sprintf("%s(%s)#%s", b.ToolCall.Name, b.ToolCall.Arguments, b.ToolCall.ID))
		case llm.BlockToolResult:
			parts = append(parts, fmt.Sprintf("%s#%s=%s", b.ToolResult.Name, b.ToolResult.CallID, shownBlocks(b.ToolResult.Content)))
		case llm.BlockImage, llm.BlockAudio, llm.BlockDocument:
			s := string(b.Kind) + ":" + b.Media.Type + b.Media.URL
			if b.Media.Detail != "" {
				s += "/" + b.Media.Detail
			}
			parts = append(parts, s)
		default:
			parts = append(parts, string(b.Kind)+":"+b.Text)
		}
	}
	return strings.Join(parts, " ")
}

func TestDecodeToolChoice(t *testing.T) {
	t.Parallel()
	tools := `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","name":"g"}],"tool_choice":`
	for in, want := range map[string]string{
		`"auto"`:                     `{"Mode":"auto","Name":"","Allowed":null}`,
		`"none"`:                     `{"Mode":"none","Name":"","Allowed":null}`,
		`"required"`:                 `{"Mode":"required","Name":"","Allowed":null}`,
		`{"type":"any"}`:             `{"Mode":"required","Name":"","Allowed":null}`,
		`{"type":"none"}`:            `{"Mode":"none","Name":"","Allowed":null}`,
		`null`:                       `{"Mode":"","Name":"","Allowed":null}`,
		`{"type":"tool","name":"f"}`: `{"Mode":"named","Name":"f","Allowed":null}`,
		`{"type":"function","function":{"name":"g"}}`: `{"Mode":"named","Name":"g","Allowed":null}`,
		`{"type":"function","name":"g"}`:              `{"Mode":"named","Name":"g","Allowed":null}`,
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`:          `{"Mode":"required","Name":"","Allowed":["f"]}`,
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},{"type":"function","function":{"name":"g"}}]}`: `{"Mode":"auto","Name":"","Allowed":["f","g"]}`,
	} {
		r, _ := decode(t, with(tools+in))
		if got := compact(t, r.ToolChoice); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	r, _ := decode(t, with(`"functions":[{"name":"f","parameters":{"type":"object"}}],"function_call":{"name":"f"}`))
	if !r.LegacyFunctions || r.ToolChoice.Name != "f" || *r.ParallelTools || len(r.Tools) != 1 {
		t.Errorf("legacy functions: %+v", r)
	}
}

func TestDecodeFormat(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"response_format":{"type":"json_object"}`: `json`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"r","strict":true,"schema":{"type":"object","n":1e400}}}`: `schema r true {"type":"object","n":1e400}`,
		`"guided_json":{"type":"object"}`:                                `schema {"type":"object"}`,
		`"guided_json":"{\"type\":\"object\"}"`:                          `schema {"type":"object"}`,
		`"guided_regex":"a+"`:                                            `regex a+`,
		`"guided_choice":["a","b"]`:                                      `choice [a b]`,
		`"guided_grammar":"root ::= x"`:                                  `grammar root ::= x`,
		`"structured_outputs":{"json":{"type":"object"}}`:                `schema {"type":"object"}`,
		`"structured_outputs":{"json_object":true}`:                      `json`,
		`"structured_outputs":{"regex":"a"}`:                             `regex a`,
		`"format":"json"`:                                                `json`,
		`"format":{"type":"object"}`:                                     `schema {"type":"object"}`,
		`"response_format":{"type":"json_object"},"guided_regex":"a"`:    `json; guided_json=dropped`,
		`"response_format":{"type":"json_object"},"format":{"type":"x"}`: `json; format=dropped`,
	} {
		r, notes := decode(t, with(in))
		f := r.Format
		got := string(f.Kind)
		if f.Name != "" {
			got += fmt.Sprintf(" %s %t", f.Name, *f.Strict)
		}
		if f.Schema != nil {
			got += " " + string(f.Schema)
		}
		if f.Text != "" {
			got += " " + f.Text
		}
		if f.Choices != nil {
			got += fmt.Sprintf(" %v", f.Choices)
		}
		if len(notes) > 0 {
			got += "; " + words(notes)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestDecodeThinking(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"reasoning_effort":"none"`:                                                  `off`,
		`"reasoning_effort":"low"`:                                                   `on low`,
		`"reasoning_effort":"ultra"`:                                                 `on max`,
		`"reasoning":{"effort":"high","summary":"auto"}`:                             `on high`,
		`"reasoning":{"enabled":false}`:                                              `off`,
		`"reasoning":{"max_tokens":2000,"exclude":true}`:                             `on 2000 hidden`,
		`"think":true`:                                                               `on`,
		`"think":"medium"`:                                                           `on medium`,
		`"thinking":{"type":"enabled","budget_tokens":4096}`:                         `on 4096`,
		`"thinking":{"type":"disabled"}`:                                             `off`,
		`"thinking":{"type":"adaptive"},"reasoning_effort":"xhigh"`:                  `adaptive xhigh`,
		`"thinking":false`:                                                           `off`,
		`"enable_thinking":true`:                                                     `on`,
		`"chat_template_kwargs":{"enable_thinking":false}`:                           `off`,
		`"chat_template_kwargs":{"thinking":true}`:                                   `on`,
		`"reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false}`: `off high`,
		`"include_reasoning":false`:                                                  ` hidden`,
		`"thinking_token_budget":100,"enable_thinking":true`:                         `on 100`,
		`"chat_template_kwargs":{"enable_thinking":false,"b":1.0,"a":{"x":[1]}}`:     `off {"a":{"x":[1]},"b":1.0}`,
	} {
		r, _ := decode(t, with(in))
		got := string(r.Thinking.Mode)
		if r.Thinking.Effort != "" {
			got += " " + string(r.Thinking.Effort)
		}
		if r.Thinking.Budget != nil {
			got += fmt.Sprintf(" %d", *r.Thinking.Budget)
		}
		if r.Thinking.Hidden {
			got += " hidden"
		}
		if raw := r.Extra["chat_template_kwargs"]; raw != nil {
			got += " " + string(raw)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func FuzzDecodeChat(f *testing.F) {
	for _, s := range []string{
		with(`"stop":["a"],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"`),
		talk(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}`),
		talk(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}`),
		with(`"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"reasoning":{"effort":"low"}`), `{`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, _, err := openai.Chat{}.DecodeChat(body)
		if err != nil {
			if llm.AsError(err) == nil {
				t.Fatalf("%q: %v is not classified", body, err)
			}
			return
		}
		// What was decoded can be encoded, and then decoded again to the same messages.
		out, _, err := openai.EncodeChat(r, openai.CallOptions{Model: llm.Model{Name: "m", SystemLate: "inline", DeveloperRole: "developer"}})
		if err != nil {
			if llm.AsError(err) == nil {
				t.Fatalf("%q: %v is not classified", body, err)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q: encoded as %q", body, out)
		}
	})
}

func TestDecodeOptionsOfOllamaFillWhatIsOpen(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, with(`"temperature":0.5,"options":{"temperature":1,"top_k":7,"num_predict":9,"stop":["END"],"seed":3,"num_ctx":4096},"keep_alive":"5m"`))
	if *r.Sampling.Temperature != 0.5 || *r.Sampling.TopK != 7 || *r.MaxTokens != 9 || r.Stop[0] != "END" || *r.Sampling.Seed != 3 {
		t.Errorf("request %+v", r)
	}
	if got := words(notes); got != "options.num_ctx=dropped, keep_alive=dropped" {
		t.Errorf("notes %s", got)
	}
	r, _ = decode(t, with(`"max_tokens":5,"options":{"num_predict":-1}`))
	if *r.MaxTokens != 5 {
		t.Errorf("max_tokens %d", *r.MaxTokens)
	}
	if _, _, err := (openai.Chat{}).DecodeChat([]byte(with(`"options":{"top_k":"x"}`))); llm.AsError(err) == nil || llm.AsError(err).Param != "options.top_k" {
		t.Errorf("a wrong option: %v", err)
	}
}

func BenchmarkDecodeAndEncode(b *testing.B) {
	text := strings.Repeat("The sky is blue and the sea is wide. ", 50)
	for name, body := range map[string]string{
		"2KiB": with(`"temperature":0.5,"stream":true,"x":"` + text + `"`),
		"image of 1MiB": talk(`{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			base64.StdEncoding.EncodeToString(append(pixel, make([]byte, 1<<20)...)) + `"}}]}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, _, err := openai.Chat{}.DecodeChat([]byte(body))
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := openai.EncodeChat(r, openai.CallOptions{Engine: openai.EngineVLLM}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
