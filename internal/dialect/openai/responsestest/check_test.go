package responsestest_test

import (
	"fmt"
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai/responsestest"
)

// stream frames payloads with the names that their types give, and numbers them. A payload begins with its type.
func stream(payloads ...string) []byte {
	var b strings.Builder
	n := 0
	for _, p := range payloads {
		if strings.HasPrefix(p, ":") {
			b.WriteString(p + "\n\n")
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimPrefix(p, `{"type":"`), `"`)
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d%s\n\n", name, name, n, rest)
		n++
	}
	return []byte(b.String())
}

const usage = `{"input_tokens":9,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":11}`

// object is a response in the given state.
func object(status, failure, incomplete, output, usage string) string {
	return `{"id":"resp_1","object":"response","created_at":1,"status":"` + status + `","error":` + failure +
		`,"incomplete_details":` + incomplete + `,"instructions":null,"max_output_tokens":null,"metadata":{},"model":"m","output":[` + output +
		`],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":null,` +
		`"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":null,"truncation":"disabled","usage":` + usage + `}`
}

func event(name, response string) string {
	return `{"type":"` + name + `","response":` + response + `}`
}

func completed(output string) string {
	return event("response.completed", object("completed", "null", "null", output, usage))
}

// in returns an event about an item of index 0.
func in(name, id, rest string) string {
	return `{"type":"response.` + name + `","item_id":"` + id + `","output_index":0` + rest + `}`
}

func item(name, item string) string {
	return `{"type":"response.output_item.` + name + `","output_index":0,"item":` + item + `}`
}

var (
	created    = event("response.created", object("in_progress", "null", "null", "", "null"))
	inProgress = event("response.in_progress", object("in_progress", "null", "null", "", "null"))

	message   = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Blue","annotations":[],"logprobs":[]}],"status":"completed"}`
	added     = item("added", `{"id":"msg_1","type":"message","role":"assistant","content":[],"status":"in_progress"}`)
	partAdded = in("content_part.added", "msg_1", `,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}`)
	delta     = in("output_text.delta", "msg_1", `,"content_index":0,"delta":"Blue","logprobs":[]`)
	textDone  = in("output_text.done", "msg_1", `,"content_index":0,"text":"Blue","logprobs":[]`)
	partDone  = in("content_part.done", "msg_1", `,"content_index":0,"part":{"type":"output_text","text":"Blue","annotations":[],"logprobs":[]}`)
	done      = item("done", message)
	end       = completed(message)
	failed    = event("response.failed", object("failed", `{"code":"server_error","message":"boom"}`, "null", "", "null"))

	call      = `{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"completed"}`
	callAdded = item("added", `{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"","status":"in_progress"}`)
	callDelta = in("function_call_arguments.delta", "fc_1", `,"delta":"{}"`)
	callText  = in("function_call_arguments.done", "fc_1", `,"arguments":"{}"`)
	callDone  = item("done", call)

	custom      = `{"id":"ctc_1","type":"custom_tool_call","call_id":"c","name":"f","input":"x","status":"completed"}`
	customAdded = item("added", `{"id":"ctc_1","type":"custom_tool_call","call_id":"c","name":"f","input":"","status":"in_progress"}`)
	customDelta = in("custom_tool_call_input.delta", "ctc_1", `,"delta":"x"`)
	customText  = in("custom_tool_call_input.done", "ctc_1", `,"input":"x"`)
	customDone  = item("done", custom)

	thought      = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":"s","status":"completed"}`
	thoughtAdded = item("added", `{"id":"rs_1","type":"reasoning","summary":[],"content":[],"encrypted_content":null,"status":"in_progress"}`)
	thinks       = []string{
		in("content_part.added", "rs_1", `,"content_index":0,"part":{"type":"reasoning_text","text":""}`),
		in("reasoning_summary_part.added", "rs_1", `,"summary_index":0,"part":{"type":"summary_text","text":""}`),
		in("reasoning_text.delta", "rs_1", `,"content_index":0,"delta":"hm"`),
		in("reasoning_summary_text.delta", "rs_1", `,"summary_index":0,"delta":"hm"`),
		in("reasoning_text.done", "rs_1", `,"content_index":0,"text":"hm"`),
		in("content_part.done", "rs_1", `,"content_index":0,"part":{"type":"reasoning_text","text":"hm"}`),
		in("reasoning_summary_text.done", "rs_1", `,"summary_index":0,"text":"hm"`),
		in("reasoning_summary_part.done", "rs_1", `,"summary_index":0,"part":{"type":"summary_text","text":"hm"}`),
	}
	thoughtDone = item("done", thought)
)

// begun returns a stream that goes on after its beginning.
func begun(payloads ...string) []byte {
	return stream(append([]string{created, inProgress}, payloads...)...)
}

func thinking(rest ...string) []byte {
	return begun(append(append([]string{thoughtAdded}, thinks...), rest...)...)
}

func TestCheckerAcceptsGoodStreams(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{
		"text":             begun(added, partAdded, delta, textDone, partDone, done, end),
		"nothing":          begun(completed("")),
		"keep-alives":      stream(": ka", created, ": ka", inProgress, ": ka", completed("")),
		"reasoning":        thinking(thoughtDone, completed(thought)),
		"call":             begun(callAdded, callDelta, callText, callDone, completed(call)),
		"custom call":      begun(customAdded, customDelta, customText, customDone, completed(custom)),
		"incomplete":       begun(event("response.incomplete", object("incomplete", "null", `{"reason":"max_output_tokens"}`, "", usage))),
		"failed":           begun(failed),
		"failed in a part": begun(added, partAdded, delta, failed),
	} {
		if _, err := responsestest.CheckStream(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckerRejectsBrokenStreams(t *testing.T) {
	t.Parallel()
	good := begun(added, partAdded, delta, textDone, partDone, done, end)
	change := func(old, to string) []byte {
		changed := strings.Replace(string(good), old, to, 1)
		if changed == string(good) {
			t.Fatalf("%q is not in the good stream", old)
		}
		return []byte(changed)
	}
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"no end":                       {begun(added, partAdded, delta, textDone, partDone, done), "ends without"},
		"[DONE]":                       {append(good, "data: [DONE]\n\n"...), "not a name"},
		"event after the end":          {begun(end, failed), "the output is not"},
		"two ends":                     {begun(completed(""), completed("")), "after the end"},
		"no beginning":                 {stream(added, partAdded), "response.created must come"},
		"no response.in_progress":      {stream(created, added), "response.in_progress must come"},
		"response.created late":        {begun(created), "not about the open item"},
		"another id at the end":        {change(`{"type":"response.completed","sequence_number":8,"response":{"id":"resp_1"`, `{"type":"response.completed","sequence_number":8,"response":{"id":"resp_2"`), "another id"},
		"name and type differ":         {change("event: response.created", "event: created"), "has the type"},
		"no name":                      {change("event: response.created\n", ""), "not a name"},
		"gap in the numbers":           {change(`"sequence_number":4`, `"sequence_number":5`), "number must be 4"},
		"no number":                    {change(`"sequence_number":4,`, ``), "number must be 4"},
		"two lines of data":            {change(`"delta":"Blue"`, "\ndata: \"delta\":\"Blue\""), "one line"},
		"no JSON":                      {change(`"delta":"Blue"`, `"delta":`), "not an event"},
		"carriage return":              {[]byte(strings.ReplaceAll(string(good), "\n", "\r\n")), "carriage return"},
		"not UTF-8":                    {change("Blue", "\xff"), "UTF-8"},
		"no blank line at the end":     {good[:len(good)-1], "blank line"},
		"unknown event":                {begun(added, in("audio.delta", "msg_1", "")), "unknown event"},
		"delta before the part":        {begun(added, delta), "open part"},
		"delta of another item":        {begun(added, partAdded, strings.Replace(delta, "msg_1", "msg_2", 1)), "the item is"},
		"delta of another index":       {begun(added, partAdded, strings.Replace(delta, `"output_index":0`, `"output_index":1`, 1)), "open item"},
		"delta of another part":        {begun(added, partAdded, strings.Replace(delta, `"content_index":0`, `"content_index":1`, 1)), "open part"},
		"delta of another kind":        {begun(added, partAdded, in("refusal.delta", "msg_1", `,"content_index":0,"delta":"x"`)), "open part"},
		"empty delta":                  {begun(added, partAdded, strings.Replace(delta, "Blue", "", 1)), "empty"},
		"delta without logprobs":       {begun(added, partAdded, strings.Replace(delta, `,"logprobs":[]`, "", 1)), "logprobs"},
		"delta after the text":         {begun(added, partAdded, delta, textDone, delta), "goes on"},
		"text of another content":      {begun(added, partAdded, delta, strings.Replace(textDone, "Blue", "Red", 1)), "deltas said"},
		"no text before the part ends": {begun(added, partAdded, delta, partDone), "not told whole"},
		"part of another content":      {begun(added, partAdded, delta, textDone, strings.Replace(partDone, "Blue", "Red", 1)), "deltas said"},
		"item ends in a part":          {begun(added, partAdded, delta, textDone, done), "part is still open"},
		"item of another content":      {begun(added, partAdded, delta, textDone, partDone, strings.Replace(done, "Blue", "Red", 1)), "events told"},
		"item without end":             {begun(added, partAdded, delta, textDone, partDone, end), "item is still open"},
		"items overlap":                {begun(added, callAdded), "still open"},
		"index of items with a gap":    {begun(strings.Replace(added, `"output_index":0`, `"output_index":1`, 1)), "index must be 0"},
		"an id twice": {
			begun(callAdded, callDelta, callText, callDone, strings.Replace(callAdded, `"output_index":0`, `"output_index":1`, 1)), "used twice",
		},
		"item begins with content":   {begun(strings.Replace(done, "output_item.done", "output_item.added", 1)), "not in progress"},
		"wrong prefix of an id":      {begun(strings.Replace(added, "msg_1", "fc_1", 1)), "has the id"},
		"unknown type of item":       {begun(strings.Replace(added, `"type":"message"`, `"type":"mcp_call"`, 1)), "unknown type"},
		"call without call_id":       {begun(strings.Replace(callAdded, `"call_id":"c"`, `"call_id":""`, 1)), "no call_id"},
		"call without its arguments": {begun(callAdded, callDelta, callDone), "not told whole"},
		"arguments in a custom call": {begun(customAdded, in("function_call_arguments.delta", "ctc_1", `,"delta":"{}"`)), "custom_tool_call"},
		"arguments that are no JSON": {
			begun(callAdded, in("function_call_arguments.delta", "fc_1", `,"delta":"{"`), in("function_call_arguments.done", "fc_1", `,"arguments":"{"`), strings.Replace(callDone, `"{}"`, `"{"`, 1)),
			"not JSON",
		},
		"summary without its part":   {begun(append([]string{thoughtAdded, thinks[0]}, thinks[3])...), "open part"},
		"summary in a message":       {begun(added, in("reasoning_summary_part.added", "msg_1", `,"summary_index":0,"part":{"type":"summary_text","text":""}`)), "summary_text"},
		"summary is not in the item": {thinking(strings.Replace(thoughtDone, `[{"type":"summary_text","text":"hm"}]`, "[]", 1)), "events told"},
		"output is not the items":    {begun(added, partAdded, delta, textDone, partDone, done, completed("")), "the output is not"},
		"status of another end":      {begun(strings.Replace(completed(""), `"status":"completed"`, `"status":"in_progress"`, 1)), "the status is"},
		"failed without an error":    {begun(strings.Replace(failed, `{"code":"server_error","message":"boom"}`, "null", 1)), "error must be there"},
		"incomplete without reason":  {begun(event("response.incomplete", object("incomplete", "null", "null", "", usage))), "reason must be there"},
		"a required field is gone":   {begun(strings.Replace(completed(""), `"instructions":null,`, "", 1)), "no instructions"},
		"usage without details":      {begun(strings.Replace(completed(""), `"output_tokens_details":{"reasoning_tokens":0},`, "", 1)), "no details"},
		"usage does not add up":      {begun(strings.Replace(completed(""), `"total_tokens":11`, `"total_tokens":12`, 1)), "add up"},
	} {
		if _, err := responsestest.CheckStream(c.raw); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}
