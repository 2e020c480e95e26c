package openaitest_test

import (
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai/openaitest"
)

const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",`

func chunk(choices string) string { return head + `"choices":[` + choices + `]}` }

func stream(payloads ...string) []byte {
	var b strings.Builder
	for _, p := range payloads {
		b.WriteString("data: " + p + "\n\n")
	}
	return []byte(b.String())
}

var (
	role   = chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`)
	text   = chunk(`{"index":0,"delta":{"content":"Blue"},"finish_reason":null}`)
	finish = chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`)
	usage  = head + `"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`
	call   = chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}`)
	called = chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`)
	broken = `{"error":{"message":"boom","type":"server_error","param":null,"code":"upstream_error"}}`
)

func TestCheckerAcceptsGoodStreams(t *testing.T) {
	t.Parallel()
	asked := openaitest.Options{IncludeUsage: true}
	for name, c := range map[string]struct {
		raw []byte
		o   openaitest.Options
	}{
		"text":       {stream(role, text, finish, "[DONE]"), openaitest.Options{}},
		"usage":      {stream(role, text, finish, usage, "[DONE]"), asked},
		"tool call":  {stream(role, call, called, "[DONE]"), openaitest.Options{}},
		"error":      {stream(role, text, broken), openaitest.Options{}},
		"keep-alive": {append([]byte(": ka\n\n"), stream(role, finish, "[DONE]")...), openaitest.Options{}},
	} {
		if _, err := openaitest.CheckStream(c.raw, c.o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckerRejectsBrokenStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"no end":                    {stream(role, text, finish), "neither"},
		"done without finish":       {stream(role, text, "[DONE]"), "has not finished"},
		"done and error":            {stream(role, finish, "[DONE]", broken), "after the end"},
		"error and done":            {stream(role, broken, "[DONE]"), "after the end"},
		"no role":                   {stream(text, finish, "[DONE]"), "role"},
		"role twice":                {stream(role, role, finish, "[DONE]"), "role"},
		"finish twice":              {stream(role, finish, finish, "[DONE]"), "goes on"},
		"text after finish":         {stream(role, finish, text, "[DONE]"), "goes on"},
		"other id":                  {stream(role, strings.Replace(text, "chatcmpl-1", "chatcmpl-2", 1), finish, "[DONE]"), "changes"},
		"index gap":                 {stream(role, strings.Replace(call, `tool_calls":[{"index":0`, `tool_calls":[{"index":1`, 1), called, "[DONE]"), "fragment of call 1"},
		"call without name":         {stream(role, strings.Replace(call, `"name":"f",`, "", 1), called, "[DONE]"), "begins without"},
		"id twice":                  {stream(role, call, strings.Replace(call, `tool_calls":[{"index":0`, `tool_calls":[{"index":1`, 1), called, "[DONE]"), "used twice"},
		"broken arguments":          {stream(role, strings.Replace(call, `"{}"`, `"{"`, 1), called, "[DONE]"), "not JSON"},
		"stop with calls":           {stream(role, call, finish, "[DONE]"), "stop with tool calls"},
		"tool_calls without call":   {stream(role, called, "[DONE]"), "without a call"},
		"usage not asked for":       {stream(role, finish, usage, "[DONE]"), "not asked"},
		"error: null in a chunk":    {stream(role, strings.Replace(finish, `"choices"`, `"error":null,"choices"`, 1), "[DONE]"), "error"},
		"numeric error code":        {stream(role, strings.Replace(broken, `"upstream_error"`, `500`, 1)), "wrong type"},
		"carriage return":           {[]byte(strings.ReplaceAll(string(stream(role, finish, "[DONE]")), "\n", "\r\n")), "carriage"},
		"no blank line at the end":  {[]byte("data: [DONE]\n"), "blank line"},
		"no choices and no usage":   {stream(role, head+`"choices":[]}`, finish, "[DONE]"), "no choice"},
		"unknown member of a delta": {stream(role, chunk(`{"index":0,"delta":{"stop_reason":"x"},"finish_reason":null}`), finish, "[DONE]"), "unknown member"},
	} {
		if _, err := openaitest.CheckStream(c.raw, openaitest.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	asked := openaitest.Options{IncludeUsage: true}
	for name, raw := range map[string][]byte{
		"usage missing":       stream(role, finish, "[DONE]"),
		"usage before finish": stream(role, usage, finish, "[DONE]"),
		"usage twice":         stream(role, finish, usage, usage, "[DONE]"),
		"usage with a choice": stream(role, strings.Replace(finish, `}]}`, `}],"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1}}`, 1), "[DONE]"),
	} {
		if _, err := openaitest.CheckStream(raw, asked); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
