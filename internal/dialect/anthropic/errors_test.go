package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/dialect/anthropic"
	"mindrouter/internal/llm"
)

// errNever is a cause that must not reach a client.
var errNever = llm.Errorf(llm.CodeInternal, "http://10.0.0.1 secret")

func TestWriteError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err                         *llm.Error
		status                      int
		kind, message, retry, again string
	}{
		"field":       {llm.Invalid("messages[0].role", "is required"), 400, "invalid_request_error", "messages[0].role: is required", "", ""},
		"unsupported": {&llm.Error{Code: llm.CodeUnsupported, Param: "tools", Message: "no"}, 400, "invalid_request_error", "tools: no", "", ""},
		"context, counted": {
			&llm.Error{Code: llm.CodeContextTooLong, Param: "messages", Message: "too long", Counted: 40000, Limit: 32768}, 400,
			"invalid_request_error", "prompt is too long: 40000 tokens > 32768 maximum", "", "",
		},
		"context, not counted": {llm.Errorf(llm.CodeContextTooLong, "32768 at most"), 400, "invalid_request_error", "prompt is too long: 32768 at most", "", ""},
		"key":                  {llm.Errorf(llm.CodeUnauthenticated, "no"), 401, "authentication_error", "no", "", ""},
		"scope":                {llm.Errorf(llm.CodeForbidden, "no"), 403, "permission_error", "no", "", ""},
		"model":                {llm.Errorf(llm.CodeModelNotAllowed, "no"), 403, "permission_error", "no", "", ""},
		"path":                 {llm.Errorf(llm.CodeNotFound, "no"), 404, "not_found_error", "no", "", ""},
		"no model":             {llm.Errorf(llm.CodeModelNotFound, "no"), 404, "not_found_error", "no", "", ""},
		"method":               {llm.Errorf(llm.CodeMethodNotAllowed, "no"), 405, "invalid_request_error", "no", "", ""},
		"size":                 {llm.Errorf(llm.CodeTooLarge, "no"), 413, "request_too_large", "no", "", ""},
		"budget":               {llm.Errorf(llm.CodeBudgetSpent, "no"), 429, "rate_limit_error", "no", "", "false"},
		"rate":                 {&llm.Error{Code: llm.CodeRateLimited, Message: "slow", RetryAfter: 1500 * time.Millisecond}, 429, "rate_limit_error", "slow", "2", ""},
		"ours":                 {llm.Errorf(llm.CodeInternal, "no"), 500, "api_error", "no", "", ""},
		"upstream":             {llm.Errorf(llm.CodeUpstream, "no"), 502, "api_error", "no", "", ""},
		"overload":             {llm.Errorf(llm.CodeOverloaded, "no"), 529, "overloaded_error", "no", "5", ""},
		"no backend":           {llm.Errorf(llm.CodeNoBackend, "no"), 529, "overloaded_error", "no", "5", ""},
		"restart":              {llm.Errorf(llm.CodeUnavailable, "no"), 529, "overloaded_error", "no", "5", ""},
		"timeout":              {llm.Errorf(llm.CodeTimeout, "no"), 504, "timeout_error", "no", "", ""},
		"client left":          {llm.Errorf(llm.CodeCancelled, "no"), 499, "api_error", "no", "", ""},
	} {
		w := httptest.NewRecorder()
		anthropic.Messages{}.WriteError(w, c.err.With(errNever), "id")
		h := w.Header()
		body := `{"type":"error","error":{"type":"` + c.kind + `","message":"` + c.message + `"},"request_id":"id"}` + "\n"
		if w.Code != c.status || w.Body.String() != body || h.Get("Retry-After") != c.retry || h.Get("X-Should-Retry") != c.again ||
			h.Get("Content-Type") != "application/json" || h.Get("X-Request-Id") != "id" || h.Get("Request-Id") != "id" {
			t.Errorf("%s: %d %v %s", name, w.Code, h, w.Body)
		}
	}
}

func cards(ids ...string) []anthropic.ModelCard {
	var list []anthropic.ModelCard
	for _, id := range ids {
		list = append(list, anthropic.ModelCard{ID: id, Created: time.Unix(0, 0)})
	}
	return list
}

func TestEncodeModels(t *testing.T) {
	t.Parallel()
	const rest = `,"capabilities":null,"lifecycle":"active","line":null,"deprecated_at":null,"retires_at":null}`
	got := string(anthropic.EncodeModels([]anthropic.ModelCard{
		{ID: "claude-gw-a", DisplayName: "A \"x\"", Created: time.Unix(0, 0), ContextLength: 32768, MaxOutput: 4096}, {ID: "b/c"},
	}, anthropic.Page{Limit: 20}))
	want := `{"data":[{"type":"model","id":"claude-gw-a","display_name":"A \"x\"","created_at":"1970-01-01T00:00:00Z","max_input_tokens":32768,"max_tokens":4096` + rest +
		`,{"type":"model","id":"b/c","display_name":"b/c","created_at":"0001-01-01T00:00:00Z","max_input_tokens":null,"max_tokens":null` + rest +
		`],"has_more":false,"first_id":"claude-gw-a","last_id":"b/c"}` + "\n"
	if got != want {
		t.Errorf("models\n got %s\nwant %s", got, want)
	}
	if got := string(anthropic.EncodeModels(nil, anthropic.Page{Limit: 20})); got != `{"data":[],"has_more":false,"first_id":null,"last_id":null}`+"\n" {
		t.Errorf("no models: %s", got)
	}
	if got := string(anthropic.EncodeModel(cards("x")[0])); !strings.HasPrefix(got, `{"type":"model","id":"x"`) {
		t.Errorf("one model: %s", got)
	}
}

func TestModelsArePaged(t *testing.T) {
	t.Parallel()
	list := cards("a", "b", "c", "d", "e")
	for query, want := range map[string]string{
		"":                           "abcde false",
		"limit=1000":                 "abcde false",
		"limit=2":                    "ab true",
		"limit=2&after_id=b":         "cd true",
		"limit=2&after_id=d":         "e false",
		"after_id=e":                 " false",
		"limit=2&before_id=d":        "bc true",
		"limit=2&before_id=c":        "ab false",
		"after_id=unknown":           "abcde false",
		"limit=0":                    "limit",
		"limit=1001":                 "limit",
		"limit=x":                    "limit",
		"beta=true&client_version=1": "abcde false",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		p, err := anthropic.ReadPage(q)
		got := ""
		if e := llm.AsError(err); e != nil {
			got = e.Param
		} else {
			body := string(anthropic.EncodeModels(list, p))
			for _, part := range strings.Split(body, `"id":"`)[1:] {
				got += part[:1]
			}
			got += " false"
			if strings.Contains(body, `"has_more":true`) {
				got = strings.Replace(got, "false", "true", 1)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestSpeaks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  bool
		pairs []string
	}{
		{true, []string{"Anthropic-Version", "2023-06-01", "Authorization", "Bearer x"}},
		{true, []string{"X-Api-Key", "x"}},
		{false, []string{"Authorization", "Bearer x"}},
		{false, []string{"X-Api-Key", "x", "Authorization", "Bearer x"}},
		{false, nil},
	} {
		h := http.Header{}
		for i := 0; i < len(c.pairs); i += 2 {
			h.Set(c.pairs[i], c.pairs[i+1])
		}
		if got := anthropic.Speaks(h); got != c.want {
			t.Errorf("%v: %t", h, got)
		}
	}
}
