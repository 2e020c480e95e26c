// Package app puts the rooms together: it reads the configuration, opens what must be open, wires every part to the
// others, runs the loops and stops them in order. It is the only package that reads the environment and the key ring.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"mindrouter/internal/admin"
	"mindrouter/internal/api"
	"mindrouter/internal/audit"
	"mindrouter/internal/backend"
	"mindrouter/internal/dialect"
	"mindrouter/internal/gateway"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/quota"
	"mindrouter/internal/responses"
	"mindrouter/internal/routing"
	"mindrouter/internal/safehttp"
	"mindrouter/internal/scheduler"
	"mindrouter/internal/secret"
	"mindrouter/internal/store"
	"mindrouter/internal/tokens"
	"mindrouter/static"
)

// Version and Commit are set by the linker.
var (
	Version = "dev"
	Commit  = ""
)

// CommitOrBuild is the commit that the binary was built from: set by the linker, or noted by the go command; empty if
// neither knows.
func CommitOrBuild() string {
	if Commit != "" {
		return Commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}

// Ready is told once the server answers.
type Ready struct {
	URL        string // of the main address, with the port that was bound
	MetricsURL string // empty if there is no metrics address
}

// gcPercent lets the heap grow fourfold between collections: it holds a few MiB that live, and every request makes
// garbage. GOGC in the environment wins.
const gcPercent = 300

// Run serves until ctx ends, then stops in order. onReady, if not nil, is called when the server answers.
func Run(ctx context.Context, cfg Config, log *slog.Logger, onReady func(Ready)) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	unlock, err := lockServer(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	db, err := openDatabase(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := newServer(ctx, cfg, db, log)
	if err != nil {
		return err
	}
	return s.run(ctx, onReady)
}

// server is everything that runs.
type server struct {
	cfg       Config
	log       *slog.Logger
	db        *database
	epoch     string
	version   atomic.Uint64 // of the catalog
	fleet     *backend.Fleet
	scheduler *scheduler.Scheduler
	meter     *quota.Meter
	recorder  *audit.Recorder
	keys      *identity.Keys
	gateway   *gateway.Gateway
	api       *api.API
	responses *responses.Keeper
	metrics   *metrics
	assets    *static.Assets
	draining  atomic.Bool
	inFlight  atomic.Int64
	handlers  sync.WaitGroup
	// base is the parent of every request's context; cut ends it when the drain timeout is over.
	base context.Context //nolint:containedctx // http.Server wants one
	cut  context.CancelCauseFunc
}

func newServer(ctx context.Context, cfg Config, db *database, log *slog.Logger) (*server, error) {
	s := &server{cfg: cfg, log: log, db: db, epoch: uuid.Must(uuid.NewV7()).String()}
	s.base, s.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	s.scheduler = scheduler.New(scheduler.Config{Profile: routing.Points(nil)})
	s.fleet = backend.NewFleet(backend.FleetConfig{Log: log, OnChange: s.scheduler.SetBackends})
	s.meter = quota.NewMeter(db, time.Now)
	s.recorder = audit.NewRecorder(db, log)
	s.keys = identity.NewKeys(identity.KeysConfig{
		Store: db, MAC: db.ring.MAC(secret.PurposeKeyTag), Version: s.version.Load, Hashers: runtime.GOMAXPROCS(0),
	})
	var err error
	if s.assets, err = static.New(); err != nil {
		return nil, fmt.Errorf("static files: %w", err)
	}
	registry := prometheus.NewRegistry()
	s.metrics = newMetrics(registry, s)
	s.gateway = gateway.New(gateway.Config{
		Fleet: s.fleet, Scheduler: s.scheduler, Meter: s.meter, Ledger: s.recorder, Counter: tokens.NewCounter(),
		Metrics: s.metrics, Log: log, Epoch: s.epoch, Content: cfg.AuditContent, TenantSalt: tenantSalt(db.ring),
		FetchImage: imageFetcher(cfg),
	})
	s.responses = responses.NewKeeper(db, time.Now)
	s.api = api.New(api.Config{
		Keys: s.keys, Gateway: s.gateway, Record: db, Log: log, ClientIP: cfg.clientIP, Sign: tenantSign(db.ring),
		SpoolDir:  filepath.Join(cfg.DataDir, "uploads"),
		Responses: s.responses, Seal: tenantSeal(db.ring), Open: tenantOpen(db.ring),
	})
	if err := s.reload(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// reload brings a new catalog to everybody who uses it.
func (s *server) reload(ctx context.Context) error {
	return s.db.View(ctx, func(r admin.Reader) error {
		c, err := r.Catalog(ctx)
		if err != nil {
			return fmt.Errorf("read catalog: %w", err)
		}
		settings := c.Settings.WithDefaults()
		s.scheduler.SetSettings(schedulerSettings(settings.Scheduler))
		s.scheduler.SetProfile(routing.Points(settings.Routing.Points))
		s.fleet.SetCatalog(c)
		s.version.Store(c.Version)
		return nil
	})
}

// schedulerSettings turns the settings of the catalog, where factors count in average requests, into the scheduler's.
func schedulerSettings(s backend.SchedulerSettings) scheduler.Settings {
	return scheduler.Settings{
		Window: s.FairnessWindow, Age: s.CapacityWait,
		CreditFactor: s.BurstCredit, BonusFactor: s.WaitBonus, SlackFactor: s.Slack,
		Prices: scheduler.Prices{Input: s.InputPrice, Cached: s.CachedPrice, Output: s.OutputPrice},
	}
}

const (
	heartbeatEvery = time.Second
	// deadAfter is how long a server may be silent before its open requests count as lost.
	deadAfter = 10 * time.Second
	// readHeaderTimeout bounds the time for the headers of a request.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 16<<10 - 4096 // net/http adds 4096
)

// run starts the loops and the listeners, waits for ctx, and stops in this order: not ready, so that load balancers look
// elsewhere; no new connections; requests may end until the drain timeout; then the loops, because nothing needs them
// any more; then the record, which everything before may have written to. The stores are closed by Run.
func (s *server) run(ctx context.Context, onReady func(Ready)) error {
	listener, err := s.listen(ctx, s.cfg.Addr)
	if err != nil {
		return err
	}
	if err := s.db.StartEpoch(ctx, s.epoch, time.Now()); err != nil {
		return errors.Join(fmt.Errorf("register server: %w", err), listener.Close())
	}
	if err := s.markLost(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	ready := Ready{URL: s.scheme() + "://" + listener.Addr().String()}
	servers := []*http.Server{s.httpServer(s.handler())}
	listeners := []net.Listener{s.withTLS(listener)}
	if s.cfg.MetricsAddr != "" {
		l, err := s.listen(ctx, s.cfg.MetricsAddr)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		ready.MetricsURL = "http://" + l.Addr().String() + "/metrics"
		servers, listeners = append(servers, s.httpServer(s.metricsHandler())), append(listeners, l)
	}

	// The record outlives the loops, the loops outlive the requests.
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	defer stopLoops()
	var record, loop errgroup.Group
	record.Go(func() error { return s.recorder.Run(recording) })
	loop.Go(func() error { return s.fleet.Run(loops) })
	loop.Go(func() error { return s.db.Watch(loops, func(version uint64) error { return s.follow(loops, version) }) })
	loop.Go(func() error { return s.db.Maintain(loops) })
	loop.Go(func() error { return s.responses.Expire(loops, s.expired) })
	if s.db.Kind() == store.Postgres { // on SQLite there is no other server to tell
		loop.Go(func() error { return s.heartbeat(loops) })
	}

	failed := make(chan error, len(servers)) // one per server: nobody waits to send
	for i, srv := range servers {
		go func() { failed <- srv.Serve(listeners[i]) }()
	}
	s.log.Info("serving", slog.String("url", ready.URL), slog.Any("database", s.db.Kind()), slog.String("version", Version))
	if onReady != nil {
		onReady(ready)
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}

	s.draining.Store(true)
	s.log.Info("stopping", slog.Int64("in_flight", s.inFlight.Load()))
	err = errors.Join(err, s.drain(servers))
	stopLoops()
	err = errors.Join(err, loop.Wait())
	stopRecording()
	err = errors.Join(err, record.Wait(), s.endEpoch())
	s.log.Info("stopped")
	return err
}

// finishGrace is how long requests that were cut may take to tell their clients and to record their end.
const finishGrace = 5 * time.Second

// errCut is what a client is told whose request still ran at the drain timeout.
var errCut = &llm.Error{Code: llm.CodeUnavailable, Message: "The service is restarting.", RetryAfter: 2 * time.Second}

// drain lets requests end. Those that still run at the timeout are cut with an error of their own.
func (s *server) drain(servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	var late bool
	for _, srv := range servers {
		late = srv.Shutdown(ctx) != nil || late
	}
	if !late {
		return nil
	}
	s.log.Warn("requests cut at the drain timeout", slog.Int64("in_flight", s.inFlight.Load()))
	s.scheduler.Drain()
	s.cut(errCut)
	ended := make(chan struct{})
	go func() { s.handlers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(finishGrace):
		s.log.Error("requests did not end", slog.Int64("in_flight", s.inFlight.Load()))
	}
	var err error
	for _, srv := range servers {
		err = errors.Join(err, srv.Close())
	}
	return err
}

func (s *server) endEpoch() error {
	ctx, cancel := context.WithTimeout(context.Background(), finishGrace)
	defer cancel()
	return s.db.EndEpoch(ctx, s.epoch, time.Now())
}

func (s *server) expired(n int, err error) {
	switch {
	case err != nil:
		s.log.Warn("stored responses not expired", slog.Any("error", err))
	case n > 0:
		s.log.Info("stored responses expired", slog.Int("count", n))
	}
}

// reloadTimeout bounds one reading of the catalog.
const reloadTimeout = 5 * time.Second

// follow reloads the catalog; a failure leaves the old one in force and is tried again. Keys and users are read anew from
// here on in any case: whether they still count does not wait for the rest.
func (s *server) follow(ctx context.Context, version uint64) error {
	s.version.Store(version)
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	if err := s.reload(ctx); err != nil {
		return fmt.Errorf("reload configuration: %w", err)
	}
	return nil
}

// heartbeat says that this server lives and marks the requests of dead ones.
func (s *server) heartbeat(ctx context.Context) error {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := s.db.Heartbeat(ctx, s.epoch, time.Now())
		if err == nil {
			err = s.markLost(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("heartbeat failed", slog.Any("error", err))
		}
	}
}

// markLost finishes what dead servers left open. On SQLite there is one server, so all others are dead.
func (s *server) markLost(ctx context.Context) error {
	now := time.Now()
	alive := now.Add(-deadAfter)
	if s.db.Kind() == store.SQLite {
		alive = now.Add(time.Hour)
	}
	n, err := s.db.MarkLost(ctx, s.epoch, alive, now)
	if err != nil {
		return fmt.Errorf("mark lost requests: %w", err)
	}
	if n > 0 {
		s.log.Warn("requests of a server that died are marked lost", slog.Any("count", n))
	}
	return nil
}

// imageFetcher fetches images of public servers, if the site wants that.
func imageFetcher(cfg Config) func(ctx context.Context, url string) (*llm.Media, error) {
	if !cfg.RemoteImages {
		return nil
	}
	client := safehttp.New(safehttp.Config{MaxBytes: dialect.MaxMedia})
	return func(ctx context.Context, url string) (*llm.Media, error) {
		data, err := client.Get(ctx, url)
		if err != nil {
			return nil, err
		}
		media, fault := dialect.ImageData(data) // what it is follows from its bytes, not from what the server says
		if fault != nil {
			return nil, fault
		}
		return media, nil
	}
}

// tenantSign signs what clients hand back to us, such as blocks of thinking. A length before the tenant keeps two of
// them from meaning the same.
func tenantSign(ring *secret.Ring) func(tenant string, data []byte) [32]byte {
	mac := ring.MAC(secret.PurposeContent)
	return func(tenant string, data []byte) [32]byte {
		sum, _ := mac.Sum(fmt.Appendf(nil, "%d:%s%s", len(tenant), tenant, data))
		return sum
	}
}

// tenantSeal encrypts what clients carry for us, such as reasoning between two requests; it opens for the same tenant only.
func tenantSeal(ring *secret.Ring) func(tenant string, plain []byte) (string, bool) {
	return func(tenant string, plain []byte) (string, bool) {
		sealed, err := ring.Seal(plain, "client/"+tenant)
		return sealed, err == nil
	}
}

func tenantOpen(ring *secret.Ring) func(tenant, sealed string) ([]byte, bool) {
	return func(tenant, sealed string) ([]byte, bool) {
		plain, err := ring.Open(sealed, "client/"+tenant)
		return plain, err == nil
	}
}

func tenantSalt(ring *secret.Ring) func(string) string {
	mac := ring.MAC(secret.PurposeTenant)
	return func(tenant string) string {
		sum, _ := mac.Sum([]byte(tenant))
		return fmt.Sprintf("%x", sum[:16])
	}
}
