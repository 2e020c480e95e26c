package conformance_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// TestMain lets more cells run at once than there are processors: some of them wait for a quarter of a minute.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// profiles are the kinds of models, with what a cluster file says about them.
var profiles = map[string]struct{ capabilities, config string }{
	"plain":   {"chat+tools+json+vision", `thinking: {profile: none}`},
	"qwen":    {"chat+tools+json+vision+thinking", `thinking: {profile: toggle}`},
	"gptoss":  {"chat+tools+json+thinking", `thinking: {profile: effort}, developer_role: developer`},
	"r1":      {"chat+tools+json+thinking", `thinking: {profile: always}`},
	"tags":    {"chat+tools+json+thinking", `thinking: {profile: toggle, splitter: true}`},
	"promote": {"chat+tools+json+thinking", `thinking: {profile: toggle, promote: true}`},
	"twin":    {"chat+tools+json", `thinking: {profile: none}`}, // served by two backends
	"vectors": {"embedding", `capabilities: [embedding]`},
	"filler":  {"chat+insert", `thinking: {profile: none}`},
	"small":   {"chat+tools+json", `thinking: {profile: none}`}, // has a small window
}

const (
	// perProfile is how many cells can use a profile at once.
	perProfile = 12
	// window is the context of models, in tokens; smallWindow is that of profile small.
	window      = 32_768
	smallWindow = 2048
)

// rig is a gateway in front of scripted backends of one kind. All cells of that kind share it: each leases a model, and
// the requests for that model are its own.
type rig struct {
	engine engine
	s      *e2e.Server
	key    string
	db     *sql.DB
	main   *front
	spare  *front
	free   map[string]chan string
	people map[string]chan caller
}

func newRig(t *testing.T, e engine) *rig {
	t.Helper()
	g := &rig{engine: e, free: map[string]chan string{}}
	var all, twins []simbackend.Model
	file := "settings: {retry: {breaker_failures: 1000000}}\ngroups: [{name: changing-0, weight: 1}, {name: changing-1, weight: 1}]\nmodels:\n"
	for profile, p := range profiles {
		g.free[profile] = make(chan string, perProfile)
		for i := range perProfile {
			name := fmt.Sprintf("%s-%d", profile, i)
			m := modelOf(t, name)
			all = append(all, m)
			if profile == "twin" {
				twins = append(twins, m)
			}
			file += fmt.Sprintf("  - {name: %s, context_length: %d, %s}\n", name, m.Context, p.config)
			g.free[profile] <- name
		}
	}
	g.main, g.spare = newFront(t, e, all), newFront(t, e, twins)
	file += fmt.Sprintf("backends:\n  - {name: main, engine: %s, url: %q, max_concurrent: 500, priority: 5}\n  - {name: spare, engine: %s, url: %q, max_concurrent: 500}\n",
		e, g.main.URL, e, g.spare.URL)
	g.s = e2e.Start(t, e2e.Options{Cluster: file})
	g.key = g.s.Key(app.NewKey{User: "everybody"})
	g.people = g.callers(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(g.s.DataDir, "mindrouter.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	g.db = db
	return g
}

func modelOf(t testing.TB, name string) simbackend.Model {
	t.Helper()
	profile, _, _ := strings.Cut(name, "-")
	size := window
	if profile == "small" {
		size = smallWindow
	}
	m, err := simbackend.ParseModel(fmt.Sprintf("%s:%s@%d", name, profiles[profile].capabilities, size))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// front is a backend that looks like one server and is many: requests for a model go to the simulated server of the cell
// that has leased the model, everything else to one that knows all models.
type front struct {
	*httptest.Server
	all http.Handler

	mu    sync.Mutex
	cells map[string]*simbackend.Server // by model
}

func newFront(t testing.TB, e engine, models []simbackend.Model) *front {
	t.Helper()
	all, err := simbackend.New(simbackend.Config{Dialect: e, Models: models})
	if err != nil {
		t.Fatal(err)
	}
	f := &front{all: all, cells: map[string]*simbackend.Server{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.of(body).ServeHTTP(w, r)
}

func (f *front) of(body []byte) http.Handler {
	var asked struct{ Model string }
	if json.Unmarshal(body, &asked) != nil {
		return f.all
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.cells[strings.TrimSuffix(asked.Model, ":latest")]; s != nil {
		return s
	}
	return f.all
}

func (f *front) put(model string, s *simbackend.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s == nil {
		delete(f.cells, model)
	} else {
		f.cells[model] = s
	}
}

// row is what is on record about a request.
type row struct {
	outcome, code, stop     string
	input, output, reserved int
	estimated               bool
	firstTokenUS            int64
}

// row waits until the end of a request is on record.
func (c *cell) row(id string) row {
	c.t.Helper()
	var r row
	c.eventually("on record", func() error {
		err := c.rig.db.QueryRowContext(c.t.Context(), `SELECT outcome, error_code, stop_reason, input_tokens, output_tokens,
			reserved_tokens, usage_estimated, first_token_us FROM requests WHERE id = ?`, id).
			Scan(&r.outcome, &r.code, &r.stop, &r.input, &r.output, &r.reserved, &r.estimated, &r.firstTokenUS)
		if err == nil && r.outcome == "" {
			err = fmt.Errorf("request %s has not ended", id)
		}
		return err
	})
	return r
}

// count runs a query that counts.
func (c *cell) count(query string, args ...any) int {
	c.t.Helper()
	var n int
	if err := c.rig.db.QueryRowContext(c.t.Context(), query, args...).Scan(&n); err != nil {
		c.fatalf("%s: %v", query, err)
	}
	return n
}

// caller is somebody with a key of its own.
type caller struct{ user, group, key string }

// budgetTokens is the budget of callers who have one.
const budgetTokens = 390

// kinds are what callers may be bound by. Two of each are made before the cells run, one for each mode: commands that
// write to the database in the middle would make every request wait.
var kinds = map[string]app.Limits{
	"free": {}, "budget": {TokenBudget: budgetTokens}, "ten at once": {MaxConcurrent: 10}, "one a minute": {RequestsPerMinute: 1}, "changing": {},
}

func (g *rig) callers(t *testing.T) map[string]chan caller {
	t.Helper()
	out := map[string]chan caller{}
	g.s.Commands(func(ctx context.Context, cmd *app.Commands) error {
		n := 0
		for kind, limits := range kinds {
			out[kind] = make(chan caller, len(modes))
			for range modes {
				n++
				who := caller{user: fmt.Sprintf("user-%d", n), group: "staff"}
				if kind == "changing" {
					who.group = fmt.Sprintf("changing-%d", len(out[kind]))
				}
				err := cmd.CreateUser(ctx, app.NewUser{Name: who.user, Email: who.user + "@example.edu", Group: who.group, Role: "user"})
				if err != nil {
					return err
				}
				if who.key, err = cmd.CreateKey(ctx, app.NewKey{User: who.user, Label: kind, Limits: limits}); err != nil {
					return err
				}
				out[kind] <- who
			}
		}
		return nil
	})
	return out
}

// be has the cell ask as a caller of a kind.
func (c *cell) be(kind string) {
	c.who = <-c.people[kind]
	c.key = c.who.key
}
