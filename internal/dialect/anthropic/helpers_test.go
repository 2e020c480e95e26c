package anthropic_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/dialect/anthropic/anthropictest"
	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// pixel is the beginning of a PNG, enough to be taken for one.
var pixel = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n0123456789"))

// picture is a block with a picture.
var picture = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}}`

// with returns a body with a user message and the given members.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// talk returns a body with the given messages.
func talk(messages string) string {
	return `{"model":"m","max_tokens":4096,"messages":[` + messages + `]}`
}

// says returns a body with one user message of the given blocks.
func says(blocks string) string { return talk(`{"role":"user","content":[` + blocks + `]}`) }

func decode(t *testing.T, body string) (*llm.Request, []llm.Note) {
	t.Helper()
	r, notes, err := anthropic.Messages{}.DecodeChat([]byte(body))
	if err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return r, notes
}

func words(notes []llm.Note) string {
	var s []string
	for _, n := range notes {
		s = append(s, n.String())
	}
	return strings.Join(s, ", ")
}

// compact prints a value as JSON, for comparisons.
func compact(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shown prints a conversation: roles, and the content of their blocks.
func shown(msgs []llm.Message) string {
	var out []string
	for _, m := range msgs {
		out = append(out, string(m.Role)+"("+strings.Join(shownBlocks(m.Blocks), " ")+")")
	}
	return strings.Join(out, " ")
}

func shownBlocks(blocks []llm.Block) []string {
	var out []string
	for _, b := range blocks {
		s := string(b.Kind) + ":" + b.Text
		switch {
		case b.ToolCall != nil:
			s = "call:" + b.ToolCall.ID + ":" + b.ToolCall.Name + ":" + string(b.ToolCall.Arguments)
		case b.ToolResult != nil:
			s = "result:" + b.ToolResult.CallID + ":" + b.ToolResult.Name + "[" + strings.Join(shownBlocks(b.ToolResult.Content), " ") + "]"
			if b.ToolResult.IsError {
				s += "!"
			}
		case b.Media != nil:
			s = string(b.Kind) + ":" + b.Media.Type + ":" + b.Media.Name + b.Media.URL
		}
		out = append(out, s)
	}
	return out
}

// upstream decodes body and returns the request that a backend of the OpenAI protocol gets, with all notes.
func upstream(t *testing.T, body string, m llm.Model, engine openai.Engine) (map[string]json.RawMessage, string) {
	t.Helper()
	r, notes := decode(t, body)
	out, more, err := openai.EncodeChat(r, openai.CallOptions{Model: m, Engine: engine})
	if err != nil {
		t.Fatalf("encode %s: %v", body, err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(out, &fields); err != nil {
		t.Fatal(err)
	}
	return fields, words(append(notes, more...))
}

// streamed encodes a stream for a client that asked with r and returns the bytes.
func streamed(t *testing.T, r *llm.Request, s llm.Stream) []byte {
	t.Helper()
	var out bytes.Buffer
	asked := *r
	asked.Stream = true
	enc := anthropic.Messages{}.NewEncoder(&out, dialect.Reply{RequestID: "0192-aa", Model: "alias", Request: &asked})
	for ev, err := range s {
		if err != nil {
			e := llm.AsError(err)
			if e == nil {
				t.Fatalf("%v is not classified", err)
			}
			if err := enc.EncodeError(e); err != nil {
				t.Fatal(err)
			}
			return out.Bytes()
		}
		if err := enc.Encode(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// received encodes a stream and returns what a client sees of it.
func received(t *testing.T, r *llm.Request, s llm.Stream) *anthropictest.Message {
	t.Helper()
	raw := streamed(t, r, s)
	m, err := anthropictest.CheckStream(raw)
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	return m
}

// whole encodes an answer whole.
func whole(t *testing.T, r *llm.Request, resp *llm.Response) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	enc := anthropic.Messages{}.NewEncoder(&out, dialect.Reply{RequestID: "0192-aa", Model: "alias", Created: time.Unix(7, 0), Request: r})
	if enc.ContentType() != "application/json" {
		t.Errorf("content type %q", enc.ContentType())
	}
	err := enc.EncodeResponse(resp)
	if err != nil && out.Len() > 0 {
		t.Errorf("%q was written before the error %v", out.String(), err)
	}
	return out.Bytes(), err
}

func response(reason llm.StopReason, blocks ...llm.Block) *llm.Response {
	return &llm.Response{
		Choices: []llm.Choice{{Blocks: blocks, StopReason: reason}},
		Usage:   llm.Usage{Input: 9, CachedInput: 4, Output: 2},
	}
}

func thought(text string) llm.Block { return llm.Block{Kind: llm.BlockThinking, Text: text} }

func call(id, name, arguments string) llm.Block {
	c := &llm.ToolCall{ID: id, Name: name}
	if arguments != "" {
		c.Arguments = json.RawMessage(arguments)
	}
	return llm.Block{Kind: llm.BlockToolCall, ToolCall: c}
}
