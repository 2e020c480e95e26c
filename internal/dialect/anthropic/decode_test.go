package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

const f = `{"name":"f","input_schema":{"type":"object"}}`

func TestDecodeNamesTheFieldAtFault(t *testing.T) {
	t.Parallel()
	assistant := func(blocks string) string {
		return talk(`{"role":"user","content":"a"},{"role":"assistant","content":[` + blocks + `]},{"role":"user","content":"b"}`)
	}
	for name, c := range map[string]struct{ body, param, message string }{
		"no JSON":                    {`{"model":"m",}`, "", "byte 13"},
		"no object":                  {`[]`, "", "must be a JSON object"},
		"too deep":                   {with(`"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70)), "", "deeper than 64"},
		"no model":                   {`{"max_tokens":1,"messages":[{"role":"user","content":"a"}]}`, "model", "required"},
		"no max_tokens":              {`{"model":"m","messages":[{"role":"user","content":"a"}]}`, "max_tokens", "required"},
		"max_tokens null":            {with(`"max_tokens":null`), "max_tokens", "required"},
		"max_tokens not whole":       {with(`"max_tokens":1.5`), "max_tokens", "whole number"},
		"max_tokens negative":        {with(`"max_tokens":-1`), "max_tokens", "between"},
		"no messages":                {`{"model":"m","max_tokens":1}`, "messages", "required"},
		"empty messages":             {talk(``), "messages", "empty"},
		"messages is an object":      {`{"model":"m","max_tokens":1,"messages":{}}`, "messages", "list"},
		"message is no object":       {talk(`"hi"`), "messages[0]", "object"},
		"no role":                    {talk(`{"content":"a"}`), "messages[0].role", "required"},
		"no content":                 {talk(`{"role":"user"}`), "messages[0].content", "required"},
		"content is a number":        {talk(`{"role":"user","content":7}`), "messages[0].content", "string or a list"},
		"block without type":         {says(`{"text":"a"}`), "messages[0].content[0].type", "required"},
		"block is a string":          {says(`"a"`), "messages[0].content[0].type", "required"},
		"block of unknown type":      {says(`{"type":"hologram"}`), "messages[0].content[0].type", "unknown"},
		"text is a number":           {says(`{"type":"text","text":"a"},{"type":"text","text":1}`), "messages[0].content[1].text", "string"},
		"image without source":       {says(`{"type":"image"}`), "messages[0].content[0].source.type", "base64 or url"},
		"image not base64":           {says(`{"type":"image","source":{"type":"base64","data":"%%%"}}`), "messages[0].content[0].source.data", "base64"},
		"image is SVG":               {says(`{"type":"image","source":{"type":"base64","data":"PHN2Zy8+"}}`), "messages[0].content[0].source.data", "not a PNG"},
		"image of a file scheme":     {says(`{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}`), "messages[0].content[0].source.url", "http or https"},
		"stored image":               {says(`{"type":"image","source":{"type":"file","file_id":"f"}}`), "messages[0].content[0].source.type", "stored files"},
		"document by URL":            {says(`{"type":"document","source":{"type":"url","url":"https://example.org/a.pdf"}}`), "messages[0].content[0].source.type", "by URL"},
		"stored document":            {says(`{"type":"document","source":{"type":"file","file_id":"f"}}`), "messages[0].content[0].source.type", "stored files"},
		"document without source":    {says(`{"type":"document"}`), "messages[0].content[0].source.type", "must be"},
		"document within document":   {says(`{"type":"document","source":{"type":"content","content":[{"type":"document"}]}}`), "messages[0].content[0].source.content[0].type", "text or image"},
		"image of the assistant":     {assistant(picture), "messages[1].content[0].type", "cannot stand in a turn of the assistant"},
		"tool_result of assistant":   {assistant(`{"type":"tool_result","tool_use_id":"c"}`), "messages[1].content[0].type", "cannot stand"},
		"tool_use of the user":       {says(`{"type":"tool_use","id":"c","name":"f","input":{}}`), "messages[0].content[0].type", "cannot stand in a turn of the user"},
		"call without name":          {assistant(`{"type":"tool_use","id":"c","input":{}}`), "messages[1].content[0].name", "required"},
		"input is a string":          {assistant(`{"type":"tool_use","id":"c","name":"f","input":"{}"}`), "messages[1].content[0].input", "object"},
		"result without id":          {says(`{"type":"tool_result","content":"x"}`), "messages[0].content[0].tool_use_id", "required"},
		"result of a wrong type":     {says(`{"type":"tool_result","tool_use_id":"c","content":[{"type":"hologram"}]}`), "messages[0].content[0].content[0].type", "unknown"},
		"result is an object":        {says(`{"type":"tool_result","tool_use_id":"c","content":{}}`), "messages[0].content[0].content", "string or a list"},
		"prefilled answer":           {talk(`{"role":"user","content":"a"},{"role":"assistant","content":"{"}`), "messages", "must end with a user turn"},
		"system is a number":         {with(`"system":7`), "system", "string or a list"},
		"system with an image":       {with(`"system":[{"type":"text","text":"a"},` + picture + `]`), "system[1].type", "must be text"},
		"late system with an image":  {talk(`{"role":"user","content":"a"},{"role":"system","content":[` + picture + `]}`), "messages[1].content[0].type", "must be text"},
		"stop is a string":           {with(`"stop_sequences":"END"`), "stop_sequences", "list"},
		"stop is a number":           {with(`"stop_sequences":["a",1]`), "stop_sequences[1]", "string"},
		"temperature is a string":    {with(`"temperature":"hot"`), "temperature", "number"},
		"stream is a string":         {with(`"stream":"yes"`), "stream", "true or false"},
		"metadata is a list":         {with(`"metadata":[]`), "metadata", "object"},
		"user_id is a number":        {with(`"metadata":{"user_id":7}`), "metadata.user_id", "string"},
		"tools is an object":         {with(`"tools":{}`), "tools", "list"},
		"tool is a string":           {with(`"tools":["f"]`), "tools[0]", "object"},
		"tool without name":          {with(`"tools":[{"input_schema":{}}]`), "tools[0].name", "required"},
		"schema is a list":           {with(`"tools":[{"name":"f","input_schema":[]}]`), "tools[0].input_schema", "schema object"},
		"too many tools":             {with(`"tools":[` + strings.Repeat(f+",", 128) + f + `]`), "tools", "more than 128"},
		"computer":                   {with(`"tools":[{"type":"computer_20250124","name":"computer","display_width_px":1}]`), "tools[0].type", "not supported"},
		"choice is a word":           {with(`"tools":[` + f + `],"tool_choice":"auto"`), "tool_choice", "object"},
		"choice of an unknown type":  {with(`"tools":[` + f + `],"tool_choice":{"type":"maybe"}`), "tool_choice.type", "auto, any"},
		"choice of an unknown tool":  {with(`"tools":[` + f + `],"tool_choice":{"type":"tool","name":"g"}`), "tool_choice.name", "not declared"},
		"choice without name":        {with(`"tools":[` + f + `],"tool_choice":{"type":"tool"}`), "tool_choice.name", "required"},
		"any without tools":          {with(`"tool_choice":{"type":"any"}`), "tool_choice.type", "needs tools"},
		"forced server tool":         {with(`"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}`), "tool_choice.name", "runs at the server"},
		"any with server tools only": {with(`"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"any"}`), "tool_choice.type", "needs tools"},
		"thinking of unknown type":   {with(`"thinking":{"type":"deep"}`), "thinking.type", "must be enabled"},
		"thinking is a word":         {with(`"thinking":"enabled"`), "thinking", "object"},
		"budget too small":           {with(`"thinking":{"type":"enabled","budget_tokens":1023}`), "thinking.budget_tokens", "between 1024"},
		"budget above the bound":     {with(`"thinking":{"type":"enabled","budget_tokens":4096}`), "thinking.budget_tokens", "less than max_tokens"},
		"effort is a strange word":   {with(`"output_config":{"effort":"heroic"}`), "output_config.effort", "low, medium"},
		"format of unknown type":     {with(`"output_config":{"format":{"type":"xml"}}`), "output_config.format.type", "json_schema"},
		"format without schema":      {with(`"output_format":{"type":"json_schema"}`), "output_format.schema", "schema object"},
	} {
		_, _, err := anthropic.Messages{}.DecodeChat([]byte(c.body))
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
	_, _, err := anthropic.Messages{}.DecodeChat([]byte(talk(strings.Repeat(one+",", 10_000) + one)))
	if e := llm.AsError(err); e == nil || e.Param != "messages" {
		t.Errorf("10,001 messages: %v", err)
	}
}

func TestDecodeOptions(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, "\ufeff"+with(`"max_tokens":16.0,"temperature":0,"top_p":0.5,"top_k":40,"stop_sequences":["END","x"],
		"stream":true,"metadata":{"user_id":"u","other":1},"system":"be brief",
		"thinking":{"type":"enabled","budget_tokens":2048},"max_tokens":3000,
		"output_config":{"effort":"xhigh","format":{"type":"json_schema","schema":{"type":"object","x":1.0}}},
		"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,"eager_input_streaming":true,"defer_loading":true,"input_examples":[{}],"allowed_callers":["direct"],"cache_control":{"type":"ephemeral"}},{"type":"custom","name":"g"},{"type":null,"name":"h"}],
		"tool_choice":{"type":"any","disable_parallel_tool_use":true}`))
	if len(notes) != 0 {
		t.Errorf("notes: %s", words(notes))
	}
	if *r.MaxTokens != 3000 || *r.Sampling.Temperature != 0 || *r.Sampling.TopP != 0.5 || *r.Sampling.TopK != 40 ||
		strings.Join(r.Stop, " ") != "END x" || !r.Stream || r.EndUser != "u" || r.Origin != llm.DialectAnthropic {
		t.Errorf("options %+v", r)
	}
	if r.Thinking.Mode != llm.ThinkingOn || *r.Thinking.Budget != 2048 || r.Thinking.Effort != llm.EffortXHigh {
		t.Errorf("thinking %+v", r.Thinking)
	}
	if r.Format.Kind != llm.FormatSchema || string(r.Format.Schema) != `{"type":"object","x":1.0}` {
		t.Errorf("format %+v", r.Format)
	}
	if len(r.Tools) != 3 || r.Tools[0].Description != "d" || string(r.Tools[0].Schema) != `{"type":"object"}` || !*r.Tools[0].Strict ||
		r.ToolChoice.Mode != llm.ToolRequired || r.ParallelTools == nil || *r.ParallelTools {
		t.Errorf("tools %+v, choice %+v", r.Tools, r.ToolChoice)
	}
	if got := shown(r.Messages); got != "system(text:be brief) user(text:hi)" {
		t.Errorf("messages %s", got)
	}
}

func TestDecodeAbsentValuesStayAbsent(t *testing.T) {
	t.Parallel()
	for _, members := range []string{
		``, `"stop_sequences":null`, `"stop_sequences":[]`, `"tools":[],"tool_choice":{"type":"auto"}`, `"tool_choice":{"type":"none"}`,
		`"stream":null,"temperature":null,"top_k":null`, `"system":""`, `"system":[]`, `"system":null`, `"metadata":{}`,
		`"thinking":null`, `"thinking":{"type":"disabled"}`, `"output_config":{}`, `"output_config":{"effort":null,"format":null}`,
		`"output_format":null`, `"mcp_servers":[]`,
		`"cache_control":{"type":"ephemeral"},"service_tier":"auto","inference_geo":"eu","speed":"fast","diagnostics":{},"context_management":{"edits":[]},"fallbacks":[]`,
	} {
		got, notes := decode(t, with(members))
		want, _ := decode(t, with(""))
		if compact(t, got) != compact(t, want) || len(notes) != 0 {
			t.Errorf("%s changes the request: %s, notes %s", members, compact(t, got), words(notes))
		}
	}
}

func TestDecodeUnknownFieldsAreKeptAndNoted(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, with(`"future":{"a":1.0},"bad,name":1,"mcp_servers":[{"url":"x"}],"container":"c","stop_sequences":["","a"],
		"output_config":{"task_budget":1},"thinking":{"type":"adaptive","display":"glowing"}`))
	if string(r.Extra["future"]) != `{"a":1.0}` || string(r.Extra["bad,name"]) != "1" || len(r.Extra) != 2 {
		t.Errorf("extra %s", compact(t, r.Extra))
	}
	want := "thinking.display=dropped, output_config.task_budget=dropped, stop_sequences[0]=dropped, mcp_servers=dropped, " +
		"container=dropped, unknown_field=dropped, future=dropped"
	if got := words(notes); got != want {
		t.Errorf("notes\n got %s\nwant %s", got, want)
	}
}

func TestDecodeConversations(t *testing.T) {
	t.Parallel()
	use := func(id string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"f","input":{"id":12345678901234567890,"x":1.0},"cache_control":{"type":"ephemeral"}}`
	}
	loop := func(calls, results string) string {
		return talk(`{"role":"user","content":"go"},{"role":"assistant","content":[` + calls + `]},{"role":"user","content":[` + results + `]}`)
	}
	for name, c := range map[string]struct{ body, want, notes string }{
		"text blocks, empty ones left out": {
			says(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":""},{"type":"text","text":"b","citations":null}`),
			"user(text:a text:b)", "",
		},
		"images": {
			says(picture + `,{"type":"image","source":{"type":"url","url":"https://example.org/x.png"}},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"` + pixel + `"}}`),
			"user(image:image/png: image::https://example.org/x.png image:image/png:)",
			"",
		},
		"documents": {
			says(`{"type":"document","title":"notes","context":"old","source":{"type":"text","media_type":"text/plain","data":"abc"},"citations":{"enabled":true}},
				{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjc="}},
				{"type":"document","title":"parts","source":{"type":"content","content":[{"type":"text","text":"p"},` + picture + `]},"citations":{"enabled":false}},
				{"type":"document","source":{"type":"content","content":"q"}}`),
			"user(text:old document:text/plain:notes document:application/pdf: text:parts text:p image:image/png: text:q)",
			"citations=dropped",
		},
		"search result becomes text": {
			says(`{"type":"search_result","title":"T","source":"https://x","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`),
			"user(text:T (https://x)\na\nb)", "",
		},
		"tool loop keeps the bytes of arguments": {
			loop(`{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"ok"},`+use("c1"), `{"type":"tool_result","tool_use_id":"c1","content":"42"}`),
			`user(text:go) assistant(thinking:hm text:ok call:c1:f:{"id":12345678901234567890,"x":1.0}) tool(result:c1:f[text:42])`, "",
		},
		"results come before the rest of the turn": {
			loop(use("a")+","+use("b"), `{"type":"text","text":"T"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"2"}]},`+
				`{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"1"},`+picture),
			`user(text:go) assistant(call:a:f:{"id":12345678901234567890,"x":1.0} call:b:f:{"id":12345678901234567890,"x":1.0}) ` +
				`tool(result:b:f[text:2] result:a:f[text:1]!) user(text:T image:image/png:)`, "",
		},
		"result with an image, a document, a reference, nothing": {
			loop(use("a")+","+use("b"), `{"type":"tool_result","tool_use_id":"a","content":[`+picture+`,{"type":"document","title":"n","source":{"type":"text","data":"abc"}},`+
				`{"type":"tool_reference","tool_name":"grep"},{"type":"browser_state"}]},{"type":"tool_result","tool_use_id":"b"}`),
			`user(text:go) assistant(call:a:f:{"id":12345678901234567890,"x":1.0} call:b:f:{"id":12345678901234567890,"x":1.0}) ` +
				"tool(result:a:f[image:image/png: text:n:\nabc text:The tool grep is available.] result:b:f[])",
			"browser_state=dropped",
		},
		"ids that are empty or used twice become unique": {
			loop(`{"type":"tool_use","id":"a","name":"f"},{"type":"tool_use","id":"a","name":"g","input":null},{"type":"tool_use","name":"h","input":{}}`,
				`{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"a","content":"2"},{"type":"tool_result","content":"3"}`),
			"user(text:go) assistant(call:a:f: call:call_000000000001000000000001:g: call:call_000000000001000000000002:h:{}) " +
				"tool(result:a:f[text:1] result:call_000000000001000000000001:g[text:2] result:call_000000000001000000000002:h[text:3])", "",
		},
		"result without call stays and is told": {
			says(`{"type":"tool_result","tool_use_id":"zz","content":"x"}`), "tool(result:zz:[text:x])", "tool_result=orphan",
		},
		"sealed and omitted thinking is left out": {
			talk(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"xx"},{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`),
			"user(text:a) assistant(text:b) user(text:c)", "",
		},
		"empty turns are left out": {
			talk(`{"role":"user","content":"a"},{"role":"assistant","content":[]},{"role":"assistant","content":""},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}`),
			"user(text:a)", "",
		},
		"the only turn stays": {says(``), "user()", ""},
		"server tools of another service are left out": {
			talk(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`),
			"user(text:a) assistant(text:b) user(text:c)", "server_tool_use=dropped, web_search_tool_result=dropped",
		},
		"late system message": {
			talk(`{"role":"user","content":"a"},{"role":"system","content":[{"type":"text","text":"S"},{"type":"text","text":"T"}]},{"role":"user","content":"b"}`),
			"user(text:a) system(text:S\n\nT) user(text:b)", "",
		},
		"unknown role": {talk(`{"role":"ctx","content":"a"}`), "user(text:a)", "messages[0].role=user"},
		"turns of the same role are kept": {
			talk(`{"role":"user","content":"a"},{"role":"user","content":"b"}`), "user(text:a) user(text:b)", "",
		},
	} {
		r, notes := decode(t, c.body)
		if got := shown(r.Messages); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", name, got, c.want)
		}
		if got := words(notes); got != c.notes {
			t.Errorf("%s: notes %q, want %q", name, got, c.notes)
		}
	}
}

func TestDecodeKeepsSignatures(t *testing.T) {
	t.Parallel()
	r, _ := decode(t, talk(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"altered","signature":"gw1.x"}]},{"role":"user","content":"b"}`))
	if b := r.Messages[1].Blocks[0]; b.Signature != "gw1.x" || b.Text != "altered" {
		t.Errorf("block %+v", b)
	}
}

func TestDecodeThinking(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		``:                               `{"Mode":"off","Effort":"","Budget":null,"Hidden":false,"Omitted":false}`,
		`"thinking":{"type":"disabled"}`: `{"Mode":"off","Effort":"","Budget":null,"Hidden":false,"Omitted":false}`,
		`"thinking":{"type":"enabled","budget_tokens":1024,"display":"summarized"}`:           `{"Mode":"on","Effort":"","Budget":1024,"Hidden":false,"Omitted":false}`,
		`"thinking":{"type":"enabled"}`:                                                       `{"Mode":"on","Effort":"","Budget":null,"Hidden":false,"Omitted":false}`,
		`"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"max"}`: `{"Mode":"adaptive","Effort":"max","Budget":null,"Hidden":false,"Omitted":true}`,
		`"thinking":{"type":"between_tools"}`:                                                 `{"Mode":"between_tools","Effort":"","Budget":null,"Hidden":false,"Omitted":false}`,
		`"max_tokens":0,"thinking":{"type":"enabled","budget_tokens":1024}`:                   `{"Mode":"on","Effort":"","Budget":1024,"Hidden":false,"Omitted":false}`,
	} {
		r, _ := decode(t, with(members))
		if got := compact(t, r.Thinking); got != want {
			t.Errorf("%s:\n got %s\nwant %s", members, got, want)
		}
	}
}

func TestDecodeToolChoice(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]string{
		`{"type":"auto"}`: "auto  false", `{"type":"any"}`: "required  false", `{"type":"tool","name":"f"}`: "named f false",
		`{"type":"none"}`: "none  false", `{"type":"none","disable_parallel_tool_use":true}`: "none  false",
		`{"type":"auto","disable_parallel_tool_use":true}`:            "auto  true",
		`{"type":"auto","disable_parallel_tool_use":false}`:           "auto  false",
		`{"type":"tool","name":"f","disable_parallel_tool_use":true}`: "named f true",
		`null`: "  false",
	} {
		r, _ := decode(t, with(`"tools":[`+f+`],"tool_choice":`+choice))
		one := "false"
		if r.ParallelTools != nil && !*r.ParallelTools {
			one = "true"
		}
		if got := string(r.ToolChoice.Mode) + " " + r.ToolChoice.Name + " " + one; got != want {
			t.Errorf("%s: %q, want %q", choice, got, want)
		}
	}
}

func TestDecodeServerToolsAreDroppedAndNoted(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, with(`"tools":[{"type":"web_search_20250305","name":"web_search"},`+f+`,{"type":"code_execution_20260120","name":"code_execution"},{"type":"mcp_toolset","mcp_server_name":"x"},{"type":"future_thing"}],"tool_choice":{"type":"any"}`))
	if len(r.Tools) != 1 || r.Tools[0].Name != "f" {
		t.Errorf("tools %+v", r.Tools)
	}
	want := "tools[0]=dropped:web_search_20250305, tools[2]=dropped:code_execution_20260120, tools[3]=dropped:mcp_toolset, tools[4]=dropped:future_thing"
	if got := words(notes); got != want {
		t.Errorf("notes %s", got)
	}
}

func TestDecodeClientToolsGetASchema(t *testing.T) {
	t.Parallel()
	r, notes := decode(t, with(`"tools":[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"},{"type":"memory_20250818","name":"memory"},{"type":"bash_20250124","name":"sh","input_schema":{"type":"object","x":1}}]`))
	if len(r.Tools) != 4 || len(notes) != 0 {
		t.Fatalf("tools %+v, notes %s", r.Tools, words(notes))
	}
	for _, tool := range r.Tools {
		if !json.Valid(tool.Schema) || !strings.Contains(string(tool.Schema), `"type":"object"`) {
			t.Errorf("schema of %s: %s", tool.Name, tool.Schema)
		}
	}
	if string(r.Tools[3].Schema) != `{"type":"object","x":1}` {
		t.Errorf("the client's own schema was replaced: %s", r.Tools[3].Schema)
	}
}

func TestDecodeFormat(t *testing.T) {
	t.Parallel()
	format := func(key string) string { return `{"type":"json_schema","schema":{"k":"` + key + `"}}` }
	for members, want := range map[string]string{
		`"output_config":{"format":` + format("a") + `}`:                                `{"k":"a"}`,
		`"output_format":` + format("b"):                                                `{"k":"b"}`,
		`"output_config":{"format":` + format("a") + `},"output_format":` + format("b"): `{"k":"a"} output_format=dropped`,
	} {
		r, notes := decode(t, with(members))
		if got := strings.TrimSpace(string(r.Format.Schema) + " " + words(notes)); got != want || r.Format.Kind != llm.FormatSchema {
			t.Errorf("%s: %s, want %s", members, got, want)
		}
	}
}

func TestDecodeCount(t *testing.T) {
	t.Parallel()
	prompt := `"model":"m","system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}],"tools":[` + f + `],"tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":5000}`
	r, notes, err := anthropic.DecodeCount([]byte(`{` + prompt + `}`))
	if err != nil || len(notes) != 0 || r.MaxTokens != nil || len(r.Messages) != 3 || len(r.Tools) != 1 {
		t.Errorf("request %+v, notes %s, error %v", r, words(notes), err)
	}
	r, notes, err = anthropic.DecodeCount([]byte(`{"max_tokens":9,"stream":true,"temperature":1,"new":1,` + prompt + `}`))
	if err != nil || words(notes) != "new=dropped" || r.Stream {
		t.Errorf("request %+v, notes %s, error %v", r, words(notes), err)
	}
	if _, _, err := anthropic.DecodeCount([]byte(`{"model":"m"}`)); llm.AsError(err) == nil || llm.AsError(err).Param != "messages" {
		t.Errorf("no messages: %v", err)
	}
	if got := string(anthropic.EncodeCount(26)); got != `{"input_tokens":26}`+"\n" {
		t.Errorf("reply %q", got)
	}
}

func TestLocalAnswersWhatWantsNoAnswer(t *testing.T) {
	t.Parallel()
	r, _ := decode(t, with(`"max_tokens":0`))
	resp, ok := anthropic.Local(r)
	if !ok {
		t.Fatal("max_tokens 0 is sent to a model")
	}
	body, err := whole(t, r, resp)
	if err != nil || !strings.Contains(string(body), `"content":[],"stop_reason":"max_tokens"`) {
		t.Errorf("%s, %v", body, err)
	}
	if m := received(t, r, llm.Events(resp)); m.StopReason != "max_tokens" || len(m.Content) != 0 {
		t.Errorf("stream %+v", m)
	}
	r, _ = decode(t, with(``))
	if _, ok := anthropic.Local(r); ok {
		t.Error("an ordinary request is answered without a model")
	}
}

// What a backend of another protocol is told.

func TestBillingLineDoesNotReachThePrompt(t *testing.T) {
	t.Parallel()
	body := func(hash string) string {
		return with(`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=` + hash + `;"},{"type":"text","text":"B","cache_control":{"type":"ephemeral"}}]`)
	}
	one, notes := upstream(t, body("aaa"), llm.Model{}, openai.EngineVLLM)
	two, _ := upstream(t, body("bbb"), llm.Model{}, openai.EngineVLLM)
	if compact(t, one) != compact(t, two) || notes != "" {
		t.Errorf("the prompt depends on the hash, or it is told (%s): %s", notes, compact(t, one))
	}
	if want := `[{"role":"system","content":"B"},{"role":"user","content":"hi"}]`; string(one["messages"]) != want {
		t.Errorf("messages %s, want %s", one["messages"], want)
	}
	r, _ := decode(t, with(`"system":"x-anthropic-billing-header: a\nYou help."`))
	if got := shown(r.Messages); got != "system(text:You help.) user(text:hi)" {
		t.Errorf("a header within a string: %s", got)
	}
}

func TestLateSystemMessageKeepsThePrefix(t *testing.T) {
	t.Parallel()
	body := func(more string) string {
		return `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"A"},{"type":"text","text":"B"}],"messages":[{"role":"user","content":"one"}` + more + `]}`
	}
	before, _ := upstream(t, body(""), llm.Model{}, openai.EngineVLLM)
	after, notes := upstream(t, body(`,{"role":"assistant","content":"two"},{"role":"system","content":"S"},{"role":"user","content":"three"}`), llm.Model{}, openai.EngineVLLM)
	want := `[{"role":"system","content":"A\n\nB"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},` +
		`{"role":"user","content":"<system-reminder>\nS\n</system-reminder>\n\nthree"}]`
	if string(after["messages"]) != want || notes != "messages.system=folded" {
		t.Errorf("notes %s, messages\n got %s\nwant %s", notes, after["messages"], want)
	}
	if prefix := strings.TrimSuffix(string(before["messages"]), "]"); !strings.HasPrefix(string(after["messages"]), prefix) {
		t.Errorf("%s does not begin with %s", after["messages"], prefix)
	}
}

func TestCacheControlIsInvisible(t *testing.T) {
	t.Parallel()
	mark := `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	body := func(mark string) string {
		return with(`"system":[{"type":"text","text":"s"` + mark + `}],"tools":[{"name":"f"` + mark + `}],"messages":[{"role":"user","content":[{"type":"text","text":"a"` + mark + `}]}]`)
	}
	marked, notes := upstream(t, body(mark), llm.Model{}, openai.EngineVLLM)
	plain, _ := upstream(t, body(""), llm.Model{}, openai.EngineVLLM)
	if compact(t, marked) != compact(t, plain) || notes != "" {
		t.Errorf("notes %s, request %s", notes, compact(t, marked))
	}
}

func TestThinkingReachesBackends(t *testing.T) {
	t.Parallel()
	toggle := llm.Model{Thinking: llm.ProfileToggle}
	for members, want := range map[string]string{
		``: `{"enable_thinking":false}`,
		`"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":4096}`: `{"enable_thinking":true}`,
		`"thinking":{"type":"adaptive"}`:                                       `{"enable_thinking":true}`,
		`"thinking":{"type":"between_tools"}`:                                  `{"enable_thinking":true}`,
		`"thinking":{"type":"disabled"}`:                                       `{"enable_thinking":false}`,
	} {
		if u, _ := upstream(t, with(members), toggle, openai.EngineVLLM); string(u["chat_template_kwargs"]) != want {
			t.Errorf("%s: %s, want %s", members, u["chat_template_kwargs"], want)
		}
	}
	r, _ := decode(t, with(`"thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"}`))
	out, notes, err := ollama.EncodeChat(r, ollama.CallOptions{Model: llm.Model{Name: "m", Thinking: llm.ProfileEffort}})
	if err != nil || !strings.Contains(string(out), `"think":"high"`) || words(notes) != "thinking=clamped:high" {
		t.Errorf("to Ollama: %s, notes %s, %v", out, words(notes), err)
	}
}

func TestToolResultsReachBackends(t *testing.T) {
	t.Parallel()
	u, _ := upstream(t, talk(`{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"id":12345678901234567890,"x":1.0}},{"type":"tool_use","id":"b","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"text","text":"T"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"},`+picture+`]},{"type":"tool_result","tool_use_id":"b","content":"2","is_error":true}]}`),
		llm.Model{}, openai.EngineVLLM)
	want := `[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"a","type":"function","function":{"name":"f","arguments":"{\"id\":12345678901234567890,\"x\":1.0}"}},` +
		`{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","content":"1","tool_call_id":"a"},{"role":"tool","content":"Error: 2","tool_call_id":"b"},` +
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + pixel + `"}}]},` +
		`{"role":"user","content":"T"}]`
	if string(u["messages"]) != want {
		t.Errorf("messages\n got %s\nwant %s", u["messages"], want)
	}
}

func TestStopAndToolsReachBackends(t *testing.T) {
	t.Parallel()
	u, notes := upstream(t, with(`"stop_sequences":["END"],"tools":[`+f+`],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`), llm.Model{}, openai.EngineVLLM)
	if string(u["stop"]) != `["END"]` || string(u["tool_choice"]) != `{"type":"function","function":{"name":"f"}}` ||
		string(u["parallel_tool_calls"]) != "false" || string(u["max_tokens"]) != "4096" || notes != "" {
		t.Errorf("request %s, notes %s", compact(t, u), notes)
	}
	u, _ = upstream(t, with(`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},"future":1`), llm.Model{}, openai.EngineVLLM)
	if string(u["response_format"]) != `{"type":"json_schema","json_schema":{"name":"response","schema":{"type":"object"}}}` || u["future"] != nil {
		t.Errorf("request %s", compact(t, u))
	}
}

func FuzzDecodeChat(f *testing.F) {
	for _, s := range []string{
		with(`"system":[{"type":"text","text":"s"}],"stop_sequences":["a"],"tools":[{"name":"f","input_schema":{}},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"any"}`),
		with(`"thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}}`),
		talk(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":[` + picture + `]}]}`),
		says(picture + `,{"type":"document","source":{"type":"text","data":"x"}},{"type":"search_result","title":"t","content":[]}`), `{`, `null`,
	} {
		f.Add([]byte(s))
	}
	models := []llm.Model{{Name: "m"}, {Name: "m", Thinking: llm.ProfileToggle, SystemLate: "hoist"}, {Name: "m", Thinking: llm.ProfileEffort, SystemLate: "inline"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, _, err := anthropic.DecodeCount(body); err != nil && llm.AsError(err) == nil {
			t.Fatalf("%q: %v is not classified", body, err)
		}
		r, _, err := anthropic.Messages{}.DecodeChat(body)
		if err != nil {
			if llm.AsError(err) == nil {
				t.Fatalf("%q: %v is not classified", body, err)
			}
			return
		}
		// What was decoded can be encoded for every kind of backend, or is refused for a reason.
		for _, m := range models {
			out, _, err := openai.EncodeChat(r, openai.CallOptions{Model: m, Engine: openai.EngineVLLM})
			checkRequest(t, body, out, err)
			out, _, err = ollama.EncodeChat(r, ollama.CallOptions{Model: m})
			checkRequest(t, body, out, err)
		}
	})
}

func checkRequest(t *testing.T, body, out []byte, err error) {
	t.Helper()
	if err != nil && llm.AsError(err) == nil {
		t.Fatalf("%q: %v is not classified", body, err)
	}
	if err == nil && !json.Valid(out) {
		t.Fatalf("%q: encoded as %q", body, out)
	}
}
