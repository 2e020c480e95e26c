package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/simbackend"
	"mindrouter/internal/store"
)

// patient is a healthy installation in a directory of its own.
func patient(t *testing.T) Config {
	t.Helper()
	sim, err := simbackend.Start(simbackend.Config{Dialect: simbackend.DialectVLLM}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Shutdown(); err != nil {
			t.Errorf("stop the simulated backend: %v", err)
		}
	})
	cfg := load(t)
	run(t, cfg, func(c *Commands) error {
		text := fmt.Sprintf("backends: [{name: sim, engine: vllm, url: '%s', api_key: 'file:%s'}]", sim.URL, secretFile(t, "sk-x"))
		_, err := c.Apply(t.Context(), "x", []byte(text), ApplyOptions{})
		return err
	})
	return cfg
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load is the configuration of a fresh directory.
func load(t *testing.T, environ ...string) Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	cfg, err := LoadConfig(Flags{DataDir: &dir}, environ)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func run(t *testing.T, cfg Config, do func(*Commands) error) {
	t.Helper()
	c, err := OpenCommands(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(c), c.Close()); err != nil {
		t.Fatal(err)
	}
}

const roomy = 100 << 30

// examine returns what the doctor finds on a machine with a roomy disk.
func examine(t *testing.T, cfg Config, configErr error) []Finding {
	t.Helper()
	d := doctor{now: time.Now(), freeBytes: func(string) (uint64, error) { return roomy, nil }}
	d.run(t.Context(), cfg, configErr, slog.New(slog.DiscardHandler))
	return d.findings
}

// broken are the findings that are not in order.
func broken(findings []Finding) []Finding {
	var out []Finding
	for _, f := range findings {
		if !f.OK {
			out = append(out, f)
		}
	}
	return out
}

func TestDoctorFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	cfg := patient(t)
	got := examine(t, cfg, nil)
	if bad := broken(got); len(bad) != 0 {
		t.Errorf("broken: %+v", bad)
	}
	var checks []string
	for _, f := range got {
		checks = append(checks, f.Check)
	}
	const want = "configuration, data directory, disk, secret key, database, clock, secrets, backend sim"
	if got := strings.Join(checks, ", "); got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
	if free, err := freeBytes(cfg.DataDir); err != nil || free == 0 {
		t.Errorf("free bytes %d, %v", free, err)
	}
}

func TestDoctorFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, check, words string
		spoil              func(t *testing.T, cfg *Config)
	}{
		{"no data directory", "data directory", "is not there", func(t *testing.T, cfg *Config) {
			cfg.DataDir = filepath.Join(t.TempDir(), "none")
		}},
		{"a file for a directory", "data directory", "is no directory", func(t *testing.T, cfg *Config) {
			cfg.DataDir = secretFile(t, "")
		}},
		{"an open directory", "data directory", "has mode 755", func(t *testing.T, cfg *Config) {
			must(t, os.Chmod(cfg.DataDir, 0o755))
		}},
		{"no key", "secret key", "is not there", func(t *testing.T, cfg *Config) { must(t, os.Remove(cfg.SecretKeyFile())) }},
		{"an open key", "secret key", "has mode 640", func(t *testing.T, cfg *Config) { must(t, os.Chmod(cfg.SecretKeyFile(), 0o640)) }},
		{"a key that is none", "secret key", "want 32 bytes in base64", func(t *testing.T, cfg *Config) {
			must(t, os.WriteFile(cfg.SecretKeyFile(), []byte("junk"), 0o600))
		}},
		{"another key", "secrets", "api_key of backend sim", func(t *testing.T, cfg *Config) {
			must(t, os.Remove(cfg.SecretKeyFile()))
			_, err := createKey(cfg.SecretKeyFile())
			must(t, err)
		}},
		{"no database", "database", "is not there", func(t *testing.T, cfg *Config) {
			must(t, os.Remove(store.SQLitePath(cfg.DatabaseURL)))
		}},
		{"a database that is none", "database", "", func(t *testing.T, cfg *Config) {
			cfg.DatabaseURL = "sqlite:" + secretFile(t, strings.Repeat("junk", 1000))
		}},
		{"an old schema", "database", "migrations are missing", func(t *testing.T, cfg *Config) {
			cfg.DatabaseURL = "sqlite:" + secretFile(t, "")
		}},
		{"no PostgreSQL", "database", "", func(_ *testing.T, cfg *Config) {
			cfg.DatabaseURL = "postgres://u:hunter2@127.0.0.1:1/d?connect_timeout=1"
		}},
		{"no backends", "backends", "there are none", func(t *testing.T, cfg *Config) {
			run(t, *cfg, func(c *Commands) error {
				_, err := c.Apply(t.Context(), "x", []byte("backends: []"), ApplyOptions{Prune: true})
				return err
			})
		}},
		{"a dead backend", "backend dead", "connection refused", func(t *testing.T, cfg *Config) {
			run(t, *cfg, func(c *Commands) error {
				_, err := c.Apply(t.Context(), "x", []byte("backends: [{name: dead, engine: vllm, url: 'http://127.0.0.1:1'}]"), ApplyOptions{})
				return err
			})
		}},
		{"a misspelt variable", "configuration", "unknown setting MINDROUTER_ADRR", func(_ *testing.T, cfg *Config) {
			cfg.Warnings = []string{"unknown setting MINDROUTER_ADRR in the environment"}
		}},
		{"a certificate that has ended", "certificate", "has ended on", func(t *testing.T, cfg *Config) {
			cfg.TLS = certificateUntil(t, time.Now().Add(-time.Hour))
		}},
		{"a certificate that ends soon", "certificate", "ends on", func(t *testing.T, cfg *Config) {
			cfg.TLS = certificateUntil(t, time.Now().Add(13*24*time.Hour))
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			cfg := patient(t)
			c.spoil(t, &cfg)
			got := broken(examine(t, cfg, nil))
			if len(got) != 1 || got[0].Check != c.check || !strings.Contains(got[0].Words, c.words) || got[0].Hint == "" {
				t.Fatalf("broken: %+v; want %s: %s, with a hint", got, c.check, c.words)
			}
			if strings.Contains(got[0].Words, "hunter2") {
				t.Errorf("a password is shown: %+v", got[0])
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func certificateUntil(t *testing.T, end time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour * 10000), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestDoctorTellsAllProblemsOfSettings(t *testing.T) {
	t.Parallel()
	_, err := LoadConfig(Flags{}, []string{"MINDROUTER_ADDR=x", "MINDROUTER_LOG_LEVEL=loud"})
	got := broken(examine(t, Config{}, err))
	if len(got) != 2 || !strings.HasPrefix(got[0].Words, "log.level") || !strings.HasPrefix(got[1].Words, "addr") {
		t.Errorf("broken: %+v; want one line for each problem", got)
	}
}

func TestDoctorMakesNothing(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	examine(t, cfg, nil)
	if _, err := os.Stat(cfg.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory: %v, want that it is not there", err)
	}
	must(t, os.Mkdir(cfg.DataDir, 0o700))
	examine(t, cfg, nil)
	if files, err := os.ReadDir(cfg.DataDir); err != nil || len(files) != 0 {
		t.Errorf("the data directory holds %v, %v; want nothing", files, err)
	}
}

func TestDoctorLooksAtTheDisk(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	must(t, os.Mkdir(cfg.DataDir, 0o700))
	for free, want := range map[uint64]bool{lowDisk - 1: false, lowDisk: true} {
		d := doctor{freeBytes: func(string) (uint64, error) { return free, nil }}
		d.dataDir(cfg)
		if got := d.findings[1]; got.Check != "disk" || got.OK != want {
			t.Errorf("%d bytes free: %+v", free, got)
		}
	}
	d := doctor{freeBytes: func(string) (uint64, error) { return 0, errors.New("unmounted") }}
	d.dataDir(cfg)
	if got := d.findings[1]; got.OK || got.Words != "unmounted" {
		t.Errorf("no answer: %+v", got)
	}
}

// clockAt is a database whose clock is off by so much.
type clockAt time.Duration

func (c clockAt) Now(context.Context) (time.Time, error) {
	return time.Now().Add(time.Duration(c)), nil
}

func TestDoctorLooksAtTheClock(t *testing.T) {
	t.Parallel()
	for off, want := range map[time.Duration]bool{0: true, 4 * time.Second: true, time.Minute: false, -time.Minute: false} {
		var d doctor
		d.clock(t.Context(), clockAt(off))
		if got := d.findings[0].OK; got != want {
			t.Errorf("a clock that is off by %v: %+v", off, d.findings[0])
		}
	}
}

func TestDoctorLeavesDisabledBackendsAlone(t *testing.T) {
	t.Parallel()
	cfg := patient(t)
	run(t, cfg, func(c *Commands) error {
		_, err := c.Apply(t.Context(), "x", []byte("backends: [{name: away, engine: vllm, url: 'http://127.0.0.1:1', enabled: false}]"), ApplyOptions{})
		return errors.Join(err, c.SetIntent(t.Context(), "sim", "draining"))
	})
	got := examine(t, cfg, nil)
	if bad := broken(got); len(bad) != 0 {
		t.Errorf("broken: %+v", bad)
	}
	if words := fmt.Sprint(got); !strings.Contains(words, "an admin has it disabled") || !strings.Contains(words, "an admin has it draining") {
		t.Errorf("findings %s", words)
	}
}
