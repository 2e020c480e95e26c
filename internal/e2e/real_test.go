//go:build real

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/realmodels"
)

// throughOllama starts a gateway in front of real Ollamas. Each backend is a line of the cluster file without its engine.
func throughOllama(t *testing.T, backends ...string) (*e2e.Server, openai.Client) {
	t.Helper()
	// Which server is asked first is the tests' to say, not that of what is loaded or fast.
	text := "settings: {routing: {points: {resident: 0, utilisation: 0, latency: 0}}}\nbackends:\n"
	for _, b := range backends {
		text += "  - {engine: ollama, " + b + "}\n"
	}
	s := e2e.Start(t, e2e.Options{Cluster: text})
	return s, strictClient(t, s, s.Key(app.NewKey{}))
}

// throughSharedOllama starts a gateway in front of the Ollama that all tests share.
func throughSharedOllama(t *testing.T) (*realmodels.OllamaServer, *e2e.Server, openai.Client) {
	t.Helper()
	o := realmodels.Ollama(t)
	s, c := throughOllama(t, fmt.Sprintf("name: real, url: %q", o.URL))
	return o, s, c
}

// record counts the requests on record by outcome, once all of them have ended: the end is written after the answer.
func record(t *testing.T, s *e2e.Server) (got map[string]int) {
	t.Helper()
	s.Eventually("on record", func() error {
		if got = outcomes(t, s.DataDir); got[""] != 0 {
			return fmt.Errorf("%d requests without an end", got[""])
		}
		return nil
	})
	return got
}

// status is what the SDK says of a refusal, or 200.
func status(err error) int {
	var apiErr *openai.Error
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &apiErr):
		return apiErr.StatusCode
	default:
		return 0
	}
}

func TestRealOllamaThroughGatewayChats(t *testing.T) {
	t.Parallel()
	o, s, c := throughSharedOllama(t)
	model := o.Model(t, realmodels.Chat)
	got, thinking := bothWays(t, c, ask(realmodels.Chat, "What is the capital of France?"))
	if text := got.Choices[0].Message.Content; text != model.Says || thinking != "" {
		t.Errorf("said %q and thought %q, want %q", text, thinking, model.Says)
	}
	// The token that ends the reply is counted, too.
	if got.Model != realmodels.Chat || got.Choices[0].FinishReason != "stop" || got.Usage.CompletionTokens != int64(model.SaysTokens+1) {
		t.Errorf("model %q, finish %q, usage %s; want %d tokens out", got.Model, got.Choices[0].FinishReason, got.Usage.RawJSON(), model.SaysTokens+1)
	}
	if got.Usage.PromptTokens < int64(len("What is the capital of France?"))/2 {
		t.Errorf("usage %s counts too few tokens of the prompt for a vocabulary of bytes", got.Usage.RawJSON())
	}

	p := ask(realmodels.Endless, "Go on.")
	p.MaxCompletionTokens = openai.Int(5)
	got, _ = bothWays(t, c, p)
	if got.Choices[0].FinishReason != "length" || got.Usage.CompletionTokens != 5 {
		t.Errorf("finish %q after %d tokens, want length after 5", got.Choices[0].FinishReason, got.Usage.CompletionTokens)
	}
	p = ask(realmodels.Chat, "Where?")
	p.Stop = openai.ChatCompletionNewParamsStopUnion{OfString: openai.String("France")}
	got, _ = bothWays(t, c, p)
	if text := got.Choices[0].Message.Content; text != "Grüezi! The capital of " || got.Choices[0].FinishReason != "stop" {
		t.Errorf("said %q, finish %q; want it to end before France", text, got.Choices[0].FinishReason)
	}
	if got := record(t, s); got["success"] != 4 || got["incomplete"] != 2 || len(got) != 2 {
		t.Errorf("the record holds %v, want 4 success and 2 incomplete", got)
	}
	if estimated, reported := estimates(t, s); estimated != 0 || reported != 6 {
		t.Errorf("%d estimated and %d reported on record, want 0 and 6", estimated, reported)
	}
}

func TestRealOllamaThroughGatewayListsModels(t *testing.T) {
	t.Parallel()
	_, _, c := throughSharedOllama(t)
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range page.Data {
		got = append(got, m.ID)
		if !strings.Contains(m.RawJSON(), `"context_length":8192`) {
			t.Errorf("%s, want a context of 8192 tokens", m.RawJSON())
		}
	}
	for _, m := range realmodels.Models() {
		want = append(want, m.Name)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
	// Ollama's own name for the same model is known, too.
	if _, err := c.Models.Get(t.Context(), realmodels.Chat); err != nil {
		t.Error(err)
	}
	if got, err := c.Chat.Completions.New(t.Context(), ask(realmodels.Chat+":latest", "Hello")); err != nil || got.Model != realmodels.Chat+":latest" {
		t.Errorf("with the tag: %v, %v", got, err)
	}
}

func TestRealOllamaThroughGatewayCallsTools(t *testing.T) {
	t.Parallel()
	o, _, c := throughSharedOllama(t)
	for _, name := range []string{realmodels.Tools, realmodels.ParallelTools} {
		t.Run(name, func(t *testing.T) {
			model := o.Model(t, name)
			p := ask(name, "How is the weather?")
			if got, _ := bothWays(t, c, p); got.Choices[0].Message.Content != model.Says || len(got.Choices[0].Message.ToolCalls) != 0 {
				t.Errorf("without tools: %s", got.RawJSON())
			}
			p.Tools = []openai.ChatCompletionToolUnionParam{tool(realmodels.WeatherTool)}
			got, _ := bothWays(t, c, p)
			choice := got.Choices[0]
			if choice.FinishReason != "tool_calls" || choice.Message.Content != "" || len(choice.Message.ToolCalls) != len(model.Calls) {
				t.Fatalf("finish %q with %q and calls %s, want %v", choice.FinishReason, choice.Message.Content,
					calls(choice.Message.ToolCalls), model.Calls)
			}
			p.Messages = append(p.Messages, choice.Message.ToParam())
			ids := map[string]bool{}
			for i, call := range choice.Message.ToolCalls {
				want, err := json.Marshal(model.Calls[i].Arguments)
				if err != nil {
					t.Fatal(err)
				}
				if call.Function.Name != model.Calls[i].Name || strings.ReplaceAll(call.Function.Arguments, " ", "") != string(want) {
					t.Errorf("call %d is %s(%s), want %s(%s)", i, call.Function.Name, call.Function.Arguments, model.Calls[i].Name, want)
				}
				ids[call.ID] = true
				p.Messages = append(p.Messages, openai.ToolMessage("21, sunny", call.ID))
			}
			if len(ids) != len(model.Calls) {
				t.Errorf("ids %v are not distinct", ids)
			}
			got, _ = bothWays(t, c, p)
			if choice := got.Choices[0]; choice.Message.Content != model.Says || choice.FinishReason != "stop" {
				t.Errorf("after the result: said %q, finish %q; want %q", choice.Message.Content, choice.FinishReason, model.Says)
			}
		})
	}
	// A model that cannot call is not asked to.
	p := ask(realmodels.Chat, "How is the weather?")
	p.Tools = []openai.ChatCompletionToolUnionParam{tool(realmodels.WeatherTool)}
	if _, err := c.Chat.Completions.New(t.Context(), p); status(err) != http.StatusBadRequest {
		t.Errorf("tools for a model without them: %v, want 400", err)
	}
}

func TestRealOllamaThroughGatewayThinks(t *testing.T) {
	t.Parallel()
	o, _, c := throughSharedOllama(t)
	model := o.Model(t, realmodels.Think)
	for effort, want := range map[string]string{"": model.Thinks, "high": model.Thinks, "none": ""} {
		p := ask(realmodels.Think, "What is the answer?")
		p.ReasoningEffort = openai.ReasoningEffort(effort)
		got, thinking := bothWays(t, c, p)
		if thinking != want || got.Choices[0].Message.Content != model.Says {
			t.Errorf("effort %q: thought %q and said %q, want %q and %q", effort, thinking, got.Choices[0].Message.Content, want, model.Says)
		}
		if thought := got.Usage.CompletionTokens > int64(model.SaysTokens+1); thought != (want != "") {
			t.Errorf("effort %q: usage %s: the model thought %t", effort, got.Usage.RawJSON(), thought)
		}
	}
	// A model that cannot think answers all the same.
	p := ask(realmodels.Chat, "Hello")
	p.ReasoningEffort = "high"
	if got, thinking := bothWays(t, c, p); thinking != "" || got.Choices[0].Message.Content != o.Model(t, realmodels.Chat).Says {
		t.Errorf("a model without thinking: thought %q, said %q", thinking, got.Choices[0].Message.Content)
	}
}

// personFormat is a schema that no model follows by chance.
func personFormat() openai.ChatCompletionNewParamsResponseFormatUnion {
	return openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "person", Strict: openai.Bool(true),
			Schema: map[string]any{
				"type": "object", "required": []string{"name", "age", "mood"}, "additionalProperties": false,
				"properties": map[string]any{
					"name": map[string]any{"type": "string", "maxLength": 12},
					"age":  map[string]any{"type": "integer", "minimum": 0, "maximum": 150},
					"mood": map[string]any{"type": "string", "enum": []string{"good", "bad"}},
				},
			},
		}},
	}
}

func checkPerson(t *testing.T, text string) {
	t.Helper()
	var person struct {
		Name *string
		Age  *int
		Mood string
	}
	err := json.Unmarshal([]byte(text), &person)
	if err != nil || person.Name == nil || person.Age == nil || !slices.Contains([]string{"good", "bad"}, person.Mood) {
		t.Errorf("answer %q does not follow the schema: %v", text, err)
	}
}

func TestRealOllamaThroughGatewayFollowsSchema(t *testing.T) {
	t.Parallel()
	_, _, c := throughSharedOllama(t)
	for seed := range int64(5) { // one might be lucky
		p := ask(realmodels.JSON, "Describe somebody.")
		p.Seed, p.MaxCompletionTokens, p.ResponseFormat = openai.Int(seed), openai.Int(1000), personFormat()
		got, _ := bothWays(t, c, p)
		checkPerson(t, got.Choices[0].Message.Content)
	}
	p := ask(realmodels.JSON, "Describe somebody.")
	p.Seed, p.MaxCompletionTokens = openai.Int(1), openai.Int(1000)
	p.ResponseFormat.OfJSONObject = &openai.ResponseFormatJSONObjectParam{}
	got, _ := bothWays(t, c, p)
	if text := got.Choices[0].Message.Content; !json.Valid([]byte(text)) || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		t.Errorf("answer %q is no JSON object", text)
	}
}

func TestRealOllamaThroughGatewayEmbeds(t *testing.T) {
	t.Parallel()
	_, s, c := throughSharedOllama(t)
	texts := []string{"the red fox jumps", "a fox, red, jumped", "QUARTZ 9187 %%"}
	got, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: realmodels.Embed, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != len(texts) || got.Usage.PromptTokens == 0 {
		t.Fatalf("%d vectors, usage %+v", len(got.Data), got.Usage)
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	v := func(i int) []float64 { return got.Data[i].Embedding }
	for i := range texts {
		if length := dot(v(i), v(i)); math.Abs(length-1) > 1e-3 || got.Data[i].Index != int64(i) {
			t.Errorf("vector %d has index %d and squared length %g", i, got.Data[i].Index, length)
		}
	}
	if near, far := dot(v(0), v(1)), dot(v(0), v(2)); near <= far+0.2 {
		t.Errorf("similar texts at %g, different ones at %g", near, far)
	}
	raw := s.Post("/v1/embeddings", s.Key(app.NewKey{}), `{"model":"`+realmodels.Embed+`","input":"`+texts[0]+`","encoding_format":"base64"}`)
	var reply struct {
		Data []struct{ Embedding string }
	}
	if err := json.Unmarshal([]byte(raw.Body), &reply); err != nil || len(reply.Data) != 1 {
		t.Fatalf("%v in %s", err, raw.Body)
	}
	for i, x := range float32s(t, reply.Data[0].Embedding) {
		if math.Abs(float64(x)-v(0)[i]) > 1e-5 {
			t.Fatalf("base64 differs at %d: %v, %v", i, x, v(0)[i])
		}
	}
	if _, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: realmodels.Chat, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")},
	}); status(err) != http.StatusBadRequest {
		t.Errorf("embeddings of a chat model: %v, want 400", err)
	}
}

// TestRealOllamaThroughGatewayRefusesLongPrompts sends a prompt that our own count lets pass, in words of a common
// vocabulary, and that is three times too long in the model's vocabulary of bytes. Ollama must refuse it, not cut it.
func TestRealOllamaThroughGatewayRefusesLongPrompts(t *testing.T) {
	t.Parallel()
	_, s, _ := throughSharedOllama(t)
	key := s.Key(app.NewKey{})
	for _, words := range []int{4000, 40_000} { // the second one we refuse ourselves
		body := `{"model":"` + realmodels.Chat + `","messages":[{"role":"user","content":"` + strings.Repeat("house ", words) + `"}]}`
		got := s.Post("/v1/chat/completions", key, body)
		if e := decodeError(t, got.Body); got.Status != http.StatusBadRequest || e.Error.Code == nil || *e.Error.Code != "context_length_exceeded" {
			t.Errorf("%d words: %d %s, want 400 context_length_exceeded", words, got.Status, got.Body)
		}
	}
	if metrics := s.Metrics(); !strings.Contains(metrics, `mindrouter_attempts_total{backend="real",outcome="error"} 1`) {
		t.Error("Ollama was not asked once: the test does not show what it should")
	}
}
