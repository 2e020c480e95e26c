//go:build real

package e2e_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/realmodels"
)

// throughLlamaCpp starts a gateway in front of the server of llama-cpp-python, which tells nothing of its model but the
// name. What an admin adds is a line about the model in the cluster file.
func throughLlamaCpp(t *testing.T, model string) (*e2e.Server, openai.Client) {
	t.Helper()
	server := realmodels.LlamaCpp(t)
	text := fmt.Sprintf("backends: [{name: real, engine: openai, url: %q, max_concurrent: 1}]\n", server.URL)
	if model != "" {
		text += fmt.Sprintf("models: [{name: %s, %s}]\n", realmodels.LlamaCppModel, model)
	}
	s := e2e.Start(t, e2e.Options{Cluster: text})
	return s, strictClient(t, s, s.Key(app.NewKey{}))
}

// askGemma asks in a way that has one answer.
func askGemma(tokens int64) openai.ChatCompletionNewParams {
	p := ask(realmodels.LlamaCppModel, "What is the capital of France?")
	p.Temperature, p.MaxTokens = openai.Float(0), openai.Int(tokens)
	return p
}

// estimates counts the requests on record by whether their usage is an estimate of ours.
func estimates(t *testing.T, s *e2e.Server) (estimated, reported int) {
	t.Helper()
	record(t, s) // waits for the ends
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.DataDir, "mindrouter.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(t.Context(),
		"SELECT COALESCE(SUM(CASE WHEN usage_estimated THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN usage_estimated THEN 0 ELSE 1 END), 0) "+
			"FROM requests WHERE input_tokens > 0 AND output_tokens > 0").Scan(&estimated, &reported)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return estimated, reported
}

func TestRealLlamaCppThroughGatewayChats(t *testing.T) {
	t.Parallel()
	s, c := throughLlamaCpp(t, "")
	got, _ := bothWays(t, c, askGemma(12))
	choice := got.Choices[0]
	if !strings.Contains(choice.Message.Content, "Paris") || choice.FinishReason != "length" {
		t.Errorf("said %q, finish %q; want Paris and length", choice.Message.Content, choice.FinishReason)
	}
	// Its streams have no usage, so the counts are ours, and the record says so. Twelve tokens of English are some fifty
	// bytes; the estimate may be off by half.
	if n := got.Usage.CompletionTokens; n < 6 || n > 18 || got.Usage.PromptTokens < 4 || got.Usage.PromptTokens > 40 {
		t.Errorf("usage %s, want about 12 tokens out and 10 in", got.Usage.RawJSON())
	}
	if estimated, reported := estimates(t, s); estimated != 2 || reported != 0 {
		t.Errorf("%d estimated and %d reported on record, want 2 and 0", estimated, reported)
	}
	p := askGemma(40)
	p.Stop = openai.ChatCompletionNewParamsStopUnion{OfString: openai.String("Paris")}
	got, _ = bothWays(t, c, p)
	if choice := got.Choices[0]; choice.FinishReason != "stop" || strings.Contains(choice.Message.Content, "Paris") {
		t.Errorf("said %q, finish %q; want it to end before Paris", choice.Message.Content, choice.FinishReason)
	}
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != realmodels.LlamaCppModel {
		t.Errorf("models %+v, %v", page, err)
	}
}

// TestRealLlamaCppThroughGatewayCallsANamedTool forces the call: this server ignores tools that it may choose from. It
// repeats id and name in every fragment of a call, and sends the old function_call beside it.
func TestRealLlamaCppThroughGatewayCallsANamedTool(t *testing.T) {
	t.Parallel()
	_, c := throughLlamaCpp(t, "")
	p := askGemma(60)
	p.Tools = []openai.ChatCompletionToolUnionParam{tool(realmodels.WeatherTool)}
	p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: realmodels.WeatherTool})
	got, _ := bothWays(t, c, p)
	choice := got.Choices[0]
	if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) != 1 || choice.Message.Content != "" {
		t.Fatalf("finish %q with %q and calls %s, want one call", choice.FinishReason, choice.Message.Content, calls(choice.Message.ToolCalls))
	}
	call := choice.Message.ToolCalls[0]
	var arguments map[string]string
	if err := json.Unmarshal([]byte(call.Function.Arguments), &arguments); err != nil || call.Function.Name != realmodels.WeatherTool || arguments["city"] == "" {
		t.Errorf("call %s(%s): %v", call.Function.Name, call.Function.Arguments, err)
	}
}

func TestRealLlamaCppThroughGatewayIgnoresToolsOfFreeChoice(t *testing.T) {
	t.Parallel()
	_, c := throughLlamaCpp(t, "")
	p := askGemma(12)
	p.Tools = []openai.ChatCompletionToolUnionParam{tool(realmodels.WeatherTool)}
	got, _ := bothWays(t, c, p)
	if choice := got.Choices[0]; len(choice.Message.ToolCalls) != 0 || choice.Message.Content == "" {
		t.Errorf("%s, want text", got.RawJSON())
	}
}

// TestRealLlamaCppThroughGatewayTakesAToolResult sends a history as the SDK makes it: the message with the call has no
// content. This server takes an empty content, and refuses null and none.
func TestRealLlamaCppThroughGatewayTakesAToolResult(t *testing.T) {
	t.Parallel()
	_, c := throughLlamaCpp(t, "")
	p := askGemma(12)
	p.Messages = append(p.Messages,
		openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
			ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: "call_1", Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: realmodels.WeatherTool, Arguments: `{"city":"Paris"}`},
			}}},
		}},
		openai.ToolMessage("21, sunny", "call_1"))
	if got, err := c.Chat.Completions.New(t.Context(), p); err != nil || got.Choices[0].Message.Content == "" {
		t.Errorf("after the result: %v, %v", got, err)
	}
}

func TestRealLlamaCppThroughGatewayAnswersInJSON(t *testing.T) {
	t.Parallel()
	_, c := throughLlamaCpp(t, "")
	p := askGemma(60)
	p.ResponseFormat.OfJSONObject = &openai.ResponseFormatJSONObjectParam{}
	got, _ := bothWays(t, c, p)
	if text := got.Choices[0].Message.Content; !json.Valid([]byte(text)) || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		t.Errorf("answer %q is no JSON object", text)
	}
}

// TestRealLlamaCppThroughGatewayFails is about what this server cannot: it answers a schema and embeddings with status
// 500, and a stream whose prompt is too long with an empty body of status 200. None of it may look like an answer. An
// admin who tells what the model can spares clients the detour.
func TestRealLlamaCppThroughGatewayFails(t *testing.T) {
	t.Parallel()
	schema := askGemma(20)
	schema.ResponseFormat = personFormat()
	long := ask(realmodels.LlamaCppModel, strings.Repeat("house ", 3000))
	for name, c := range map[string]struct {
		model                 string
		schema, prompt, embed int
		asked                 bool
	}{
		"untold": {"", http.StatusBadGateway, http.StatusBadGateway, http.StatusBadGateway, true},
		"told":   {"context_length: 2048, capabilities: [chat]", http.StatusBadRequest, http.StatusBadRequest, http.StatusBadRequest, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := throughLlamaCpp(t, c.model)
			if _, err := client.Chat.Completions.New(t.Context(), schema); status(err) != c.schema {
				t.Errorf("schema: %v, want %d", err, c.schema)
			}
			if _, _, err := collect(t, client, long); status(err) != c.prompt {
				t.Errorf("long prompt, streamed: %v, want %d", err, c.prompt)
			}
			_, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
				Model: realmodels.LlamaCppModel, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")},
			})
			if status(err) != c.embed {
				t.Errorf("embeddings: %v, want %d", err, c.embed)
			}
			if err != nil && strings.Contains(err.Error(), "embedding=True") {
				t.Errorf("the client is told the server's inner affairs: %v", err)
			}
			if got := record(t, s); got["error"] != 3 || len(got) != 1 {
				t.Errorf("the record holds %v, want 3 error", got)
			}
			asked := strings.Contains(s.Metrics(), `mindrouter_attempts_total{backend="real",outcome="error"} 3`)
			if asked != c.asked {
				t.Errorf("the server was asked three times: %t, want %t", asked, c.asked)
			}
		})
	}
}
