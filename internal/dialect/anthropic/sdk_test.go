package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/dialect/anthropic/anthropictest"
	"mindrouter/internal/llm"
)

// The official client library against a server that decodes and encodes with this package.

// gateway is a server with a scripted answer. What it was asked is kept for the test, which runs one request at a time.
type gateway struct {
	answer llm.Stream
	asked  *llm.Request
	notes  []llm.Note
	wire   strings.Builder // the last stream, as it was sent
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const id = "0192-aa"
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	anthropic.SetRequestID(w.Header(), id)
	codec := anthropic.Messages{}
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/messages":
	case "POST /v1/messages/count_tokens":
		if g.asked, g.notes, err = anthropic.DecodeCount(body); err != nil {
			codec.WriteError(w, llm.AsError(err), id)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(anthropic.EncodeCount(26))
		return
	case "GET /v1/models":
		page, err := anthropic.ReadPage(r.URL.Query())
		if err != nil {
			codec.WriteError(w, llm.AsError(err), id)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(anthropic.EncodeModels(cards("a", "b", "c", "d", "e"), page))
		return
	default:
		codec.WriteError(w, llm.Errorf(llm.CodeNotFound, "There is no %s here.", r.URL.Path), id)
		return
	}
	if g.asked, g.notes, err = codec.DecodeChat(body); err != nil {
		codec.WriteError(w, llm.AsError(err), id)
		return
	}
	g.reply(w, codec, dialect.Reply{RequestID: id, Model: g.asked.Model, Created: time.Now(), Request: g.asked})
}

func (g *gateway) reply(w http.ResponseWriter, codec anthropic.Messages, reply dialect.Reply) {
	g.wire.Reset()
	enc := codec.NewEncoder(io.MultiWriter(w, &g.wire), reply)
	if !g.asked.Stream {
		resp, err := llm.Collect(g.answer)
		if err != nil {
			codec.WriteError(w, llm.AsError(err), reply.RequestID)
			return
		}
		w.Header().Set("Content-Type", enc.ContentType())
		if err := enc.EncodeResponse(resp); err != nil {
			codec.WriteError(w, llm.AsError(err), reply.RequestID)
		}
		return
	}
	w.Header().Set("Content-Type", enc.ContentType())
	for ev, err := range g.answer {
		if err != nil {
			_ = enc.EncodeError(llm.AsError(err))
			return
		}
		if enc.Encode(ev) != nil || enc.KeepAlive() != nil {
			return
		}
	}
	_ = enc.Close()
}

// client returns a client of a gateway that answers with s.
func client(t *testing.T, s llm.Stream) (sdk.Client, *gateway) {
	t.Helper()
	g := &gateway{answer: s}
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	return sdk.NewClient(option.WithBaseURL(srv.URL), option.WithAPIKey("k"), option.WithMaxRetries(0)), g
}

// params is a request with everything that an agent sends.
func params() sdk.MessageNewParams {
	return sdk.MessageNewParams{
		Model:     "claude-gw-m",
		MaxTokens: 9000,
		System:    []sdk.TextBlockParam{{Text: "You help.", CacheControl: sdk.NewCacheControlEphemeralParam()}},
		Messages:  []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("What is the weather in Oslo?"))},
		Thinking:  sdk.ThinkingConfigParamOfEnabled(2048),
		Tools: []sdk.ToolUnionParam{{OfTool: &sdk.ToolParam{
			Name: "weather", Description: sdk.String("Tells the weather."),
			InputSchema: sdk.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}, Required: []string{"city"}},
		}}},
		ToolChoice: sdk.ToolChoiceUnionParam{OfAuto: &sdk.ToolChoiceAutoParam{DisableParallelToolUse: sdk.Bool(true)}},
	}
}

// accumulate reads a stream to its end.
func accumulate(t *testing.T, c sdk.Client, p sdk.MessageNewParams, opts ...option.RequestOption) (sdk.Message, error) {
	t.Helper()
	stream := c.Messages.NewStreaming(t.Context(), p, opts...)
	var m sdk.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	return m, stream.Err()
}

// print shows a message as the library read it.
func printed(m *sdk.Message) string {
	var parts []string
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			parts = append(parts, "text:"+b.Text)
		case "thinking":
			parts = append(parts, "thinking:"+b.Thinking+":"+b.Signature)
		case "tool_use":
			parts = append(parts, b.ID+":"+b.Name+":"+string(b.Input))
		default:
			parts = append(parts, b.Type)
		}
	}
	return fmt.Sprintf("%s %s %s [%s] %s %q %d+%d/%d", m.ID, m.Role, m.Model, strings.Join(parts, " | "), m.StopReason, m.StopSequence,
		m.Usage.InputTokens, m.Usage.CacheReadInputTokens, m.Usage.OutputTokens)
}

func TestLibraryReadsAnswers(t *testing.T) {
	t.Parallel()
	const head = "msg_0192aa assistant claude-gw-m "
	for name, want := range map[string]string{
		"text":                "[text:Blue \u2028 🐦 \x00] end_turn \"\" 0+0/0",
		"nothing":             "[] end_turn \"\" 5+4/2",
		"thinking after tool": `[thinking:t:SIG | c:f:{"a":1} | thinking:u:SIG | text:a] tool_use "" 5+4/2`,
		"calls":               `[text:a | c:f:{"n": 1.0,` + "\n" + `"b":[]} | d:g:{}] tool_use "" 5+4/2`,
		"cut call":            `[c:f:{}] max_tokens "" 5+4/2`,
		"refusal":             `[text:no] refusal "" 5+4/2`,
		"stop sequence":       `[text:a] stop_sequence "END" 5+4/2`,
		"context full":        `[text:a] model_context_window_exceeded "" 5+4/2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, g := client(t, llm.Events(answers()[name]))
			m, err := c.Messages.New(t.Context(), params())
			if err != nil {
				t.Fatal(err)
			}
			if got := unsigned(m); got != head+want {
				t.Errorf("whole\n got %s\nwant %s", got, head+want)
			}
			streamed, err := accumulate(t, c, params())
			if err != nil {
				t.Fatal(err)
			}
			if got := unsigned(&streamed); got != head+want {
				t.Errorf("stream\n got %s\nwant %s", got, head+want)
			}
			if printed(&streamed) != printed(m) {
				t.Errorf("stream and whole answer differ: %s, %s", printed(&streamed), printed(m))
			}
			if _, err := anthropictest.CheckStream([]byte(g.wire.String())); err != nil {
				t.Error(err)
			}
		})
	}
}

// unsigned prints m without its signatures, which must be there.
func unsigned(m *sdk.Message) string {
	s := printed(m)
	for _, b := range m.Content {
		if b.Type == "thinking" && strings.HasPrefix(b.Signature, "gw1.") {
			s = strings.Replace(s, b.Signature, "SIG", 1)
		}
	}
	return s
}

func TestLibraryRunsAToolLoop(t *testing.T) {
	t.Parallel()
	c, g := client(t, llm.Events(response(llm.StopToolUse, thought("hm"), call("call_1", "weather", `{"city":"Oslo","n":12345678901234567890}`))))
	p := params()
	first, err := accumulate(t, c, p, option.WithHeaderAdd("anthropic-beta", "interleaved-thinking-2025-05-14,future-beta-2030-01-01"), option.WithQuery("beta", "true"))
	if err != nil {
		t.Fatal(err)
	}
	if g.asked.Model != "claude-gw-m" || len(g.asked.Tools) != 1 || *g.asked.Thinking.Budget != 2048 || *g.asked.ParallelTools ||
		shown(g.asked.Messages) != "system(text:You help.) user(text:What is the weather in Oslo?)" || len(g.notes) != 0 {
		t.Errorf("asked %+v, notes %s", g.asked, words(g.notes))
	}
	var schema struct {
		Type     string
		Required []string
	}
	if err := json.Unmarshal(g.asked.Tools[0].Schema, &schema); err != nil || schema.Type != "object" || len(schema.Required) != 1 {
		t.Errorf("schema %s, %v", g.asked.Tools[0].Schema, err)
	}
	p.Messages = append(p.Messages, first.ToParam(), sdk.NewUserMessage(sdk.NewToolResultBlock("call_1", "rain", true)))
	g.answer = llm.Events(response(llm.StopEnd, llm.TextBlock("It rains.")))
	second, err := c.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := `system(text:You help.) user(text:What is the weather in Oslo?) assistant(thinking:hm call:call_1:weather:{"city":"Oslo","n":12345678901234567890}) tool(result:call_1:weather[text:rain]!)`
	if got := shown(g.asked.Messages); got != want {
		t.Errorf("history\n got %s\nwant %s", got, want)
	}
	if g.asked.Messages[2].Blocks[0].Signature != first.Content[0].Signature || second.Content[0].Text != "It rains." {
		t.Errorf("signature %q, answer %s", g.asked.Messages[2].Blocks[0].Signature, printed(second))
	}
}

func TestLibraryReadsErrors(t *testing.T) {
	t.Parallel()
	cause := &llm.Error{Code: llm.CodeContextTooLong, Counted: 9, Limit: 8}
	check := func(err error, status int, kind, message string) {
		t.Helper()
		var e *sdk.Error
		if !errors.As(err, &e) {
			t.Fatalf("error %v", err)
		}
		if e.StatusCode != status || string(e.Type()) != kind || e.Message != message || e.RequestID != "0192-aa" {
			t.Errorf("status %d, type %q, message %q, request %q", e.StatusCode, e.Type(), e.Message, e.RequestID)
		}
	}
	c, g := client(t, llm.Failed(cause))
	_, err := c.Messages.New(t.Context(), params())
	check(err, 400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")

	g.answer = llm.Failed(llm.Errorf(llm.CodeOverloaded, "full"))
	_, err = c.Messages.New(t.Context(), params())
	check(err, 529, "overloaded_error", "full")

	p := params()
	p.Messages = nil
	_, err = c.Messages.New(t.Context(), p)
	check(err, 400, "invalid_request_error", "messages: is required")

	g.answer = llm.Events(response(llm.StopToolUse, call("c", "f", `{broken`)))
	_, err = c.Messages.New(t.Context(), params())
	check(err, 502, "api_error", "the model wrote a tool call whose input is not a JSON object")

	// Inside a stream the status is 200 and stays.
	m, err := accumulate(t, c, params())
	check(err, 200, "api_error", "the model wrote a tool call whose input is not a JSON object")
	if m.StopReason != "" {
		t.Errorf("the answer has ended with %s", m.StopReason)
	}
	g.answer = func(yield func(llm.Event, error) bool) {
		for ev, err := range llm.Events(response(llm.StopEnd, llm.TextBlock("half"))) {
			if ev.Kind == llm.EventBlockStop {
				yield(llm.Event{}, llm.Errorf(llm.CodeTimeout, "too slow"))
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
	m, err = accumulate(t, c, params())
	check(err, 200, "timeout_error", "too slow")
	if len(m.Content) != 1 || m.Content[0].Text != "half" {
		t.Errorf("what came before the error: %s", printed(&m))
	}
}

func TestLibraryCountsAndListsModels(t *testing.T) {
	t.Parallel()
	c, g := client(t, nil)
	n, err := c.Messages.CountTokens(t.Context(), sdk.MessageCountTokensParams{
		Model: "m", Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("hi"))},
	})
	if err != nil || n.InputTokens != 26 || shown(g.asked.Messages) != "user(text:hi)" {
		t.Errorf("count %+v, %v", n, err)
	}
	var ids []string
	pager := c.Models.ListAutoPaging(t.Context(), sdk.ModelListParams{Limit: sdk.Int(2)})
	for pager.Next() {
		ids = append(ids, pager.Current().ID)
	}
	if err := pager.Err(); err != nil || strings.Join(ids, "") != "abcde" {
		t.Errorf("models %v, %v", ids, err)
	}
}
