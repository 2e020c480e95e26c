//go:build real

package realmodels_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/e2e/realmodels"
)

// reply is a whole answer, put together from the parts of a stream.
type reply struct {
	parts    int
	content  string
	thinking string
	calls    []api.ToolCall
	last     api.ChatResponse
}

func chat(t *testing.T, s *realmodels.OllamaServer, request *api.ChatRequest) reply {
	t.Helper()
	got, err := tryChat(t.Context(), s.Client(t), request)
	if err != nil {
		t.Fatalf("chat with %s: %v", request.Model, err)
	}
	return got
}

func tryChat(ctx context.Context, client *api.Client, request *api.ChatRequest) (reply, error) {
	var got reply
	err := client.Chat(ctx, request, func(part api.ChatResponse) error {
		got.parts++
		got.content += part.Message.Content
		got.thinking += part.Message.Thinking
		got.calls = append(got.calls, part.Message.ToolCalls...)
		got.last = part
		return nil
	})
	return got, err
}

func ask(model, question string) *api.ChatRequest {
	return &api.ChatRequest{Model: model, Messages: []api.Message{{Role: "user", Content: question}}}
}

func TestRealOllamaChatSaysItsSentence(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	model := s.Model(t, realmodels.Chat)
	for name, stream := range map[string]bool{"stream": true, "whole": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := ask(model.Name, "Where is Paris?")
			request.Stream = &stream
			got := chat(t, s, request)
			if got.content != model.Says {
				t.Errorf("got %q, want %q", got.content, model.Says)
			}
			if stream == (got.parts == 1) {
				t.Errorf("%d parts with stream %t", got.parts, stream)
			}
			if !got.last.Done || got.last.DoneReason != "stop" {
				t.Errorf("ended with done %t, reason %q", got.last.Done, got.last.DoneReason)
			}
			// The token that ends the reply is counted, too.
			if got.last.EvalCount != model.SaysTokens+1 || got.last.PromptEvalCount == 0 {
				t.Errorf("%d tokens out, %d in, want %d out", got.last.EvalCount, got.last.PromptEvalCount, model.SaysTokens+1)
			}
		})
	}
}

func TestRealOllamaLimitsOutput(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	for _, name := range []string{realmodels.Chat, realmodels.Endless} {
		request := ask(name, "Go on.")
		request.Options = map[string]any{"num_predict": 5, "temperature": 1.5}
		got := chat(t, s, request)
		if got.last.EvalCount != 5 || got.last.DoneReason != "length" {
			t.Errorf("%s: %d tokens, reason %q, want 5 and length", name, got.last.EvalCount, got.last.DoneReason)
		}
	}
}

func TestRealOllamaThinks(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	model := s.Model(t, realmodels.Think)
	tests := map[string]struct {
		think *api.ThinkValue
		want  string
	}{
		"unset is on": {nil, model.Thinks},
		"on":          {&api.ThinkValue{Value: true}, model.Thinks},
		"off":         {&api.ThinkValue{Value: false}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := ask(model.Name, "What is the answer?")
			request.Think = test.think
			got := chat(t, s, request)
			if got.thinking != test.want || got.content != model.Says {
				t.Errorf("thought %q and said %q, want %q and %q", got.thinking, got.content, test.want, model.Says)
			}
		})
	}
}

func TestRealOllamaCallsToolsAndAnswersAfterTheResult(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	for _, name := range []string{realmodels.Tools, realmodels.ParallelTools} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := s.Model(t, name)
			request := ask(name, "How is the weather?")
			if got := chat(t, s, request); got.content != model.Says || len(got.calls) != 0 {
				t.Errorf("without tools: said %q and called %v, want %q", got.content, got.calls, model.Says)
			}
			request.Tools = weatherTools(t)
			got := chat(t, s, request)
			if got.content != "" {
				t.Errorf("said %q beside the calls", got.content)
			}
			if len(got.calls) != len(model.Calls) {
				t.Fatalf("called %v, want %v", got.calls, model.Calls)
			}
			for i, want := range model.Calls {
				call := got.calls[i].Function
				if call.Name != want.Name || !reflect.DeepEqual(call.Arguments.ToMap(), want.Arguments) {
					t.Errorf("call %d is %s%v, want %v", i, call.Name, call.Arguments.ToMap(), want)
				}
			}
			request.Messages = append(request.Messages, api.Message{Role: "assistant", ToolCalls: got.calls})
			for range got.calls {
				request.Messages = append(request.Messages, api.Message{Role: "tool", ToolName: realmodels.WeatherTool, Content: "21, sunny"})
			}
			if got := chat(t, s, request); got.content != model.Says || len(got.calls) != 0 {
				t.Errorf("after the result: said %q and called %v, want %q", got.content, got.calls, model.Says)
			}
		})
	}
}

func weatherTools(t *testing.T) api.Tools {
	t.Helper()
	var tools api.Tools
	err := json.Unmarshal([]byte(`[{"type":"function","function":{"name":"`+realmodels.WeatherTool+`",
		"description":"Tells the weather.","parameters":{"type":"object","required":["city"],
		"properties":{"city":{"type":"string","description":"Name of the city"}}}}}]`), &tools)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func TestRealOllamaFollowsSchema(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	request := ask(realmodels.JSON, "Describe somebody.")
	request.Format = json.RawMessage(`{"type":"object","required":["name","age","mood","tags"],"properties":{
		"name":{"type":"string"},"age":{"type":"integer"},"mood":{"enum":["good","bad"]},
		"tags":{"type":"array","items":{"type":"string"},"maxItems":3}}}`)
	// More than one seed, because one might be lucky.
	for seed := range 10 {
		request.Options = map[string]any{"seed": seed, "num_predict": 1000}
		got := chat(t, s, request)
		var person struct {
			Name *string
			Age  *int64
			Mood string
			Tags []string
		}
		if err := json.Unmarshal([]byte(got.content), &person); err != nil {
			t.Fatalf("seed %d: %v in %q", seed, err, got.content)
		}
		if person.Name == nil || person.Age == nil || len(person.Tags) > 3 || !slices.Contains([]string{"good", "bad"}, person.Mood) {
			t.Errorf("seed %d: %s does not follow the schema", seed, got.content)
		}
	}
}

func TestRealOllamaEmbedsSimilarTextsNearby(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	texts := []string{"the red fox jumps", "a fox, red, jumped", "QUARTZ 9187 %%"}
	response, err := s.Client(t).Embed(t.Context(), &api.EmbedRequest{Model: realmodels.Embed, Input: texts})
	if err != nil {
		t.Fatalf("embed: %v", err)
	}
	if len(response.Embeddings) != len(texts) || response.PromptEvalCount == 0 {
		t.Fatalf("%d embeddings of %d tokens for %d texts", len(response.Embeddings), response.PromptEvalCount, len(texts))
	}
	vectors := response.Embeddings
	for i, vector := range vectors {
		if length := dot(vector, vector); math.Abs(length-1) > 1e-3 {
			t.Errorf("text %d: squared length %g, want 1", i, length)
		}
	}
	near, far := dot(vectors[0], vectors[1]), dot(vectors[0], vectors[2])
	if near <= far+0.2 {
		t.Errorf("similar texts at %g, different ones at %g", near, far)
	}
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestRealOllamaReportsCapabilities(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	for _, model := range realmodels.Models() {
		shown, err := s.Client(t).Show(t.Context(), &api.ShowRequest{Model: model.Name})
		if err != nil {
			t.Fatalf("show %s: %v", model.Name, err)
		}
		var got []string
		for _, capability := range shown.Capabilities {
			got = append(got, string(capability))
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(model.Capabilities))) {
			t.Errorf("%s: capabilities %v, want %v", model.Name, got, model.Capabilities)
		}
	}
}

func TestRealOllamaRefusesWhatAModelCannot(t *testing.T) {
	t.Parallel()
	s := realmodels.Ollama(t)
	thinking := ask(realmodels.Chat, "Think.")
	thinking.Think = &api.ThinkValue{Value: true}
	calling := ask(realmodels.Chat, "Call.")
	calling.Tools = weatherTools(t)
	tests := map[string]struct {
		request *api.ChatRequest
		status  int
	}{
		"think":         {thinking, http.StatusBadRequest},
		"tools":         {calling, http.StatusBadRequest},
		"unknown model": {ask("nobody", "Hello?"), http.StatusNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryChat(t.Context(), s.Client(t), test.request)
			if got := status(err); got != test.status {
				t.Errorf("status %d (%v), want %d", got, err, test.status)
			}
		})
	}
}

// status returns the HTTP status that Ollama's client reports, 200 without an error.
func status(err error) int {
	var refused api.StatusError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.StatusCode
	default:
		return 0
	}
}

func TestRealOllamaLoadsAndUnloads(t *testing.T) {
	t.Parallel()
	s := realmodels.StartOllama(t)
	client := s.Client(t)
	loaded := func() []string {
		t.Helper()
		running, err := client.ListRunning(t.Context())
		if err != nil {
			t.Fatalf("list running models: %v", err)
		}
		var names []string
		for _, model := range running.Models {
			names = append(names, strings.TrimSuffix(model.Name, ":latest"))
		}
		return names
	}
	if got := loaded(); len(got) != 0 {
		t.Errorf("loaded at first: %v", got)
	}
	chat(t, s, ask(realmodels.Chat, "Hello"))
	if got := loaded(); !slices.Equal(got, []string{realmodels.Chat}) {
		t.Errorf("loaded after a chat: %v", got)
	}
	request := ask(realmodels.Chat, "")
	request.Messages = nil
	request.KeepAlive = &api.Duration{}
	if got := chat(t, s, request); got.last.DoneReason != "unload" {
		t.Errorf("reason %q, want unload", got.last.DoneReason)
	}
}

func TestRealOllamaBusyAnswers503(t *testing.T) {
	t.Parallel()
	s := realmodels.OllamaBusy(t)
	client := s.Client(t)
	chat(t, s, ask(realmodels.Chat, "Load the model."))

	const requests = 12
	statuses := make([]int, requests)
	var wait sync.WaitGroup
	for i := range requests {
		wait.Go(func() {
			request := ask(realmodels.Endless, "Go on.")
			request.Options = map[string]any{"num_predict": 1000}
			_, err := tryChat(t.Context(), client, request)
			statuses[i] = status(err)
		})
	}
	wait.Wait()
	count := map[int]int{}
	for _, s := range statuses {
		count[s]++
	}
	if count[http.StatusOK] == 0 || count[http.StatusServiceUnavailable] == 0 || count[http.StatusOK]+count[http.StatusServiceUnavailable] != requests {
		t.Errorf("statuses %v, want some 200, some 503 and nothing else", count)
	}
}

func TestRealOllamaFreesTheSlotOfAClientThatLeaves(t *testing.T) {
	t.Parallel()
	s := realmodels.OllamaBusy(t)
	ctx, leave := context.WithCancel(t.Context())
	parts := 0
	// Ollama's client reports a stream that it broke off as one that ended well.
	_ = s.Client(t).Chat(ctx, ask(realmodels.Endless, "Go on."), func(part api.ChatResponse) error {
		if part.Done {
			t.Errorf("the endless model ended after %d parts: %s", parts, part.DoneReason)
		}
		if parts++; parts == 3 {
			leave()
		}
		return nil
	})
	if parts < 3 {
		t.Fatalf("%d parts before the client left, want 3", parts)
	}
	if got, want := chat(t, s, ask(realmodels.Chat, "Hello")), s.Model(t, realmodels.Chat).Says; got.content != want {
		t.Errorf("the next one got %q, want %q", got.content, want)
	}
}

func TestRealLlamaCppSpeaksOpenAI(t *testing.T) {
	t.Parallel()
	s := realmodels.LlamaCpp(t)
	client := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("none"))
	request := openai.ChatCompletionNewParams{
		Model:       realmodels.LlamaCppModel,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the capital of France?")},
		MaxTokens:   openai.Int(12),
		Temperature: openai.Float(0),
	}

	models, err := client.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != realmodels.LlamaCppModel {
		t.Errorf("models %+v, error %v", models, err)
	}
	whole, err := client.Chat.Completions.New(t.Context(), request)
	if err != nil {
		t.Fatalf("chat: %v", err)
	}
	answer := whole.Choices[0].Message.Content
	if !strings.Contains(answer, "Paris") || whole.Usage.CompletionTokens == 0 {
		t.Errorf("got %q, usage %+v, want Paris", answer, whole.Usage)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), request)
	var streamed strings.Builder
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			streamed.WriteString(choice.Delta.Content)
		}
	}
	if err := stream.Err(); err != nil || streamed.String() != answer {
		t.Errorf("streamed %q, error %v, want %q", streamed.String(), err, answer)
	}
}
