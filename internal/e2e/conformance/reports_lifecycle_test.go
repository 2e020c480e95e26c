package conformance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/simbackend"
)

// reportedLifecycleRules stand for faults around answers that users of other gateways reported.
var reportedLifecycleRules = []rule{
	{name: "a client that does not wait for its whole answer stops the backend", not: excuses{"stream": "streams have the rule about a client that leaves"}, test: func(c *cell) {
		for _, cl := range everyone {
			c.leave(cl)
		}
	}},
	{name: "a stream that its client broke off is billed once, for what was delivered", not: excuses{"whole": "of a whole answer nothing is delivered before its end"}, test: func(c *cell) {
		const delivered = 40
		var v, o []string
		for i := range delivered {
			text := fmt.Sprintf(`"content":"t%02d "`, i) // a token each, by our own estimate
			v, o = append(v, delta(text)), append(o, line(text))
		}
		for _, cl := range everyone {
			c.says(script{vllm: ending(sse(v...), simbackend.EndHang), ollama: ending(lines(o...), simbackend.EndHang)})
			body := c.body(cl, stream, cl.turn("some words", ""))
			c.load()
			c.asked++
			ctx, cancel := context.WithCancel(c.t.Context())
			resp, err := c.open(ctx, http.MethodPost, cl.path, body)
			if err != nil {
				cancel()
				c.fatalf("%s: %v", cl.name, err)
			}
			for sc := bufio.NewScanner(resp.Body); sc.Scan() && !strings.Contains(sc.Text(), "t39"); {
			}
			cancel()
			_ = resp.Body.Close()
			id := resp.Header.Get("X-Request-Id")
			if got := c.row(id); got.outcome != "cancelled" || got.output != delivered || got.input < 1 || !got.estimated {
				c.errorf("%s: the record says %+v, want cancelled with %d tokens", cl.name, got, delivered)
			}
			if n := c.count("SELECT COUNT(*) FROM requests WHERE id = ?", id); n != 1 {
				c.errorf("%s: %d rows", cl.name, n)
			}
		}
	}},
	{name: "a count of zero is zero, nothing costs nothing, and a part costs its part", test: func(c *cell) {
		c.be("free")
		used := func() int {
			return c.count("SELECT COALESCE(SUM(input_tokens + output_tokens), 0) FROM requests WHERE user_name = ?", c.who.user)
		}
		charged := func() int {
			return c.count("SELECT COALESCE(SUM(used_tokens), 0) FROM usage_counters JOIN users ON users.id = scope_id WHERE scope = 'user' AND users.name = ?", c.who.user)
		}
		if c.engine == vllm { // Ollama leaves out what is zero
			c.says(script{vllm: sse(delta(`"content":"unbilled"`), finish("stop"), counts(11, 0), done)})
			if got := c.row(c.exchange(chat, c.mode, chat.turn("go", "")).id()); got.output != 0 || got.input != 11 || got.estimated {
				c.errorf("an explicit zero: %+v", got)
			}
		}
		before := used()
		c.says(everywhere(status(500, `{"error":{"message":"out of memory","code":500}}`)))
		for _, cl := range everyone {
			got := c.row(c.exchange(cl, c.mode, cl.turn("go", "")).id())
			if got.outcome != "error" || got.input != 0 || got.output != 0 {
				c.errorf("%s, nothing was made: %+v", cl.name, got)
			}
		}
		if n := used(); n != before {
			c.errorf("%d tokens are billed for nothing", n-before)
		}
		c.says(script{
			vllm:   ending(sse(delta(`"content":"eight bytes, or a few more"`)), simbackend.EndAbort),
			ollama: ending(lines(line(`"content":"eight bytes, or a few more"`)), simbackend.EndAbort),
		})
		got := c.row(c.exchange(chat, c.mode, chat.turn("go", "")).id())
		if got.outcome != "error" || got.input < 1 || got.output < 1 || !got.estimated {
			c.errorf("a part was made: %+v", got)
		}
		c.eventually("charged what was used", func() error {
			if a, b := charged(), used(); a != b {
				return fmt.Errorf("%d tokens are charged and %d used", a, b)
			}
			return nil
		})
	}},
	{name: "of many requests at once only those are let in that the budget can pay", test: func(c *cell) {
		c.as("plain")
		body := chat.turn("go", `"max_tokens":100`)
		c.says(talk(say("ok")))
		cost := c.row(c.exchange(chat, c.mode, body).id()).reserved
		const all = 200
		fit := budgetTokens / cost
		if fit < 2 {
			c.fatalf("a request costs %d of %d tokens", cost, budgetTokens)
		}
		c.be("budget")
		gate := make(chan struct{})
		held := talk(say("ok"))[c.engine]
		held.Chunks[0].Until = gate
		for range all {
			c.sim.Reply(chatPaths[c.engine][0], held)
		}
		full := c.body(chat, c.mode, body)
		statuses := make(chan int, all)
		for range all {
			go func() {
				r, err := c.fetch(c.t.Context(), http.MethodPost, chat.path, full)
				if err != nil {
					statuses <- 0
					return
				}
				statuses <- r.status
			}()
		}
		seen := map[int]int{}
		for range all - fit {
			seen[<-statuses]++
		}
		if seen[http.StatusTooManyRequests] != all-fit {
			c.errorf("while %d run the others are answered %v", fit, seen)
		}
		close(gate)
		for range fit {
			seen[<-statuses]++
		}
		if seen[http.StatusOK] != fit || seen[http.StatusTooManyRequests] != all-fit {
			c.errorf("statuses %v, want %d answers", seen, fit)
		}
		c.eventually("settled", func() error {
			charged := c.count("SELECT COALESCE(SUM(used_tokens), 0) FROM usage_counters JOIN users ON users.id = scope_id WHERE scope = 'user' AND users.name = ?", c.who.user)
			if want := fit * (promptTokens + answerTokens); charged != want {
				return fmt.Errorf("%d tokens are charged, want %d", charged, want)
			}
			return nil
		})
	}},
	{name: "requests that fail give their places back", test: func(c *cell) {
		c.as("plain")
		const places = 10
		c.be("ten at once")
		path := chatPaths[c.engine][0]
		fail := func(reply simbackend.RawReply, leave bool) {
			for range places {
				c.sim.Reply(path, reply)
			}
			n := c.sim.State().Received
			ctx, cancel := context.WithCancel(c.t.Context())
			defer cancel()
			full := c.body(chat, c.mode, chat.turn("go", ""))
			var wg sync.WaitGroup
			for range places {
				wg.Go(func() { _, _ = c.fetch(ctx, http.MethodPost, chat.path, full) })
			}
			if leave {
				c.wait(func(ctx context.Context) error {
					return c.sim.WaitFor(ctx, func(s simbackend.State) bool { return s.Received >= n+places })
				})
				cancel()
			}
			wg.Wait()
		}
		part := c.on("data: "+delta(`"content":"a"`)+"\n\n", line(`"content":"a"`)+"\n")
		fail(status(500, `{"error":"x"}`), false)
		fail(simbackend.RawReply{End: simbackend.EndReset}, false)
		fail(ending(events(part), simbackend.EndAbort), false)
		fail(ending(events(part), simbackend.EndHang), true)
		fail(simbackend.RawReply{End: simbackend.EndHang}, true)
		c.is("text", c.ask(chat, chat.turn("[[say=good]]", "")).text, "good")
	}},
	{name: "a change of what a key may do counts at once, also while an answer runs", test: func(c *cell) {
		c.as("plain")
		c.be("changing")
		gate := make(chan struct{})
		s := talk(say("a"), say("b"))
		s[c.engine].Chunks[1].Until = gate
		c.says(s)
		full := c.body(chat, c.mode, chat.turn("go", ""))
		c.load()
		c.asked++
		running := make(chan *reply, 1)
		go func() {
			r, err := c.fetch(c.t.Context(), http.MethodPost, chat.path, full)
			if err != nil {
				r = &reply{raw: err.Error()}
			}
			running <- r
		}()
		c.eventually("running", func() error {
			if len(running) > 0 {
				r := <-running
				c.fatalf("the answer that should run: %d %s", r.status, clip(r.raw))
			}
			if c.sim.InFlight() == 0 {
				return errors.New("nothing has reached the backend")
			}
			return nil
		})
		c.s.Apply("groups: [{name: " + c.who.group + ", weight: 1, models: [another]}]")
		c.script = nil
		changed := time.Now()
		c.eventually("refused", func() error {
			if r := c.exchange(chat, c.mode, chat.hello("")); r.status != http.StatusForbidden {
				return fmt.Errorf("status %d", r.status)
			}
			return nil
		})
		if d := time.Since(changed); d > 10*time.Second {
			c.errorf("the old rule held for %v", d)
		}
		close(gate)
		if r := <-running; r.status != http.StatusOK || !strings.Contains(r.raw, "b") {
			c.errorf("the answer that ran: %d %s", r.status, clip(r.raw))
		}
		for range 3 { // its end must not write the old rule back
			if r := c.exchange(chat, c.mode, chat.hello("")); r.status != http.StatusForbidden {
				c.errorf("after the end of the answer: %d %s", r.status, clip(r.raw))
			}
		}
		key := c.key
		c.s.Commands(func(ctx context.Context, cmd *app.Commands) error { return cmd.RevokeKey(ctx, key[:12]) })
		c.eventually("revoked", func() error {
			if r := c.exchange(chat, c.mode, chat.hello("")); r.status != http.StatusUnauthorized {
				return fmt.Errorf("status %d", r.status)
			}
			return nil
		})
	}},
	{name: "whoever is turned away for a while is told for how long, in whole seconds", test: func(c *cell) {
		for _, upstream := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			c.says(everywhere(status(upstream, `{"error":{"message":"busy"}}`, "Retry-After", "7")))
			for _, cl := range everyone {
				want := http.StatusServiceUnavailable
				if cl.name == "messages" {
					want = 529
				}
				c.is(cl.name+": relayed", c.refused(cl, want, cl.turn("go", "")).header.Get("Retry-After"), "7")
			}
		}
		c.script = nil
		c.be("one a minute")
		if r := c.exchange(chat, c.mode, chat.hello("")); r.status != http.StatusOK {
			c.fatalf("the first request: %d %s", r.status, clip(r.raw))
		}
		for _, cl := range everyone {
			after := c.refused(cl, http.StatusTooManyRequests, cl.hello("")).header.Get("Retry-After")
			if n, err := strconv.Atoi(after); err != nil || n < 1 || n > 60 {
				c.errorf("%s: Retry-After %q", cl.name, after)
			}
		}
	}},
	{name: "a wrong key costs no row, however often it comes", test: func(c *cell) {
		c.as("plain")
		c.key = "mr2_wrong-" + c.model
		for _, cl := range everyone {
			for range 25 {
				if r := c.exchange(cl, c.mode, cl.hello("")); r.status != http.StatusUnauthorized {
					c.fatalf("%s: %d %s", cl.name, r.status, clip(r.raw))
				}
			}
		}
		for table, column := range map[string]string{"requests": "model_asked", "refusals": "model"} {
			if n := c.count("SELECT COUNT(*) FROM "+table+" WHERE key_prefix LIKE 'mr2_wrong%' OR (key_prefix = '' AND "+column+" = ?)", c.model); n != 0 {
				c.errorf("%d rows in %s", n, table)
			}
		}
	}},
}
