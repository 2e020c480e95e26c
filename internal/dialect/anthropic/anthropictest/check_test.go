package anthropictest_test

import (
	"strings"
	"testing"

	"mindrouter/internal/dialect/anthropic/anthropictest"
)

// stream frames payloads with the names that their types give.
func stream(payloads ...string) []byte {
	var b strings.Builder
	for _, p := range payloads {
		name, _, _ := strings.Cut(strings.TrimPrefix(p, `{"type":"`), `"`)
		b.WriteString("event: " + name + "\ndata: " + p + "\n\n")
	}
	return []byte(b.String())
}

const (
	start  = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`
	text   = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	ping   = `{"type":"ping"}`
	delta  = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Blue"}}`
	stop   = `{"type":"content_block_stop","index":0}`
	end    = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":9,"output_tokens":2}}`
	last   = `{"type":"message_stop"}`
	broken = `{"type":"error","error":{"type":"api_error","message":"boom"}}`

	thought  = `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`
	thinks   = `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`
	signs    = `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`
	call     = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}`
	input    = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`
	cutInput = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}`
)

// because returns the end with another reason.
func because(reason string) string { return strings.Replace(end, "end_turn", reason, 1) }

func second(s string) string { return strings.Replace(s, `"index":0`, `"index":1`, 1) }

func TestCheckerAcceptsGoodStreams(t *testing.T) {
	t.Parallel()
	matched := strings.Replace(because("stop_sequence"), `"stop_sequence":null`, `"stop_sequence":"END"`, 1)
	for name, raw := range map[string][]byte{
		"text":                stream(start, text, delta, stop, end, last),
		"nothing":             stream(start, end, last),
		"pings":               stream(start, ping, text, ping, delta, stop, ping, end, ping, last),
		"thinking, then text": stream(start, thought, thinks, signs, stop, second(text), second(delta), second(stop), end, last),
		"omitted thinking":    stream(start, thought, signs, stop, end, last),
		"tool call":           stream(start, call, input, stop, because("tool_use"), last),
		"no input":            stream(start, call, stop, because("tool_use"), last),
		"cut tool call":       stream(start, call, cutInput, stop, because("max_tokens"), last),
		"stop sequence":       stream(start, text, delta, stop, matched, last),
		"error":               stream(start, text, delta, broken),
		"error at once":       stream(broken),
	} {
		if _, err := anthropictest.CheckStream(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckerRejectsBrokenStreams(t *testing.T) {
	t.Parallel()
	good := stream(start, text, delta, stop, end, last)
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"no end":                     {stream(start, text, delta, stop, end), "neither"},
		"no message_delta":           {stream(start, text, delta, stop, last), "message_delta comes once"},
		"message_delta twice":        {stream(start, text, delta, stop, end, end, last), "message_delta comes once"},
		"message_delta in a block":   {stream(start, text, delta, end, last), "still open"},
		"message_start twice":        {stream(start, start, end, last), "comes twice"},
		"no message_start":           {stream(text, delta, stop, end, last), "precedes"},
		"ping before message_start":  {stream(ping, start, end, last), "precedes"},
		"block after message_delta":  {stream(start, end, text, last), "message_delta comes once"},
		"event after message_stop":   {stream(start, end, last, ping), "after the end"},
		"event after error":          {stream(start, broken, last), "after the end"},
		"error and message_stop":     {stream(start, end, last, broken), "after the end"},
		"index gap":                  {stream(start, second(text), end, last), "must be 0"},
		"index used twice":           {stream(start, text, stop, text, stop, end, last), "must be 1"},
		"overlapping blocks":         {stream(start, text, second(text), stop, end, last), "still open"},
		"delta of another block":     {stream(start, text, second(delta), stop, end, last), "not about the open block"},
		"delta without block":        {stream(start, delta, end, last), "not about the open block"},
		"block stopped twice":        {stream(start, text, stop, stop, end, last), "not about the open block"},
		"thinking in text":           {stream(start, text, thinks, stop, end, last), "thinking_delta in a block of type text"},
		"input in text":              {stream(start, text, input, stop, end, last), "input_json_delta in a block of type text"},
		"no signature":               {stream(start, thought, thinks, stop, end, last), "without signature"},
		"two signatures":             {stream(start, thought, thinks, signs, signs, stop, end, last), "after its signature"},
		"thinking after signature":   {stream(start, thought, signs, thinks, stop, end, last), "after its signature"},
		"call without name":          {stream(start, strings.Replace(call, `"name":"f"`, `"name":""`, 1), stop, because("tool_use"), last), "without id or name"},
		"call without input":         {stream(start, strings.Replace(call, `,"input":{}`, ``, 1), stop, because("tool_use"), last), "input is not {}"},
		"id used twice":              {stream(start, call, stop, second(call), second(stop), because("tool_use"), last), "used twice"},
		"cut input passed as whole":  {stream(start, call, cutInput, stop, because("tool_use"), last), "not an object"},
		"input is no object":         {stream(start, call, strings.Replace(input, `{\"a\":1}`, `null`, 1), stop, because("tool_use"), last), "not an object"},
		"calls without tool_use":     {stream(start, call, input, stop, end, last), "another reason than tool_use"},
		"tool_use without calls":     {stream(start, text, delta, stop, because("tool_use"), last), "without a call"},
		"unknown reason":             {stream(start, because("stop"), last), "unknown stop reason"},
		"no reason":                  {stream(start, strings.Replace(end, `"end_turn"`, `null`, 1), last), "no stop reason"},
		"no sequence":                {stream(start, because("stop_sequence"), last), "exactly for the reason"},
		"sequence without reason":    {stream(start, strings.Replace(end, `"stop_sequence":null`, `"stop_sequence":"x"`, 1), last), "exactly for the reason"},
		"no usage":                   {stream(start, strings.Replace(end, `"usage"`, `"use"`, 1), last), "no usage"},
		"shrinking usage":            {stream(start, strings.Replace(end, `"output_tokens":2`, `"output_tokens":0`, 1), last), "shrinks"},
		"empty delta":                {stream(start, text, strings.Replace(delta, "Blue", "", 1), stop, end, last), "empty"},
		"content at the start":       {stream(strings.Replace(start, `"content":[]`, `"content":null`, 1), end, last), "empty list"},
		"unknown event":              {stream(start, `{"type":"done"}`, end, last), "unknown event"},
		"silent error":               {stream(`{"type":"error","error":{"type":"","message":""}}`), "says nothing"},
		"name of another event":      {[]byte(strings.Replace(string(good), "event: message_start", "event: start", 1)), "has the type"},
		"no name":                    {[]byte(strings.Replace(string(good), "event: message_stop\n", "", 1)), "not a name"},
		"terminator of another kind": {append(stream(start, end), "data: [DONE]\n\n"...), "not a name"},
		"carriage return":            {[]byte(strings.ReplaceAll(string(good), "\n", "\r\n")), "carriage"},
		"no blank line at the end":   {good[:len(good)-1], "blank line"},
		"broken UTF-8":               {[]byte(strings.Replace(string(good), "Blue", "Bl\xff", 1)), "UTF-8"},
	} {
		if _, err := anthropictest.CheckStream(c.raw); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestCheckerPutsTheMessageTogether(t *testing.T) {
	t.Parallel()
	m, err := anthropictest.CheckStream(stream(start, thought, thinks, signs, stop, second(call), second(input), second(stop), because("tool_use"), last))
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != "msg_1" || m.StopReason != "tool_use" || m.Usage.Output != 2 || m.Started.Output != 1 || len(m.Content) != 2 ||
		m.Content[0].Thinking != "hm" || m.Content[0].Signature != "s" || string(m.Content[1].Input) != `{"a":1}` {
		t.Errorf("message %+v", m)
	}
}
