package ollamatest_test

import (
	"strings"
	"testing"

	"mindrouter/internal/dialect/ollama/ollamatest"
)

const (
	head = `{"model":"m","created_at":"2026-01-02T03:04:05.6Z","message":{"role":"assistant","content":"a"},"done":false}` + "\n"
	last = `{"model":"m","created_at":"2026-01-02T03:04:05.6Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":5,"prompt_eval_count":3,"eval_count":1}` + "\n"
)

func TestAcceptsGoodStreams(t *testing.T) {
	t.Parallel()
	got, err := ollamatest.CheckStream([]byte(head + last))
	if err != nil || got.Text != "a" || got.Reason != "stop" || got.Input != 3 || got.Output != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = ollamatest.CheckStream([]byte(head + `{"error":"gone"}` + "\n"))
	if err != nil || got.Error != "gone" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRejectsBrokenStreams(t *testing.T) {
	t.Parallel()
	call := func(inner string) string {
		return strings.Replace(head, `"content":"a"`, `"content":"","tool_calls":[`+inner+`]`, 1)
	}
	for name, raw := range map[string]string{
		"empty":                    "",
		"no end":                   head,
		"no end of line":           head + strings.TrimSuffix(last, "\n"),
		"empty line":               head + "\n" + last,
		"not JSON":                 "data: {}\n" + last,
		"two ends":                 head + last + last,
		"text after the end":       last + head,
		"error and end":            head + `{"error":"x"}` + "\n" + last,
		"empty error":              head + `{"error":""}` + "\n",
		"another model":            head + strings.Replace(last, `"m"`, `"n"`, 1),
		"no time":                  strings.Replace(head, `"2026-01-02T03:04:05.6Z"`, `"now"`, 1) + last,
		"no role":                  strings.Replace(head, "assistant", "", 1) + last,
		"no content":               strings.Replace(head, `,"content":"a"`, "", 1) + last,
		"no done":                  strings.Replace(head, `,"done":false`, "", 1) + last,
		"no reason":                head + strings.Replace(last, `,"done_reason":"stop"`, "", 1),
		"unknown reason":           head + strings.Replace(last, `"stop"`, `"tool_calls"`, 1),
		"no duration":              head + strings.Replace(last, `,"total_duration":5`, "", 1),
		"last line says":           head + strings.Replace(last, `"content":""`, `"content":"b"`, 1),
		"kinds mixed":              head + strings.Replace(last, `"message":{"role":"assistant","content":""}`, `"response":""`, 1),
		"reason too early":         strings.Replace(head, `"done":false`, `"done":false,"done_reason":"stop"`, 1) + last,
		"call without id":          call(`{"function":{"index":0,"name":"f","arguments":{}}}`) + last,
		"call without index":       call(`{"id":"c","function":{"name":"f","arguments":{}}}`) + last,
		"call out of order":        call(`{"id":"c","function":{"index":1,"name":"f","arguments":{}}}`) + last,
		"arguments are a string":   call(`{"id":"c","function":{"index":0,"name":"f","arguments":"{}"}}`) + last,
		"call without its name":    call(`{"id":"c","function":{"index":0,"name":"","arguments":{}}}`) + last,
		"call without an argument": call(`{"id":"c","function":{"index":0,"name":"f"}}`) + last,
	} {
		if got, err := ollamatest.CheckStream([]byte(raw)); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}
