package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// engines are the model servers that every client test runs against: same tests, same results.
var engines = []struct {
	name    string
	dialect simbackend.Dialect
	chat    string // a model that chats, calls tools and sees images
	think   string // one that thinks
	embed   string
}{
	{"vllm", simbackend.DialectVLLM, "chat", "think", "embed"},
	{"ollama", simbackend.DialectOllama, "chat", "think", "embed"},
	{"openai", simbackend.DialectOpenAI, "chat", "think", "embed"},
}

func models(t *testing.T) []simbackend.Model {
	t.Helper()
	m, err := simbackend.ParseModels("chat:chat+tools+json+vision@32768,think:chat+tools+json+thinking@32768,embed:embedding@8192")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// overEngines runs a test through a gateway to each engine.
func overEngines(t *testing.T, test func(t *testing.T, s *e2e.Server, c openai.Client)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, e2e.Options{
				Backends: map[string]simbackend.Config{"sim": {Dialect: e.dialect, Models: models(t), EmbeddingDims: 16}},
				Cluster: `
backends: [{name: sim, engine: ` + string(e.dialect) + `, url: "%sim%"}]
models: [{name: think, thinking: {profile: toggle}}]`,
			})
			test(t, s, strictClient(t, s, s.Key(app.NewKey{})))
		})
	}
}

func client(s *e2e.Server, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func ask(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

// collect streams an answer and returns what the SDK's own accumulator makes of it, with the thinking beside.
func collect(t *testing.T, c openai.Client, p openai.ChatCompletionNewParams) (openai.ChatCompletion, string, error) {
	t.Helper()
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Chat.Completions.NewStreaming(t.Context(), p)
	var acc openai.ChatCompletionAccumulator
	var thinking strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			t.Fatalf("the SDK does not accept the chunk %s", chunk.RawJSON())
		}
		for _, choice := range chunk.Choices {
			thinking.WriteString(field(choice.Delta.RawJSON(), "reasoning_content"))
		}
	}
	return acc.ChatCompletion, thinking.String(), errors.Join(stream.Err(), stream.Close())
}

func field(raw, name string) string {
	var m map[string]any
	if json.Unmarshal([]byte(raw), &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

// bothWays asks whole and streamed and returns both answers; they must agree.
func bothWays(t *testing.T, c openai.Client, p openai.ChatCompletionNewParams) (openai.ChatCompletion, string) {
	t.Helper()
	whole, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatalf("whole: %v", err)
	}
	streamed, thinking, err := collect(t, c, p)
	if err != nil {
		t.Fatalf("streamed: %v", err)
	}
	if len(whole.Choices) != 1 || len(streamed.Choices) != 1 {
		t.Fatalf("choices: %d whole, %d streamed, want 1", len(whole.Choices), len(streamed.Choices))
	}
	w, st := whole.Choices[0], streamed.Choices[0]
	if w.Message.Content != st.Message.Content || w.FinishReason != st.FinishReason {
		t.Errorf("whole %q (%s) and streamed %q (%s) differ", w.Message.Content, w.FinishReason, st.Message.Content, st.FinishReason)
	}
	if got, want := calls(st.Message.ToolCalls), calls(w.Message.ToolCalls); got != want {
		t.Errorf("tool calls: whole %s, streamed %s", want, got)
	}
	if whole.Usage.TotalTokens != streamed.Usage.TotalTokens || whole.Usage.TotalTokens == 0 {
		t.Errorf("usage: whole %d, streamed %d", whole.Usage.TotalTokens, streamed.Usage.TotalTokens)
	}
	if got := field(w.Message.RawJSON(), "reasoning_content"); got != thinking {
		t.Errorf("thinking: whole %q, streamed %q", got, thinking)
	}
	return *whole, thinking
}

func calls(list []openai.ChatCompletionMessageToolCallUnion) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s(%s) ", c.Function.Name, c.Function.Arguments)
	}
	return b.String()
}

func TestOpenAIText(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		got, _ := bothWays(t, c, ask("chat", "[[say=Blue — синий — 青 🟦]]"))
		if text := got.Choices[0].Message.Content; text != "Blue — синий — 青 🟦" {
			t.Errorf("text %q", text)
		}
		if got.Model != "chat" || got.Choices[0].FinishReason != "stop" {
			t.Errorf("model %q, finish %q", got.Model, got.Choices[0].FinishReason)
		}
	})
}

func TestOpenAILengthAndStop(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := ask("chat", "[[tokens=50]]")
		p.MaxCompletionTokens = openai.Int(7)
		got, _ := bothWays(t, c, p)
		if got.Choices[0].FinishReason != "length" || got.Usage.CompletionTokens != 7 {
			t.Errorf("finish %q after %d tokens, want length after 7", got.Choices[0].FinishReason, got.Usage.CompletionTokens)
		}
		p = ask("chat", "[[say=one two END three]]")
		p.Stop = openai.ChatCompletionNewParamsStopUnion{OfString: openai.String("END")}
		got, _ = bothWays(t, c, p)
		if text := got.Choices[0].Message.Content; strings.TrimSpace(text) != "one two" || got.Choices[0].FinishReason != "stop" {
			t.Errorf("text %q, finish %q; want it to end before END", text, got.Choices[0].FinishReason)
		}
	})
}

func tool(name string) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: name, Description: openai.String("Tells the " + name),
		Parameters: openai.FunctionParameters{
			"type": "object", "required": []string{"city"},
			"properties": map[string]any{"city": map[string]any{"type": "string"}},
		},
	})
}

func TestOpenAIToolRoundTrip(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := ask("chat", "Call weather and clock for Oslo")
		p.Tools = []openai.ChatCompletionToolUnionParam{tool("weather"), tool("clock")}
		got, _ := bothWays(t, c, p)
		choice := got.Choices[0]
		if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) != 2 {
			t.Fatalf("finish %q with calls %s, want two parallel calls", choice.FinishReason, calls(choice.Message.ToolCalls))
		}
		p.Messages = append(p.Messages, choice.Message.ToParam())
		ids := map[string]bool{}
		for _, call := range choice.Message.ToolCalls {
			var args struct{ City string }
			if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil || args.City == "" {
				t.Errorf("arguments %q are no object with a city: %v", call.Function.Arguments, err)
			}
			ids[call.ID] = true
			p.Messages = append(p.Messages, openai.ToolMessage("result of "+call.Function.Name, call.ID))
		}
		if len(ids) != 2 {
			t.Errorf("tool ids %v are not distinct", ids)
		}
		got, _ = bothWays(t, c, p)
		if text := got.Choices[0].Message.Content; !strings.Contains(text, "result of") {
			t.Errorf("answer %q does not use the tool results", text)
		}
	})
}

func TestOpenAIForcedToolCall(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := ask("chat", "Good morning")
		p.Tools = []openai.ChatCompletionToolUnionParam{tool("weather"), tool("clock")}
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
		got, _ := bothWays(t, c, p)
		if n := len(got.Choices[0].Message.ToolCalls); n == 0 || got.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("required: %d calls, finish %q", n, got.Choices[0].FinishReason)
		}
		p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "clock"})
		got, _ = bothWays(t, c, p)
		if list := got.Choices[0].Message.ToolCalls; len(list) != 1 || list[0].Function.Name != "clock" || !strings.Contains(list[0].Function.Arguments, `"city"`) {
			t.Errorf("named: %s, want one call of clock with a city", calls(list))
		}
	})
}

func TestOpenAIJSONSchema(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := ask("chat", "A person please")
		p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "person", Strict: openai.Bool(true),
				Schema: map[string]any{
					"type": "object", "required": []string{"name", "age"}, "additionalProperties": false,
					"properties": map[string]any{"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer"}},
				},
			}},
		}
		got, _ := bothWays(t, c, p)
		var person struct {
			Name *string
			Age  *int
		}
		if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &person); err != nil || person.Name == nil || person.Age == nil {
			t.Errorf("answer %q does not fit the schema: %v", got.Choices[0].Message.Content, err)
		}
	})
}

func TestOpenAIThinking(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := ask("think", "[[think=Let me see.]][[say=It is blue.]]")
		got, thinking := bothWays(t, c, p)
		if thinking != "Let me see." || got.Choices[0].Message.Content != "It is blue." {
			t.Errorf("thought %q, said %q", thinking, got.Choices[0].Message.Content)
		}
		p.ReasoningEffort = "none"
		got, thinking = bothWays(t, c, p)
		if thinking != "" || got.Choices[0].Message.Content != "It is blue." {
			t.Errorf("switched off: thought %q, said %q", thinking, got.Choices[0].Message.Content)
		}
	})
}

func picture(t *testing.T, width, height int) string {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(buf.Bytes())
}

func TestOpenAIImages(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		p := openai.ChatCompletionNewParams{Model: "chat", Messages: []openai.ChatCompletionMessageParamUnion{
			openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("What is it?"),
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: picture(t, 13, 7)}),
			}),
		}}
		got, _ := bothWays(t, c, p)
		if text := got.Choices[0].Message.Content; !strings.Contains(text, "13") || !strings.Contains(text, "7") {
			t.Errorf("answer %q does not know the picture of 13 x 7", text)
		}
		p.Model = "think"
		_, err := c.Chat.Completions.New(t.Context(), p)
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusBadRequest {
			t.Errorf("a picture for a model without eyes: %v, want 400", err)
		}
	})
}

func TestOpenAIEmbeddings(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, s *e2e.Server, c openai.Client) {
		p := openai.EmbeddingNewParams{Model: "embed", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}}}
		got, err := c.Embeddings.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Data) != 2 || len(got.Data[0].Embedding) != 16 || got.Usage.PromptTokens == 0 {
			t.Fatalf("%d vectors of %d, usage %+v", len(got.Data), len(got.Data[0].Embedding), got.Usage)
		}
		key := s.Key(app.NewKey{})
		raw := s.Post("/v1/embeddings", key, `{"model":"embed","input":["one","two"],"encoding_format":"base64"}`)
		var reply struct {
			Data []struct{ Embedding string }
		}
		if err := json.Unmarshal([]byte(raw.Body), &reply); err != nil {
			t.Fatalf("%v in %s", err, raw.Body)
		}
		for i, d := range reply.Data {
			vector := float32s(t, d.Embedding)
			for j, v := range got.Data[i].Embedding {
				if float32(v) != vector[j] {
					t.Fatalf("vector %d differs between float and base64 at %d: %v, %v", i, j, v, vector[j])
				}
			}
		}
	})
}

func TestOpenAIModels(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, _ *e2e.Server, c openai.Client) {
		page, err := c.Models.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range page.Data {
			names = append(names, m.ID)
		}
		if got := strings.Join(names, " "); got != "chat embed think" {
			t.Errorf("models %q", got)
		}
		one, err := c.Models.Get(t.Context(), "chat")
		if err != nil || one.ID != "chat" {
			t.Errorf("model %+v, %v", one, err)
		}
	})
}
