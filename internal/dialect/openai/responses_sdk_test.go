package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/dialect/openai/responsestest"
	"mindrouter/internal/llm"
)

// The official client library against a server that decodes and encodes with this package.

// responsesServer has a scripted answer. What it was asked is kept for the test, which runs one request at a time.
type responsesServer struct {
	codec  openai.Responses
	answer llm.Stream
	asked  *llm.Request
	notes  []llm.Note
	wire   strings.Builder // the last stream, as it was sent
}

func (s *responsesServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const id = "0192-aa"
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch r.URL.Path {
	case "/responses":
	case "/responses/input_tokens":
		if s.asked, s.notes, err = s.codec.DecodeInputTokens(body); err != nil {
			s.codec.WriteError(w, llm.AsError(err), id)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openai.EncodeInputTokens(26))
		return
	default:
		s.codec.WriteError(w, llm.Errorf(llm.CodeNotFound, "There is no %s here.", r.URL.Path), id)
		return
	}
	if s.asked, s.notes, err = s.codec.DecodeChat(body); err != nil {
		s.codec.WriteError(w, llm.AsError(err), id)
		return
	}
	s.reply(w, dialect.Reply{RequestID: id, Model: s.asked.Model, Created: time.Unix(7, 0), Request: s.asked})
}

func (s *responsesServer) reply(w http.ResponseWriter, reply dialect.Reply) {
	s.wire.Reset()
	enc := s.codec.NewEncoder(io.MultiWriter(w, &s.wire), reply)
	if !s.asked.Stream {
		resp, err := llm.Collect(s.answer)
		if err == nil {
			w.Header().Set("Content-Type", enc.ContentType())
			err = enc.EncodeResponse(resp)
		}
		if err != nil {
			s.codec.WriteError(w, llm.AsError(err), reply.RequestID)
		}
		return
	}
	w.Header().Set("Content-Type", enc.ContentType())
	for ev, err := range s.answer {
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

// library returns the client library at a server that answers with s.
func library(t *testing.T, answer llm.Stream) (sdk.Client, *responsesServer) {
	t.Helper()
	s := &responsesServer{codec: sealing(), answer: answer}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return sdk.NewClient(option.WithBaseURL(srv.URL), option.WithAPIKey("k"), option.WithMaxRetries(0)), s
}

// agentParams is a request with everything that an agent sends.
func agentParams() responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model:        "coder",
		Instructions: sdk.String("You help."),
		Input:        responses.ResponseNewParamsInputUnion{OfString: sdk.String("What is the weather in Oslo?")},
		Include:      []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Store:        sdk.Bool(false),
		Reasoning:    shared.ReasoningParam{Effort: shared.ReasoningEffortMedium, Summary: shared.ReasoningSummaryAuto},
		Text: responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
			OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Strict: sdk.Bool(true), Schema: map[string]any{"type": "object"}},
		}},
		Tools: []responses.ToolUnionParam{
			{OfFunction: &responses.FunctionToolParam{
				Name: "weather", Strict: sdk.Bool(true), Description: sdk.String("Tells the weather."),
				Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
			}},
			{OfCustom: &responses.CustomToolParam{Name: "edit", Format: shared.CustomToolInputFormatUnionParam{
				OfGrammar: &shared.CustomToolInputFormatGrammarParam{Syntax: "lark", Definition: "start: /.+/"},
			}}},
			{OfNamespace: &responses.NamespaceToolParam{Name: "crm", Description: "Customers.", Tools: []responses.NamespaceToolToolUnionParam{
				{OfFunction: &responses.NamespaceToolToolFunctionParam{Name: "find"}},
			}}},
			{OfWebSearch: &responses.WebSearchToolParam{Type: responses.WebSearchToolTypeWebSearch}},
		},
	}
}

// agentAnswer is an answer with everything that a model says.
func agentAnswer() *llm.Response {
	return response(llm.StopToolUse, thought("I look."), llm.TextBlock(`{"ok":true}`), called("c1", "weather", `{"city":"Oslo"}`),
		called("c2", "edit", `{"input":"*** Begin\n*** End"}`), called("c3", "crm__find", `{}`))
}

// checkAgentAnswer checks agentAnswer as the library reads it.
func checkAgentAnswer(t *testing.T, r *responses.Response) {
	t.Helper()
	if r.Status != responses.ResponseStatusCompleted || r.OutputText() != `{"ok":true}` || len(r.Output) != 5 || r.Model != "coder" || r.CreatedAt != 7 {
		t.Fatalf("%s", r.RawJSON())
	}
	reasoning := r.Output[0].AsReasoning()
	if reasoning.Content[0].Text != "I look." || reasoning.Summary[0].Text != "I look." || !strings.HasPrefix(reasoning.EncryptedContent, "gw1.") {
		t.Errorf("reasoning %s", reasoning.RawJSON())
	}
	if f := r.Output[2].AsFunctionCall(); f.CallID != "c1" || f.Name != "weather" || f.Arguments != `{"city":"Oslo"}` || f.Status != "completed" {
		t.Errorf("function %s", f.RawJSON())
	}
	if c := r.Output[3].AsCustomToolCall(); c.CallID != "c2" || c.Name != "edit" || c.Input != "*** Begin\n*** End" {
		t.Errorf("custom %s", c.RawJSON())
	}
	if f := r.Output[4].AsFunctionCall(); f.Name != "find" || f.Namespace != "crm" {
		t.Errorf("namespace %s", f.RawJSON())
	}
	if u := r.Usage; u.InputTokens != 9 || u.InputTokensDetails.CachedTokens != 4 || u.OutputTokens != 2 || u.OutputTokensDetails.ReasoningTokens != 1 || u.TotalTokens != 11 {
		t.Errorf("usage %s", u.RawJSON())
	}
	if len(r.Tools) != 3 || r.Tools[1].AsCustom().Name != "edit" || r.Text.Format.Name != "answer" || r.Instructions.OfString != "You help." || r.Reasoning.Effort != "medium" {
		t.Errorf("echo %s", r.RawJSON())
	}
}

func TestLibraryReadsWholeResponses(t *testing.T) {
	t.Parallel()
	c, s := library(t, llm.Events(agentAnswer()))
	r, err := c.Responses.New(t.Context(), agentParams())
	if err != nil {
		t.Fatal(err)
	}
	checkAgentAnswer(t, r)
	if got := told(s.asked.Messages); got != "system(You help.) user(What is the weather in Oslo?)" || words(s.notes) != "tools[3]=dropped:web_search" {
		t.Errorf("asked %s, notes %s", got, words(s.notes))
	}
	if s.asked.Format.Kind != llm.FormatSchema || s.asked.Thinking.Effort != llm.EffortMedium || offered(s.asked) != "weather edit:custom crm__find=crm.find" {
		t.Errorf("asked %+v, %s", s.asked, offered(s.asked))
	}
}

func TestLibraryReadsStreamedResponses(t *testing.T) {
	t.Parallel()
	c, s := library(t, shredded(llm.Events(agentAnswer()), 3))
	stream := c.Responses.NewStreaming(t.Context(), agentParams())
	var text, reasoning, summary, arguments, input strings.Builder
	var final *responses.Response
	n, done := int64(0), 0
	for stream.Next() {
		ev := stream.Current()
		if ev.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, ev.SequenceNumber)
		}
		n++
		switch ev := ev.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text.WriteString(ev.Delta)
		case responses.ResponseReasoningTextDeltaEvent:
			reasoning.WriteString(ev.Delta)
		case responses.ResponseReasoningSummaryTextDeltaEvent:
			summary.WriteString(ev.Delta)
		case responses.ResponseFunctionCallArgumentsDeltaEvent:
			arguments.WriteString(ev.Delta)
		case responses.ResponseCustomToolCallInputDeltaEvent:
			input.WriteString(ev.Delta)
		case responses.ResponseOutputItemDoneEvent:
			done++
		case responses.ResponseCompletedEvent:
			final = &ev.Response
		}
	}
	if err := stream.Err(); err != nil || final == nil {
		t.Fatal(err, s.wire.String())
	}
	checkAgentAnswer(t, final)
	if text.String() != `{"ok":true}` || reasoning.String() != "I look." || summary.String() != "I look." || arguments.String() != `{"city":"Oslo"}{}` ||
		input.String() != "*** Begin\n*** End" || done != 5 {
		t.Errorf("deltas %s, %s, %s, %s, %s; %d items", &text, &reasoning, &summary, &arguments, &input, done)
	}
	if _, err := responsestest.CheckStream([]byte(s.wire.String())); err != nil {
		t.Error(err)
	}
}

// The library gives the items of an answer back as input without a change.
func TestLibraryContinuesAConversation(t *testing.T) {
	t.Parallel()
	c, s := library(t, llm.Events(agentAnswer()))
	p := agentParams()
	first, err := c.Responses.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var list responses.ResponseInputParam
	for _, it := range first.Output {
		var given responses.ResponseInputItemUnionParam
		if err := json.Unmarshal([]byte(it.RawJSON()), &given); err != nil {
			t.Fatal(err)
		}
		list = append(list, given)
	}
	for _, id := range []string{"c1", "c3"} {
		list = append(list, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: sdk.String(id), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: sdk.String("ok")},
		}})
	}
	list = append(list, responses.ResponseInputItemUnionParam{OfCustomToolCallOutput: &responses.ResponseCustomToolCallOutputParam{
		CallID: "c2", Output: responses.ResponseCustomToolCallOutputOutputUnionParam{OfString: sdk.String("patched")},
	}})
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: list}
	s.answer = llm.Events(response(llm.StopEnd, llm.TextBlock("done")))
	second, err := c.Responses.New(t.Context(), p)
	if err != nil || second.OutputText() != "done" {
		t.Fatal(err)
	}
	want := `system(You help.) assistant(thinking:I look. {"ok":true} call:c1:weather:{"city":"Oslo"} call:c2:edit:{"input":"*** Begin\n*** End"} call:c3:crm__find:{}) ` +
		`tool(result:c1:weather[ok]) tool(result:c3:crm__find[ok]) tool(result:c2:edit[patched])`
	if got := told(s.asked.Messages); got != want {
		t.Errorf("asked\n got %s\nwant %s", got, want)
	}
}

func TestLibrarySeesErrorsOfResponses(t *testing.T) {
	t.Parallel()
	c, s := library(t, llm.Failed(&llm.Error{Code: llm.CodeRateLimited, Message: "slow", RetryAfter: time.Second}))
	check := func(err error, status int, kind, code, param string) {
		t.Helper()
		var e *sdk.Error
		if !errors.As(err, &e) || e.StatusCode != status || e.Type != kind || e.Code != code || e.Param != param {
			t.Errorf("%v, want %d %s %s %s", err, status, kind, code, param)
		}
	}
	_, err := c.Responses.New(t.Context(), agentParams())
	check(err, 429, "rate_limit_error", "rate_limit_exceeded", "")
	p := agentParams()
	p.PreviousResponseID = sdk.String("resp_1")
	_, err = c.Responses.New(t.Context(), p)
	check(err, 404, "invalid_request_error", "previous_response_not_found", "previous_response_id")
	stream := c.Responses.NewStreaming(t.Context(), p)
	if stream.Next() {
		t.Error("a refused stream has events")
	}
	check(stream.Err(), 404, "invalid_request_error", "previous_response_not_found", "previous_response_id")

	// Inside a stream the status is 200 and stays.
	s.answer = func(yield func(llm.Event, error) bool) {
		for ev, err := range llm.Events(response(llm.StopEnd, llm.TextBlock("half"))) {
			if ev.Kind == llm.EventBlockStop {
				yield(llm.Event{}, llm.Errorf(llm.CodeContextTooLong, "too long"))
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
	stream = c.Responses.NewStreaming(t.Context(), agentParams())
	var last responses.ResponseStreamEventUnion
	for stream.Next() {
		last = stream.Current()
	}
	failed := last.AsResponseFailed().Response
	if stream.Err() != nil || last.Type != "response.failed" || failed.Status != "failed" || failed.Error.Code != "context_length_exceeded" || failed.Error.Message != "too long" {
		t.Errorf("%v, %s", stream.Err(), last.RawJSON())
	}
}

func TestLibraryCountsInputTokens(t *testing.T) {
	t.Parallel()
	c, s := library(t, nil)
	n, err := c.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
		Model: sdk.String("m"), Input: responses.InputTokenCountParamsInputUnion{OfString: sdk.String("hi")}, Tools: agentParams().Tools,
	})
	if err != nil || n.InputTokens != 26 || told(s.asked.Messages) != "user(hi)" || len(s.asked.Tools) != 3 {
		t.Errorf("count %+v, %v", n, err)
	}
}

func TestLibraryContinuesStoredResponses(t *testing.T) {
	t.Parallel()
	c, s := library(t, llm.Events(response(llm.StopEnd, llm.TextBlock("one"))))
	kept := map[string]openai.Record{}
	s.codec.Keep = func(r openai.Record) error {
		kept[r.ID] = r
		return nil
	}
	s.codec.Previous = func(id string) ([]json.RawMessage, error) {
		return append(append([]json.RawMessage{}, kept[id].Input...), kept[id].Output...), nil
	}
	p := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: sdk.String("first")}}
	r, err := c.Responses.New(t.Context(), p)
	if err != nil || len(kept) != 1 {
		t.Fatal(err, kept)
	}
	p.PreviousResponseID, p.Input.OfString = sdk.String(r.ID), sdk.String("second")
	if r, err = c.Responses.New(t.Context(), p); err != nil || r.PreviousResponseID == "" {
		t.Fatal(err)
	}
	if got := told(s.asked.Messages); got != "user(first) assistant(one) user(second)" {
		t.Errorf("asked %s", got)
	}
}
