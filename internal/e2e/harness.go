// Package e2e holds the tests of the whole product: a server as a user runs it, official clients in front, model servers
// behind. Its tests look only at what clients get, what the model servers saw, what the API says, and what the database
// holds afterwards.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/simbackend"
)

// Deadline bounds every wait of a test; a machine under load is slow, not broken.
const Deadline = 30 * time.Second

// Options describe a server under test.
type Options struct {
	// Backends are simulated model servers, by name. A name may be started without the gateway knowing: see Cluster.
	Backends map[string]simbackend.Config
	// Cluster is a cluster file; %NAME% stands for the address of that backend. Empty: every backend with its defaults.
	Cluster string
	// DatabaseURL is where records go; empty means SQLite in the data directory.
	DatabaseURL string
	// Settings are further settings, such as "audit.content": "off".
	Settings map[string]string
	// Client is how tests reach the server; nil means http.DefaultClient.
	Client *http.Client
}

// Server is a running gateway with its simulated model servers.
type Server struct {
	URL      string
	DataDir  string
	Backends map[string]*simbackend.Running

	t       testing.TB
	cfg     app.Config
	client  *http.Client
	metrics string
	stop    func() error
	logs    *logBuffer
}

// Start runs a server for the test. At its end the server is stopped, and nothing may be left in flight, waiting or
// reserved: neither here nor on any model server.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{t: t, DataDir: t.TempDir(), Backends: map[string]*simbackend.Running{}, client: o.Client, logs: &logBuffer{}}
	if s.client == nil {
		s.client = http.DefaultClient
	}
	for name, cfg := range o.Backends {
		b, err := simbackend.Start(cfg, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("start backend %s: %v", name, err)
		}
		s.Backends[name] = b
		t.Cleanup(func() {
			if err := b.Shutdown(); err != nil {
				t.Errorf("stop backend %s: %v", name, err)
			}
		})
	}
	s.cfg = s.config(o)
	s.Apply(s.cluster(o))
	s.run()
	t.Cleanup(s.finish)
	s.WaitReady()
	return s
}

func (s *Server) config(o Options) app.Config {
	s.t.Helper()
	text := func(v string) *string { return &v }
	env := []string{"MINDROUTER_LOG_LEVEL=debug"}
	for path, v := range o.Settings {
		env = append(env, "MINDROUTER_"+strings.ToUpper(strings.ReplaceAll(path, ".", "_"))+"="+v)
	}
	f := app.Flags{
		Addr: text("127.0.0.1:0"), DataDir: text(s.DataDir), MetricsAddr: text("127.0.0.1:0"),
		DrainTimeout: text("20s"), LogFormat: text("json"),
	}
	if o.DatabaseURL != "" {
		f.DatabaseURL = text(o.DatabaseURL)
		f.SecretKey = text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	}
	cfg, err := app.LoadConfig(f, env)
	if err != nil {
		s.t.Fatalf("configuration: %v", err)
	}
	return cfg
}

func (s *Server) cluster(o Options) string {
	text := o.Cluster
	if text == "" {
		text = "backends:\n"
		for name := range s.Backends {
			text += fmt.Sprintf("  - {name: %s, engine: %s, url: \"%%%s%%\"}\n", name, o.Backends[name].Dialect, name)
		}
	}
	for name, b := range s.Backends {
		text = strings.ReplaceAll(text, "%"+name+"%", b.URL)
	}
	return text
}

// Commands runs do beside the server, as the command line does.
func (s *Server) Commands(do func(context.Context, *app.Commands) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), Deadline)
	defer cancel()
	c, err := app.OpenCommands(ctx, s.cfg, s.logger())
	if err != nil {
		s.t.Fatalf("open database: %v", err)
	}
	if err := errors.Join(do(ctx, c), c.Close()); err != nil {
		s.t.Fatalf("command: %v", err)
	}
}

// Apply applies a cluster file.
func (s *Server) Apply(text string) {
	s.t.Helper()
	s.Commands(func(ctx context.Context, c *app.Commands) error {
		_, err := c.Apply(ctx, "test.yaml", []byte(text), app.ApplyOptions{})
		return err
	})
}

// Key makes a user (once) and a key for it.
func (s *Server) Key(n app.NewKey) string {
	s.t.Helper()
	if n.User == "" {
		n.User = "alice"
	}
	if n.Label == "" {
		n.Label = "test"
	}
	var secret string
	s.Commands(func(ctx context.Context, c *app.Commands) error {
		users, err := c.Users(ctx)
		if err != nil {
			return err
		}
		known := false
		for _, u := range users {
			known = known || u.Name == n.User
		}
		if !known {
			err := c.CreateUser(ctx, app.NewUser{Name: n.User, Email: n.User + "@example.edu", Group: "staff", Role: "admin"})
			if err != nil {
				return err
			}
		}
		secret, err = c.CreateKey(ctx, n)
		return err
	})
	return secret
}

func (s *Server) logger() *slog.Logger { return app.NewLogger(s.cfg, s.logs) }

// Logs is what the server has logged, at every level.
func (s *Server) Logs() string { return s.logs.String() }

// run starts the server and waits until it answers.
func (s *Server) run() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ready := make(chan app.Ready, 1)
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, s.cfg, s.logger(), func(r app.Ready) { ready <- r }) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(2 * Deadline):
			return errors.New("the server does not stop")
		}
	})
	select {
	case r := <-ready:
		s.URL, s.metrics = r.URL, r.MetricsURL
	case err := <-done:
		s.t.Fatalf("server: %v\n%s", err, s.logs)
	case <-time.After(Deadline):
		s.t.Fatalf("server does not start\n%s", s.logs)
	}
}

// Stop stops the server in good order.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.stop(); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

// Restart stops the server and starts it on the same database.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.run()
	s.WaitReady()
}

// finish checks that nothing is left, and stops.
func (s *Server) finish() {
	for name, b := range s.Backends {
		ctx, cancel := context.WithTimeout(context.Background(), Deadline)
		if err := b.WaitIdle(ctx); err != nil {
			s.t.Errorf("backend %s still has %d requests in flight: %v", name, b.InFlight(), err)
		}
		cancel()
	}
	s.Eventually("nothing in flight, waiting or reserved", func() error {
		for name, v := range s.Gauges() {
			if v != 0 {
				return fmt.Errorf("%s is %v", name, v)
			}
		}
		return nil
	})
	if err := s.stop(); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	s.checkRecord()
	if strings.Contains(s.logs.String(), `"msg":"panic"`) {
		s.t.Errorf("the server panicked:\n%s", s.logs)
	}
	if s.t.Failed() {
		s.t.Logf("server log:\n%s", s.logs)
	}
}

// checkRecord demands that every request that was begun is ended on record, now that the server has stopped.
func (s *Server) checkRecord() {
	path, ok := strings.CutPrefix(cmp.Or(s.cfg.DatabaseURL, "sqlite:"+filepath.Join(s.DataDir, "mindrouter.db")), "sqlite:")
	if !ok {
		return // on PostgreSQL other servers may still use the database
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=query_only(1)&_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Errorf("open the record: %v", err)
		return
	}
	defer func() { _ = db.Close() }()
	var open int
	if err := db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM requests WHERE finished_at = 0").Scan(&open); err != nil {
		s.t.Errorf("read the record: %v", err)
	}
	if open != 0 {
		s.t.Errorf("%d requests have a beginning and no end on record", open)
	}
}

// leftovers are the gauges that must be 0 when nothing runs.
var leftovers = []string{"mindrouter_backend_in_flight", "mindrouter_requests_waiting", "mindrouter_reserved_tokens"}

// Gauges returns the server's own count of what runs, from its metrics.
func (s *Server) Gauges() map[string]float64 {
	s.t.Helper()
	out := map[string]float64{}
	for line := range strings.SplitSeq(s.Metrics(), "\n") {
		name, value, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		for _, g := range leftovers {
			if name == g || strings.HasPrefix(name, g+"{") {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					s.t.Fatalf("metric %q: %v", line, err)
				}
				out[name] = v
			}
		}
	}
	for _, g := range leftovers {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(out)), func(name string) bool { return strings.HasPrefix(name, g) }) {
			s.t.Errorf("the metrics lack %s", g)
		}
	}
	return out
}

// Metrics returns what Prometheus would scrape.
func (s *Server) Metrics() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("metrics: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		s.t.Fatalf("metrics: %v", err)
	}
	return string(body)
}

// WaitReady waits until the server calls itself ready.
func (s *Server) WaitReady() {
	s.t.Helper()
	s.Eventually("ready", func() error {
		resp, err := s.client.Get(s.URL + "/readyz")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%d %s", resp.StatusCode, body)
		}
		return nil
	})
}

// Eventually tries until check succeeds. It is for what other processes and connections do in their own time; order is
// asserted elsewhere.
func (s *Server) Eventually(what string, check func() error) {
	s.t.Helper()
	var err error
	for deadline := time.Now().Add(Deadline); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	s.t.Errorf("not %s after %v: %v\n%s", what, Deadline, err, s.logs)
}

// Answer is a reply as a client sees it.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Post sends a JSON body with a key.
func (s *Server) Post(path, key, body string, header ...string) Answer {
	s.t.Helper()
	return s.Do(http.MethodPost, path, key, body, header...)
}

// Do sends a request. header is name, value, name, value ...
func (s *Server) Do(method, path, key, body string, header ...string) Answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), Deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// Binary builds the product's binary, once for the test binary.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatalf("build the binary: %v", err)
	}
	return path
}

// logBuffer gathers the server's log for failed tests.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the log.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mindrouter-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mindrouter")
	return path, goBuild(path)
})
