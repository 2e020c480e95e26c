package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	wholeBody  = `{"model":"sim-chat","max_tokens":16,"messages":[{"role":"user","content":"[[tokens=16]] What is the capital of Norway?"}]}`
	streamBody = `{"model":"sim-chat","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"[[tokens=16]] What is the capital of Norway?"}]}`
)

func newClient(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns, MaxIdleConns: conns, MaxConnsPerHost: conns}}
}

func (t target) request(ctx context.Context, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if t.key != "" {
		req.Header.Set("Authorization", "Bearer "+t.key)
	}
	return req, nil
}

// once sends a request and returns the time to the first byte of the body, to its end, and how many terminators came.
func (t target) once(ctx context.Context, c *http.Client, body string) (first, total time.Duration, done int, err error) {
	req, err := t.request(ctx, body)
	if err != nil {
		return 0, 0, 0, err
	}
	started := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, 0, 0, err
	}
	r := bufio.NewReader(resp.Body)
	if _, err := r.Peek(1); err != nil {
		return 0, 0, 0, errors.Join(err, resp.Body.Close())
	}
	first = time.Since(started)
	text, err := io.ReadAll(r)
	total = time.Since(started)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, 0, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, 0, 0, fmt.Errorf("%s: %d %s", t.name, resp.StatusCode, text)
	}
	return first, total, strings.Count(string(text), "data: [DONE]"), nil
}

// rounds is into how many turns a measurement is cut, so that noise of the machine hits all targets alike.
const rounds = 10

// sample measures every target in turns at one connection.
func (s *stage) sample(ctx context.Context, n int, body string, pick func(first, total time.Duration) time.Duration) ([][]time.Duration, error) {
	out := make([][]time.Duration, len(s.targets))
	clients := make([]*http.Client, len(s.targets))
	for i := range clients {
		clients[i] = newClient(1)
	}
	for round := range rounds + 1 { // the first round warms up
		for i, t := range s.targets {
			for range n / rounds {
				first, total, _, err := t.once(ctx, clients[i], body)
				if err != nil {
					return nil, err
				}
				if round > 0 {
					out[i] = append(out[i], pick(first, total))
				}
			}
		}
	}
	for i := range out {
		slices.Sort(out[i])
	}
	return out, nil
}

func percentile(sorted []time.Duration, p float64) float64 {
	return float64(sorted[int(float64(len(sorted)-1)*p)].Microseconds()) / 1000
}

func printTimes(what string, samples [][]time.Duration, p float64) {
	d, x, m := percentile(samples[0], p), percentile(samples[1], p), percentile(samples[2], p)
	fmt.Printf("%-33s %7.2f ms  %7.2f ms  %8.2f ms  %5.2f ms  %9.2f\n", what, d, x, m, m-d, m/x)
}

func (s *stage) latency(ctx context.Context, p plan) error {
	samples, err := s.sample(ctx, p.requests, wholeBody, func(_, total time.Duration) time.Duration { return total })
	if err != nil {
		return err
	}
	printTimes("whole answer, 1 connection, p50", samples, 0.5)
	printTimes("whole answer, 1 connection, p99", samples, 0.99)
	return nil
}

func (s *stage) firstToken(ctx context.Context, p plan) error {
	samples, err := s.sample(ctx, p.requests, streamBody, func(first, _ time.Duration) time.Duration { return first })
	if err != nil {
		return err
	}
	printTimes("time to first token, p50", samples, 0.5)
	printTimes("time to first token, p99", samples, 0.99)
	return nil
}

// throughput measures whole answers per second at a number of connections.
func (s *stage) throughput(ctx context.Context, p plan, conns int) error {
	var rate [3]float64
	for i, t := range s.targets {
		c := newClient(conns)
		ctx, cancel := context.WithTimeout(ctx, p.duration)
		var count atomic.Int64
		var wg sync.WaitGroup
		var failed atomic.Pointer[error]
		started := time.Now()
		for range conns {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, _, _, err := t.once(ctx, c, wholeBody); err == nil {
						count.Add(1)
					} else if ctx.Err() == nil {
						failed.Store(&err)
						return
					}
				}
			})
		}
		wg.Wait()
		cancel()
		if err := failed.Load(); err != nil {
			return *err
		}
		rate[i] = float64(count.Load()) / time.Since(started).Seconds()
	}
	fmt.Printf("%-33s %7.0f /s  %7.0f /s  %8.0f /s           %9.2f\n",
		fmt.Sprintf("throughput, %d connections", conns), rate[0], rate[1], rate[2], rate[2]/rate[1])
	return nil
}

// terminators counts how many of many fast streams ended as they should.
func (s *stage) terminators(ctx context.Context, p plan) error {
	var ended [3]int
	for i, t := range s.targets {
		c := newClient(1)
		for range p.streams {
			_, _, done, err := t.once(ctx, c, streamBody)
			if err != nil {
				return err
			}
			ended[i] += done
		}
	}
	fmt.Printf("%-33s %10d  %10d  %11d\n", fmt.Sprintf("terminators of %d fast streams", p.streams), ended[0], ended[1], ended[2])
	if ended[2] != p.streams {
		return fmt.Errorf("mindrouter ended %d of %d streams", ended[2], p.streams)
	}
	return nil
}
