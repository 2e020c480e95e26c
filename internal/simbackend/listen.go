package simbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Running is a server that listens on a TCP address.
type Running struct {
	*Server
	// URL is the base URL, without a path.
	URL string

	http *http.Server
	done chan error // the end of Serve
}

// Start returns a server that listens on addr ("127.0.0.1:0" for any free port). The caller must call
// [Running.Shutdown].
func Start(cfg Config, addr string) (*Running, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("simulated backend: %w", err)
	}
	r := &Running{
		Server: s,
		URL:    "http://" + ln.Addr().String(),
		http: &http.Server{
			Handler:           s,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		},
		done: make(chan error, 1),
	}
	go func() { r.done <- r.http.Serve(ln) }()
	return r, nil
}

// shutdownTime is how long Shutdown waits for handlers, which end at once unless they hang for a reason of their own.
const shutdownTime = 10 * time.Second

// Shutdown ends the requests in flight, closes the listener and all connections, and waits for both. Calling it again
// is harmless.
func (r *Running) Shutdown() error {
	r.Close()
	err := r.http.Close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err = errors.Join(err, r.WaitIdle(ctx))
	if serveErr, ok := <-r.done; ok {
		close(r.done)
		if !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	}
	return err
}

// Run serves on addr until ctx ends. When it listens it writes the line "url: http://HOST:PORT" to out. It keeps no
// records, because nobody could read them.
func Run(ctx context.Context, cfg Config, addr string, out io.Writer) error {
	cfg.RecordLimit = -1
	r, err := Start(cfg, addr)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "url: %s\n", r.URL); err != nil {
		return errors.Join(err, r.Shutdown())
	}
	select {
	case <-ctx.Done():
		return r.Shutdown()
	case err := <-r.done:
		close(r.done)
		return errors.Join(err, r.Shutdown())
	}
}
