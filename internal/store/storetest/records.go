package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/audit"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/quota"
	"mindrouter/internal/store"
)

func begin(r audit.Record) audit.Entry       { return audit.Entry{Begin: &r} }
func finish(f audit.Finish) audit.Entry      { return audit.Entry{Finish: &f} }
func refusal(r audit.Refusal) audit.Entry    { return audit.Entry{Refusal: &r} }
func user(id string) identity.Subject        { return identity.Subject{Scope: "user", ID: id} }
func days(n int) time.Time                   { return now.AddDate(0, 0, n) }
func us(d time.Duration) string              { return fmt.Sprint(d.Microseconds()) }
func at(t time.Time) string                  { return fmt.Sprint(t.UnixMicro()) }
func number[T int | int64](n T) string       { return fmt.Sprint(n) }
func flag(b bool) string                     { return text(b) }
func asJSON(v any) string                    { b, _ := json.Marshal(v); return string(b) } // our own plain structs
func entries(e ...audit.Entry) []audit.Entry { return e }

// write appends entries; it must succeed.
func write(t *testing.T, s *store.Store, e ...audit.Entry) {
	t.Helper()
	if err := s.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// counter reads a counter through the store.
func counter(t *testing.T, s *store.Store, sub identity.Subject) quota.Counter {
	t.Helper()
	c, err := s.Counter(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// outcome is where a request stands.
func outcome(t *testing.T, s *store.Store, id audit.ID) string {
	t.Helper()
	rows := look(t, s).texts("SELECT outcome FROM requests WHERE id = ?", string(id))
	if len(rows) != 1 {
		t.Fatalf("request %s has %d rows", id, len(rows))
	}
	return rows[0][0]
}

// bodies reads the content of a request through the store.
func bodies(t *testing.T, s *store.Store, id audit.ID) (request, response string) {
	t.Helper()
	req, resp, err := s.Bodies(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return string(req), string(resp)
}

var recordTests = []test{
	migrated("text that clients may send is cleaned, not refused", func(t *testing.T, s *store.Store) {
		const hostile = "a\x00b\xffc"
		write(t, s,
			begin(audit.Record{ID: "h", Epoch: "e", At: now, UserAgent: hostile, ModelAsked: hostile, ClientRequestID: hostile}),
			finish(audit.Finish{ID: "h", At: now, Outcome: audit.OutcomeError, Error: hostile, Dropped: []string{hostile}}),
			refusal(audit.Refusal{ID: "r", At: now, Model: hostile}))
		const clean = "a\uFFFDb\uFFFDc"
		same(t, "request", look(t, s).texts("SELECT user_agent, model_asked, client_request_id, error FROM requests"), [][]string{{clean, clean, clean, clean}})
		same(t, "refusal", look(t, s).texts("SELECT model FROM refusals"), [][]string{{clean}})
	}),
	migrated("what is read back explains a request", explains),
	migrated("a record keeps every field", func(t *testing.T, s *store.Store) {
		r, f, ref := full[audit.Record](t), full[audit.Finish](t), full[audit.Refusal](t)
		f.ID = r.ID
		write(t, s, begin(r), finish(f), refusal(ref))
		same(t, "begin", look(t, s).texts(`SELECT id, epoch, at, user_id, user_name, group_id, group_name, key_id, key_prefix,
			endpoint, model_asked, model_resolved, stream, class, boundary, ip, user_agent, client_request_id, reserved_tokens
			FROM requests`), [][]string{{
			string(r.ID), r.Epoch, at(r.At), string(r.User), r.UserName, string(r.Group), r.GroupName, string(r.Key), r.KeyPrefix,
			r.Endpoint, r.ModelAsked, r.ModelResolved, flag(r.Stream), string(r.Class), string(r.Boundary), r.IP, r.UserAgent,
			r.ClientRequestID, number(r.ReservedTokens),
		}})
		same(t, "finish", look(t, s).texts(`SELECT finished_at, outcome, backend, model, stop_reason, error_code, error,
			input_tokens, cached_tokens, output_tokens, reasoning_tokens, usage_estimated, queue_us, first_token_us, total_us,
			attempts, decision, dropped, effort_asked, effort_effective FROM requests`), [][]string{{
			at(f.At), string(f.Outcome), f.Backend, f.Model, string(f.StopReason), string(f.ErrorCode), f.Error,
			number(f.Usage.Input), number(f.Usage.CachedInput), number(f.Usage.Output), number(f.Usage.Reasoning),
			flag(f.Usage.Estimated), us(f.Queue), us(f.FirstToken), us(f.Total), asJSON(f.Attempts), string(f.Decision),
			asJSON(f.Dropped), string(f.EffortAsked), string(f.EffortEffective),
		}})
		same(t, "refusal", look(t, s).texts("SELECT id, at, user_id, key_id, key_prefix, endpoint, model, code, ip FROM refusals"),
			[][]string{{
				string(ref.ID), at(ref.At), string(ref.User), string(ref.Key), ref.KeyPrefix, ref.Endpoint, ref.Model,
				string(ref.Code), ref.IP,
			}})
		for _, c := range f.Charges {
			got := counter(t, s, c.Subject)
			same(t, "counter", got, quota.Counter{Subject: c.Subject, PeriodEnd: c.PeriodEnd, Used: c.Tokens, Lifetime: c.Tokens})
		}
		request, response := bodies(t, s, r.ID)
		same(t, "bodies", []string{request, response}, []string{string(r.Content), string(f.Content)})
	}),
	migrated("a finish that says little is kept as well", func(t *testing.T, s *store.Store) {
		write(t, s, begin(audit.Record{ID: "a"}), finish(audit.Finish{ID: "a", At: now, Outcome: audit.OutcomeCancelled}))
		same(t, "row", look(t, s).texts("SELECT outcome, attempts, decision, dropped, first_token_us FROM requests"),
			[][]string{{"cancelled", "[]", "{}", "[]", "0"}})
	}),
	migrated("an open request is not finished", func(t *testing.T, s *store.Store) {
		write(t, s, begin(audit.Record{ID: "a", At: now}))
		same(t, "row", look(t, s).texts("SELECT finished_at, outcome FROM requests"), [][]string{{"0", ""}})
	}),
	migrated("begin twice is begin once", func(t *testing.T, s *store.Store) {
		write(t, s, begin(audit.Record{ID: "a", UserName: "first", Content: json.RawMessage(`{"v":1}`)}))
		write(t, s, begin(audit.Record{ID: "a", UserName: "second", Content: json.RawMessage(`{"v":2}`)}))
		same(t, "rows", look(t, s).texts("SELECT user_name FROM requests"), [][]string{{"first"}})
		if request, _ := bodies(t, s, "a"); request != `{"v":1}` {
			t.Errorf("request body %s, want the first", request)
		}
	}),
	migrated("finish twice charges once and keeps the first end", func(t *testing.T, s *store.Store) {
		charge := []audit.Charge{{Subject: user("u"), PeriodEnd: days(30), Tokens: 100}}
		first := audit.Finish{ID: "a", At: now, Outcome: audit.OutcomeSuccess, Charges: charge, Content: json.RawMessage(`{"v":1}`)}
		again := audit.Finish{ID: "a", At: now, Outcome: audit.OutcomeError, Charges: charge, Content: json.RawMessage(`{"v":2}`)}
		write(t, s, begin(audit.Record{ID: "a"}), finish(first), finish(again))
		write(t, s, finish(first))
		if got := outcome(t, s, "a"); got != "success" {
			t.Errorf("outcome %s, want that of the first finish", got)
		}
		same(t, "counter", counter(t, s, user("u")),
			quota.Counter{Subject: user("u"), PeriodEnd: days(30), Used: 100, Lifetime: 100})
		if _, response := bodies(t, s, "a"); response != `{"v":1}` {
			t.Errorf("response body %s, want the first", response)
		}
	}),
	migrated("a whole batch again changes nothing", func(t *testing.T, s *store.Store) {
		batch := entries(
			begin(audit.Record{ID: "a"}), begin(audit.Record{ID: "b"}), refusal(audit.Refusal{ID: "r", At: now}),
			finish(audit.Finish{ID: "a", At: now, Outcome: audit.OutcomeSuccess, Charges: []audit.Charge{
				{Subject: user("u"), PeriodEnd: days(30), Tokens: 7},
				{Subject: identity.Subject{Scope: "key", ID: "k"}, PeriodEnd: days(30), Tokens: 7},
			}}),
		)
		for range 3 { // a journal that is replayed after a crash
			write(t, s, batch...)
		}
		for what, want := range map[string]int{"requests": 2, "refusals": 1, "usage_counters": 2} {
			if rows := look(t, s).texts("SELECT 1 FROM " + what); len(rows) != want {
				t.Errorf("%s has %d rows, want %d", what, len(rows), want)
			}
		}
		if got := counter(t, s, user("u")); got.Used != 7 || got.Lifetime != 7 {
			t.Errorf("counter %+v, want 7", got)
		}
	}),
	migrated("finish without begin harms nobody", func(t *testing.T, s *store.Store) {
		write(t, s,
			finish(audit.Finish{ID: "ghost", At: now, Charges: []audit.Charge{{Subject: user("u"), PeriodEnd: days(30), Tokens: 5}}}),
			begin(audit.Record{ID: "a"}))
		if got := outcome(t, s, "a"); got != "" {
			t.Errorf("outcome of the other request %q, want open", got)
		}
		if got := counter(t, s, user("u")); got.Used != 0 || got.Lifetime != 0 {
			t.Errorf("a request that never began was charged: %+v", got)
		}
	}),
	migrated("large bodies are compressed and all are read as they were", func(t *testing.T, s *store.Store) {
		large := `{"text":"` + strings.Repeat("the same words again and again, ", 4000) + `"}`
		for id, content := range map[audit.ID]string{"large": large, "small": `{"a":"ü"}`, "empty": `{}`} {
			write(t, s, begin(audit.Record{ID: id, Content: json.RawMessage(content)}),
				finish(audit.Finish{ID: id, At: now, Content: json.RawMessage(content)}))
			if request, response := bodies(t, s, id); request != content || response != content {
				t.Errorf("body %s of %d bytes is read back as %d and %d bytes", id, len(content), len(request), len(response))
			}
		}
		for _, row := range look(t, s).texts("SELECT length(request), length(response) FROM request_bodies WHERE request_id = 'large'") {
			for _, size := range row {
				if len(size) > 4 {
					t.Errorf("a body of %d bytes that repeats itself takes %s bytes", len(large), size)
				}
			}
		}
	}),
	migrated("no content is no body", func(t *testing.T, s *store.Store) {
		write(t, s, begin(audit.Record{ID: "none"}), finish(audit.Finish{ID: "none", At: now}))
		if rows := look(t, s).texts("SELECT * FROM request_bodies"); len(rows) != 0 {
			t.Errorf("bodies %v, want no row", rows)
		}
		if _, _, err := s.Bodies(t.Context(), "none"); !errors.Is(err, identity.ErrNotFound) {
			t.Errorf("bodies of a request without content: %v, want ErrNotFound", err)
		}
		write(t, s, begin(audit.Record{ID: "answer"}), finish(audit.Finish{ID: "answer", At: now, Content: json.RawMessage(`{}`)}))
		if request, response := bodies(t, s, "answer"); request != "" || response != "{}" {
			t.Errorf("bodies %q and %q, want the answer alone", request, response)
		}
	}),
	migrated("an entry that the database refuses leaves nothing of its batch", func(t *testing.T, s *store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Append(ctx, entries(begin(audit.Record{ID: "a"}))); err == nil {
			t.Error("append on a context that has ended succeeds")
		}
		if rows := look(t, s).texts("SELECT id FROM requests"); len(rows) != 0 {
			t.Errorf("requests %v, want none", rows)
		}
		write(t, s, begin(audit.Record{ID: "a"})) // and the next goes on
	}),
	migrated("nothing to write is no error", func(t *testing.T, s *store.Store) {
		write(t, s)
	}),
}

const (
	self   = "epoch-self"
	silent = "epoch-silent"
	lively = "epoch-lively"
	ended  = "epoch-ended"
	absent = "epoch-that-nobody-registered"
)

// alive is the least heartbeat of a living server.
var alive = now.Add(-10 * time.Second)

// epochs registers one server of each kind, each with an open request of its name.
func epochs(t *testing.T, s *store.Store) {
	t.Helper()
	started := now.Add(-time.Hour)
	for _, epoch := range []string{self, silent, lively, ended} {
		if err := s.StartEpoch(t.Context(), epoch, started); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		s.Heartbeat(t.Context(), lively, alive),
		s.Heartbeat(t.Context(), silent, alive.Add(-time.Microsecond)),
		s.Heartbeat(t.Context(), ended, now), s.EndEpoch(t.Context(), ended, now),
	); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []string{self, silent, lively, ended, absent} {
		write(t, s, begin(audit.Record{ID: audit.ID(epoch), Epoch: epoch, At: started}))
	}
}

var lostTests = []test{
	migrated("what dead servers left open is lost, and nothing else", func(t *testing.T, s *store.Store) {
		epochs(t, s)
		write(t, s, begin(audit.Record{ID: "done", Epoch: silent}), finish(audit.Finish{ID: "done", At: now, Outcome: audit.OutcomeSuccess}))
		n, err := s.MarkLost(t.Context(), self, alive, now)
		if err != nil || n != 3 {
			t.Errorf("marked %d, %v; want 3", n, err)
		}
		for id, want := range map[audit.ID]string{
			self: "", lively: "", silent: "lost", ended: "lost", absent: "lost", "done": "success",
		} {
			if got := outcome(t, s, id); got != want {
				t.Errorf("%s: outcome %q, want %q", id, got, want)
			}
		}
		same(t, "lost row", look(t, s).texts("SELECT finished_at, error FROM requests WHERE id = ?", silent),
			[][]string{{at(now), "the server stopped before the request ended"}})
		if n, err := s.MarkLost(t.Context(), self, alive, now); err != nil || n != 0 {
			t.Errorf("marked again %d, %v; want nothing", n, err)
		}
	}),
	migrated("a heartbeat keeps a server alive", func(t *testing.T, s *store.Store) {
		epochs(t, s)
		if err := s.Heartbeat(t.Context(), silent, now); err != nil {
			t.Fatal(err)
		}
		if _, err := s.MarkLost(t.Context(), self, alive, now); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, s, silent); got != "" {
			t.Errorf("outcome %q after a fresh heartbeat, want open", got)
		}
	}),
	migrated("with one server all others are dead", func(t *testing.T, s *store.Store) {
		epochs(t, s)
		n, err := s.MarkLost(t.Context(), self, now.Add(time.Hour), now)
		if err != nil || n != 4 || outcome(t, s, self) != "" {
			t.Errorf("marked %d, %v; own request %q; want 4 and the own one open", n, err, outcome(t, s, self))
		}
	}),
	migrated("a lost request that ends after all is not charged", func(t *testing.T, s *store.Store) {
		epochs(t, s)
		if _, err := s.MarkLost(t.Context(), self, alive, now); err != nil {
			t.Fatal(err)
		}
		write(t, s, finish(audit.Finish{ID: silent, At: now, Outcome: audit.OutcomeSuccess, Charges: []audit.Charge{
			{Subject: user("u"), PeriodEnd: days(30), Tokens: 5},
		}}))
		if got := outcome(t, s, silent); got != "lost" {
			t.Errorf("outcome %q, want lost: records do not change", got)
		}
		if got := counter(t, s, user("u")); got.Lifetime != 0 {
			t.Errorf("charged %+v", got)
		}
	}),
	migrated("an epoch starts once", func(t *testing.T, s *store.Store) {
		epochs(t, s)
		if err := s.StartEpoch(t.Context(), self, now); err == nil {
			t.Error("a second server took the same epoch")
		}
	}),
}

// charged finishes a fresh request with charges.
func charged(t *testing.T, s *store.Store, id string, charges ...audit.Charge) {
	t.Helper()
	write(t, s, begin(audit.Record{ID: audit.ID(id)}), finish(audit.Finish{ID: audit.ID(id), At: now, Charges: charges}))
}

var counterTests = []test{
	migrated("an unknown subject has an empty counter", func(t *testing.T, s *store.Store) {
		same(t, "counter", counter(t, s, user("nobody")), quota.Counter{Subject: user("nobody")})
	}),
	migrated("charges of one period add up", func(t *testing.T, s *store.Store) {
		charged(t, s, "a", audit.Charge{Subject: user("u"), PeriodEnd: days(30), Tokens: 10})
		charged(t, s, "b", audit.Charge{Subject: user("u"), PeriodEnd: days(30), Tokens: 5})
		same(t, "counter", counter(t, s, user("u")),
			quota.Counter{Subject: user("u"), PeriodEnd: days(30), Used: 15, Lifetime: 15})
	}),
	migrated("a new period starts from nothing; the lifetime goes on", func(t *testing.T, s *store.Store) {
		charged(t, s, "a", audit.Charge{Subject: user("u"), PeriodEnd: days(30), Tokens: 10})
		charged(t, s, "b", audit.Charge{Subject: user("u"), PeriodEnd: days(60), Tokens: 5})
		same(t, "counter", counter(t, s, user("u")),
			quota.Counter{Subject: user("u"), PeriodEnd: days(60), Used: 5, Lifetime: 15})
	}),
	migrated("a late charge of an earlier period moves only the lifetime", func(t *testing.T, s *store.Store) {
		charged(t, s, "a", audit.Charge{Subject: user("u"), PeriodEnd: days(60), Tokens: 10})
		charged(t, s, "b", audit.Charge{Subject: user("u"), PeriodEnd: days(30), Tokens: 5})
		charged(t, s, "c", audit.Charge{Subject: user("u"), Tokens: 3}) // of no period
		same(t, "counter", counter(t, s, user("u")),
			quota.Counter{Subject: user("u"), PeriodEnd: days(60), Used: 10, Lifetime: 18})
	}),
	migrated("a batch that crosses the end of a period counts as its parts would", func(t *testing.T, s *store.Store) {
		var batch []audit.Entry
		for i, end := range []time.Time{days(30), days(60), days(30), days(60)} {
			id := audit.ID(fmt.Sprint(i))
			batch = append(batch, begin(audit.Record{ID: id}), finish(audit.Finish{ID: id, At: now, Charges: []audit.Charge{
				{Subject: user("u"), PeriodEnd: end, Tokens: 10},
			}}))
		}
		write(t, s, batch...)
		same(t, "counter", counter(t, s, user("u")),
			quota.Counter{Subject: user("u"), PeriodEnd: days(60), Used: 20, Lifetime: 40})
	}),
	migrated("subjects of one id and different scopes are apart", func(t *testing.T, s *store.Store) {
		key := identity.Subject{Scope: "key", ID: "u"}
		charged(t, s, "a", audit.Charge{Subject: user("u"), PeriodEnd: days(30), Tokens: 10},
			audit.Charge{Subject: key, PeriodEnd: days(30), Tokens: 1})
		if u, k := counter(t, s, user("u")), counter(t, s, key); u.Used != 10 || k.Used != 1 {
			t.Errorf("counters %+v and %+v", u, k)
		}
	}),
}

var loadTests = []test{
	migrated("many writers and readers never find the database busy", func(t *testing.T, s *store.Store) {
		stores := []*store.Store{s, another(t, s, ringOf(t, newKey(t)))}
		const writers, each = 8, 12
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				st := stores[w%2]
				for i := range each {
					id := audit.ID(fmt.Sprint(w, "-", i))
					err := st.Append(t.Context(), entries(begin(audit.Record{ID: id, Epoch: self, Content: json.RawMessage(`{}`)}),
						finish(audit.Finish{ID: id, At: now, Charges: []audit.Charge{{Subject: user("u"), PeriodEnd: days(30), Tokens: 1}}})))
					if err != nil {
						t.Errorf("append: %v", err)
					}
					if i%4 == 0 {
						err := st.InTx(t.Context(), func(tx admin.Tx) error {
							return tx.SaveModel(t.Context(), backend.ModelConfig{Name: fmt.Sprint("m", w)})
						})
						if err != nil {
							t.Errorf("change: %v", err)
						}
					}
				}
			})
			wg.Go(func() {
				for range each {
					if _, err := stores[w%2].Counter(t.Context(), user("u")); err != nil {
						t.Errorf("read: %v", err)
					}
					if err := stores[w%2].View(t.Context(), func(r admin.Reader) error {
						_, err := r.Catalog(t.Context())
						return err
					}); err != nil {
						t.Errorf("view: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if got := counter(t, s, user("u")); got.Used != writers*each {
			t.Errorf("counter %d after %d charges of one token", got.Used, writers*each)
		}
	}),
}
