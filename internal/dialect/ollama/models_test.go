package ollama_test

import (
	"fmt"
	"testing"
	"time"

	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/llm"
)

func TestDecodeTags(t *testing.T) {
	t.Parallel()
	got, err := ollama.DecodeTags([]byte(`{"models":[{"name":"a:8b","model":"a:8b","size":5,"digest":"d","details":{"family":"llama","families":null,"parameter_size":"8B","quantization_level":"Q4_K_M"}},{"model":"b:latest"}]}`))
	want := "[{a:8b d 5 llama 8B Q4_K_M} {b:latest  0   }]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("tags %v, %v, want %s", got, err, want)
	}
}

func TestDecodeShow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want llm.Model
	}{
		"thinking model with eyes": {
			`{"details":{"family":"qwen3","parameter_size":"8B","quantization_level":"Q4_K_M"},"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960,"qwen3.embedding_length":4096},"capabilities":["completion","tools","vision","thinking"]}`,
			llm.Model{ContextLength: 40960, ParameterCount: "8B", Quantization: "Q4_K_M", Thinking: llm.ProfileToggle, Capabilities: []llm.Capability{llm.CapChat, llm.CapCompletion, llm.CapJSONSchema, llm.CapTools, llm.CapVision, llm.CapThinking}},
		},
		"gpt-oss has efforts": {
			`{"model_info":{"general.architecture":"gptoss","gptoss.context_length":131072},"capabilities":["completion","thinking"]}`,
			llm.Model{ContextLength: 131072, Thinking: llm.ProfileEffort, Capabilities: []llm.Capability{llm.CapChat, llm.CapCompletion, llm.CapJSONSchema, llm.CapThinking}},
		},
		"embedding model": {
			`{"model_info":{"general.architecture":"bert","bert.context_length":512,"bert.embedding_length":768},"capabilities":["embedding"]}`,
			llm.Model{ContextLength: 512, EmbeddingWidth: 768, Thinking: llm.ProfileNone, Capabilities: []llm.Capability{llm.CapEmbedding}},
		},
		"server without capabilities": {
			`{"model_info":{}}`,
			llm.Model{Thinking: llm.ProfileNone, Capabilities: []llm.Capability{llm.CapChat, llm.CapCompletion, llm.CapJSONSchema}},
		},
	} {
		got, err := ollama.DecodeShow([]byte(c.body), "m")
		c.want.Name = "m"
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", name, got, err, c.want)
		}
	}
	if got := string(ollama.EncodeShow(`a"b`)); got != `{"model":"a\"b"}` {
		t.Errorf("EncodeShow = %s", got)
	}
}

func TestDecodePSAndVersion(t *testing.T) {
	t.Parallel()
	got, err := ollama.DecodePS([]byte(`{"models":[{"name":"a:8b","size":10,"size_vram":4,"digest":"d","expires_at":"2026-11-29T00:00:00Z","context_length":8192}]}`))
	want := ollama.Running{Name: "a:8b", Digest: "d", SizeBytes: 10, VRAMBytes: 4, ContextLength: 8192, ExpiresAt: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("ps %+v, %v", got, err)
	}
	if v, err := ollama.DecodeVersion([]byte(`{"version":"0.24.0"}`)); err != nil || v != "0.24.0" {
		t.Errorf("version %q, %v", v, err)
	}
	for name, decode := range map[string]func([]byte) error{
		"tags":    func(b []byte) error { _, err := ollama.DecodeTags(b); return err },
		"show":    func(b []byte) error { _, err := ollama.DecodeShow(b, "m"); return err },
		"ps":      func(b []byte) error { _, err := ollama.DecodePS(b); return err },
		"version": func(b []byte) error { _, err := ollama.DecodeVersion(b); return err },
	} {
		if decode([]byte("<html>")) == nil {
			t.Errorf("%s: a page is accepted", name)
		}
	}
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	two, cut := 2, true
	got, err := ollama.EncodeEmbedCall(&llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: "a"}, {Text: "b"}}, Dimensions: &two}, ollama.CallOptions{Model: llm.Model{Name: "e"}, NumCtx: 512})
	if want := `{"model":"e","input":["a","b"],"truncate":false,"dimensions":2,"options":{"num_ctx":512}}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	got, err = ollama.EncodeEmbedCall(&llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: "a"}}, Truncate: &cut}, ollama.CallOptions{Model: llm.Model{Name: "e"}})
	if want := `{"model":"e","input":["a"],"truncate":true,"options":{}}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if _, err := ollama.EncodeEmbedCall(&llm.EmbedRequest{Inputs: []llm.EmbedInput{{Tokens: []int{1}}}}, ollama.CallOptions{}); llm.CodeOf(err) != llm.CodeUnsupported {
		t.Errorf("token ids: %v", err)
	}
	if _, err := ollama.EncodeEmbedCall(&llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: "a"}, {}}}, ollama.CallOptions{}); llm.AsError(err) == nil || llm.AsError(err).Param != "input[1]" {
		t.Errorf("an empty text: %v", err)
	}
	resp, err := ollama.DecodeEmbedReply([]byte(`{"model":"e","embeddings":[[0.5,1],[1,0.25]],"prompt_eval_count":3}`), 2)
	if err != nil || fmt.Sprintf("%v %d %s", resp.Vectors, resp.Usage.Input, resp.Model) != "[[0.5 1] [1 0.25]] 3 e" {
		t.Errorf("%+v, %v", resp, err)
	}
	for body, code := range map[string]llm.Code{
		`{"embeddings":[[1]]}`:      llm.CodeUpstream,
		`{"embeddings":[]}`:         llm.CodeUpstream,
		`{"embeddings":[["a"],[]]}`: llm.CodeUpstream,
		`{"error":"boom"}`:          llm.CodeUpstream,
		`oops`:                      llm.CodeUpstream,
		`{"error":"the input length exceeds the context length"}`: llm.CodeContextTooLong,
	} {
		if _, err := ollama.DecodeEmbedReply([]byte(body), 2); llm.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
}
