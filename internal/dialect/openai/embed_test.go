package openai_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

func TestDecodeEmbed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"hi"`:        `[{"Text":"hi","Tokens":null}]`,
		`""`:          `[{"Text":"","Tokens":null}]`,
		`["a","b"]`:   `[{"Text":"a","Tokens":null},{"Text":"b","Tokens":null}]`,
		`[1,2]`:       `[{"Text":"","Tokens":[1,2]}]`,
		`[[1,2],[3]]`: `[{"Text":"","Tokens":[1,2]},{"Text":"","Tokens":[3]}]`,
	} {
		r, notes, err := openai.DecodeEmbed([]byte(`{"model":"e","input":` + in + `}`))
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: %v, %v", in, notes, err)
			continue
		}
		if got := compact(t, r.Inputs); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	r, notes, err := openai.DecodeEmbed([]byte(`{"model":"e","input":"a","encoding_format":"base64","dimensions":2,"user":"u","truncate_prompt_tokens":9,"later":1}`))
	if err != nil || !r.Base64 || *r.Dimensions != 2 || r.EndUser != "u" || !*r.Truncate || words(notes) != "later=dropped" {
		t.Errorf("options: %+v, %v, %v", r, notes, err)
	}
	for in, param := range map[string]string{
		`{"input":"a"}`:                                                   "model",
		`{"model":"e"}`:                                                   "input",
		`{"model":"e","input":[]}`:                                        "input",
		`{"model":"e","input":[1,"a"]}`:                                   "input",
		`{"model":"e","input":[[]]}`:                                      "input[0]",
		`{"model":"e","input":[[-1]]}`:                                    "input[0][0]",
		`{"model":"e","input":[1.5]}`:                                     "input[0]",
		`{"model":"e","input":{}}`:                                        "input",
		`{"model":"e","input":"a","encoding_format":"int8"}`:              "encoding_format",
		`{"model":"e","input":"a","dimensions":0}`:                        "dimensions",
		`{"model":"e","input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`: "input",
	} {
		if _, _, err := openai.DecodeEmbed([]byte(in)); llm.AsError(err) == nil || llm.AsError(err).Param != param {
			t.Errorf("%.60s: %v, want an error of %s", in, err, param)
		}
	}
}

// vectors are as a client reads them.
func vectors(t *testing.T, body []byte, asBase64 bool) string {
	t.Helper()
	var reply struct {
		Object string `json:"object"`
		Model  string `json:"model"`
		Data   []struct {
			Index     int             `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out [][]float32
	for _, d := range reply.Data {
		var v []float32
		if asBase64 {
			var raw []byte
			if err := json.Unmarshal(d.Embedding, &raw); err != nil {
				t.Fatal(err)
			}
			for ; len(raw) > 0; raw = raw[4:] {
				v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		} else if err := json.Unmarshal(d.Embedding, &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return fmt.Sprintf("%s %s %v %d %d", reply.Object, reply.Model, out, reply.Usage.Prompt, reply.Usage.Total)
}

func TestEncodeEmbedGivesTheSameVectorsInBothForms(t *testing.T) {
	t.Parallel()
	resp := &llm.EmbedResponse{Model: "served", Vectors: [][]float32{{1, -0.25, 1e-9}, {math.MaxFloat32, 0, 0.1}}, Usage: llm.Usage{Input: 5}}
	want := "list e [[1 -0.25 1e-09] [3.4028235e+38 0 0.1]] 5 5"
	for _, asBase64 := range []bool{false, true} {
		body, err := openai.EncodeEmbed(resp, &llm.EmbedRequest{Model: "e", Base64: asBase64})
		if err != nil {
			t.Fatal(err)
		}
		if got := vectors(t, body, asBase64); got != want {
			t.Errorf("base64 %t: %s, want %s", asBase64, got, want)
		}
	}
	if _, err := openai.EncodeEmbed(&llm.EmbedResponse{Vectors: [][]float32{{float32(math.NaN())}}}, &llm.EmbedRequest{}); llm.CodeOf(err) != llm.CodeUpstream {
		t.Errorf("NaN: %v", err)
	}
}

func TestEncodeEmbedCall(t *testing.T) {
	t.Parallel()
	cut, two := true, 2
	for name, c := range map[string]struct {
		r    llm.EmbedRequest
		e    openai.Engine
		want string
	}{
		"texts to vLLM": {
			llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: "a"}, {Text: ""}}, Dimensions: &two},
			openai.EngineVLLM,
			`{"model":"served","input":["a",""],"encoding_format":"base64","dimensions":2}`,
		},
		"tokens to others": {
			llm.EmbedRequest{Inputs: []llm.EmbedInput{{Tokens: []int{1, 2}}}},
			openai.EngineOpenAI,
			`{"model":"served","input":[[1,2]],"encoding_format":"float"}`,
		},
		"truncation": {
			llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: "a"}}, Truncate: &cut},
			openai.EngineVLLM,
			`{"model":"served","input":["a"],"encoding_format":"base64","truncate_prompt_tokens":-1}`,
		},
	} {
		got, err := openai.EncodeEmbedCall(&c.r, openai.CallOptions{Model: llm.Model{Name: "served"}, Engine: c.e})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	mixed := &llm.EmbedRequest{Inputs: []llm.EmbedInput{{Text: "a"}, {Tokens: []int{1}}}}
	if _, err := openai.EncodeEmbedCall(mixed, openai.CallOptions{}); llm.CodeOf(err) != llm.CodeInvalidRequest {
		t.Errorf("mixed inputs: %v", err)
	}
}

func TestDecodeEmbedReply(t *testing.T) {
	t.Parallel()
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5))
	b64 := base64.StdEncoding.EncodeToString(raw)
	resp, err := openai.DecodeEmbedReply([]byte(`{"model":"served","data":[{"index":1,"embedding":[0.25]},{"index":0,"embedding":"`+b64+`"}],"usage":{"prompt_tokens":3,"total_tokens":3}}`), 2)
	if err != nil || fmt.Sprint(resp.Vectors) != "[[0.5] [0.25]]" || resp.Usage.Input != 3 || resp.Model != "served" {
		t.Errorf("%+v, %v", resp, err)
	}
	for name, body := range map[string]string{
		"too few":            `{"data":[{"index":0,"embedding":[1]}]}`,
		"index out of range": `{"data":[{"index":0,"embedding":[1]},{"index":7,"embedding":[1]}]}`,
		"different widths":   `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`,
		"empty":              `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`,
		"no numbers":         `{"data":[{"index":0,"embedding":["a"]},{"index":1,"embedding":["b"]}]}`,
		"bad base64":         `{"data":[{"index":0,"embedding":"AAA"},{"index":1,"embedding":"AAA"}]}`,
		"error":              `{"error":"boom"}`,
		"not JSON":           `oops`,
	} {
		if _, err := openai.DecodeEmbedReply([]byte(body), 2); llm.CodeOf(err) != llm.CodeUpstream {
			t.Errorf("%s: %v, want an upstream error", name, err)
		}
	}
}

func FuzzDecodeEmbed(f *testing.F) {
	f.Add([]byte(`{"model":"e","input":["a",""],"encoding_format":"base64"}`))
	f.Add([]byte(`{"model":"e","input":[[1,2],[3]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, _, err := openai.DecodeEmbed(body)
		if err != nil && llm.AsError(err) == nil {
			t.Fatalf("%q: %v is not classified", body, err)
		}
		if err == nil && len(r.Inputs) == 0 {
			t.Fatalf("%q: no inputs", body)
		}
		if _, err := openai.DecodeEmbedReply(body, 1); err != nil && llm.AsError(err) == nil {
			t.Fatalf("%q: %v is not classified", body, err)
		}
	})
}

func TestAgentModelsAreBothLists(t *testing.T) {
	t.Parallel()
	body := openai.EncodeAgentModels([]openai.ModelCard{{ID: `a"b`, Created: 1, OwnedBy: "o", ContextLength: 4096}, {ID: "c"}})
	var got struct {
		Object string
		Data   []struct{ ID string }
		Models []struct {
			Slug          string
			ContextWindow *int `json:"context_window"`
		}
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if got.Object != "list" || len(got.Data) != 2 || len(got.Models) != 2 || got.Models[0].Slug != `a"b` || *got.Models[0].ContextWindow != 4096 || got.Models[1].ContextWindow != nil {
		t.Errorf("%s", body)
	}
	if body := openai.EncodeAgentModels(nil); !json.Valid(body) {
		t.Errorf("no models: %s", body)
	}
}
