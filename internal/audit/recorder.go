package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store writes entries durably.
type Store interface {
	// Append writes all entries in order in one transaction. It is idempotent: an entry that is there already is left
	// alone, and a Finish settles its charges once. A Finish without its Begin is an error of that entry alone and is
	// written as far as possible.
	Append(ctx context.Context, entries []Entry) error
	// MarkLost finishes, with OutcomeLost, every open request of an epoch that is dead: it is not self, and it has ended
	// or had no heartbeat since alive. It returns how many.
	MarkLost(ctx context.Context, self string, alive, now time.Time) (int, error)
}

// ErrClosed says that the recorder has stopped.
var ErrClosed = errors.New("audit recorder has stopped")

const (
	// maxBatch bounds one commit. It is large enough for a burst and small enough to keep the writer's latency low.
	maxBatch = 256
	// queueLength is how many entries may wait for the writer. Begin waits for its commit anyway; a full queue slows
	// the callers instead of using memory without bound.
	queueLength = 4096
	// commitTimeout bounds one commit.
	commitTimeout = 10 * time.Second
	// A refusal is cheap to cause, so only this many per minute, key and code leave a row; the rest is counted.
	refusalsPerMinute = 10
)

// Recorder writes the record. One goroutine, [Recorder.Run], owns the writing: it commits at once when it is idle and
// batches only what arrived during the last commit.
type Recorder struct {
	store Store
	log   *slog.Logger
	queue chan item
	done  chan struct{} // closed when Run has ended
	fail  atomic.Int64
	limit refusalLimiter
}

type item struct {
	entry Entry
	// committed receives the result of the commit; nil if nobody waits. Capacity 1.
	committed chan error
}

// NewRecorder returns a recorder. Call Run before Begin.
func NewRecorder(store Store, log *slog.Logger) *Recorder {
	return &Recorder{store: store, log: log, queue: make(chan item, queueLength), done: make(chan struct{})}
}

// Begin commits r and returns when it is durable.
func (r *Recorder) Begin(ctx context.Context, rec Record) error {
	return r.commit(ctx, Entry{Begin: &rec})
}

// Finish hands f to the writer and returns without waiting for the commit, for the client has its answer by now. A
// failure is logged and counted, see [Recorder.Failures]. It waits only while the queue is full.
func (r *Recorder) Finish(ctx context.Context, f Finish) error {
	return r.send(ctx, item{entry: Entry{Finish: &f}})
}

// Refuse records the metadata of a refused request, at most ten a minute per key and code.
func (r *Recorder) Refuse(ctx context.Context, ref Refusal) {
	if !r.limit.allow(refusalKey{ref.KeyPrefix, string(ref.Code)}, ref.At) {
		return
	}
	select {
	case r.queue <- item{entry: Entry{Refusal: &ref}}:
	default: // refusals never slow anybody down
		r.fail.Add(1)
	}
}

// Flush returns when everything handed over before is committed or has failed.
func (r *Recorder) Flush(ctx context.Context) error { return r.commit(ctx, Entry{}) }

// Failures counts entries that could not be written.
func (r *Recorder) Failures() int64 { return r.fail.Load() }

// Refused counts refusals that left no row.
func (r *Recorder) Refused() int64 { return r.limit.dropped.Load() }

func (r *Recorder) commit(ctx context.Context, e Entry) error {
	it := item{entry: e, committed: make(chan error, 1)}
	if err := r.send(ctx, it); err != nil {
		return err
	}
	select {
	case err := <-it.committed:
		return err
	case <-r.done:
		// Run answers everything it has taken before it ends.
		select {
		case err := <-it.committed:
			return err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Recorder) send(ctx context.Context, it item) error {
	select {
	case r.queue <- it:
		return nil
	case <-r.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run writes until ctx ends and then what is still queued.
func (r *Recorder) Run(ctx context.Context) error {
	defer close(r.done)
	for {
		select {
		case it := <-r.queue:
			r.write(r.linger(ctx, r.gather(it)))
		case <-ctx.Done():
			for {
				select {
				case it := <-r.queue:
					r.write(r.gather(it))
				default:
					return nil
				}
			}
		}
	}
}

// gather takes first and whatever else is waiting.
func (r *Recorder) gather(first item) []item {
	batch := []item{first}
	yielded := false
	for len(batch) < maxBatch {
		select {
		case it := <-r.queue:
			batch = append(batch, it)
		default:
			if yielded {
				return batch
			}
			// Requests that are ready to run may be about to hand something over. Where there are none this costs nothing.
			runtime.Gosched()
			yielded = true
		}
	}
	return batch
}

// lingerFor is how long ends of requests wait for somebody to share a commit with. Nobody waits for them, and a request
// that comes meanwhile need not wait for a commit of theirs before its own.
const lingerFor = 5 * time.Millisecond

// linger adds to a batch that nobody waits for, until somebody does, the time is over, or the batch is full.
func (r *Recorder) linger(ctx context.Context, batch []item) []item {
	awaited := func(it item) bool { return it.committed != nil }
	if slices.ContainsFunc(batch, awaited) {
		return batch
	}
	timer := time.NewTimer(lingerFor)
	defer timer.Stop()
	for len(batch) < maxBatch {
		select {
		case it := <-r.queue:
			if batch = append(batch, it); awaited(it) {
				return batch
			}
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

func (r *Recorder) write(batch []item) {
	entries := make([]Entry, 0, len(batch))
	for _, it := range batch {
		if it.entry != (Entry{}) {
			entries = append(entries, it.entry)
		}
	}
	var err error
	if len(entries) > 0 {
		// The writer outlives the requests and the server's context: what was accepted is written.
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		err = r.store.Append(ctx, entries)
		cancel()
	}
	if err != nil && len(entries) > 1 {
		r.writeEach(batch)
		return
	}
	if err != nil {
		err = r.failed(err)
	}
	for _, it := range batch {
		if it.committed != nil {
			it.committed <- err
		}
	}
}

// maxFailures in a row mean that it is not the entries' fault; the rest of a batch is then not tried one by one.
const maxFailures = 3

// writeEach writes the entries of a batch that failed one by one, so that one that the database does not take fails alone.
func (r *Recorder) writeEach(batch []item) {
	inARow := 0
	var last error
	for _, it := range batch {
		var err error
		switch {
		case it.entry == (Entry{}):
		case inARow >= maxFailures:
			err = last
			r.fail.Add(1)
		default:
			ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
			err = r.store.Append(ctx, []Entry{it.entry})
			cancel()
			if err != nil {
				err = r.failed(err)
				last = err
				inARow++
			} else {
				inARow = 0
			}
		}
		if it.committed != nil {
			it.committed <- err
		}
	}
}

func (r *Recorder) failed(err error) error {
	err = fmt.Errorf("write audit record: %w", err)
	r.fail.Add(1)
	r.log.Error("audit commit failed", slog.Any("error", err))
	return err
}

type refusalKey struct{ prefix, code string }

// refusalLimiter counts refusals per key and code in the current minute.
type refusalLimiter struct {
	dropped atomic.Int64

	mu     sync.Mutex
	minute time.Time
	seen   map[refusalKey]int
}

func (l *refusalLimiter) allow(k refusalKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := now.Truncate(time.Minute); !m.Equal(l.minute) {
		l.minute, l.seen = m, map[refusalKey]int{}
	}
	l.seen[k]++
	if l.seen[k] > refusalsPerMinute {
		l.dropped.Add(1)
		return false
	}
	return true
}
