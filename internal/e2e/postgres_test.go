package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/testenv"
	"mindrouter/internal/simbackend"
)

// revocation is how long a revoked key may still work.
const revocation = time.Second

// awaitRefusals revokes three keys, one after the other, and demands that every server refuses each in time. What counts
// is the sum: the machine may be busy for a moment, and a server that only asks now and then may be lucky once.
func awaitRefusals(t *testing.T, servers ...*e2e.Server) {
	t.Helper()
	const keys = 3
	var took time.Duration
	for range keys {
		key := servers[0].Key(app.NewKey{})
		for i, s := range servers {
			if got := s.Do("GET", "/v1/models", key, ""); got.Status != http.StatusOK {
				t.Fatalf("server %d: a new key: %d %s", i, got.Status, got.Body)
			}
		}
		servers[0].Commands(func(ctx context.Context, c *app.Commands) error { return c.RevokeKey(ctx, key[:12]) })
		revoked := time.Now()
		for _, s := range servers {
			s.Eventually("refused", func() error {
				if got := s.Do("GET", "/v1/models", key, ""); got.Status != http.StatusUnauthorized {
					return errStatus(got.Status)
				}
				return nil
			})
		}
		took += time.Since(revoked)
	}
	if took > keys*revocation {
		t.Errorf("%d keys worked for %v after their revocation", keys, took)
	}
}

func TestPostgresCarriesTheMainFlow(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			database := testenv.Postgres(t)
			s := e2e.Start(t, e2e.Options{
				Backends:    map[string]simbackend.Config{"sim": {Dialect: e.dialect, Models: models(t), EmbeddingDims: 16}},
				DatabaseURL: database,
			})
			key := s.Key(app.NewKey{})
			c := client(s, key)
			if got, _ := bothWays(t, c, ask(e.chat, "[[say=kept in PostgreSQL]]")); got.Choices[0].Message.Content != "kept in PostgreSQL" {
				t.Errorf("answer %q", got.Choices[0].Message.Content)
			}
			vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
				Model: e.embed, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("one")},
			})
			if err != nil || len(vectors.Data) != 1 || len(vectors.Data[0].Embedding) != 16 {
				t.Errorf("embeddings: %v, %v", vectors, err)
			}
			if got := s.Post("/v1/chat/completions", key, `{"model":"nope","messages":[{"role":"user","content":"hi"}]}`); got.Status != http.StatusNotFound {
				t.Errorf("unknown model: %d %s", got.Status, got.Body)
			}
			s.Restart() // what was written is on record; keys and backends are still there
			if got := outcomesIn(t, "pgx", database); got["success"] != 3 || len(got) != 1 {
				t.Errorf("the record holds %v, want 3 success", got)
			}
			if got := s.Do("GET", "/v1/models", key, ""); got.Status != http.StatusOK {
				t.Errorf("after a restart: %d %s", got.Status, got.Body)
			}
			awaitRefusals(t, s)
			u, err := url.Parse(database)
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			if password == "" || strings.Contains(s.Logs(), password) {
				t.Errorf("the log holds the password %q of the database", password)
			}
		})
	}
}

func TestServersOnOneDatabaseFollowTheSameKeys(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	start := func() *e2e.Server {
		return e2e.Start(t, e2e.Options{
			Backends:    map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
			DatabaseURL: database,
		})
	}
	first, second := start(), start() // the second one's cluster file moves the backend of both
	key := first.Key(app.NewKey{})
	for i, s := range []*e2e.Server{first, second} {
		got := s.Post("/v1/chat/completions", key, `{"model":"chat","messages":[{"role":"user","content":"[[say=hello]]"}]}`)
		if got.Status != http.StatusOK || !strings.Contains(got.Body, "hello") {
			t.Errorf("server %d: %d %s", i, got.Status, got.Body)
		}
	}
	awaitRefusals(t, first, second)
}

// onPostgres writes a configuration file for the binary and returns the flag that names it.
func onPostgres(t *testing.T, database string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mindrouter.yaml")
	text := fmt.Sprintf("database_url: %q\nsecret_key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n", database)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + file
}

func TestKillLosesNoAcceptedRequestOnPostgres(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	config := onPostgres(t, database)
	dir, key, sim := installation(t, simbackend.Config{Dialect: simbackend.DialectVLLM, Models: models(t), TimeScale: 1}, config)
	ctx, cancel := context.WithTimeout(t.Context(), 2*e2e.Deadline)
	defer cancel()

	first := e2e.StartProcess(t, dir, config)
	ready(t, first.URL)
	const requests = 50 // 30 run, 20 wait for a slot
	var clients sync.WaitGroup
	for range requests {
		clients.Go(func() {
			_, _, _ = post(ctx, first.URL, key, `{"model":"chat","stream":true,"max_tokens":9000,"messages":[{"role":"user","content":"[[tokens=9000]]"}]}`)
		})
	}
	await := func(what string, there func(map[string]int) bool) {
		t.Helper()
		var got map[string]int
		for deadline := time.Now().Add(e2e.Deadline); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if got = outcomesIn(t, "pgx", database); there(got) {
				return
			}
		}
		t.Fatalf("%s: the record holds %v", what, got)
	}
	await("accepted", func(got map[string]int) bool { return got[""] == requests })
	// Another server beside the first leaves its requests alone, whatever it does to those of the dead.
	second := e2e.StartProcess(t, dir, config)
	ready(t, second.URL)
	if got := outcomesIn(t, "pgx", database); got[""] != requests {
		t.Errorf("a second server turned the open requests of a living one into %v", got)
	}
	first.Signal(syscall.SIGKILL)
	clients.Wait()
	if err := sim.WaitIdle(ctx); err != nil {
		t.Fatalf("the backend still runs %d requests of a dead server", sim.InFlight())
	}
	await("noticed", func(got map[string]int) bool { return got["lost"] == requests && len(got) == 1 })
	status, body, err := post(ctx, second.URL, key, `{"model":"chat","max_tokens":9000,"messages":[{"role":"user","content":"[[say=again]]"}]}`)
	if err != nil || status != http.StatusOK {
		t.Errorf("the surviving server: %d %v %s", status, err, body)
	}
	second.Signal(syscall.SIGTERM)
	if err := second.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, second.Logs())
	}
	if got := outcomesIn(t, "pgx", database); got["lost"] != requests || got["success"] != 1 {
		t.Errorf("the record holds %v, want %d lost and 1 success", got, requests)
	}
}
