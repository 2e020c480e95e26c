package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mindrouter/internal/audit"
	"mindrouter/internal/llm"
)

// gate is a store whose commits wait until they are let through.
type gate struct {
	pass chan error

	mu      sync.Mutex
	batches [][]audit.Entry
}

func (g *gate) Append(_ context.Context, entries []audit.Entry) error {
	g.mu.Lock()
	g.batches = append(g.batches, entries)
	g.mu.Unlock()
	if g.pass != nil {
		return <-g.pass
	}
	return nil
}

func (g *gate) MarkLost(context.Context, string, time.Time, time.Time) (int, error) { return 0, nil }

func (g *gate) sizes() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var n []int
	for _, b := range g.batches {
		n = append(n, len(b))
	}
	return fmt.Sprint(n)
}

func running(t *testing.T, g *gate) (*audit.Recorder, func()) {
	t.Helper()
	r := audit.NewRecorder(g, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestIdleWriterCommitsAtOnceAndBatchesWhatArrivesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pass: make(chan error)}
		r, stop := running(t, g)
		var wg sync.WaitGroup
		begin := func(id string) {
			wg.Go(func() {
				if err := r.Begin(t.Context(), audit.Record{ID: audit.ID(id)}); err != nil {
					t.Errorf("Begin(%s): %v", id, err)
				}
			})
			synctest.Wait()
		}
		begin("1")
		if got := g.sizes(); got != "[1]" {
			t.Fatalf("batches %s, want the first entry committed alone at once", got)
		}
		begin("2")
		begin("3")
		begin("4")
		g.pass <- nil
		synctest.Wait()
		if got := g.sizes(); got != "[1 3]" {
			t.Errorf("batches %s, want the three that waited in one commit", got)
		}
		g.pass <- nil
		wg.Wait()
		stop()
	})
}

func TestBeginFailsWithItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pass: make(chan error, 1)}
		r, stop := running(t, g)
		broken := errors.New("disk is full")
		g.pass <- broken
		if err := r.Begin(t.Context(), audit.Record{ID: "1"}); !errors.Is(err, broken) {
			t.Errorf("Begin: %v, want the store's error", err)
		}
		if r.Failures() != 1 {
			t.Errorf("failures %d, want 1", r.Failures())
		}
		stop()
	})
}

func TestEverythingHandedOverIsWrittenBeforeRunEnds(t *testing.T) {
	g := &gate{}
	r, stop := running(t, g)
	for i := range 1000 {
		if err := r.Finish(t.Context(), audit.Finish{ID: audit.ID(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	n := 0
	for _, b := range g.batches {
		n += len(b)
	}
	if n != 1000 {
		t.Errorf("%d entries written, want 1000", n)
	}
	if err := r.Begin(t.Context(), audit.Record{}); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Begin after the end: %v, want ErrClosed", err)
	}
}

func TestRefusalsLeaveTenRowsAMinutePerKeyAndCode(t *testing.T) {
	g := &gate{}
	r, stop := running(t, g)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 500 {
		r.Refuse(t.Context(), audit.Refusal{KeyPrefix: "a", Code: llm.CodeRateLimited, At: now})
	}
	r.Refuse(t.Context(), audit.Refusal{KeyPrefix: "a", Code: llm.CodeBudgetSpent, At: now})
	r.Refuse(t.Context(), audit.Refusal{KeyPrefix: "a", Code: llm.CodeRateLimited, At: now.Add(time.Minute)})
	stop()
	n := 0
	for _, b := range g.batches {
		n += len(b)
	}
	if n != 12 || r.Refused() != 490 {
		t.Errorf("%d rows and %d counted, want 12 and 490", n, r.Refused())
	}
}

func (*picky) MarkLost(context.Context, string, time.Time, time.Time) (int, error) { return 0, nil }

// picky does not take the entries of one model, and fails whole batches that hold one.
type picky struct {
	mu    sync.Mutex
	taken []string
}

func (p *picky) Append(_ context.Context, entries []audit.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		if e.Begin != nil && e.Begin.ModelAsked == "bad" {
			return errors.New("invalid byte sequence")
		}
	}
	for _, e := range entries {
		if e.Begin != nil {
			p.taken = append(p.taken, string(e.Begin.ID))
		}
	}
	return nil
}

func TestAnEntryThatTheDatabaseDoesNotTakeFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &picky{}
		r := audit.NewRecorder(store, slog.New(slog.DiscardHandler))
		errs := make(chan string, 9)
		for i := range 9 {
			model := "good"
			if i == 4 {
				model = "bad"
			}
			go func() {
				err := r.Begin(t.Context(), audit.Record{ID: audit.ID(fmt.Sprint(i)), ModelAsked: model})
				errs <- fmt.Sprintf("%s %v", model, err != nil)
			}()
		}
		synctest.Wait() // all of them are handed over before the writer begins: one batch
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		got := map[string]int{}
		for range 9 {
			got[<-errs]++
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got["good false"] != 8 || got["bad true"] != 1 || len(store.taken) != 8 {
			t.Errorf("%v, taken %v; want eight good ones taken and the bad one alone refused", got, store.taken)
		}
	})
}
