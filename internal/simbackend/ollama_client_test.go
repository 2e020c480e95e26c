package simbackend_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"mindrouter/internal/simbackend"
)

func ollamaServer(t *testing.T) (*simbackend.Running, *api.Client) {
	t.Helper()
	models, err := simbackend.ParseModels("sim-llama,sim-embed,sim-think,plain:chat@2048")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, simbackend.Config{Dialect: simbackend.DialectOllama, Models: models})
	return s, ollamaClient(t, s)
}

func collectChat(t *testing.T, c *api.Client, req *api.ChatRequest) (lines []api.ChatResponse, text, thinking string) {
	t.Helper()
	err := c.Chat(testContext(t), req, func(r api.ChatResponse) error {
		lines = append(lines, r)
		text += r.Message.Content
		thinking += r.Message.Thinking
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, text, thinking
}

func TestOllamaClientReadsTheSameAnswerStreamedAndWhole(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	req := &api.ChatRequest{Model: "sim-llama", Messages: []api.Message{{Role: "user", Content: "hello there"}}}
	lines, streamed, _ := collectChat(t, c, req)
	req.Stream = new(bool)
	one, whole, _ := collectChat(t, c, req)
	if len(one) != 1 || len(lines) < 10 || streamed != whole || !strings.HasPrefix(whole, "This is a simulated answer from sim-llama.") {
		t.Errorf("streamed %d lines %q, whole %d lines %q", len(lines), streamed, len(one), whole)
	}
	last := lines[len(lines)-1]
	if !last.Done || last.DoneReason != "stop" || last.EvalCount != one[0].EvalCount || last.PromptEvalCount == 0 || last.TotalDuration == 0 {
		t.Errorf("last line %+v", last)
	}
	if last.EvalCount != len(lines)-1 {
		t.Errorf("eval_count %d for %d lines of text", last.EvalCount, len(lines)-1)
	}
}

func TestOllamaClientThinking(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	req := &api.ChatRequest{Model: "sim-think", Messages: []api.Message{{Role: "user", Content: "[[think=hm hm]][[say=yes]]"}}}
	if _, text, thinking := collectChat(t, c, req); text != "yes" || thinking != "hm hm" {
		t.Errorf("by default: thinking %q, text %q", thinking, text)
	}
	req.Think = &api.ThinkValue{Value: false}
	if _, text, thinking := collectChat(t, c, req); text != "yes" || thinking != "" {
		t.Errorf("think false: thinking %q, text %q", thinking, text)
	}
	req.Think = &api.ThinkValue{Value: "high"}
	if _, _, thinking := collectChat(t, c, req); thinking != "hm hm" {
		t.Errorf("think high: thinking %q", thinking)
	}
	req.Model = "sim-llama"
	err := c.Chat(testContext(t), req, func(api.ChatResponse) error { return nil })
	wantOllamaError(t, err, 400, `"sim-llama" does not support thinking`)
}

func TestOllamaClientToolsComeWholeAndResultsAreQuoted(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	var tools api.Tools
	if err := json.Unmarshal([]byte(strings.TrimPrefix(twoTools, `,"tools":`)), &tools); err != nil {
		t.Fatal(err)
	}
	req := &api.ChatRequest{
		Model: "sim-llama", Tools: tools, Messages: []api.Message{{Role: "user", Content: "get_time and add"}},
	}
	for _, stream := range []bool{true, false} {
		req.Stream = &stream
		lines, text, _ := collectChat(t, c, req)
		var calls []api.ToolCall
		for _, l := range lines {
			calls = append(calls, l.Message.ToolCalls...)
		}
		if len(calls) != 2 || text != "" || calls[0].Function.Name != "get_time" || calls[1].Function.Name != "add" {
			t.Fatalf("stream %v: calls %+v, text %q", stream, calls, text)
		}
		if calls[0].Function.Index != 0 || calls[1].Function.Index != 1 || calls[0].ID == calls[1].ID {
			t.Errorf("stream %v: index or id of the calls: %+v", stream, calls)
		}
		if _, ok := calls[1].Function.Arguments.Get("a"); !ok {
			t.Errorf("stream %v: arguments %s lack a", stream, calls[1].Function.Arguments.String())
		}
		if reason := lines[len(lines)-1].DoneReason; reason != "stop" {
			t.Errorf("stream %v: done_reason %q, want stop", stream, reason)
		}
	}
	req.Messages = append(req.Messages, api.Message{Role: "tool", ToolName: "add", Content: "42"})
	if _, text, _ := collectChat(t, c, req); !strings.Contains(text, "The result of add was: 42") {
		t.Errorf("answer after a result = %q", text)
	}
	req.Model = "plain"
	err := c.Chat(testContext(t), req, func(api.ChatResponse) error { return nil })
	wantOllamaError(t, err, 400, "does not support tools")
}

func TestOllamaClientFormats(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	for format, key := range map[string]string{
		`"json"`: "answer",
		`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`: "city",
	} {
		_, text, _ := collectChat(t, c, &api.ChatRequest{
			Model: "sim-llama", Format: json.RawMessage(format), Messages: []api.Message{{Role: "user", Content: "x"}},
		})
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil || got[key] == nil {
			t.Errorf("format %s: %q (%v) has no %s", format, text, err, key)
		}
	}
}

func TestOllamaClientImages(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	msg := api.Message{Role: "user", Content: "look", Images: []api.ImageData{pngImage(t, 5, 7)}}
	_, text, _ := collectChat(t, c, &api.ChatRequest{Model: "sim-llama", Messages: []api.Message{msg}})
	if !strings.Contains(text, "Image 1: image/png, 5x7 pixels.") {
		t.Errorf("answer %q does not name the image", text)
	}
	err := c.Chat(testContext(t), &api.ChatRequest{Model: "plain", Messages: []api.Message{msg}},
		func(api.ChatResponse) error { return nil })
	wantOllamaError(t, err, 500, "missing data required for image input")
}

func TestOllamaClientGenerate(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	var text string
	var last api.GenerateResponse
	req := &api.GenerateRequest{Model: "sim-llama:latest", Prompt: "[[say=one two]]", System: "be short"}
	err := c.Generate(testContext(t), req, func(r api.GenerateResponse) error {
		text += r.Response
		last = r
		return nil
	})
	if err != nil || text != "one two" || !last.Done || last.EvalCount != 2 || len(last.Context) == 0 {
		t.Errorf("generate: %v, text %q, last %+v", err, text, last)
	}
	req.Raw = true
	err = c.Generate(testContext(t), req, func(api.GenerateResponse) error { return nil })
	wantOllamaError(t, err, 400, "raw mode does not support template, system, or context")
}

func TestOllamaClientModelsAndShow(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	ctx := testContext(t)
	if err := c.Heartbeat(ctx); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	if v, err := c.Version(ctx); err != nil || v != "0.24.0" {
		t.Errorf("version %q, %v", v, err)
	}
	list, err := c.List(ctx)
	if err != nil || len(list.Models) != 4 || list.Models[0].Name != "sim-llama:latest" || len(list.Models[0].Digest) != 64 {
		t.Errorf("list %+v, %v", list, err)
	}
	for model, want := range map[string][]string{
		"sim-llama": {"completion", "tools", "vision"}, "sim-embed": {"embedding"},
		"SIM-THINK": {"completion", "tools", "thinking"}, "plain:latest": {"completion"},
	} {
		show, err := c.Show(ctx, &api.ShowRequest{Model: model})
		if err != nil {
			t.Fatal(err)
		}
		var caps []string
		for _, k := range show.Capabilities {
			caps = append(caps, string(k))
		}
		if !slices.Equal(caps, want) {
			t.Errorf("capabilities of %s = %v, want %v", model, caps, want)
		}
		arch, _ := show.ModelInfo["general.architecture"].(string)
		if n, ok := show.ModelInfo[arch+".context_length"].(float64); !ok || n < 2048 {
			t.Errorf("model_info of %s = %v", model, show.ModelInfo)
		}
	}
	_, err = c.Show(ctx, &api.ShowRequest{Model: "nobody"})
	wantOllamaError(t, err, 404, "model 'nobody' not found")
	err = c.Chat(ctx, &api.ChatRequest{Model: "nobody"}, func(api.ChatResponse) error { return nil })
	wantOllamaError(t, err, 404, "model 'nobody' not found")
}

func TestOllamaClientEmbeddings(t *testing.T) {
	t.Parallel()
	_, c := ollamaServer(t)
	ctx := testContext(t)
	got, err := c.Embed(ctx, &api.EmbedRequest{Model: "sim-embed", Input: []string{"a b", "c"}, Dimensions: 8})
	if err != nil || len(got.Embeddings) != 2 || len(got.Embeddings[0]) != 8 || got.PromptEvalCount != 3 {
		t.Fatalf("embed: %+v, %v", got, err)
	}
	norm := float32(0)
	for _, v := range got.Embeddings[0] {
		norm += v * v
	}
	if norm < 0.999 || norm > 1.001 {
		t.Errorf("a shortened vector has square length %v, want 1", norm)
	}
	empty, err := c.Embed(ctx, &api.EmbedRequest{Model: "sim-embed", Input: ""})
	if err != nil || len(empty.Embeddings) != 0 {
		t.Errorf("empty input: %+v, %v", empty, err)
	}
	old, err := c.Embeddings(ctx, &api.EmbeddingRequest{Model: "sim-embed", Prompt: "a b"})
	if err != nil || len(old.Embedding) != 64 {
		t.Errorf("old path: %+v, %v", old, err)
	}
	truncate := false
	_, err = c.Embed(ctx, &api.EmbedRequest{Model: "sim-embed", Input: strings.Repeat("a ", 5000), Truncate: &truncate})
	wantOllamaError(t, err, 400, "the input length exceeds the context length")
	_, err = c.Embed(ctx, &api.EmbedRequest{Model: "sim-llama", Input: "a"})
	wantOllamaError(t, err, 400, "this model does not support embeddings")
}

func wantOllamaError(t *testing.T, err error, status int, text string) {
	t.Helper()
	var got api.StatusError
	if !errors.As(err, &got) || got.StatusCode != status || !strings.Contains(got.ErrorMessage, text) {
		t.Errorf("error = %v, want status %d with %q", err, status, text)
	}
}
