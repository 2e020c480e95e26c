// Command bench measures what MindRouter adds to a call, in one run and as ratios: the model server alone, the same
// behind a bare httputil.ReverseProxy, and the same behind MindRouter with everything on. Load, proxy, gateway and model
// server share the machine, so compare columns of one run, never runs of two machines.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	proxyFor := flag.String("proxy", "", "serve as the bare reverse proxy for this URL (used by bench itself)")
	requests := flag.Int("n", 3000, "requests of each latency measurement")
	streams := flag.Int("streams", 3000, "fast streams whose terminators are counted")
	seconds := flag.Duration("for", 4*time.Second, "time of each throughput measurement")
	flag.Parse()
	if *proxyFor != "" {
		if err := serveProxy(*proxyFor, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(context.Background(), plan{requests: *requests, streams: *streams, duration: *seconds}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// plan is how much is measured.
type plan struct {
	requests, streams int
	duration          time.Duration
}

func run(ctx context.Context, p plan) (err error) {
	s, err := start(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Println("what                                direct       proxy   mindrouter   added   ratio to proxy")
	idle := s.memory()
	if err := s.latency(ctx, p); err != nil {
		return err
	}
	if err := s.firstToken(ctx, p); err != nil {
		return err
	}
	for _, conns := range []int{16, 64} {
		if err := s.throughput(ctx, p, conns); err != nil {
			return err
		}
	}
	if err := s.terminators(ctx, p); err != nil {
		return err
	}
	fmt.Printf("resident memory                     idle %.0f MiB, under load %.0f MiB\n", idle, s.memory())
	return nil
}
