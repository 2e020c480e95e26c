package dialect_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func TestDecodeErrorReadsEveryShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		status     int
		code       llm.Code
		message    string
	}{
		{"object", `{"error":{"message":"bad temperature","type":"BadRequestError","param":"temperature","code":400}}`, 400, llm.CodeInvalidRequest, "bad temperature"},
		{"flat", `{"object":"error","message":"bad top_p","type":"BadRequestError","param":null,"code":400}`, 400, llm.CodeInvalidRequest, "bad top_p"},
		{"detail", `{"detail":"bad thing"}`, 422, llm.CodeInvalidRequest, "bad thing"},
		{"detail list", `{"detail":[{"loc":["body","stop",0],"msg":"not a string"}]}`, 422, llm.CodeInvalidRequest, "body.stop.0: not a string"},
		{"string", `{"error":"\"m\" does not support tools"}`, 400, llm.CodeInvalidRequest, `"m" does not support tools`},
		{"text", `bad gateway to 10.0.0.1`, 502, llm.CodeUpstream, "the model server failed"},
		{"page", `<html>nginx</html>`, 400, llm.CodeInvalidRequest, "the model server refused the request"},
		{"nothing", ``, 500, llm.CodeUpstream, "the model server failed"},
		{"our key", `{"error":"Unauthorized"}`, 401, llm.CodeUpstream, "credentials"},
		{"model unknown there", `{"error":{"message":"The model x does not exist","code":404}}`, 404, llm.CodeUpstream, "does not have the model"},
		{"busy", `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, 503, llm.CodeOverloaded, "busy"},
		{"rate", `{}`, 429, llm.CodeOverloaded, "busy"},
		{"not implemented", `{"error":{"message":"no chat here"}}`, 501, llm.CodeUnsupported, "no chat here"},
		{"slow", ``, 504, llm.CodeTimeout, "too long"},
		{
			"vLLM context", `{"error":{"message":"This model's maximum context length is 400 tokens. However, your messages resulted in 504 tokens.","code":400}}`,
			400, llm.CodeContextTooLong, "504 tokens",
		},
		{"newer vLLM context", `{"error":{"message":"Input length (9) exceeds model's maximum context length (8)."}}`, 400, llm.CodeContextTooLong, "Input length"},
		{"Ollama context", `{"error":"the input length exceeds the context length"}`, 500, llm.CodeContextTooLong, "exceeds"},
		{"llama.cpp context", `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, 400, llm.CodeContextTooLong, "exceeds"},
	} {
		err := dialect.DecodeError(c.status, http.Header{"Retry-After": {"7"}}, []byte(c.body))
		if err.Code != c.code || !strings.Contains(err.Message, c.message) {
			t.Errorf("%s: %v, want %s with %q", c.name, err, c.code, c.message)
		}
		if err.Err == nil {
			t.Errorf("%s: no cause for the log", c.name)
		}
		if c.code == llm.CodeUpstream && c.body != "" && strings.Contains(err.Message, c.body) {
			t.Errorf("%s: the client reads %q", c.name, err.Message)
		}
		if want := c.code == llm.CodeOverloaded; want != (err.RetryAfter == 7*time.Second) {
			t.Errorf("%s: Retry-After %s", c.name, err.RetryAfter)
		}
	}
}

func TestRetryAfterTakesSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"5": 5 * time.Second, now.Add(time.Minute).Format(http.TimeFormat): time.Minute, "": 0, "-1": 0, "soon": 0,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := dialect.RetryAfter(http.Header{"Retry-After": {in}}, now); got != want {
			t.Errorf("RetryAfter(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestStatusAndHeaders(t *testing.T) {
	t.Parallel()
	for code, want := range map[llm.Code]struct {
		status           int
		retry, shouldTry string
	}{
		llm.CodeInvalidRequest:   {400, "", ""},
		llm.CodeContextTooLong:   {400, "", ""},
		llm.CodeUnsupported:      {400, "", ""},
		llm.CodeUnauthenticated:  {401, "", ""},
		llm.CodeForbidden:        {403, "", ""},
		llm.CodeModelNotAllowed:  {403, "", ""},
		llm.CodeNotFound:         {404, "", ""},
		llm.CodeModelNotFound:    {404, "", ""},
		llm.CodeMethodNotAllowed: {405, "", ""},
		llm.CodeTooLarge:         {413, "", ""},
		llm.CodeRateLimited:      {429, "5", ""},
		llm.CodeBudgetSpent:      {429, "", "false"},
		llm.CodeCancelled:        {499, "", ""},
		llm.CodeInternal:         {500, "", ""},
		llm.CodeUpstream:         {502, "", ""},
		llm.CodeOverloaded:       {503, "5", ""},
		llm.CodeNoBackend:        {503, "5", ""},
		llm.CodeUnavailable:      {503, "5", ""},
		llm.CodeTimeout:          {504, "", ""},
	} {
		h := http.Header{}
		dialect.SetErrorHeaders(h, llm.Errorf(code, "x"))
		if got := dialect.Status(code); got != want.status || h.Get("Retry-After") != want.retry || h.Get("X-Should-Retry") != want.shouldTry {
			t.Errorf("%s: %d %v, want %+v", code, got, h, want)
		}
	}
	h := http.Header{}
	dialect.SetErrorHeaders(h, &llm.Error{Code: llm.CodeRateLimited, RetryAfter: 1200 * time.Millisecond})
	if h.Get("Retry-After") != "2" {
		t.Errorf("1.2 s is told as %q, want whole seconds, rounded up", h.Get("Retry-After"))
	}
}
