package scheduler_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
	"mindrouter/internal/scheduler"
)

// queue starts Acquire in the background and waits until it sleeps. The channel gets the lease, or is closed on an error.
func queue(t *testing.T, s *scheduler.Scheduler, j scheduler.Job) <-chan *scheduler.Lease {
	t.Helper()
	got := make(chan *scheduler.Lease, 1)
	go func() {
		defer close(got)
		if l, err := s.Acquire(t.Context(), j); err == nil {
			got <- l
		}
	}()
	synctest.Wait()
	return got
}

func granted(c <-chan *scheduler.Lease) *scheduler.Lease {
	synctest.Wait()
	select {
	case l := <-c:
		return l
	default:
		return nil
	}
}

func jobOf(tenant string, cost float64) scheduler.Job {
	j := job(tenant)
	j.Cost = cost
	return j
}

func TestWhoHasUsedLessGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, jobOf("heavy", 5000))
		heavy := queue(t, s, jobOf("heavy", 5000))
		light := queue(t, s, jobOf("light", 100))
		held.Release(scheduler.Actual{Usage: llm.Usage{Input: 5000}})
		l := granted(light)
		if l == nil {
			t.Fatal("the light tenant, who came later, did not get the slot")
		}
		if granted(heavy) != nil {
			t.Fatal("two leases on one slot")
		}
		l.Release(scheduler.Actual{})
		granted(heavy).Release(scheduler.Actual{})
	})
}

func TestNewArrivalsDoNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		held := acquire(t, s, job("x"))
		var waiting []<-chan *scheduler.Lease
		for i := range 5 {
			waiting = append(waiting, queue(t, s, jobOf(fmt.Sprint("t", i), 100)))
			time.Sleep(time.Second)
		}
		held.Release(scheduler.Actual{})
		for i, c := range waiting {
			l := granted(c)
			if l == nil {
				t.Fatalf("waiter %d was overtaken", i)
			}
			late := queue(t, s, jobOf(fmt.Sprint("late", i), 100))
			if granted(late) != nil {
				t.Fatal("a newcomer got a slot although others wait")
			}
			l.Release(scheduler.Actual{})
		}
		s.Drain()
	})
}

func TestManyKeysOfOneTenantAreOneFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1))
		got := map[string]int{}
		held := acquire(t, s, jobOf("x", 100))
		var mu sync.Mutex
		turns := 0
		work := func(tenant, key string) {
			for t.Context().Err() == nil {
				j := jobOf(tenant, 500)
				j.Limits = []scheduler.Limit{{Subject: "key:" + key, Max: 5}}
				l, err := s.Acquire(t.Context(), j)
				if err != nil {
					return
				}
				mu.Lock()
				if turns++; turns <= 400 {
					got[tenant]++
				} else if turns == 401 {
					s.Drain()
				}
				mu.Unlock()
				time.Sleep(time.Second)
				l.Release(scheduler.Actual{Usage: llm.Usage{Input: 500}})
			}
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { work("greedy", fmt.Sprint(i%10)) })
			if i < 2 {
				wg.Go(func() { work("modest", "m") })
			}
		}
		synctest.Wait()
		held.Release(scheduler.Actual{})
		wg.Wait()
		if g, m := got["greedy"], got["modest"]; g < 190 || g > 210 {
			t.Errorf("greedy %d turns with ten keys, modest %d with one, want 200 each", g, m)
		}
	})
}

// shift keeps tenants busy on one host with five slots for 20 minutes, then lets others join, and returns the turns of all
// in the five minutes after that. Each works on the model of its name up to the first digit; "rare" has so many slots.
func shift(t *testing.T, rare int, first, then []string) map[string]int {
	t.Helper()
	host := fleet(5)
	host[0].Models["rare"] = llm.Model{Name: "rare"}
	host[0].ModelSlots = map[string]int{"rare": rare}
	s := newScheduler(host)
	var mu sync.Mutex
	turns := map[string]int{}
	var wg sync.WaitGroup
	work := func(tenant string) {
		for range 6 {
			wg.Go(func() {
				for {
					j := jobOf(tenant, 500)
					j.Need.Models = []string{strings.TrimRight(tenant, "0123456789")}
					l, err := s.Acquire(t.Context(), j)
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					l.Release(scheduler.Actual{Usage: llm.Usage{Input: 500}})
					mu.Lock()
					turns[tenant]++
					mu.Unlock()
				}
			})
		}
	}
	once := jobOf("once", 100)
	once.Need.Models = []string{"rare"}
	acquire(t, s, once).Release(scheduler.Actual{})
	for _, tenant := range first {
		work(tenant)
	}
	time.Sleep(20 * time.Minute)
	for _, tenant := range then {
		work(tenant)
	}
	mu.Lock()
	clear(turns)
	mu.Unlock()
	time.Sleep(5 * time.Minute)
	mu.Lock()
	got := maps.Clone(turns)
	mu.Unlock()
	s.Drain()
	wg.Wait()
	return got
}

// A model with few slots of its own on a host with many: who depends on it falls behind, and newcomers on either side get
// their shares all the same. Nor has a model an advantage because nobody has used it.
func TestAScarceModelStarvesNobody(t *testing.T) {
	for _, test := range []struct {
		name        string
		rare        int
		first, then []string
		want        map[string]int
	}{
		{
			"scarce", 1,
			[]string{"rare0", "rare1", "rare2", "m0"},
			[]string{"rare3", "m1"},
			map[string]int{"rare0": 75, "rare3": 75, "m0": 600, "m1": 600},
		},
		{"unused", 4, []string{"m0", "m1"}, []string{"rare0"}, map[string]int{"m0": 500, "m1": 500, "rare0": 500}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := shift(t, test.rare, test.first, test.then)
				for tenant, want := range test.want {
					if got := turns[tenant]; got < want*9/10 || got > want*11/10 {
						t.Errorf("%s had %d turns in five minutes, want about %d", tenant, got, want)
					}
				}
			})
		})
	}
}

// Of several that a limit holds back one competes; when it is gone or served, the next does, without a release.
func TestARetryKeepsItsPlaceAndPaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(1, 1))
		first := jobOf("a", 1000)
		l := acquire(t, s, first)
		other := acquire(t, s, jobOf("b", 1000))
		time.Sleep(time.Second)
		later := queue(t, s, jobOf("a", 1000))
		l.Release(scheduler.Actual{Refund: true}) // the backend has failed; the later request takes its slot
		failed := granted(later)
		retry := first
		retry.Attempts, retry.Need.Avoid = 1, []routing.BackendID{l.Backend().ID}
		newer := queue(t, s, jobOf("a", 1000))
		again := queue(t, s, retry)
		other.Release(scheduler.Actual{})
		got := granted(again)
		if got == nil {
			t.Fatal("the retry was not first among its tenant's requests")
		}
		got.Release(scheduler.Actual{Usage: llm.Usage{Input: 700}})
		granted(newer).Release(scheduler.Actual{Usage: llm.Usage{Input: 100}})
		failed.Release(scheduler.Actual{Usage: llm.Usage{Input: 200}})
		if served := s.Snapshot().Served["a"]; served != 1000 {
			t.Errorf("charged %v TE, want 700+100+200: the failed attempt is free", served)
		}
	})
}

func TestALongAnswerIsChargedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(fleet(2))
		j := job("a")
		j.Input, j.MaxTokens = 100, 100 // prepays 100 + half of 200
		l := acquire(t, s, j)
		served := func() float64 { return s.Snapshot().Served["a"] }
		if got := served(); got != 200 {
			t.Errorf("prepaid %v TE, want 200", got)
		}
		for n := range 51 {
			l.Charge(n)
		}
		if got := served(); got != 200 {
			t.Errorf("%v TE after 50 tokens, want the prepaid 200", got)
		}
		for n := range 1001 {
			l.Charge(n)
		}
		if got := served(); got < 2100-2*64 || got > 2100 {
			t.Errorf("%v TE after 1,000 tokens, want 2,100 less at most 64 tokens", got)
		}
		l.Release(scheduler.Actual{Usage: llm.Usage{Input: 100, Output: 1000}})
		l.Charge(5000)
		if got := served(); got != 2100 {
			t.Errorf("%v TE at the end, want 2,100", got)
		}
		// The next answer is predicted from this one, but no longer than it may be.
		acquire(t, s, j).Release(scheduler.Actual{Refund: true})
		j.MaxTokens = 4000
		acquire(t, s, j)
		if got := served(); got != 2100+100+1000 {
			t.Errorf("%v TE, want 2,100 and a prepayment of 100 + half of 2,000", got)
		}
	})
}

func TestCancelledRequestCostsTheMinimum(t *testing.T) {
	s := newScheduler(fleet(1))
	acquire(t, s, jobOf("a", 3000)).Release(scheduler.Actual{})
	if got := s.Snapshot().Served["a"]; got != 64 {
		t.Errorf("charged %v TE, want 64", got)
	}
}

// A chain of two models connects their backends while requests wait: nobody may lose a place, a slot or a charge by it.
// scored is a profile that prefers requests whose model ends in "warm".
func scored() routing.Profile {
	p := routing.Least()
	p.Scorers = append(p.Scorers, routing.Scorer{Name: "warm", Score: func(_ routing.Need, _ routing.Backend, m llm.Model) float64 {
		if strings.HasSuffix(m.Name, "warm") {
			return 100
		}
		return 0
	}})
	return p
}

func TestSlackLetsTheBetterPlacedGoFirst(t *testing.T) {
	for _, test := range []struct {
		name  string
		slack float64
		lead  float64 // of the better placed
		want  bool
	}{
		{"within the slack", 1000, 500, true}, {"beyond the slack", 1000, 5000, false}, {"without slack", -1, 500, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scheduler.New(scheduler.Config{Profile: scored(), Settings: scheduler.Settings{Slack: test.slack}})
				backends := fleet(2)
				backends[0].Models["warm"] = llm.Model{Name: "warm"}
				s.SetBackends(backends)
				on := func(tenant, model string, cost float64) scheduler.Job {
					j := jobOf(tenant, cost)
					j.Need.Models = []string{model}
					return j
				}
				one := acquire(t, s, on("x", "m", 100))
				two := acquire(t, s, on("warm", "warm", test.lead)) // is ahead by the lead
				cold := queue(t, s, on("cold", "m", 100))
				warm := queue(t, s, on("warm", "warm", 100))
				one.Release(scheduler.Actual{Usage: llm.Usage{Input: 100}})
				l := granted(warm)
				if got := l != nil; got != test.want {
					t.Fatalf("the better placed went first: %v, want %v", got, test.want)
				}
				if l != nil && !l.Decision().BySlack {
					t.Error("the decision does not say so")
				}
				two.Release(scheduler.Actual{})
				s.Drain()
				<-cold
			})
		})
	}
}

// A lane is blocked as a whole, so everything in a need that decides who could serve it must be part of its key.
// Cancel, expiry, grant, release, limits and changes of the fleet at the same time: no slot and no waiter is lost, and no
// backend ever has more leases than slots.
