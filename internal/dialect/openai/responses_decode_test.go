package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// asks returns a body of the Responses API with a text as its input and the given members.
func asks(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m","input":"hi"` + members + `}`
}

// items returns a body of the Responses API with the given items.
func items(list string) string { return `{"model":"m","input":[` + list + `]}` }

func decodeResponses(t *testing.T, c openai.Responses, body string) (*llm.Request, []llm.Note) {
	t.Helper()
	r, notes, err := c.DecodeChat([]byte(body))
	if err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return r, notes
}

// told prints a conversation: roles, and the content of their blocks.
func told(msgs []llm.Message) string {
	var out []string
	for _, m := range msgs {
		out = append(out, string(m.Role)+"("+strings.Join(toldBlocks(m.Blocks), " ")+")")
	}
	return strings.Join(out, " ")
}

func toldBlocks(blocks []llm.Block) []string {
	var out []string
	for _, b := range blocks {
		s := b.Text
		switch {
		case b.ToolCall != nil:
			s = "call:" + b.ToolCall.ID + ":" + b.ToolCall.Name + ":" + string(b.ToolCall.Arguments)
		case b.ToolResult != nil:
			s = "result:" + b.ToolResult.CallID + ":" + b.ToolResult.Name + "[" + strings.Join(toldBlocks(b.ToolResult.Content), " ") + "]"
		case b.Media != nil:
			s = string(b.Kind) + ":" + b.Media.Type + ":" + b.Media.Name + b.Media.URL
		case b.Kind != llm.BlockText:
			s = string(b.Kind) + ":" + b.Text
		}
		out = append(out, s)
	}
	return out
}

const (
	userHi   = `{"role":"user","content":"hi"}`
	callF    = `{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}`
	callG    = `{"type":"function_call","call_id":"d","name":"g","arguments":"{}"}`
	outputF  = `{"type":"function_call_output","call_id":"c","output":"1"}`
	outputG  = `{"type":"function_call_output","call_id":"d","output":"2"}`
	saysA    = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]}`
	thinksT  = `{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}]}`
	toolF    = `{"type":"function","name":"f","description":"Does f.","parameters":{"type":"object","properties":{"a":{"type":"integer"}}},"strict":true}`
	toolWeb  = `{"type":"web_search"}`
	toolEdit = `{"type":"custom","name":"edit","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: \"x\""}}`
	toolNS   = `{"type":"namespace","name":"crm","description":"Customers.","tools":[{"type":"function","name":"find","parameters":{}},{"type":"custom","name":"note"}]}`
)

func TestResponsesInput(t *testing.T) {
	t.Parallel()
	picture := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pixel)
	for name, c := range map[string]struct{ body, want, notes string }{
		"text":                 {asks(``), "user(hi)", ""},
		"instructions":         {asks(`"instructions":"be brief"`), "system(be brief) user(hi)", ""},
		"message without type": {items(userHi), "user(hi)", ""},
		"roles":                {items(`{"role":"system","content":"s"},{"role":"developer","content":"d"},` + userHi), "system(s) developer(d) user(hi)", ""},
		"unknown role":         {items(`{"role":"ctx","content":"s"}`), "user(s)", "input[0].role=user"},
		"parts": {
			items(`{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_text","text":""},{"type":"input_image","image_url":"` + picture + `","detail":"low","file_id":null},` +
				`{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,eA==","file_id":null}]}`),
			"user(look image:image/png: document:text/plain:a.txt)", "",
		},
		"refusal in the history": {items(userHi + `,{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},` + userHi), "user(hi) assistant(refusal:no) user(hi)", ""},
		"empty messages vanish":  {items(`{"role":"user","content":""},{"role":"assistant","content":[]},` + userHi), "user(hi)", ""},
		"a loop of tools": {
			items(userHi + "," + thinksT + "," + callF + "," + outputF + "," + saysA),
			`user(hi) assistant(thinking:t call:c:f:{"a":1}) tool(result:c:f[1]) assistant(a)`, "",
		},
		"parallel calls": {
			items(userHi + "," + callF + "," + callG + "," + outputG + "," + outputF),
			`user(hi) assistant(call:c:f:{"a":1} call:d:g:{}) tool(result:d:g[2]) tool(result:c:f[1])`, "",
		},
		"one after the other": {
			items(userHi + "," + callF + "," + outputF + "," + callG + "," + outputG),
			`user(hi) assistant(call:c:f:{"a":1}) tool(result:c:f[1]) assistant(call:d:g:{}) tool(result:d:g[2])`, "",
		},
		"text before a call":              {items(userHi + "," + saysA + "," + callF + "," + outputF), `user(hi) assistant(a call:c:f:{"a":1}) tool(result:c:f[1])`, ""},
		"text between call and result":    {items(userHi + "," + callF + "," + saysA + "," + outputF), `user(hi) assistant(call:c:f:{"a":1} a) tool(result:c:f[1])`, ""},
		"user between call and result":    {items(callF + "," + userHi + "," + outputF), `assistant(call:c:f:{"a":1}) tool(result:c:f[1]) user(hi)`, ""},
		"a call that nobody answered":     {items(callF + "," + userHi), `assistant(call:c:f:{"a":1}) user(hi)`, ""},
		"a result that nobody asked for":  {items(userHi + "," + outputF), "user(hi) user(tool result (c): 1)", "input.function_call_output=orphan"},
		"a second result":                 {items(callF + "," + outputF + "," + outputF), `assistant(call:c:f:{"a":1}) tool(result:c:f[1]) user(tool result (c): 1)`, "input.function_call_output=orphan"},
		"result of parts":                 {items(callF + `,{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"` + picture + `"}]}`), `assistant(call:c:f:{"a":1}) tool(result:c:f[x image:image/png:])`, ""},
		"result of plain JSON":            {items(callF + `,{"type":"function_call_output","call_id":"c","output":{"n":1}}`), `assistant(call:c:f:{"a":1}) tool(result:c:f[{"n":1}])`, ""},
		"empty result":                    {items(callF + `,{"type":"function_call_output","call_id":"c","output":""}`), `assistant(call:c:f:{"a":1}) tool(result:c:f[])`, ""},
		"arguments as an object":          {items(`{"type":"function_call","call_id":"c","name":"f","arguments":{"id":12345678901234567890}},` + outputF), `assistant(call:c:f:{"id":12345678901234567890}) tool(result:c:f[1])`, ""},
		"no arguments":                    {items(`{"type":"function_call","call_id":"c","name":"f","arguments":""},` + outputF), "assistant(call:c:f:) tool(result:c:f[1])", ""},
		"an id used twice":                {items(callF + "," + outputF + "," + callF + "," + outputF), `assistant(call:c:f:{"a":1}) tool(result:c:f[1]) assistant(call:call_000000000001000000000002:f:{"a":1}) tool(result:call_000000000001000000000002:f[1])`, ""},
		"custom call":                     {items(userHi + `,{"type":"custom_tool_call","call_id":"c","name":"edit","input":"a\n\"b\""},{"type":"custom_tool_call_output","call_id":"c","output":"ok"}`), `user(hi) assistant(call:c:edit:{"input":"a\n\"b\""}) tool(result:c:edit[ok])`, ""},
		"call in a namespace":             {items(`{"type":"function_call","call_id":"c","namespace":"crm","name":"find","arguments":"{}"},` + outputF), "assistant(call:c:crm__find:{}) tool(result:c:crm__find[1])", ""},
		"reasoning that led to nothing":   {items(thinksT + "," + userHi), "user(hi)", ""},
		"reasoning of a foreign service":  {items(`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"gAAA"},` + saysA + "," + userHi), "assistant(a) user(hi)", ""},
		"reasoning with its summary only": {items(`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":null},` + saysA + "," + userHi), "assistant(thinking:s a) user(hi)", ""},
		"foreign items": {
			items(userHi + `,{"type":"web_search_call","id":"ws_1","status":"completed"},{"type":"web_search_call"},{"type":"local_shell_call","call_id":"x"},{"type":"compaction","encrypted_content":"x"}`),
			"user(hi)", "input.web_search_call=dropped, input.local_shell_call=dropped, input.compaction=dropped",
		},
		"name of an item that cannot stand in a header": {items(userHi + `,{"type":"a,b"}`), "user(hi)", "unknown_field=dropped"},
	} {
		r, notes := decodeResponses(t, openai.Responses{}, c.body)
		if got := told(r.Messages); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", name, got, c.want)
		}
		if got := words(notes); got != c.notes {
			t.Errorf("%s: notes %q, want %q", name, got, c.notes)
		}
	}
}

func TestResponsesNameTheFieldAtFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, param, message string
		code                 llm.Code
	}{
		"no JSON":                  {`{"model":`, "", "valid JSON", ""},
		"no model":                 {`{"input":"hi"}`, "model", "required", ""},
		"no input":                 {`{"model":"m"}`, "input", "required", ""},
		"input null":               {`{"model":"m","input":null}`, "input", "required", ""},
		"input is a number":        {`{"model":"m","input":7}`, "input", "string or a list", ""},
		"no items":                 {items(``), "input", "empty", ""},
		"nothing but foreign":      {items(`{"type":"web_search_call"}`), "input", "empty", ""},
		"item is a string":         {items(`"hi"`), "input[0]", "object", ""},
		"item of no type":          {items(`{"content":"hi"}`), "input[0].type", "required", ""},
		"no content":               {items(`{"role":"user"}`), "input[0].content", "required", ""},
		"no role":                  {items(`{"type":"message","content":"x"}`), "input[0].role", "required", ""},
		"unknown part":             {items(userHi + `,{"role":"user","content":[{"type":"hologram"}]}`), "input[1].content[0].type", "unknown", ""},
		"stored picture":           {items(`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`), "input[0].content[0].file_id", "stored files", llm.CodeUnsupported},
		"picture of a file scheme": {items(`{"role":"user","content":[{"type":"input_image","image_url":"file:///etc/passwd"}]}`), "input[0].content[0].image_url", "data URI", ""},
		"stored file":              {items(`{"role":"user","content":[{"type":"input_file","file_id":"f"}]}`), "input[0].content[0].file_id", "reference", llm.CodeUnsupported},
		"file by URL":              {items(`{"role":"user","content":[{"type":"input_file","file_url":"http://10.0.0.1/"}]}`), "input[0].content[0].file_url", "reference", llm.CodeUnsupported},
		"file without data":        {items(`{"role":"user","content":[{"type":"input_file"}]}`), "input[0].content[0].file_data", "required", ""},
		"call without name":        {items(`{"type":"function_call","call_id":"c","arguments":"{}"}`), "input[0].name", "required", ""},
		"custom call without text": {items(`{"type":"custom_tool_call","call_id":"c","name":"e","input":7}`), "input[0].input", "string", ""},
		"result without id":        {items(`{"type":"function_call_output","output":"x"}`), "input[0].call_id", "required", ""},
		"result of unknown part":   {items(callF + `,{"type":"function_call_output","call_id":"c","output":[{"type":"hologram"}]}`), "input[1].output[0].type", "unknown", ""},
		"reference":                {items(`{"type":"item_reference","id":"msg_1"}`), "input[0].id", "not kept", ""},
		"reference without type":   {items(`{"id":"msg_1"}`), "input[0].id", "not kept", ""},
		"too many items":           {items(strings.Repeat(userHi+",", 10_000) + userHi), "input", "more than 10000", ""},
		"instructions is a list":   {asks(`"instructions":[]`), "instructions", "string", ""},
		"previous response":        {asks(`"previous_response_id":"resp_1"`), "previous_response_id", "not found", llm.CodeNotFound},
		"conversation":             {asks(`"conversation":{"id":"conv_1"}`), "conversation", "not found", llm.CodeNotFound},
		"background":               {asks(`"background":true`), "background", "not supported", llm.CodeUnsupported},
		"prompt":                   {asks(`"prompt":{"id":"p"}`), "prompt", "not supported", llm.CodeUnsupported},
		"metadata is a list":       {asks(`"metadata":[]`), "metadata", "object", ""},
		"truncation":               {asks(`"truncation":"some"`), "truncation", "auto or disabled", ""},
		"no room":                  {asks(`"max_output_tokens":0`), "max_output_tokens", "between", ""},
		"include is a string":      {asks(`"include":"reasoning.encrypted_content"`), "include", "list", ""},
		"include of numbers":       {asks(`"include":[1]`), "include[0]", "string", ""},
		"effort":                   {asks(`"reasoning":{"effort":"huge"}`), "reasoning.effort", "must be none", ""},
		"summary":                  {asks(`"reasoning":{"summary":"long"}`), "reasoning.summary", "auto, concise", ""},
		"verbosity":                {asks(`"text":{"verbosity":"chatty"}`), "text.verbosity", "low, medium", ""},
		"format":                   {asks(`"text":{"format":{"type":"xml"}}`), "text.format.type", "json_schema", ""},
		"format without schema":    {asks(`"text":{"format":{"type":"json_schema","name":"x"}}`), "text.format.schema", "schema", ""},
		"tools is an object":       {asks(`"tools":{}`), "tools", "list", ""},
		"tool without type":        {asks(`"tools":[{"name":"f"}]`), "tools[0].type", "required", ""},
		"tool without name":        {asks(`"tools":[` + toolF + `,{"type":"function"}]`), "tools[1].name", "required", ""},
		"custom without name":      {asks(`"tools":[{"type":"custom"}]`), "tools[0].name", "required", ""},
		"custom of unknown format": {asks(`"tools":[{"type":"custom","name":"e","format":{"type":"xml"}}]`), "tools[0].format.type", "grammar", ""},
		"grammar without text":     {asks(`"tools":[{"type":"custom","name":"e","format":{"type":"grammar"}}]`), "tools[0].format.definition", "required", ""},
		"namespace without name":   {asks(`"tools":[{"type":"namespace","tools":[]}]`), "tools[0].name", "required", ""},
		"namespace without tools":  {asks(`"tools":[{"type":"namespace","name":"n"}]`), "tools[0].tools", "list", ""},
		"tool of a namespace":      {asks(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]`), "tools[0].tools[0].name", "required", ""},
		"too many tools":           {asks(`"tools":[{"type":"namespace","name":"n","tools":[` + manyTools(512) + `]}]`), "tools", "more than 512", ""},
		"too many hosted tools":    {asks(`"tools":[` + strings.Repeat(toolWeb+",", 512) + toolWeb + `]`), "tools", "more than 512", ""},
		"choice without tools":     {asks(`"tool_choice":"required"`), "tool_choice", "needs tools", ""},
		"choice of unknown tool":   {asks(`"tools":[` + toolF + `],"tool_choice":{"type":"function","name":"g"}`), "tool_choice.name", "not declared", ""},
		"choice of hosted tool":    {asks(`"tools":[` + toolF + `,` + toolWeb + `],"tool_choice":{"type":"web_search"}`), "tool_choice.type", "runs at the server", llm.CodeUnsupported},
		"only hosted, required":    {asks(`"tools":[` + toolWeb + `],"tool_choice":"required"`), "tool_choice", "runs at the server", llm.CodeUnsupported},
		"allowed: unknown":         {asks(`"tools":[` + toolF + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}`), "tool_choice.tools[0].name", "not declared", ""},
		"allowed: none":            {asks(`"tools":[` + toolF + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}`), "tool_choice.tools", "empty", ""},
		"allowed: hosted, forced":  {asks(`"tools":[` + toolF + `],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"}]}`), "tool_choice.tools", "at the server", llm.CodeUnsupported},
		"additional tools":         {items(userHi + `,{"type":"additional_tools","tools":[{"type":"function"}]}`), "input[1].tools[0].name", "required", ""},
	} {
		_, _, err := openai.Responses{}.DecodeChat([]byte(c.body))
		e := llm.AsError(err)
		want := c.code
		if want == "" {
			want = llm.CodeInvalidRequest
		}
		if e == nil || e.Param != c.param || !strings.Contains(e.Message, c.message) || e.Code != want {
			t.Errorf("%s: %v of %+v, want %q of %s (%s)", name, err, e, c.message, c.param, want)
		}
	}
}

func manyTools(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"type":"function","name":"f%d"}`, i))
	}
	return strings.Join(list, ",")
}

// offered prints the tools of a request.
func offered(r *llm.Request) string {
	var out []string
	for _, tool := range r.Tools {
		s := tool.Name
		if tool.Kind != "" {
			s += ":" + string(tool.Kind)
		}
		if tool.Namespace != "" {
			s += "=" + tool.Namespace + "." + tool.Member
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestResponsesTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ members, tools, choice, notes string }{
		"function":              {`"tools":[` + toolF + `],"tool_choice":"auto"`, "f", `{"Mode":"auto","Name":"","Allowed":null}`, ""},
		"nested as in chats":    {`"tools":[{"type":"function","function":{"name":"f"}}]`, "f", `{"Mode":"","Name":"","Allowed":null}`, ""},
		"custom":                {`"tools":[` + toolEdit + `],"tool_choice":{"type":"custom","name":"edit"}`, "edit:custom", `{"Mode":"named","Name":"edit","Allowed":null}`, ""},
		"namespace":             {`"tools":[` + toolNS + `]`, "crm__find=crm.find crm__note:custom=crm.note", `{"Mode":"","Name":"","Allowed":null}`, ""},
		"namespace with dots":   {`"tools":[{"type":"namespace","name":"a.b","tools":[{"name":"c.d"}]}]`, "a__b__c__d=a.b.c.d", `{"Mode":"","Name":"","Allowed":null}`, ""},
		"hosted":                {`"tools":[` + toolWeb + `,` + toolF + `,{"type":"local_shell"}],"tool_choice":"auto"`, "f", `{"Mode":"auto","Name":"","Allowed":null}`, "tools[0]=dropped:web_search, tools[2]=dropped:local_shell"},
		"only hosted":           {`"tools":[` + toolWeb + `],"tool_choice":"auto"`, "", `{"Mode":"","Name":"","Allowed":null}`, "tools[0]=dropped:web_search"},
		"declared twice":        {`"tools":[` + toolF + `,` + toolF + `]`, "f", `{"Mode":"","Name":"","Allowed":null}`, ""},
		"name of a member":      {`"tools":[` + toolNS + `,{"type":"function","name":"crm__find"}]`, "crm__find_2=crm.find crm__note:custom=crm.note crm__find", `{"Mode":"","Name":"","Allowed":null}`, ""},
		"name is taken":         {`"tools":[{"type":"function","name":"crm__find"},` + toolNS + `]`, "crm__find crm__find_2=crm.find crm__note:custom=crm.note", `{"Mode":"","Name":"","Allowed":null}`, ""},
		"choice in a namespace": {`"tools":[` + toolNS + `],"tool_choice":{"type":"function","namespace":"crm","name":"find"}`, "crm__find=crm.find crm__note:custom=crm.note", `{"Mode":"named","Name":"crm__find","Allowed":null}`, ""},
		"choice of a member":    {`"tools":[` + toolNS + `],"tool_choice":{"type":"custom","name":"note"}`, "crm__find=crm.find crm__note:custom=crm.note", `{"Mode":"named","Name":"crm__note","Allowed":null}`, ""},
		"allowed": {
			`"tools":[` + toolF + `,` + toolEdit + `,` + toolNS + `],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"edit"},{"type":"namespace","name":"crm"},{"type":"mcp"}]}`,
			"f edit:custom crm__find=crm.find crm__note:custom=crm.note", `{"Mode":"required","Name":"","Allowed":["edit","crm__find","crm__note"]}`, "",
		},
		"allowed: hosted only": {`"tools":[` + toolF + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}`, "f", `{"Mode":"none","Name":"","Allowed":null}`, ""},
		"long names": {
			`"tools":[{"type":"namespace","name":"` + strings.Repeat("n", 60) + `","tools":[{"name":"aaaaaaaa"},{"name":"aaaaaaab"}]}]`,
			strings.Repeat("n", 60) + "___2=" + strings.Repeat("n", 60) + ".aaaaaaaa " + strings.Repeat("n", 60) + "___3=" + strings.Repeat("n", 60) + ".aaaaaaab", `{"Mode":"","Name":"","Allowed":null}`, "",
		},
	} {
		r, notes := decodeResponses(t, openai.Responses{}, asks(c.members))
		if offered(r) != c.tools || compact(t, r.ToolChoice) != c.choice || words(notes) != c.notes {
			t.Errorf("%s:\n got %s, %s, %s\nwant %s, %s, %s", name, offered(r), compact(t, r.ToolChoice), words(notes), c.tools, c.choice, c.notes)
		}
	}
	r, _ := decodeResponses(t, openai.Responses{}, asks(`"tools":[`+toolF+`,`+toolEdit+`]`))
	f, edit := r.Tools[0], r.Tools[1]
	if f.Description != "Does f." || string(f.Schema) != `{"type":"object","properties":{"a":{"type":"integer"}}}` || !*f.Strict {
		t.Errorf("function: %+v", f)
	}
	if !strings.HasPrefix(edit.Description, "Edits.\n\n") || !strings.HasSuffix(edit.Description, "(lark):\nstart: \"x\"") || !strings.Contains(string(edit.Schema), `"required":["input"]`) {
		t.Errorf("custom: %+v, %s", edit, edit.Schema)
	}
}

func TestResponsesToolsFromTheInput(t *testing.T) {
	t.Parallel()
	r, notes := decodeResponses(t, openai.Responses{}, `{"model":"m","tools":[`+toolF+`,{"type":"tool_search"}],"tool_choice":{"type":"function","name":"late"},"input":[`+userHi+
		`,{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"late"},`+toolF+`]},{"type":"tool_search_output","tools":[`+toolNS+`]}]}`)
	if got := offered(r); got != "f late crm__find=crm.find crm__note:custom=crm.note" || r.ToolChoice.Name != "late" || words(notes) != "tools[1]=dropped:tool_search" {
		t.Errorf("%s, %+v, %s", got, r.ToolChoice, words(notes))
	}
}

func TestResponsesOptions(t *testing.T) {
	t.Parallel()
	r, notes := decodeResponses(t, openai.Responses{}, asks(`"max_output_tokens":9,"temperature":0,"top_p":0.5,"top_logprobs":3,"stream":true,"stream_options":{"include_obfuscation":false},
		"parallel_tool_calls":false,"reasoning":{"effort":"xhigh","summary":"auto","context":"x"},"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}},
		"include":["reasoning.encrypted_content","message.output_text.logprobs","file_search_call.results"],"truncation":"auto","metadata":{"a":"b"},"prompt_cache_key":"k",
		"safety_identifier":"s","user":"u","service_tier":"flex","client_metadata":{"x":"y"},"max_tool_calls":3,"context_management":[],"store":true,"background":false,"previous_response_id":null`))
	if *r.MaxTokens != 9 || *r.Sampling.Temperature != 0 || *r.Sampling.TopP != 0.5 || *r.TopLogprobs != 3 || !*r.Logprobs || !r.Stream || *r.ParallelTools {
		t.Errorf("%+v", r)
	}
	if r.Thinking.Mode != llm.ThinkingOn || r.Thinking.Effort != llm.EffortXHigh || r.Format.Kind != llm.FormatSchema || r.Format.Name != "n" || !*r.Format.Strict {
		t.Errorf("thinking %+v, format %+v", r.Thinking, r.Format)
	}
	if r.CacheKey != "k" || r.EndUser != "s" || r.Origin != llm.DialectOpenAI || r.Extra != nil {
		t.Errorf("%+v", r)
	}
	if got := words(notes); got != "text.verbosity=dropped, reasoning.context=dropped, truncation=dropped, context_management=dropped" {
		t.Errorf("notes %s", got)
	}
	for members, want := range map[string]string{
		`"reasoning":{"effort":"none"}`: "off ", `"reasoning":{"effort":"minimal"}`: "on minimal", `"reasoning":{"summary":"auto"}`: " ", ``: " ",
	} {
		r, _ := decodeResponses(t, openai.Responses{}, asks(members))
		if got := string(r.Thinking.Mode) + " " + string(r.Thinking.Effort); got != want || r.Thinking.Hidden {
			t.Errorf("%s: %q, want %q", members, got, want)
		}
	}
	r, _ = decodeResponses(t, openai.Responses{}, asks(`"top_logprobs":0,"text":{"format":{"type":"json_object"}}`))
	if r.TopLogprobs != nil || r.Logprobs != nil || r.Format.Kind != llm.FormatJSON {
		t.Errorf("%+v", r)
	}
}

// codexRequest is shaped like what a coding agent sends; the words are ours.
const codexRequest = `{"model":"coder","instructions":"You are a coding agent. Work in small steps.","input":[
	{"type":"message","role":"developer","content":[{"type":"input_text","text":"The sandbox is read-only."}]},
	{"type":"message","role":"user","content":[{"type":"input_text","text":"<cwd>/work</cwd>"}]},
	{"type":"message","role":"user","content":[{"type":"input_text","text":"Rename the file."}]},
	{"type":"reasoning","summary":[{"type":"summary_text","text":"I look first."}],"content":null,"encrypted_content":"SEALED"},
	{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"call_1"},
	{"type":"function_call_output","call_id":"call_1","output":"a.txt\n"},
	{"type":"custom_tool_call","status":"completed","call_id":"call_2","name":"apply_patch","input":"*** Begin Patch\n*** End Patch"},
	{"type":"custom_tool_call_output","call_id":"call_2","output":"Done."},
	{"type":"function_call","namespace":"mcp__git","name":"log","arguments":"{}","call_id":"call_3"},
	{"type":"function_call_output","call_id":"call_3","output":[{"type":"input_text","text":"one commit"}]}],
	"tools":[{"type":"function","name":"shell","description":"Runs a command.","strict":false,"parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}},"required":["command"]}},
	{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: begin end"}},
	{"type":"web_search","external_web_access":false},{"type":"local_shell"},
	{"type":"namespace","name":"mcp__git","description":"Git.","tools":[{"type":"function","name":"log","description":"Shows the log.","strict":false,"parameters":{"type":"object","properties":{}}}]}],
	"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,
	"include":["reasoning.encrypted_content"],"prompt_cache_key":"0192-conversation","text":{"verbosity":"medium"},"client_metadata":{"session":"x"}}`

// sealing is a codec whose seals are readable.
func sealing() openai.Responses {
	return openai.Responses{
		Seal: func(plain []byte) (string, bool) { return "gw1." + base64.RawURLEncoding.EncodeToString(plain), true },
		Open: func(sealed string) ([]byte, bool) {
			rest, ours := strings.CutPrefix(sealed, "gw1.")
			plain, err := base64.RawURLEncoding.DecodeString(rest)
			return plain, ours && err == nil
		},
	}
}

func TestAgentsRequestReachesEveryBackend(t *testing.T) {
	t.Parallel()
	sealed := "gw1." + base64.RawURLEncoding.EncodeToString([]byte(`{"model":"coder","text":"I list the files."}`))
	r, notes := decodeResponses(t, sealing(), strings.Replace(codexRequest, "SEALED", sealed, 1))
	if got := words(notes); got != "tools[2]=dropped:web_search, tools[3]=dropped:local_shell" {
		t.Errorf("notes %s", got)
	}
	body, notes, err := openai.EncodeChat(r, openai.CallOptions{Model: llm.Model{Name: "up", Thinking: llm.ProfileEffort}, Engine: openai.EngineVLLM})
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	var out struct {
		Messages json.RawMessage `json:"messages"`
		Tools    []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Choice   string `json:"tool_choice"`
		Parallel bool   `json:"parallel_tool_calls"`
		Effort   string `json:"reasoning_effort"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	const want = `[{"role":"system","content":"You are a coding agent. Work in small steps.\n\nThe sandbox is read-only."},` +
		`{"role":"user","content":"<cwd>/work</cwd>"},{"role":"user","content":"Rename the file."},` +
		`{"role":"assistant","content":null,"reasoning_content":"I list the files.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"shell","arguments":"{\"command\":[\"ls\"]}"}}]},` +
		`{"role":"tool","content":"a.txt\n","tool_call_id":"call_1"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_2","type":"function","function":{"name":"apply_patch","arguments":"{\"input\":\"*** Begin Patch\\n*** End Patch\"}"}}]},` +
		`{"role":"tool","content":"Done.","tool_call_id":"call_2"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_3","type":"function","function":{"name":"mcp__git__log","arguments":"{}"}}]},` +
		`{"role":"tool","content":"one commit","tool_call_id":"call_3"}]`
	if got := strings.ReplaceAll(string(out.Messages), `"reasoning":`, `"reasoning_content":`); got != want {
		t.Errorf("messages\n got %s\nwant %s", got, want)
	}
	var tools []string
	for _, tool := range out.Tools {
		tools = append(tools, tool.Type+":"+tool.Function.Name)
	}
	if strings.Join(tools, " ") != "function:shell function:apply_patch function:mcp__git__log" || out.Choice != "auto" || !out.Parallel || out.Effort != "medium" {
		t.Errorf("tools %v, %+v", tools, out)
	}
	if !strings.Contains(out.Tools[1].Function.Description, "start: begin end") || !strings.Contains(string(out.Tools[1].Function.Parameters), `"input"`) {
		t.Errorf("custom tool %+v", out.Tools[1])
	}
	for _, private := range []string{"echo", "Echo", "namespace", "include", "client_metadata", "prompt_cache_key", "SEALED"} {
		if strings.Contains(string(body), `"`+private+`"`) {
			t.Errorf("%s leaks to the backend", private)
		}
	}
	native, _, err := ollama.EncodeChat(r, ollama.CallOptions{Model: llm.Model{Name: "up"}})
	if err != nil || !strings.Contains(string(native), `"name":"apply_patch","arguments":{"input":"*** Begin Patch\n*** End Patch"}`) {
		t.Errorf("ollama: %v, %s", err, native)
	}
}

func TestForeignReasoningIsNotOpened(t *testing.T) {
	t.Parallel()
	for sealed, want := range map[string]string{
		"gAAAAABforeign": "assistant(a) user(hi)",
		"gw1.!!!":        "assistant(a) user(hi)",
		"gw1." + base64.RawURLEncoding.EncodeToString([]byte("not JSON")):                       "assistant(a) user(hi)",
		"gw1." + base64.RawURLEncoding.EncodeToString([]byte(`{"model":"m","text":"thought"}`)): "assistant(thinking:thought a) user(hi)",
	} {
		r, _ := decodeResponses(t, sealing(), items(`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"`+sealed+`"},`+saysA+","+userHi))
		if got := told(r.Messages); got != want {
			t.Errorf("%s: %s, want %s", sealed, got, want)
		}
	}
}

func TestResponsesContinueWhatIsStored(t *testing.T) {
	t.Parallel()
	c := openai.Responses{
		Previous: func(id string) ([]json.RawMessage, error) {
			switch id {
			case "resp_1":
				return []json.RawMessage{[]byte(`{"type":"message","id":"msg_1","role":"user","content":"go"}`), []byte(thinksT), []byte(callF)}, nil
			case "broken":
				return nil, errors.New("disk")
			default:
				return nil, llm.Errorf(llm.CodeNotFound, "no such response")
			}
		},
		Item: func(id string) (json.RawMessage, error) {
			if id == "far" {
				return json.RawMessage(saysA), nil
			}
			return nil, llm.Errorf(llm.CodeNotFound, "no such item")
		},
	}
	body := func(id, list string) string {
		return `{"model":"m","instructions":"s","previous_response_id":"` + id + `","input":[` + list + `]}`
	}
	r, _ := decodeResponses(t, c, body("resp_1", outputF+","+userHi))
	if got := told(r.Messages); got != `system(s) user(go) assistant(thinking:t call:c:f:{"a":1}) tool(result:c:f[1]) user(hi)` {
		t.Errorf("continued: %s", got)
	}
	r, _ = decodeResponses(t, c, body("resp_1", `{"type":"item_reference","id":"far"},`+userHi))
	if got := told(r.Messages); !strings.HasSuffix(got, `call:c:f:{"a":1} a) user(hi)`) {
		t.Errorf("referenced: %s", got)
	}
	for name, w := range map[string]struct {
		body, param string
		code        llm.Code
	}{
		"unknown response": {body("resp_2", userHi), "previous_response_id", llm.CodeNotFound},
		"broken store":     {body("broken", userHi), "", llm.CodeInternal},
		"unknown item":     {body("resp_1", `{"type":"item_reference","id":"x"}`), "input[0].id", llm.CodeNotFound},
		"item named twice": {body("resp_1", `{"id":"far"},{"id":"far"}`), "input[1].id", llm.CodeInvalidRequest},
	} {
		_, _, err := c.DecodeChat([]byte(w.body))
		if e := llm.AsError(err); e == nil || e.Code != w.code || e.Param != w.param {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInputTokens(t *testing.T) {
	t.Parallel()
	r, notes, err := openai.Responses{}.DecodeInputTokens([]byte(`{"model":"m","instructions":"s","input":"hi","tools":[` + toolF + `],"personality":"friendly","truncation":"auto","stream":true,"text":{"format":{"type":"text"}}}`))
	if err != nil || told(r.Messages) != "system(s) user(hi)" || offered(r) != "f" || r.Stream || len(notes) > 0 {
		t.Errorf("%+v, %v, %v", r, notes, err)
	}
	if got := string(openai.EncodeInputTokens(26)); got != `{"object":"response.input_tokens","input_tokens":26}`+"\n" {
		t.Error(got)
	}
	if _, _, err := (openai.Responses{}).DecodeInputTokens([]byte(`{"input":"hi"}`)); llm.AsError(err) == nil || llm.AsError(err).Param != "model" {
		t.Error(err)
	}
}

func FuzzDecodeResponses(f *testing.F) {
	for _, body := range []string{
		codexRequest, asks(`"tools":[` + toolF + `,` + toolEdit + `,` + toolNS + `],"tool_choice":{"type":"allowed_tools","tools":[{"type":"namespace","name":"crm"}]}`),
		items(callF + "," + userHi + "," + outputF + "," + outputG + "," + thinksT), items(`{"id":"x"},{"type":"additional_tools","tools":[` + toolNS + `]}`),
	} {
		f.Add([]byte(body))
	}
	c := sealing()
	c.Keep = func(openai.Record) error { return nil }
	c.Previous = func(id string) ([]json.RawMessage, error) { return []json.RawMessage{json.RawMessage(callF)}, nil }
	f.Fuzz(func(t *testing.T, body []byte) {
		r, notes, err := c.DecodeChat(body)
		if err != nil {
			if llm.AsError(err) == nil {
				t.Fatalf("%v is not classified", err)
			}
			return
		}
		names := map[string]bool{}
		for _, tool := range r.Tools {
			if tool.Namespace != "" && names[tool.Name] {
				t.Fatalf("two tools are called %q", tool.Name)
			}
			names[tool.Name] = true
		}
		for _, n := range notes {
			if strings.ContainsAny(n.String(), ",\n") {
				t.Fatalf("the note %q cannot stand in a header", n)
			}
		}
		if _, _, err := openai.EncodeChat(r, openai.CallOptions{Model: llm.Model{Name: "m"}, Engine: openai.EngineVLLM}); err != nil && llm.AsError(err) == nil {
			t.Fatalf("%v is not classified", err)
		}
		received(t, c, r, llm.Events(spoken(r)))
	})
}

// spoken is an answer that uses every tool of r.
func spoken(r *llm.Request) *llm.Response {
	blocks := []llm.Block{{Kind: llm.BlockThinking, Text: "t"}, llm.TextBlock("a")}
	for i, tool := range r.Tools {
		call := &llm.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: tool.Name, Arguments: json.RawMessage(`{"input":"x"}`)}
		blocks = append(blocks, llm.Block{Kind: llm.BlockToolCall, ToolCall: call})
	}
	return response(llm.StopToolUse, blocks...)
}
