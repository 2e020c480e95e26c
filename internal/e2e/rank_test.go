package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

func rankServer(t *testing.T) *e2e.Server {
	t.Helper()
	m, err := simbackend.ParseModels("rank:rerank@8192,chat:chat@8192")
	if err != nil {
		t.Fatal(err)
	}
	return e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{
			"sim": {Dialect: simbackend.DialectVLLM, Models: m}, "other": {Dialect: simbackend.DialectOllama, Models: models(t)},
		},
		Cluster: `
backends: [{name: sim, engine: vllm, url: "%sim%"}, {name: other, engine: ollama, url: "%other%"}]
models: [{name: rank, capabilities: [rerank]}, {name: chat, capabilities: [chat]}]`,
	})
}

func TestRerank(t *testing.T) {
	t.Parallel()
	s := rankServer(t)
	key := s.Key(app.NewKey{})
	body := `{"model":"rank","query":"blue sky","documents":["a red house",{"text":"the blue sky"},"green grass"]`
	for _, path := range []string{"/v1/rerank", "/rerank", "/v2/rerank"} {
		got := s.Post(path, key, body+`}`)
		var reply struct {
			ID    string
			Model string
			Usage struct {
				TotalTokens int `json:"total_tokens"`
			}
			Results []struct {
				Index    int
				Score    float64 `json:"relevance_score"`
				Document struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(got.Body), &reply); err != nil || got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, got.Status, got.Body, err)
		}
		texts := []string{"a red house", "the blue sky", "green grass"}
		if reply.Model != "rank" || reply.ID == "" || reply.Usage.TotalTokens == 0 || len(reply.Results) != 3 {
			t.Errorf("%s: %s", path, got.Body)
		}
		for i, r := range reply.Results {
			if r.Document.Text != texts[r.Index] || (i > 0 && r.Score > reply.Results[i-1].Score) {
				t.Errorf("%s: results are not in order or do not fit their documents: %s", path, got.Body)
			}
		}
		best := reply.Results[0].Index
		got = s.Post(path, key, body+`,"top_n":1,"return_documents":false}`)
		if err := json.Unmarshal([]byte(got.Body), &reply); err != nil || len(reply.Results) != 1 || reply.Results[0].Index != best || strings.Contains(got.Body, "document") {
			t.Errorf("%s: the best alone: %s %v", path, got.Body, err)
		}
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	s := rankServer(t)
	key := s.Key(app.NewKey{})
	for name, tt := range map[string]struct {
		body string
		want int
	}{
		"one to one":   {`{"model":"rank","text_1":"a","text_2":"b"}`, 1},
		"one to many":  {`{"model":"rank","text_1":"a","text_2":["b","c","d"]}`, 3},
		"many to many": {`{"model":"rank","text_1":["a","b"],"text_2":["c","d"]}`, 2},
		"other names":  {`{"model":"rank","queries":"a","documents":["b","c"]}`, 2},
	} {
		got := s.Post("/v1/score", key, tt.body)
		var reply struct {
			Object string
			Data   []struct{ Index int }
			Usage  struct {
				PromptTokens int `json:"prompt_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(got.Body), &reply); err != nil || got.Status != http.StatusOK {
			t.Errorf("%s: %d %s %v", name, got.Status, got.Body, err)
			continue
		}
		if reply.Object != "list" || len(reply.Data) != tt.want || reply.Usage.PromptTokens == 0 {
			t.Errorf("%s: %s, want %d scores", name, got.Body, tt.want)
		}
	}
}

func TestTokenize(t *testing.T) {
	t.Parallel()
	s := rankServer(t)
	key := s.Key(app.NewKey{})
	for _, model := range []string{"chat", "think"} { // a server that counts, and one that does not
		for _, prompt := range []string{`"prompt":"one two three four five six seven eight"`, `"messages":[{"role":"user","content":"one two three four five six seven eight"}]`} {
			got := s.Post("/v1/tokenize", key, `{"model":"`+model+`",`+prompt+`}`)
			var reply struct {
				Count  int
				Length int `json:"max_model_len"`
			}
			if err := json.Unmarshal([]byte(got.Body), &reply); err != nil || reply.Count < 8 || reply.Count > 40 || reply.Length == 0 {
				t.Errorf("%s %s: %s %v", model, prompt, got.Body, err)
			}
			if exact := model == "chat"; exact == strings.Contains(got.Header.Get("X-Mindrouter-Warnings"), "estimated") {
				t.Errorf("%s: warnings %q", model, got.Header.Get("X-Mindrouter-Warnings"))
			}
		}
	}
}

func TestRankErrors(t *testing.T) {
	t.Parallel()
	s := rankServer(t)
	key := s.Key(app.NewKey{})
	for name, tt := range map[string]struct {
		path, body    string
		status        int
		param, reason string
	}{
		"no query":               {"/v1/rerank", `{"model":"rank","documents":["a"]}`, 400, "query", "required"},
		"no documents":           {"/v1/rerank", `{"model":"rank","query":"a","documents":[]}`, 400, "documents", "empty"},
		"a document is a number": {"/v1/rerank", `{"model":"rank","query":"a","documents":["x",1]}`, 400, "documents[1]", "text"},
		"pairs do not match":     {"/v1/score", `{"model":"rank","text_1":["a","b"],"text_2":["c"]}`, 400, "text_2", "as many"},
		"a model that chats":     {"/v1/rerank", `{"model":"chat","query":"a","documents":["b"]}`, 400, "model", "rerank"},
		"unknown model":          {"/v1/score", `{"model":"nobody","text_1":"a","text_2":"b"}`, 404, "", "nobody"},
	} {
		got := s.Post(tt.path, key, tt.body)
		var reply struct {
			Error struct{ Message, Param string }
		}
		if err := json.Unmarshal([]byte(got.Body), &reply); err != nil {
			t.Errorf("%s: %v in %s", name, err, got.Body)
		}
		if got.Status != tt.status || reply.Error.Param != tt.param || !strings.Contains(reply.Error.Message, tt.reason) {
			t.Errorf("%s: %d %s; want %d naming %q with %q", name, got.Status, got.Body, tt.status, tt.param, tt.reason)
		}
	}
}
