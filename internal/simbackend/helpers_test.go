package simbackend_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/simbackend"
)

// patience bounds every wait of a test; it is never reached by a working server.
const patience = 10 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// serve starts a server on loopback, and fails the test if it cannot be stopped cleanly.
func serve(t *testing.T, cfg simbackend.Config) *simbackend.Running {
	t.Helper()
	s, err := simbackend.Start(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return s
}

func newServer(t *testing.T, cfg simbackend.Config) *simbackend.Server {
	t.Helper()
	s, err := simbackend.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

func openAIClient(s *simbackend.Running) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("test-key"), option.WithMaxRetries(0))
}

func ollamaClient(t *testing.T, s *simbackend.Running) *api.Client {
	t.Helper()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return api.NewClient(base, http.DefaultClient)
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// ask calls the handler directly.
func ask(s http.Handler, method, path, body string) reply {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return reply{status: w.Code, header: w.Result().Header, body: w.Body.String()}
}

// post sends a body over the network.
func post(t *testing.T, address, body string) reply {
	t.Helper()
	r, err := postContext(testContext(t), address, body)
	if err != nil {
		t.Fatalf("POST %s: %v", address, err)
	}
	return r
}

func postContext(ctx context.Context, address, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}, nil
}

// object is decoded JSON with paths such as "choices.0.message.content".
type object struct {
	t     *testing.T
	value any
	text  string
}

func (r reply) json(t *testing.T) object {
	t.Helper()
	return parse(t, r.body)
}

func parse(t *testing.T, text string) object {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return object{t: t, value: v, text: text}
}

// find returns the value at the path and whether it exists.
func (o object) find(path string) (any, bool) {
	v := o.value
	for key := range strings.SplitSeq(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			next, ok := node[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(node) {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func (o object) at(path string) any {
	o.t.Helper()
	v, ok := o.find(path)
	if !ok {
		o.t.Fatalf("no %q in %s", path, o.text)
	}
	return v
}

func (o object) str(path string) string {
	o.t.Helper()
	s, ok := o.at(path).(string)
	if !ok {
		o.t.Fatalf("%q is not a string in %s", path, o.text)
	}
	return s
}

func (o object) num(path string) int {
	o.t.Helper()
	n, ok := o.at(path).(float64)
	if !ok {
		o.t.Fatalf("%q is not a number in %s", path, o.text)
	}
	return int(n)
}

func (o object) list(path string) []any {
	o.t.Helper()
	l, ok := o.at(path).([]any)
	if !ok {
		o.t.Fatalf("%q is not a list in %s", path, o.text)
	}
	return l
}

// events splits a stream of server-sent events into their data.
func (r reply) events(t *testing.T) []string {
	t.Helper()
	var out []string
	for line := range strings.SplitSeq(r.body, "\n") {
		if line == "" {
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			t.Fatalf("line of a stream is not data: %q", line)
		}
		out = append(out, data)
	}
	return out
}

// lines splits a stream of JSON lines.
func (r reply) lines(t *testing.T) []object {
	t.Helper()
	var out []object
	for line := range strings.SplitSeq(strings.TrimSuffix(r.body, "\n"), "\n") {
		out = append(out, parse(t, line))
	}
	return out
}

// stream is an answer that is being read.
type stream struct {
	resp   *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// open posts a body and returns when the header is there.
func open(t *testing.T, address, body string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("POST %s: %v", address, err)
	}
	t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	return &stream{resp: resp, lines: bufio.NewScanner(resp.Body), cancel: cancel}
}

// next returns the next line that is not empty.
func (s *stream) next(t *testing.T) string {
	t.Helper()
	for s.lines.Scan() {
		if s.lines.Text() != "" {
			return s.lines.Text()
		}
	}
	t.Fatalf("the stream ended: %v", s.lines.Err())
	return ""
}

func pngImage(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegImage(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// chat returns a chat body in the common form; extra is more fields, starting with a comma.
func chat(model, text, extra string) string {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%s}]%s}`, model, content, extra)
}

const (
	chatPath   = "/v1/chat/completions"
	ollamaPath = "/api/chat"
)

// twoTools offers two tools, the second with a schema of some depth.
const twoTools = `,"tools":[
	{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{"tz":{"type":"string"}},"required":["tz"]}}},
	{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"note":{"type":"string"}},"required":["a","b"]}}}]`
