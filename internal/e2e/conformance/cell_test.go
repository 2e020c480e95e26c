package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// cell is one rule in one mode against one backend.
type cell struct {
	*rig
	t    *testing.T
	mode mode
	key  string // empty for everybody's
	who  caller // if it is a caller of its own

	model     string // leased
	sim       *simbackend.Server
	spareSim  *simbackend.Server // of profile twin
	script    *script
	withUsage *bool // whether chat streams ask for usage; nil: yes

	asked    int
	failures []string
}

// stopped ends a cell early.
type stopped struct{}

func (c *cell) try(test func(*cell)) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(stopped); !ok {
				panic(p)
			}
		}
	}()
	test(c)
}

func (c *cell) errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > 4000 {
		text = text[:4000] + " ..."
	}
	c.failures = append(c.failures, text)
}

func (c *cell) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	panic(stopped{})
}

// is compares.
func (c *cell) is(what, got, want string) {
	if got != want {
		c.errorf("%s: got %s, want %s", what, clip(got), clip(want))
	}
}

// has looks for a part.
func (c *cell) has(what, got, part string) {
	if !strings.Contains(got, part) {
		c.errorf("%s: got %s, want it to have %s", what, clip(got), part)
	}
}

// lacks looks for a part that must not be there.
func (c *cell) lacks(what, got, part string) {
	if strings.Contains(got, part) {
		c.errorf("%s: %s has %s", what, clip(got), part)
	}
}

func clip(s string) string {
	if len(s) > 1500 {
		s = s[:1500] + " ..."
	}
	return strconv.Quote(s)
}

func (c *cell) eventually(what string, check func() error) {
	var err error
	for deadline := time.Now().Add(e2e.Deadline); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	c.fatalf("not %s: %v", what, err)
}

// as leases a model of a profile and gives it a simulated server of its own. The model before is given back.
func (c *cell) as(profile string) {
	c.release()
	c.model = <-c.free[profile]
	fresh := func() *simbackend.Server {
		s, err := simbackend.New(simbackend.Config{
			Dialect: c.engine, Models: []simbackend.Model{modelOf(c.t, c.model)}, EmbeddingDims: 8, RecordBytes: 256 << 20, Slots: 512,
		})
		if err != nil {
			c.fatalf("simulated server: %v", err)
		}
		return s
	}
	c.sim = fresh()
	c.main.put(c.model, c.sim)
	if profile == "twin" {
		c.spareSim = fresh()
		c.spare.put(c.model, c.spareSim)
	}
}

// release gives the model back once nothing runs on it any more.
func (c *cell) release() {
	if c.model == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), e2e.Deadline)
	defer cancel()
	for _, s := range []*simbackend.Server{c.sim, c.spareSim} {
		if s == nil {
			continue
		}
		if err := s.WaitIdle(ctx); err != nil {
			c.errorf("the backend is still busy: %v", err)
		}
		s.Close()
	}
	c.main.put(c.model, nil)
	c.spare.put(c.model, nil)
	profile, _, _ := strings.Cut(c.model, "-")
	c.free[profile] <- c.model
	c.model, c.sim, c.spareSim, c.script = "", nil, nil, nil
}

// says has the backend answer every further request with the script; without one it makes up answers by itself.
func (c *cell) says(s script) {
	if c.model == "" {
		c.as("plain")
	}
	if _, ok := s[c.engine]; !ok {
		c.fatalf("the script has nothing for %s", c.engine)
	}
	c.script = &s
}

// reply is what a client gets.
type reply struct {
	status int
	header http.Header
	raw    string
	*answer
}

func (r *reply) warnings() string { return r.header.Get("X-Mindrouter-Warnings") }
func (r *reply) id() string       { return r.header.Get("X-Request-Id") }

// chatPaths are where the backends are asked for answers.
var chatPaths = map[engine][]string{
	vllm:   {"/v1/chat/completions", "/v1/completions"},
	ollama: {"/api/chat", "/api/generate"},
}

// body completes a body with the model and the mode.
func (c *cell) body(cl client, m mode, body string) string {
	if c.model == "" {
		c.as("plain")
	}
	head := fmt.Sprintf(`{"model":%q`, c.model)
	if !strings.Contains(body, `"stream":`) {
		head += fmt.Sprintf(`,"stream":%t`, m == stream)
	}
	if cl.name == "chat" && m == stream && c.includeUsage(body) && !strings.Contains(body, "stream_options") {
		head += `,"stream_options":{"include_usage":true}`
	}
	if cl.name == "responses" && !strings.Contains(body, `"store"`) {
		head += `,"store":false`
	}
	if rest := strings.TrimSpace(body[1:]); rest != "}" {
		head += ","
	}
	return head + body[1:]
}

func (c *cell) includeUsage(body string) bool {
	if strings.Contains(body, "stream_options") {
		return strings.Contains(body, `"include_usage":true`)
	}
	return c.withUsage == nil || *c.withUsage
}

// post sends bytes.
func (c *cell) post(path, body string, header ...string) *reply {
	c.t.Helper()
	return c.do(http.MethodPost, path, body, header...)
}

func (c *cell) do(method, path, body string, header ...string) *reply {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*e2e.Deadline)
	defer cancel()
	r, err := c.fetch(ctx, method, path, body, header...)
	if err != nil {
		c.fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// fetch does a request and returns errors instead of ending the cell, so other goroutines may use it.
func (c *cell) fetch(ctx context.Context, method, path, body string, header ...string) (*reply, error) {
	resp, err := c.open(ctx, method, path, body, header...)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	return &reply{status: resp.StatusCode, header: resp.Header, raw: string(raw)}, nil
}

var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}

func (c *cell) open(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.s.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	key := c.key
	if key == "" {
		key = c.rig.key
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return httpClient.Do(req)
}

// load queues the script for the next request.
func (c *cell) load() {
	if c.script != nil {
		c.sim.Reply(chatPaths[c.engine][0], (*c.script)[c.engine])
	}
}

// exchange asks once, in a mode, and reads what comes.
func (c *cell) exchange(cl client, m mode, body string, header ...string) *reply {
	c.t.Helper()
	full := c.body(cl, m, body)
	c.load()
	c.asked++
	r := c.post(cl.path, full, header...)
	c.read(cl, m, r, c.includeUsage(body))
	return r
}

func (c *cell) read(cl client, m mode, r *reply, usage bool) {
	c.t.Helper()
	var err error
	kind := r.header.Get("Content-Type")
	switch {
	case r.status != http.StatusOK:
		r.answer, err = cl.refusal([]byte(r.raw))
	case m == stream && strings.HasPrefix(kind, cl.streams):
		r.answer, err = cl.stream([]byte(r.raw), usage)
	case m == stream && cl.streams != kind && !strings.HasPrefix(kind, "application/json"):
		err = fmt.Errorf("content type %q", kind)
	default:
		r.answer, err = cl.whole([]byte(r.raw))
	}
	if err != nil {
		c.fatalf("%s (%s): %v\n%s", cl.name, m, err, clip(r.raw))
	}
}

// both asks in the mode of the cell. A streamed cell asks whole as well: the answers must be the same, and the backend
// must be asked the same.
func (c *cell) both(cl client, body string, header ...string) (r, twin *reply) {
	c.t.Helper()
	r = c.exchange(cl, c.mode, body, header...)
	if c.mode == whole {
		return r, r
	}
	first := c.lastSent()
	twin = c.exchange(cl, whole, body, header...)
	if second := c.lastSent(); first != nil && second != nil && !bytes.Equal(first, second) {
		c.errorf("%s: the backend is asked %s for a stream and %s for the whole", cl.name, clip(string(first)), clip(string(second)))
	}
	return r, twin
}

// ask wants an answer.
func (c *cell) ask(cl client, body string, header ...string) *reply {
	c.t.Helper()
	r, twin := c.both(cl, body, header...)
	for _, one := range []*reply{r, twin} {
		if one.status != http.StatusOK || one.failed() {
			c.fatalf("%s: %d %s\nfor %s", cl.name, one.status, clip(one.raw), clip(body))
		}
	}
	if got, want := r.same(twin.answer), twin.same(r.answer); got != want {
		c.errorf("%s: the stream makes %s and the whole answer is %s", cl.name, clip(got), clip(want))
	}
	return r
}

// refused wants a refusal with a status, in both modes.
func (c *cell) refused(cl client, status int, body string, header ...string) *reply {
	c.t.Helper()
	r, twin := c.both(cl, body, header...)
	for _, one := range []*reply{r, twin} {
		if one.status != status || !one.failed() {
			c.fatalf("%s: %d %s, want %d\nfor %s", cl.name, one.status, clip(one.raw), status, clip(body))
		}
	}
	return r
}

// broken wants an answer that begins and does not end well: a stream ends with an error, a whole answer is refused.
func (c *cell) broken(cl client, body string) *reply {
	c.t.Helper()
	r, twin := c.both(cl, body)
	if c.mode == stream && (r.status != http.StatusOK || !r.failed()) {
		c.fatalf("%s: %d %s, want a stream that ends with an error", cl.name, r.status, clip(r.raw))
	}
	if twin.status < http.StatusInternalServerError || !twin.failed() {
		c.fatalf("%s: %d %s, want a whole answer to be refused", cl.name, twin.status, clip(twin.raw))
	}
	return r
}

// lastSent is the body of the last request for an answer that reached the backend, or nil.
func (c *cell) lastSent() []byte {
	reqs := c.sim.InferenceRequests()
	if len(reqs) == 0 {
		return nil
	}
	return reqs[len(reqs)-1].Body
}

// sent is the same as a document.
func (c *cell) sent() doc {
	body := c.lastSent()
	if body == nil {
		c.fatalf("nothing reached the backend")
	}
	return doc{c, body}
}

// doc is a JSON document.
type doc struct {
	c   *cell
	raw []byte
}

func (d doc) String() string { return string(d.raw) }

// at returns the value at a path such as messages.0.content, as it is written but without white space; empty if there is
// none.
func (d doc) at(path string) string {
	raw := json.RawMessage(d.raw)
	for _, key := range strings.Split(path, ".") {
		if n, err := strconv.Atoi(key); err == nil {
			var list []json.RawMessage
			if json.Unmarshal(raw, &list) != nil || n >= len(list) {
				return ""
			}
			raw = list[n]
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return ""
		}
		raw = object[key]
		if raw == nil {
			return ""
		}
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		d.c.fatalf("%v in %s", err, raw)
	}
	return b.String()
}

// text returns a string at a path.
func (d doc) text(path string) string {
	var s string
	if raw := d.at(path); raw != "" && raw != "null" {
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			d.c.errorf("%s is %s, no string", path, raw)
		}
	}
	return s
}

// is compares the value at a path; want is JSON, or empty for a value that must not be there.
func (d doc) is(path, want string) {
	d.c.t.Helper()
	if got := d.at(path); got != want {
		d.c.errorf("%s is %q, want %q in %s", path, got, want, clip(string(d.raw)))
	}
}

// len is the length of a list.
func (d doc) len(path string) int {
	var list []json.RawMessage
	if raw := d.at(path); raw != "" && json.Unmarshal([]byte(raw), &list) != nil {
		d.c.errorf("%s is no list in %s", path, clip(string(d.raw)))
	}
	return len(list)
}

// roles lists the roles of the messages.
func (d doc) roles() string {
	var body struct {
		Messages []struct{ Role string }
	}
	if err := json.Unmarshal(d.raw, &body); err != nil {
		d.c.fatalf("%v in %s", err, d.raw)
	}
	var roles []string
	for _, m := range body.Messages {
		roles = append(roles, m.Role)
	}
	return strings.Join(roles, " ")
}

// on picks by backend.
func (c *cell) on(v, o string) string {
	if c.engine == vllm {
		return v
	}
	return o
}

// q quotes for JSON, without escapes for HTML.
func q(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
