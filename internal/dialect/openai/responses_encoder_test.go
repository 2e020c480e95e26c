package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/dialect/openai/responsestest"
	"mindrouter/internal/llm"
)

// fataler is what the helpers need of a test.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func responsesReply(r *llm.Request, stream bool) dialect.Reply {
	asked := *r
	asked.Stream = stream
	return dialect.Reply{RequestID: "0192-aa", Model: "alias", Created: time.Unix(7, 0), Request: &asked}
}

// streamedResponse encodes a stream for a client that asked with r and returns the bytes.
func streamedResponse(t fataler, c openai.Responses, r *llm.Request, s llm.Stream) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := c.NewEncoder(&out, responsesReply(r, true))
	for ev, err := range s {
		if err != nil {
			e := llm.AsError(err)
			if e == nil {
				t.Fatalf("%v is not classified", err)
			}
			if err := enc.EncodeError(e); err != nil {
				t.Fatalf("%v", err)
			}
			return out.Bytes()
		}
		if err := enc.Encode(ev); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatalf("%v", err)
	}
	return out.Bytes()
}

// received encodes a stream and returns what a client sees of it.
func received(t fataler, c openai.Responses, r *llm.Request, s llm.Stream) *responsestest.Response {
	t.Helper()
	raw := streamedResponse(t, c, r, s)
	got, err := responsestest.CheckStream(raw)
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	return got
}

// wholeResponse encodes an answer whole and returns what a client sees of it.
func wholeResponse(t fataler, c openai.Responses, r *llm.Request, resp *llm.Response) *responsestest.Response {
	t.Helper()
	var out bytes.Buffer
	if err := c.NewEncoder(&out, responsesReply(r, false)).EncodeResponse(resp); err != nil {
		t.Fatalf("%v", err)
	}
	got, err := responsestest.Read(out.Bytes())
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.Bytes())
	}
	return got
}

// seenResponse prints what a client sees.
func seenResponse(r *responsestest.Response) string {
	var parts []string
	for _, it := range r.Output {
		var s string
		switch it.Type {
		case "message", "reasoning":
			s = it.Type
			for _, p := range it.Content {
				s += ":" + p.Text
				if p.Refusal != "" {
					s += "refused " + p.Refusal
				}
			}
			for _, p := range it.Summary {
				s += "/" + p.Text
			}
		case "function_call":
			s = it.CallID + ":" + it.Namespace + ":" + it.Name + ":" + it.Arguments
		case "custom_tool_call":
			s = it.CallID + ":" + it.Namespace + ":" + it.Name + "<" + it.Input + ">"
		}
		if it.Status != "completed" {
			s += " " + it.Status
		}
		parts = append(parts, s)
	}
	status := r.Status
	if r.Incomplete != nil {
		status += " " + r.Incomplete.Reason
	}
	if r.Error != nil {
		status += " " + r.Error.Code + ": " + r.Error.Message
	}
	parts = append(parts, status)
	if r.Usage != nil {
		parts = append(parts, fmt.Sprintf("%d(%d)/%d(%d)", r.Usage.Input, *r.Usage.Details.Cached, r.Usage.Output, *r.Usage.OutputDetails.Reasoning))
	}
	return strings.Join(parts, " | ")
}

func thought(text string) llm.Block { return llm.Block{Kind: llm.BlockThinking, Text: text} }

func called(id, name, arguments string) llm.Block {
	c := &llm.ToolCall{ID: id, Name: name}
	if arguments != "" {
		c.Arguments = json.RawMessage(arguments)
	}
	return llm.Block{Kind: llm.BlockToolCall, ToolCall: c}
}

// armed is a request with tools of every kind.
func armed(t *testing.T, members string) *llm.Request {
	t.Helper()
	if members != "" {
		members = "," + members
	}
	r, _ := decodeResponses(t, sealing(), asks(`"tools":[`+toolF+`,`+toolEdit+`,`+toolNS+`]`+members))
	return r
}

func TestResponsesAnswers(t *testing.T) {
	t.Parallel()
	const counts = " | 9(4)/2(1)"
	summary := armed(t, `"reasoning":{"summary":"auto"}`)
	for name, c := range map[string]struct {
		r    *llm.Request
		resp *llm.Response
		want string
	}{
		"text":                   {nil, response(llm.StopEnd, llm.TextBlock("a\u2028\"<")), "message:a\u2028\"< | completed"},
		"nothing":                {nil, response(llm.StopEnd), "completed"},
		"empty text":             {nil, response(llm.StopEnd, llm.TextBlock("")), "message: | completed"},
		"reasoning":              {nil, response(llm.StopEnd, thought("t"), llm.TextBlock("a")), "reasoning:t | message:a | completed"},
		"reasoning, summary":     {summary, response(llm.StopEnd, thought("t"), llm.TextBlock("a")), "reasoning:t/t | message:a | completed"},
		"empty reasoning":        {summary, response(llm.StopEnd, thought(""), llm.TextBlock("a")), "reasoning | message:a | completed"},
		"call":                   {nil, response(llm.StopToolUse, called("c", "f", `{"a":"<b>"}`)), `c::f:{"a":"<b>"} | completed`},
		"call without arguments": {nil, response(llm.StopToolUse, called("c", "f", "")), "c::f:{} | completed"},
		"unknown function":       {nil, response(llm.StopToolUse, called("c", "zzz", "{}")), "c::zzz:{} | completed"},
		"two calls":              {nil, response(llm.StopToolUse, called("c", "f", "{}"), called("d", "f", "{}")), "c::f:{} | d::f:{} | completed"},
		"namespace":              {nil, response(llm.StopToolUse, called("c", "crm__find", "{}"), called("d", "crm__note", `{"input":"x"}`)), "c:crm:find:{} | d:crm:note<x> | completed"},
		"namespace with a dot":   {nil, response(llm.StopToolUse, called("c", "crm.find", "{}")), "c:crm:find:{} | completed"},
		"custom call":            {nil, response(llm.StopToolUse, called("c", "edit", `{"input":"*** Begin\n\"x\" \u00e9\ud83d\ude00\\"}`)), "c::edit<*** Begin\n\"x\" é😀\\> | completed"},
		"custom without input":   {nil, response(llm.StopToolUse, called("c", "edit", ``)), "c::edit<> | completed"},
		"custom under a key":     {nil, response(llm.StopToolUse, called("c", "edit", `{"patch":"p"}`)), "c::edit<p> | completed"},
		"custom as plain text":   {nil, response(llm.StopToolUse, called("c", "edit", " *** Begin")), "c::edit< *** Begin> | completed"},
		"reasoning between":      {nil, response(llm.StopToolUse, thought("a"), called("c", "f", "{}"), thought("b"), llm.TextBlock("d")), "reasoning:a | c::f:{} | reasoning:b | message:d | completed"},
		"refusal":                {nil, response(llm.StopRefusal, llm.Block{Kind: llm.BlockRefusal, Text: "no"}), "message:refused no | completed"},
		"filter":                 {nil, response(llm.StopRefusal, llm.TextBlock("a")), "message:a | incomplete content_filter"},
		"length":                 {nil, response(llm.StopMaxTokens, llm.TextBlock("a")), "message:a | incomplete max_output_tokens"},
		"context":                {nil, response(llm.StopContextFull), "incomplete max_output_tokens"},
		"length within a call":   {nil, response(llm.StopMaxTokens, called("c", "f", `{"a`)), `c::f:{"a incomplete | incomplete max_output_tokens`},
		"length within a custom": {nil, response(llm.StopMaxTokens, called("c", "edit", `{"input":"ab\u00`)), "c::edit<ab> incomplete | incomplete max_output_tokens"},
		"call that is no JSON":   {nil, response(llm.StopToolUse, called("c", "f", `{x: 1}`)), "c::f:{x: 1} incomplete | completed"},
		"stop sequence":          {nil, response(llm.StopSequence, llm.TextBlock("a")), "message:a | completed"},
	} {
		r := c.r
		if r == nil {
			r = armed(t, "")
		}
		streamed := received(t, openai.Responses{}, r, llm.Events(c.resp))
		if got := seenResponse(streamed); got != c.want+counts {
			t.Errorf("%s\n got %s\nwant %s", name, got, c.want+counts)
		}
		// The stream ends with the very bytes that a whole answer has.
		if whole := wholeResponse(t, openai.Responses{}, r, c.resp); !bytes.Equal(whole.Raw, streamed.Raw) {
			t.Errorf("%s\n whole %s\nstream %s", name, whole.Raw, streamed.Raw)
		}
	}
}

func TestStreamedAndWholeResponsesAgree(t *testing.T) {
	t.Parallel()
	r := armed(t, `"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"]`)
	kinds := []llm.BlockKind{llm.BlockText, llm.BlockThinking, llm.BlockRefusal, llm.BlockToolCall}
	names := []string{"f", "edit", "crm__find", "crm__note", "other"}
	arguments := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		`{"input":"a\nb"}`, `{"a":1}`, `{"input":{"x":[1,"}"]},"b":2}`, `{"b":"\"input\":","input":"x\ud83d\ude00"}`, `"text"`, `{"input":null}`,
	}))
	rapid.Check(t, func(rt *rapid.T) {
		resp := response(rapid.SampledFrom([]llm.StopReason{llm.StopEnd, llm.StopToolUse, llm.StopMaxTokens, llm.StopRefusal}).Draw(rt, "reason"))
		for i := range rapid.IntRange(0, 4).Draw(rt, "blocks") {
			b := llm.Block{Kind: rapid.SampledFrom(kinds).Draw(rt, "kind")}
			if b.Kind == llm.BlockToolCall {
				b = called(fmt.Sprintf("call_%d", i), rapid.SampledFrom(names).Draw(rt, "name"), arguments.Draw(rt, "arguments"))
			} else {
				b.Text = rapid.String().Draw(rt, "text")
			}
			resp.Choices[0].Blocks = append(resp.Choices[0].Blocks, b)
		}
		// However the text is cut, the client sees the same.
		size := rapid.IntRange(1, 9).Draw(rt, "size")
		streamed := received(rt, sealing(), r, shredded(llm.Events(resp), size))
		whole := wholeResponse(rt, sealing(), r, resp)
		if !bytes.Equal(whole.Raw, streamed.Raw) {
			rt.Fatalf("whole %s\nstream %s", whole.Raw, streamed.Raw)
		}
	})
}

// shredded cuts every delta into pieces of at most size runes.
func shredded(s llm.Stream, size int) llm.Stream {
	return func(yield func(llm.Event, error) bool) {
		for ev, err := range s {
			for runes := []rune(ev.Text); ev.Kind == llm.EventDelta && len(runes) > size; runes = runes[size:] {
				piece := ev
				piece.Text = string(runes[:size])
				if !yield(piece, nil) {
					return
				}
				ev.Text = string(runes[size:])
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func TestFreeformInputStreams(t *testing.T) {
	t.Parallel()
	r := armed(t, "")
	resp := response(llm.StopToolUse, called("c", "edit", `{ "input" : "one\ntwo\u00e9\ud83d\ude00" }`))
	raw := string(streamedResponse(t, openai.Responses{}, r, shredded(llm.Events(resp), 1)))
	var deltas []string
	for line := range strings.SplitSeq(raw, "\n") {
		if _, rest, ok := strings.Cut(line, `"delta":`); ok {
			s, _ := dialect.Unquote([]byte(strings.TrimSuffix(rest, "}")))
			deltas = append(deltas, s)
		}
	}
	if got := strings.Join(deltas, "|"); got != "o|n|e|\n|t|w|o|é|😀" {
		t.Errorf("deltas %q", got)
	}
}

func TestFreeformInputSurvivesTheTrip(t *testing.T) {
	t.Parallel()
	r := armed(t, "")
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		arguments, err := json.Marshal(map[string]string{"input": text})
		if rapid.Bool().Draw(rt, "ascii") { // as servers that write nothing but ASCII
			arguments = []byte(escaped(string(arguments)))
		}
		if err != nil {
			rt.Fatal(err)
		}
		resp := response(llm.StopToolUse, called("c", "edit", string(arguments)))
		got := received(rt, openai.Responses{}, r, shredded(llm.Events(resp), rapid.IntRange(1, 9).Draw(rt, "size"))).Output[0]
		if got.Input != text || got.Status != "completed" {
			rt.Fatalf("%q of %s, want %q", got.Input, arguments, text)
		}
	})
}

// escaped writes everything but ASCII as UTF-16 escapes.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

func TestFreeformInputIsReadLeniently(t *testing.T) {
	t.Parallel()
	r := armed(t, "")
	for arguments, want := range map[string]string{
		`{"input":"a"}`:                       "a",
		` { "input" : "a" , "b" : 1 } `:       "a",
		`{"b":"x","input":"a"}`:               "a",
		`{"b":{"input":"x"},"input":"a"}`:     "a",
		`{"b":["input",":","}"],"input":""}`:  "",
		`{"b":"\"input\":\"x\"","input":"a"}`: "a",
		`{"input":"a","input":"b"}`:           "a",
		`{"\u0069nput":"a"}`:                  "a",
		`{"input":"\d\x\q"}`:                  `\d\x\q`,
		`{"input":"\u12"}`:                    `\u12`,
		`{"input":"\ud83d"}`:                  "\ufffd",
		`{"input":"\ud83dx\ude00"}`:           "\ufffdx\ufffd",
		"{\"input\":\"a\nb\"}":                "a\nb",
		`{"input":{"a":[1,2]}}`:               `{"a":[1,2]}`,
		`{"input":["a}","b"],"c":1}`:          `["a}","b"]`,
		`{"input":12.5}`:                      "12.5",
		`{"input":null}`:                      "",
		`{}`:                                  "",
		`{"patch":"a"}`:                       "a",
		`{"a":"x","b":"y"}`:                   `{"a":"x","b":"y"}`,
		`"a\nb"`:                              "a\nb",
		`*** Begin "x"`:                       `*** Begin "x"`,
		`[1]`:                                 `[1]`,
	} {
		got := wholeResponse(t, openai.Responses{}, r, response(llm.StopToolUse, called("c", "edit", arguments))).Output[0]
		if got.Input != want || got.Status != "completed" {
			t.Errorf("%s: %q %s, want %q", arguments, got.Input, got.Status, want)
		}
	}
	for _, cut := range []string{`{`, `{"input`, `{"input":`, `{"input":"a`, `{"input":"a\`, `{"input":{"a":1`, `{"b":1`} {
		got := wholeResponse(t, openai.Responses{}, r, response(llm.StopMaxTokens, called("c", "edit", cut))).Output[0]
		if got.Status != "incomplete" {
			t.Errorf("%s: %q %s", cut, got.Input, got.Status)
		}
	}
}

func TestResponsesStreamByteForByte(t *testing.T) {
	t.Parallel()
	r, _ := decodeResponses(t, openai.Responses{}, asks(""))
	resp := response(llm.StopToolUse, llm.TextBlock("Blue"), called("c", "f", "{}"))
	object := func(status, output, usage string) string {
		return `"response":{"id":"resp_0192aa","object":"response","created_at":7,"status":"` + status + `","background":false,"error":null,"incomplete_details":null,` +
			`"instructions":null,"max_output_tokens":null,"metadata":{},"previous_response_id":null,"prompt_cache_key":null,"safety_identifier":null,"store":false,` +
			`"temperature":null,"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":null,"model":"alias","parallel_tool_calls":true,` +
			`"reasoning":{"effort":null,"summary":null},"text":{"format":{"type":"text"}},"service_tier":"default","truncation":"disabled","max_tool_calls":null,` +
			`"output":[` + output + `],"usage":` + usage + `}`
	}
	const (
		message = `{"id":"msg_0192aa_0","type":"message","role":"assistant","content":[{"type":"output_text","text":"Blue","annotations":[],"logprobs":[]}],"status":"completed"}`
		call    = `{"id":"fc_0192aa_1","type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"completed"}`
		text    = `"item_id":"msg_0192aa_0","output_index":0,"content_index":0,`
		args    = `"item_id":"fc_0192aa_1","output_index":1,`
		usage   = `{"input_tokens":9,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":11}`
	)
	var want strings.Builder
	for i, ev := range [][2]string{
		{"created", object("in_progress", "", "null")},
		{"in_progress", object("in_progress", "", "null")},
		{"output_item.added", `"output_index":0,"item":{"id":"msg_0192aa_0","type":"message","role":"assistant","content":[],"status":"in_progress"}`},
		{"content_part.added", text + `"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}`},
		{"output_text.delta", text + `"delta":"Blue","logprobs":[]`},
		{"output_text.done", text + `"text":"Blue","logprobs":[]`},
		{"content_part.done", text + `"part":{"type":"output_text","text":"Blue","annotations":[],"logprobs":[]}`},
		{"output_item.done", `"output_index":0,"item":` + message},
		{"output_item.added", `"output_index":1,"item":{"id":"fc_0192aa_1","type":"function_call","call_id":"c","name":"f","arguments":"","status":"in_progress"}`},
		{"function_call_arguments.delta", args + `"delta":"{}"`},
		{"function_call_arguments.done", args + `"name":"f","arguments":"{}"`},
		{"output_item.done", `"output_index":1,"item":` + call},
		{"completed", object("completed", message+","+call, usage)},
	} {
		fmt.Fprintf(&want, "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%d,%s}\n\n", ev[0], ev[0], i, ev[1])
	}
	if got := string(streamedResponse(t, openai.Responses{}, r, llm.Events(resp))); got != want.String() {
		t.Errorf("stream\n got %s\nwant %s", got, want.String())
	}
}

func TestReasoningIsMirroredOnlyIfASummaryIsWanted(t *testing.T) {
	t.Parallel()
	resp := response(llm.StopEnd, thought("t"))
	for members, want := range map[string]string{
		``: "response.created response.in_progress response.output_item.added response.content_part.added response.reasoning_text.delta " +
			"response.reasoning_text.done response.content_part.done response.output_item.done response.completed",
		`"reasoning":{"summary":"detailed"}`: "response.created response.in_progress response.output_item.added response.content_part.added " +
			"response.reasoning_summary_part.added response.reasoning_text.delta response.reasoning_summary_text.delta response.reasoning_text.done " +
			"response.content_part.done response.reasoning_summary_text.done response.reasoning_summary_part.done response.output_item.done response.completed",
	} {
		if got := strings.Join(received(t, openai.Responses{}, armed(t, members), llm.Events(resp)).Types, " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", members, got, want)
		}
	}
}

func TestReasoningIsSealedOnlyIfAskedFor(t *testing.T) {
	t.Parallel()
	resp := response(llm.StopEnd, thought("secret"), llm.TextBlock("a"))
	const include = `"include":["reasoning.encrypted_content"]`
	sealed := received(t, sealing(), armed(t, include), llm.Events(resp)).Output[0].Encrypted
	if sealed == nil || strings.Contains(*sealed, "secret") {
		t.Fatalf("sealed as %v", sealed)
	}
	r, _ := decodeResponses(t, sealing(), items(`{"type":"reasoning","summary":[],"encrypted_content":"`+*sealed+`"},`+saysA+","+userHi))
	if got := told(r.Messages); got != "assistant(thinking:secret a) user(hi)" {
		t.Errorf("given back: %s", got)
	}
	for name, got := range map[string]*responsestest.Response{
		"not asked":  received(t, sealing(), armed(t, ""), llm.Events(resp)),
		"no key":     received(t, openai.Responses{}, armed(t, include), llm.Events(resp)),
		"no success": received(t, openai.Responses{Seal: func([]byte) (string, bool) { return "x", false }}, armed(t, include), llm.Events(resp)),
		"no text":    received(t, sealing(), armed(t, include), llm.Events(response(llm.StopEnd, thought("")))),
	} {
		if got.Output[0].Encrypted != nil {
			t.Errorf("%s: %q", name, *got.Output[0].Encrypted)
		}
	}
}

func TestResponseRepeatsTheRequest(t *testing.T) {
	t.Parallel()
	r, _ := decodeResponses(t, openai.Responses{}, asks(`"instructions":"s","max_output_tokens":9,"metadata":{ "a" :
		"b" },"prompt_cache_key":"k","user":"u","temperature":0.5,"top_p":1,"parallel_tool_calls":false,"reasoning":{"effort":"low","summary":"auto"},
		"text":{"format":{"type":"json_object"},"verbosity":"low"},"tools":[`+toolWeb+`,`+toolF+`],"tool_choice":{"type":"function","name":"f"},"store":true,"truncation":"auto"`))
	got := received(t, openai.Responses{}, r, llm.Events(response(llm.StopEnd)))
	for _, want := range []string{
		`"instructions":"s"`, `"max_output_tokens":9`, `"metadata":{"a":"b"}`, `"prompt_cache_key":"k"`, `"safety_identifier":"u"`, `"temperature":0.5`, `"top_p":1,`,
		`"parallel_tool_calls":false`, `"reasoning":{"effort":"low","summary":"auto"}`, `"text":{"format":{"type":"json_object"},"verbosity":"low"}`,
		`"tools":[` + toolF + `]`, `"tool_choice":{"type":"function","name":"f"}`, `"store":false`, `"truncation":"disabled"`,
	} {
		if !strings.Contains(string(got.Raw), want) {
			t.Errorf("%s is missing in %s", want, got.Raw)
		}
	}
}

func TestResponseRepeatsOnlyUTF8(t *testing.T) {
	t.Parallel()
	c := openai.Responses{Keep: func(r openai.Record) error {
		if !utf8.Valid(r.Input[0]) || !utf8.Valid(r.Response) {
			t.Errorf("kept %q, %q", r.Input[0], r.Response)
		}
		return nil
	}}
	r, _ := decodeResponses(t, c, asks("\"metadata\":{\"a\":\"\xff\"},\"instructions\":\"\xff\",\"tools\":[{\"type\":\"custom\",\"name\":\"e\",\"description\":\"\xff\"}]"))
	received(t, c, r, llm.Events(response(llm.StopEnd, llm.TextBlock("a\xff"), called("c", "e", "{\"input\":\"\xff\"}"))))
	r, _ = decodeResponses(t, c, items("{\"role\":\"user\",\"content\":\"\xff\"}"))
	received(t, c, r, llm.Events(response(llm.StopEnd)))
}

func TestResponsesLogprobs(t *testing.T) {
	t.Parallel()
	r, _ := decodeResponses(t, openai.Responses{}, asks(`"include":["message.output_text.logprobs"]`))
	resp := response(llm.StopEnd, llm.TextBlock("ab"))
	resp.Choices[0].Logprobs = []json.RawMessage{[]byte(`[{"token":"a","logprob":-1}]`), []byte(`[{"token":"b","logprob":-2},{"token":"c","logprob":-3}]`)}
	streamed, whole := received(t, openai.Responses{}, r, llm.Events(resp)), wholeResponse(t, openai.Responses{}, r, resp)
	if n := len(streamed.Output[0].Content[0].Logprobs); n != 3 || !bytes.Equal(streamed.Raw, whole.Raw) {
		t.Errorf("%d tokens\nstream %s\n whole %s", n, streamed.Raw, whole.Raw)
	}
}

func TestResponsesEndOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r, _ := decodeResponses(t, openai.Responses{}, asks(""))
	enc := openai.Responses{}.NewEncoder(&out, responsesReply(r, true))
	for _, kind := range []llm.EventKind{llm.EventStart, llm.EventUsage, llm.EventKeepAlive} {
		if err := enc.Encode(llm.Event{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("before the first part of an answer %q was written; a refusal could have no true status then", out.String())
	}
	if err := enc.KeepAlive(); err != nil || out.String() != ": ka\n\n" {
		t.Errorf("keep-alive %q, %v", out.String(), err)
	}
	for _, ev := range []llm.Event{{Kind: llm.EventBlockStart, Block: llm.BlockText}, {Kind: llm.EventDelta, Block: llm.BlockText, Text: "a"}} {
		if err := enc.Encode(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil { // no stop was seen
		t.Fatal(err)
	}
	got, err := responsestest.CheckStream(out.Bytes())
	if err != nil || got.Status != "failed" || got.KeepAlives != 1 {
		t.Errorf("an unfinished stream was closed as %+v, %v", got, err)
	}
	length := out.Len()
	if enc.Close() == nil || enc.EncodeError(llm.Errorf(llm.CodeInternal, "x")) == nil || enc.Encode(llm.Event{}) == nil ||
		enc.EncodeResponse(response(llm.StopEnd)) == nil || enc.KeepAlive() != nil || out.Len() != length {
		t.Error("the encoder writes after its end")
	}
	out.Reset()
	enc = openai.Responses{}.NewEncoder(&out, responsesReply(r, false))
	if enc.ContentType() != "application/json" || enc.KeepAlive() != nil || out.Len() > 0 {
		t.Errorf("a whole answer has %s and %q", enc.ContentType(), out.String())
	}
	if err := enc.EncodeResponse(&llm.Response{}); llm.CodeOf(err) != llm.CodeUpstream || out.Len() > 0 {
		t.Errorf("an answer without choices: %v, %q", err, out.String())
	}
}

func TestResponsesFailures(t *testing.T) {
	t.Parallel()
	r, _ := decodeResponses(t, openai.Responses{}, asks(""))
	for _, c := range []struct {
		err  *llm.Error
		want string
	}{
		{llm.Errorf(llm.CodeContextTooLong, "too long"), "context_length_exceeded: too long"},
		{llm.Errorf(llm.CodeBudgetSpent, "spent"), "insufficient_quota: spent"},
		{&llm.Error{Code: llm.CodeRateLimited, Message: "Slow down.", RetryAfter: 1500 * time.Millisecond}, "rate_limit_exceeded: Slow down. Please try again in 1.5s."},
		{llm.Errorf(llm.CodeRateLimited, "Slow down."), "rate_limit_exceeded: Slow down."},
		{llm.Invalid("input", "is wrong"), "invalid_prompt: input: is wrong"},
		{llm.Errorf(llm.CodeUpstream, "boom").With(errNever), "server_error: boom"},
		{llm.Errorf(llm.CodeOverloaded, "full"), "server_error: full"},
	} {
		got := received(t, openai.Responses{}, r, llm.Failed(c.err))
		if seen := seenResponse(got); seen != "failed "+c.want {
			t.Errorf("got %s, want %s", seen, c.want)
		}
	}
	w := httptest.NewRecorder()
	_, _, err := openai.Responses{}.DecodeChat([]byte(asks(`"previous_response_id":"resp_1"`)))
	openai.Responses{}.WriteError(w, llm.AsError(err), "id")
	if body := w.Body.String(); w.Code != 404 || !strings.Contains(body, `"code":"previous_response_not_found"`) || !strings.Contains(body, `"param":"previous_response_id"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestResponsesOfServers(t *testing.T) {
	t.Parallel()
	chunk := func(delta, finish string) string {
		if finish != "" {
			finish = `"` + finish + `"`
		} else {
			finish = "null"
		}
		return `data: {"id":"x","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":` + finish + `}]}` + "\n\n"
	}
	more := func(index int, arguments string) string {
		return chunk(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%q}}]`, index, arguments), "")
	}
	begin := func(index int, id, name, arguments string) string {
		return chunk(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]`, index, id, name, arguments), "")
	}
	const counts = `data: {"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":26,"completion_tokens":7,"total_tokens":33,"prompt_tokens_details":{"cached_tokens":16}}}` + "\n\ndata: [DONE]\n\n"
	r := armed(t, "")
	for name, c := range map[string]struct{ in, want string }{
		"reasoning, tool, reasoning, text": {
			chunk(`"reasoning":"a"`, "") + begin(0, "c", "f", "{}") + chunk(`"reasoning":"b"`, "") + chunk(`"content":"d"`, "") + chunk("", "tool_calls") + counts,
			"reasoning:a | c::f:{} | reasoning:b | message:d | completed | 26(16)/7(0)",
		},
		"interleaved calls": {
			begin(0, "a", "f", `{"x"`) + begin(1, "b", "edit", `{"in`) + more(0, `:1}`) + more(1, `put":"a\`) + more(1, `nb"}`) + chunk("", "tool_calls") + counts,
			`a::f:{"x":1} | b::edit<a` + "\n" + `b> | completed | 26(16)/7(0)`,
		},
		"length within a call": {begin(0, "a", "edit", `{"input":"ab`) + chunk("", "length") + counts, "a::edit<ab> incomplete | incomplete max_output_tokens | 26(16)/7(0)"},
		"error in the stream":  {chunk(`"content":"a"`, "") + begin(0, "a", "f", "{") + `data: {"error":{"message":"boom","code":500}}` + "\n\n", "message:a | failed server_error: *"},
		"cut":                  {chunk(`"content":"a"`, "") + `data: {"id`, "failed server_error: *"},
	} {
		for _, reader := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			got := seenResponse(received(t, openai.Responses{}, r, llm.Check(openai.DecodeChatStream(reader(strings.NewReader(c.in)), openai.DecodeOptions{}))))
			if want, open := strings.CutSuffix(c.want, "*"); got != want && (!open || !strings.HasPrefix(got, want)) {
				t.Errorf("%s\n got %s\nwant %s", name, got, c.want)
			}
		}
	}
	native := `{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"edit","arguments":{"input":"x"}}}]},"done":false}` + "\n" +
		`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":7}` + "\n"
	got := received(t, openai.Responses{}, r, llm.Check(ollama.DecodeChatStream(strings.NewReader(native), ollama.DecodeOptions{})))
	if seen := seenResponse(got); seen != "a::edit<x> | completed | 26(0)/7(0)" {
		t.Errorf("ollama: %s", seen)
	}
}

func TestResponsesAreKept(t *testing.T) {
	t.Parallel()
	var kept []openai.Record
	c := sealing()
	c.Keep = func(r openai.Record) error {
		kept = append(kept, r)
		return nil
	}
	c.Previous = func(id string) ([]json.RawMessage, error) {
		for _, r := range kept {
			if r.ID == id {
				return append(append([]json.RawMessage{}, r.Input...), r.Output...), nil
			}
		}
		return nil, llm.Errorf(llm.CodeNotFound, "no such response")
	}
	first, _ := decodeResponses(t, c, asks(`"tools":[`+toolEdit+`],"store":true`))
	answer := response(llm.StopToolUse, thought("t"), called("c", "edit", `{"input":"x"}`))
	got := received(t, c, first, llm.Events(answer))
	if len(kept) != 1 || kept[0].ID != got.ID || kept[0].Failed || !bytes.Equal(kept[0].Response, got.Raw) || !strings.Contains(string(got.Raw), `"store":true`) {
		t.Fatalf("kept %+v", kept)
	}
	if in := string(kept[0].Input[0]); len(kept[0].Input) != 1 || in != `{"type":"message","id":"msg_0192aa_in_0","role":"user","content":[{"type":"input_text","text":"hi"}]}` {
		t.Errorf("input %s", in)
	}
	second, _ := decodeResponses(t, c, `{"model":"m","previous_response_id":"`+got.ID+`","input":[{"type":"custom_tool_call_output","call_id":"c","output":"ok"},{"id":"msg_own","role":"user","content":"more"}]}`)
	if seen := told(second.Messages); seen != `user(hi) assistant(thinking:t call:c:edit:{"input":"x"}) tool(result:c:edit[ok]) user(more)` {
		t.Errorf("continued: %s", seen)
	}
	whole := wholeResponse(t, c, second, response(llm.StopEnd, llm.TextBlock("a")))
	last := kept[len(kept)-1]
	if last.Previous != got.ID || !strings.Contains(string(whole.Raw), `"previous_response_id":"`+got.ID+`"`) || len(last.Input) != 2 || len(last.Output) != 1 {
		t.Errorf("kept %+v", last)
	}
	if !strings.HasPrefix(string(last.Input[0]), `{"type":"custom_tool_call_output","id":"ctco_0192aa_in_0",`) || !strings.HasPrefix(string(last.Input[1]), `{"type":"message","id":"msg_own",`) {
		t.Errorf("input %s", last.Input)
	}
	received(t, c, first, llm.Failed(llm.Errorf(llm.CodeTimeout, "late")))
	if last := kept[len(kept)-1]; !last.Failed || !strings.Contains(string(last.Response), `"failed"`) {
		t.Errorf("failed: %+v", last)
	}
	n := len(kept)
	unwanted, _ := decodeResponses(t, c, asks(`"store":false`))
	if got := received(t, c, unwanted, llm.Events(answer)); len(kept) != n || !strings.Contains(string(got.Raw), `"store":false`) {
		t.Error("kept against the client's will")
	}
}

func TestAResponseThatCannotBeKeptFails(t *testing.T) {
	t.Parallel()
	c := openai.Responses{Keep: func(openai.Record) error { return errors.New("disk full at /var/lib") }}
	r, _ := decodeResponses(t, c, asks(""))
	if got := seenResponse(received(t, c, r, llm.Events(response(llm.StopEnd, llm.TextBlock("a"))))); got != "message:a | failed server_error: Something went wrong on our side. | 9(4)/2(1)" {
		t.Errorf("stream: %s", got)
	}
	var out bytes.Buffer
	err := c.NewEncoder(&out, responsesReply(r, false)).EncodeResponse(response(llm.StopEnd))
	if llm.CodeOf(err) != llm.CodeInternal || llm.AsError(err) == nil || out.Len() > 0 {
		t.Errorf("whole: %v, %q", err, out.String())
	}
}
