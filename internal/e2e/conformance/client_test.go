package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mindrouter/internal/dialect/anthropic/anthropictest"
	"mindrouter/internal/dialect/ollama/ollamatest"
	"mindrouter/internal/dialect/openai/openaitest"
	"mindrouter/internal/dialect/openai/responsestest"
)

// client is a protocol in front of the gateway.
type client struct {
	name, path string
	streams    string // content type of streams
	stream     func(raw []byte, usage bool) (*answer, error)
	whole      func(raw []byte) (*answer, error)
	refusal    func(raw []byte) (*answer, error)
}

var (
	chat      = client{"chat", "/v1/chat/completions", "text/event-stream", chatStream, chatWhole, openAIRefusal}
	messages  = client{"messages", "/v1/messages", "text/event-stream", messagesStream, messagesWhole, messagesRefusal}
	responses = client{"responses", "/v1/responses", "text/event-stream", responsesStream, responsesWhole, openAIRefusal}
	native    = client{"native", "/api/chat", "application/x-ndjson", nativeStream, nativeWhole, nativeRefusal}
	generate  = client{"generate", "/api/generate", "application/x-ndjson", nativeStream, nativeWhole, nativeRefusal}
)

// everyone is every protocol that chats.
var everyone = []client{chat, messages, responses, native}

// hello is a body that asks for an answer, with a few members more.
func (cl client) hello(more string) string { return cl.turn("[[say=ok]]", more) }

// turn is a body with one turn of the user.
func (cl client) turn(text, more string) string {
	if more != "" {
		more = "," + more
	}
	switch cl.name {
	case "messages":
		return `{"max_tokens":5000,"messages":[{"role":"user","content":` + q(text) + `}]` + more + `}`
	case "responses":
		return `{"input":` + q(text) + more + `}`
	case "generate":
		return `{"prompt":` + q(text) + more + `}`
	default:
		return `{"messages":[{"role":"user","content":` + q(text) + `}]` + more + `}`
	}
}

// tools declares functions without arguments that matter, in the client's form, as a member of a body.
func (cl client) tools(names ...string) string {
	const schema = `{"type":"object","properties":{"city":{"type":"string"}}}`
	var list []string
	for _, name := range names {
		switch cl.name {
		case "messages":
			list = append(list, fmt.Sprintf(`{"name":%q,"input_schema":%s}`, name, schema))
		case "responses":
			list = append(list, fmt.Sprintf(`{"type":"function","name":%q,"parameters":%s}`, name, schema))
		default:
			list = append(list, fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":%s}}`, name, schema))
		}
	}
	return `"tools":[` + strings.Join(list, ",") + `]`
}

// thinking asks for thinking, in the client's form, as a member of a body.
func (cl client) thinking() string {
	switch cl.name {
	case "messages":
		return `"thinking":{"type":"enabled","budget_tokens":2000}`
	case "responses":
		return `"reasoning":{"effort":"medium"}`
	case "native":
		return `"think":true`
	default:
		return `"reasoning_effort":"medium"`
	}
}

// word picks a client's own word for something.
func (cl client) word(chat, messages, responses, native string) string {
	return map[string]string{"chat": chat, "messages": messages, "responses": responses, "native": native, "generate": native}[cl.name]
}

// answer is what a client makes of a reply.
type answer struct {
	text, thinking string
	calls          []toolCall
	order          string // kinds of the blocks, where the protocol has blocks
	finish         string
	in, out        int
	cached         int
	counted        bool

	// Of an error.
	kind, code, param, message string

	anthropic *anthropictest.Message
	response  *responsestest.Response
}

type toolCall struct{ id, name, args string }

func (a *answer) failed() bool { return a.kind != "" }

// same is what a stream and a whole answer must agree in; ids are made anew for each.
func (a *answer) same(other *answer) string {
	s := fmt.Sprintf("text %q, thinking %q, finish %s, order %s", a.text, a.thinking, a.finish, a.order)
	for _, c := range a.calls {
		s += fmt.Sprintf(", call %s(%s)", c.name, c.args)
	}
	if a.counted && other.counted {
		s += fmt.Sprintf(", tokens %d (%d) %d", a.in, a.cached, a.out)
	}
	return s
}

// called lists the calls without their ids.
func (a *answer) called() string {
	var list []string
	for _, c := range a.calls {
		list = append(list, c.name+c.args)
	}
	return strings.Join(list, " ")
}

func (a *answer) ids() []string {
	var list []string
	for _, c := range a.calls {
		list = append(list, c.id)
	}
	return list
}

func chatStream(raw []byte, includeUsage bool) (*answer, error) {
	got, err := openaitest.CheckStream(raw, openaitest.Options{IncludeUsage: includeUsage})
	if err != nil {
		return nil, err
	}
	a := &answer{}
	if len(got.Choices) > 0 {
		c := got.Choices[0]
		a.text, a.thinking, a.finish = c.Content, c.Reasoning, c.Finish
		for _, call := range c.Calls {
			a.calls = append(a.calls, toolCall{call.ID, call.Name, call.Arguments})
		}
	}
	if got.Usage != nil {
		a.in, a.out, a.counted = got.Usage.Prompt, got.Usage.Completion, true
	}
	if e := got.Error; e != nil {
		a.kind, a.message, a.param, a.code = e.Type, e.Message, deref(e.Param), deref(e.Code)
	}
	a.cached = -1
	return a, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func chatWhole(raw []byte) (*answer, error) {
	var got struct {
		ID      string
		Object  string
		Choices []struct {
			Message *struct {
				Role      string
				Content   *string
				Reasoning string `json:"reasoning_content"`
				ToolCalls []struct {
					ID, Type string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
		Usage *openaitest.Usage
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if got.Object != "chat.completion" || len(got.Choices) == 0 || got.Choices[0].Message == nil || got.Usage == nil || !strings.HasPrefix(got.ID, "chatcmpl-") {
		return nil, errors.New("no chat completion")
	}
	c := got.Choices[0]
	a := &answer{
		text: deref(c.Message.Content), thinking: c.Message.Reasoning, finish: c.Finish,
		in: got.Usage.Prompt, out: got.Usage.Completion, counted: true, cached: -1,
	}
	for _, call := range c.Message.ToolCalls {
		if call.Type != "function" {
			return nil, fmt.Errorf("call of type %q", call.Type)
		}
		a.calls = append(a.calls, toolCall{call.ID, call.Function.Name, call.Function.Arguments})
	}
	return a, nil
}

func openAIRefusal(raw []byte) (*answer, error) {
	var got struct {
		Error *struct {
			Message, Type string
			Param, Code   *string
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if got.Error == nil || got.Error.Message == "" || got.Error.Type == "" {
		return nil, errors.New("no error of the protocol")
	}
	e := got.Error
	return &answer{kind: e.Type, message: e.Message, param: deref(e.Param), code: deref(e.Code)}, nil
}

func messagesStream(raw []byte, _ bool) (*answer, error) {
	got, err := anthropictest.CheckStream(raw)
	if err != nil {
		return nil, err
	}
	return ofMessage(got), nil
}

func messagesWhole(raw []byte) (*answer, error) {
	var got anthropictest.Message
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if got.Type != "message" || got.Role != "assistant" || got.StopReason == "" || got.Content == nil || !strings.HasPrefix(got.ID, "msg_") {
		return nil, errors.New("no message")
	}
	return ofMessage(&got), nil
}

func ofMessage(m *anthropictest.Message) *answer {
	a := &answer{
		finish: m.StopReason, in: m.Usage.Input, out: m.Usage.Output, cached: m.Usage.CacheRead, counted: true, anthropic: m,
	}
	if m.StopSequence != nil {
		a.finish += ":" + *m.StopSequence
	}
	var order []string
	for _, b := range m.Content {
		kind := b.Type
		switch b.Type {
		case "text":
			a.text += b.Text
		case "thinking":
			a.thinking += b.Thinking
		case "tool_use":
			kind = "call"
			a.calls = append(a.calls, toolCall{b.ID, b.Name, string(b.Input)})
		}
		order = append(order, kind)
	}
	a.order = strings.Join(order, " ")
	if m.Error != nil {
		a.kind, a.message = m.Error.Type, m.Error.Message
	}
	return a
}

func messagesRefusal(raw []byte) (*answer, error) {
	var got struct {
		Type  string
		Error anthropictest.Error
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if got.Type != "error" || got.Error.Type == "" || got.Error.Message == "" {
		return nil, errors.New("no error of the protocol")
	}
	return &answer{kind: got.Error.Type, message: got.Error.Message}, nil
}

func responsesStream(raw []byte, _ bool) (*answer, error) {
	got, err := responsestest.CheckStream(raw)
	if err != nil {
		return nil, err
	}
	return ofResponse(got), nil
}

func responsesWhole(raw []byte) (*answer, error) {
	got, err := responsestest.Read(raw)
	if err != nil {
		return nil, err
	}
	return ofResponse(got), nil
}

func ofResponse(r *responsestest.Response) *answer {
	a := &answer{finish: r.Status, response: r, cached: -1}
	if r.Incomplete != nil {
		a.finish += ":" + r.Incomplete.Reason
	}
	if r.Usage != nil {
		a.in, a.out, a.counted = r.Usage.Input, r.Usage.Output, true
	}
	if r.Error != nil {
		a.kind, a.message = r.Error.Code, r.Error.Message
	}
	var order []string
	for _, it := range r.Output {
		kind := it.Type
		switch it.Type {
		case "message":
			kind = "text"
			for _, p := range it.Content {
				a.text += p.Text + p.Refusal
			}
		case "reasoning":
			kind = "thinking"
			for _, p := range it.Content {
				a.thinking += p.Text
			}
		case "function_call":
			kind = "call"
			a.calls = append(a.calls, toolCall{it.CallID, it.Name, it.Arguments})
		case "custom_tool_call":
			kind = "custom"
			a.calls = append(a.calls, toolCall{it.CallID, it.Name, it.Input})
		}
		order = append(order, kind)
	}
	a.order = strings.Join(order, " ")
	return a
}

func nativeStream(raw []byte, _ bool) (*answer, error) {
	got, err := ollamatest.CheckStream(raw)
	if err != nil {
		return nil, err
	}
	return ofNative(got), nil
}

// nativeWhole reads a whole answer as a stream of one line whose last line says everything.
func nativeWhole(raw []byte) (*answer, error) {
	var got struct {
		Message *struct {
			Content, Thinking string
			ToolCalls         []struct {
				ID       string
				Function struct {
					Index     *int
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
		}
		Response, Thinking string
		Done               bool
		Reason             string `json:"done_reason"`
		In                 int    `json:"prompt_eval_count"`
		Out                int    `json:"eval_count"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if !got.Done || got.Reason == "" {
		return nil, errors.New("not done, or for no reason")
	}
	a := &answer{text: got.Response, thinking: got.Thinking, finish: got.Reason, in: got.In, out: got.Out, counted: true}
	if m := got.Message; m != nil {
		a.text, a.thinking = m.Content, m.Thinking
		for i, call := range m.ToolCalls {
			if call.Function.Index == nil || *call.Function.Index != i || len(call.Function.Arguments) == 0 || call.Function.Arguments[0] != '{' {
				return nil, fmt.Errorf("call %d is not whole", i)
			}
			a.calls = append(a.calls, toolCall{call.ID, call.Function.Name, string(call.Function.Arguments)})
		}
	}
	return a, nil
}

func ofNative(got *ollamatest.Answer) *answer {
	a := &answer{text: got.Text, thinking: got.Thinking, finish: got.Reason, in: got.Input, out: got.Output, counted: true}
	for _, c := range got.Calls {
		a.calls = append(a.calls, toolCall{c.ID, c.Name, string(c.Arguments)})
	}
	if got.Error != "" {
		a.kind, a.message = "error", got.Error
	}
	return a
}

func nativeRefusal(raw []byte) (*answer, error) {
	var got struct{ Error string }
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if got.Error == "" {
		return nil, errors.New("no error of the protocol")
	}
	return &answer{kind: "error", message: got.Error}, nil
}
