package simbackend_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestCompletions(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	tokens := parse(t, ask(s, "POST", "/tokenize", `{"prompt":"[[say=from tokens]]"}`).body).list("tokens")
	ids := strings.ReplaceAll(fmt.Sprint(tokens), " ", ",")
	for name, c := range map[string]struct{ body, want string }{
		"string":          {`"prompt":"[[say=a b]]"`, "a b"},
		"strings":         {`"prompt":["[[say=a]]","[[say=b]]"]`, "a|b"},
		"tokens":          {`"prompt":` + ids, "from tokens"},
		"lists of tokens": {`"prompt":[` + ids + `,` + ids + `]`, "from tokens|from tokens"},
		"default limit":   {`"prompt":"[[tokens=30]]"`, "the model reads every word of a prompt and then writes one token after another until"},
		"echo":            {`"prompt":"[[say=a]]","echo":true`, "[[say=a]]a"},
		"n":               {`"prompt":["[[say=a]]","[[say=b]]"],"n":2`, "a|a|b|b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ask(s, "POST", "/v1/completions", `{"model":"sim-chat",`+c.body+`}`).json(t)
			var got []string
			for i := range o.list("choices") {
				got = append(got, o.str(fmt.Sprintf("choices.%d.text", i)))
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("texts %q, want %q", got, c.want)
			}
			streamed := make([]string, len(got))
			for _, e := range ask(s, "POST", "/v1/completions", `{"model":"sim-chat","stream":true,`+c.body+`}`).events(t) {
				if e != "[DONE]" {
					chunk := parse(t, e)
					streamed[chunk.num("choices.0.index")] += chunk.str("choices.0.text")
				}
			}
			if strings.Join(streamed, "|") != c.want {
				t.Errorf("streamed %q, want %q", streamed, c.want)
			}
		})
	}
	for body, want := range map[string]string{
		`{"model":"sim-chat"}`:                           "prompt",
		`{"model":"sim-chat","prompt":"a","suffix":"b"}`: "suffix",
		`{"model":"sim-embed","prompt":"a"}`:             "does not support Completions",
		`{"model":"sim-chat","prompt":{"a":1}}`:          "validation error",
		`{"model":"sim-chat","prompt":"a","n":0}`:        "n must be",
	} {
		if r := ask(s, "POST", "/v1/completions", body); r.status != 400 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}

func TestTokenizeAgreesWithUsage(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	body := chat("sim-chat", "Count these words,  please.", twoTools)
	count := ask(s, "POST", "/tokenize", body).json(t)
	usage := ask(s, "POST", chatPath, body).json(t)
	if count.num("count") != usage.num("usage.prompt_tokens") || count.num("count") != len(count.list("tokens")) {
		t.Errorf("tokenize %d, usage %d", count.num("count"), usage.num("usage.prompt_tokens"))
	}
	if count.num("max_model_len") != 400 {
		t.Errorf("max_model_len: %s", count.text)
	}
	image := fmt.Sprintf(`{"model":"sim-chat","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`,
		base64.StdEncoding.EncodeToString(pngImage(t, 2, 2)))
	if n := ask(s, "POST", "/tokenize", image).json(t).num("count"); n < 256 || n > 270 {
		t.Errorf("an image is %d tokens with the template", n)
	}
	text := `Grüße,  "世界"`
	tokens := ask(s, "POST", "/tokenize", fmt.Sprintf(`{"model":"sim-chat","prompt":%q,"return_token_strs":true}`, text)).json(t)
	ids := strings.ReplaceAll(fmt.Sprint(tokens.list("tokens")), " ", ",")
	if back := ask(s, "POST", "/detokenize", `{"model":"sim-chat","tokens":`+ids+`}`).json(t).str("prompt"); back != text {
		t.Errorf("detokenize = %q, want %q", back, text)
	}
}

func TestEmbeddingsForms(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	get := func(extra string) object {
		return ask(s, "POST", "/v1/embeddings", `{"model":"sim-embed",`+extra+`}`).json(t)
	}
	float := get(`"input":"some text"`)
	raw, err := base64.StdEncoding.DecodeString(get(`"input":"some text","encoding_format":"base64"`).str("data.0.embedding"))
	if err != nil || len(raw) != 4*64 {
		t.Fatalf("base64: %v, %d bytes", err, len(raw))
	}
	for i, v := range float.list("data.0.embedding") {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != float32(v.(float64)) {
			t.Fatalf("component %d: base64 %v, float %v", i, got, v)
		}
	}
	tokens := parse(t, ask(s, "POST", "/tokenize", `{"prompt":"some text"}`).body).list("tokens")
	ids := strings.ReplaceAll(fmt.Sprint(tokens), " ", ",")
	for _, input := range []string{ids, "[" + ids + "]"} {
		if got := get(`"input":` + input); fmt.Sprint(got.at("data.0.embedding")) != fmt.Sprint(float.at("data.0.embedding")) {
			t.Errorf("input %s has another vector", input)
		}
	}
	if n := len(get(`"input":"x","dimensions":8`).list("data.0.embedding")); n != 8 {
		t.Errorf("%d dimensions, want 8", n)
	}
	for body, want := range map[string]string{
		`{"model":"sim-embed","input":[]}`:                           "empty",
		`{"model":"sim-embed","input":"a","dimensions":65}`:          "dimensions",
		`{"model":"sim-embed","input":"a","encoding_format":"int8"}`: "encoding_format",
		`{"model":"sim-chat","input":"a"}`:                           "does not support Embeddings",
	} {
		if r := ask(s, "POST", "/v1/embeddings", body); r.status != 400 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}

func TestRerankAndScore(t *testing.T) {
	t.Parallel()
	s := vllmServer(t, "")
	for _, path := range []string{"/v1/rerank", "/rerank", "/v2/rerank"} {
		o := ask(s, "POST", path, `{"model":"sim-embed","query":"red apple pie","top_n":2,"documents":["car","red apple pie",{"text":"red apple"}]}`).json(t)
		if len(o.list("results")) != 2 || o.num("results.0.index") != 1 || o.num("results.1.index") != 2 {
			t.Errorf("%s: %s", path, o.text)
		}
	}
	for _, path := range []string{"/v1/score", "/score"} {
		o := ask(s, "POST", path, `{"model":"sim-embed","text_1":"red apple","text_2":["car","red apple"]}`).json(t)
		if a, b := o.at("data.0.score").(float64), o.at("data.1.score").(float64); a >= b || b < 0.999 {
			t.Errorf("%s: scores %v, %v", path, a, b)
		}
	}
	for path, body := range map[string]string{
		"/score":  `{"model":"sim-embed","text_1":["a","b"],"text_2":["c","d","e"]}`,
		"/rerank": `{"model":"sim-chat","query":"a","documents":["b"]}`,
	} {
		if r := ask(s, "POST", path, body); r.status != 400 {
			t.Errorf("%s %s: status %d", path, body, r.status)
		}
	}
}
