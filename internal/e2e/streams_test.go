package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/dialect/openai/openaitest"
	"mindrouter/internal/e2e"
)

// strictClient is the official client with a reader beside it that is as strict as the client is lenient: every stream
// that ends by itself is checked byte by byte.
func strictClient(t *testing.T, s *e2e.Server, key string) openai.Client {
	t.Helper()
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			var sent []byte
			if r.GetBody != nil {
				body, err := r.GetBody()
				if err != nil {
					return nil, err
				}
				if sent, err = io.ReadAll(body); err != nil {
					return nil, err
				}
			}
			resp, err := next(r)
			if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				o := openaitest.Options{IncludeUsage: bytes.Contains(sent, []byte(`"include_usage":true`))}
				resp.Body = &checkedBody{ReadCloser: resp.Body, check: func(raw []byte) {
					if _, err := openaitest.CheckStream(raw, o); err != nil {
						t.Errorf("stream: %v\n%s", err, raw)
					}
				}}
			}
			return resp, err
		}))
}

// checkedBody keeps what is read of a body and checks it when the body is closed.
type checkedBody struct {
	io.ReadCloser
	raw   bytes.Buffer
	check func([]byte)
	once  sync.Once
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.raw.Write(p[:n])
	return n, err
}

// Close implements io.Closer. A stream that the client broke off is not checked: it has no end.
func (b *checkedBody) Close() error {
	b.once.Do(func() {
		if _, err := io.Copy(io.Discard, readOnly{b}); err == nil {
			b.check(b.raw.Bytes())
		}
	})
	return b.ReadCloser.Close()
}

// readOnly hides everything but Read.
type readOnly struct{ io.Reader }
