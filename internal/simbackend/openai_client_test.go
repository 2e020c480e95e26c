package simbackend_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"mindrouter/internal/simbackend"
)

// openAIDialects are the dialects that the official OpenAI client talks to.
var openAIDialects = []simbackend.Dialect{simbackend.DialectVLLM, simbackend.DialectOpenAI}

func eachOpenAI(t *testing.T, cfg simbackend.Config, f func(t *testing.T, s *simbackend.Running, c openai.Client)) {
	for _, d := range openAIDialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.Dialect = d
			s := serve(t, cfg)
			f(t, s, openAIClient(s))
		})
	}
}

func userSays(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func TestOfficialClientReadsTheSameAnswerStreamedAndWhole(t *testing.T) {
	t.Parallel()
	eachOpenAI(t, simbackend.Config{}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		params := userSays("sim-chat", "How do I measure a network?")
		whole, err := c.Chat.Completions.New(testContext(t), params)
		if err != nil {
			t.Fatal(err)
		}
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		str := c.Chat.Completions.NewStreaming(testContext(t), params)
		var acc openai.ChatCompletionAccumulator
		for str.Next() {
			if !acc.AddChunk(str.Current()) {
				t.Fatal("the accumulator refused a chunk")
			}
		}
		if err := str.Err(); err != nil {
			t.Fatal(err)
		}
		got, want := acc.Choices[0].Message.Content, whole.Choices[0].Message.Content
		if got != want || !strings.Contains(want, "This is a simulated answer from sim-chat.") {
			t.Errorf("streamed %q, whole %q", got, want)
		}
		if acc.Choices[0].FinishReason != "stop" || whole.Choices[0].FinishReason != "stop" {
			t.Errorf("finish reasons %q and %q, want stop", acc.Choices[0].FinishReason, whole.Choices[0].FinishReason)
		}
		if acc.Usage.TotalTokens != whole.Usage.TotalTokens || whole.Usage.CompletionTokens < 10 ||
			whole.Usage.TotalTokens != whole.Usage.PromptTokens+whole.Usage.CompletionTokens {
			t.Errorf("usage streamed %+v, whole %+v", acc.Usage, whole.Usage)
		}
	})
}

func TestOfficialClientAssemblesParallelToolCalls(t *testing.T) {
	t.Parallel()
	eachOpenAI(t, simbackend.Config{}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		params := userSays("sim-chat", "first add, then get_time please")
		for _, name := range []string{"get_time", "add"} {
			params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: name,
				Parameters: shared.FunctionParameters{
					"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}},
				},
			}))
		}
		str := c.Chat.Completions.NewStreaming(testContext(t), params)
		var acc openai.ChatCompletionAccumulator
		splitInEscape := false
		for str.Next() {
			for _, choice := range str.Current().Choices {
				for _, call := range choice.Delta.ToolCalls {
					args := call.Function.Arguments
					splitInEscape = splitInEscape || strings.HasSuffix(args, `\`) || strings.HasSuffix(args, `\u00`) ||
						strings.HasSuffix(args, `\u0`) || strings.HasSuffix(args, `\u`)
				}
			}
			acc.AddChunk(str.Current())
		}
		if err := str.Err(); err != nil {
			t.Fatal(err)
		}
		calls := acc.Choices[0].Message.ToolCalls
		if len(calls) != 2 || calls[0].Function.Name != "add" || calls[1].Function.Name != "get_time" {
			t.Fatalf("calls = %+v, want add then get_time", calls)
		}
		if calls[0].ID == calls[1].ID || calls[0].ID == "" {
			t.Errorf("call ids %q and %q are not distinct", calls[0].ID, calls[1].ID)
		}
		for _, call := range calls {
			var args struct{ Text string }
			if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil || !strings.Contains(args.Text, "café") {
				t.Errorf("arguments %q: %v", call.Function.Arguments, err)
			}
		}
		if !splitInEscape {
			t.Error("no fragment of the arguments ends inside an escape")
		}
		if acc.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("finish reason %q, want tool_calls", acc.Choices[0].FinishReason)
		}
	})
}

func TestOfficialClientGetsTheToolResultBack(t *testing.T) {
	t.Parallel()
	eachOpenAI(t, simbackend.Config{}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		params := userSays("sim-chat", "use get_time")
		params.Tools = []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "get_time"}),
		}
		first, err := c.Chat.Completions.New(testContext(t), params)
		if err != nil {
			t.Fatal(err)
		}
		msg := first.Choices[0].Message
		params.Messages = append(params.Messages, msg.ToParam(), openai.ToolMessage("12:30 UTC", msg.ToolCalls[0].ID))
		second, err := c.Chat.Completions.New(testContext(t), params)
		if err != nil {
			t.Fatal(err)
		}
		answer := second.Choices[0].Message
		if len(answer.ToolCalls) != 0 || !strings.Contains(answer.Content, "The result of get_time was: 12:30 UTC") {
			t.Errorf("answer after the result = %q with %d calls", answer.Content, len(answer.ToolCalls))
		}
	})
}

func TestOfficialClientGetsJSONOfTheSchema(t *testing.T) {
	t.Parallel()
	eachOpenAI(t, simbackend.Config{}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		params := userSays("sim-chat", "a person")
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "person",
				Schema: map[string]any{
					"type": "object", "required": []string{"name", "age"},
					"properties": map[string]any{
						"name": map[string]any{"type": "string"},
						"age":  map[string]any{"type": "integer", "minimum": 18, "maximum": 30},
					},
				},
			},
		}
		got, err := c.Chat.Completions.New(testContext(t), params)
		if err != nil {
			t.Fatal(err)
		}
		var person struct {
			Name *string
			Age  *int
		}
		if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &person); err != nil {
			t.Fatalf("%v in %q", err, got.Choices[0].Message.Content)
		}
		if person.Name == nil || person.Age == nil || *person.Age < 18 || *person.Age > 30 {
			t.Errorf("answer %q does not conform", got.Choices[0].Message.Content)
		}
	})
}

func TestOfficialClientShowsImages(t *testing.T) {
	t.Parallel()
	eachOpenAI(t, simbackend.Config{}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		uri := func(kind string, data []byte) openai.ChatCompletionContentPartUnionParam {
			return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
				URL: fmt.Sprintf("data:image/%s;base64,%s", kind, base64.StdEncoding.EncodeToString(data)),
			})
		}
		params := openai.ChatCompletionNewParams{
			Model: "sim-chat",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(
				[]openai.ChatCompletionContentPartUnionParam{
					openai.TextContentPart("what is this?"),
					uri("png", pngImage(t, 31, 17)), uri("jpeg", jpegImage(t, 8, 9)),
				})},
		}
		got, err := c.Chat.Completions.New(testContext(t), params)
		if err != nil {
			t.Fatal(err)
		}
		const want = "I can see 2 images. Image 1: image/png, 31x17 pixels. Image 2: image/jpeg, 8x9 pixels."
		if text := got.Choices[0].Message.Content; !strings.Contains(text, want) {
			t.Errorf("answer %q does not say %q", text, want)
		}
	})
}

func TestOfficialClientReadsEmbeddings(t *testing.T) {
	t.Parallel()
	models := []simbackend.Model{{Name: "sim-embed", Capabilities: []simbackend.Capability{simbackend.CapEmbedding}, Context: 100}}
	eachOpenAI(t, simbackend.Config{Models: models}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		got, err := c.Embeddings.New(testContext(t), openai.EmbeddingNewParams{
			Model: "sim-embed",
			Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"red apple", "green apple", "red apple"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Data) != 3 || len(got.Data[0].Embedding) != 64 || got.Usage.PromptTokens != 6 {
			t.Fatalf("%d vectors of %d, usage %+v", len(got.Data), len(got.Data[0].Embedding), got.Usage)
		}
		norm, same, near := 0.0, 0.0, 0.0
		for i, v := range got.Data[0].Embedding {
			norm += v * v
			near += v * got.Data[1].Embedding[i]
			same += v * got.Data[2].Embedding[i]
		}
		if norm < 0.999 || norm > 1.001 || same < 0.999 || near > 0.9 || near < 0.1 {
			t.Errorf("norm %v, equal texts %v, texts that share a word %v", norm, same, near)
		}
	})
}

func TestOfficialClientListsModelsAndReadsErrors(t *testing.T) {
	t.Parallel()
	eachOpenAI(t, simbackend.Config{}, func(t *testing.T, s *simbackend.Running, c openai.Client) {
		page, err := c.Models.List(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Data) < 2 || page.Data[0].ID != "sim-chat" {
			t.Errorf("models = %+v", page.Data)
		}
		_, err = c.Chat.Completions.New(testContext(t), userSays("nobody", "x"))
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound || !strings.Contains(apiErr.Message, "nobody") {
			t.Errorf("error for an unknown model = %v", err)
		}
	})
}
