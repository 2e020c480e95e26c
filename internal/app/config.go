package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mindrouter/internal/identity"
	"mindrouter/internal/secret"
	"mindrouter/internal/store"
)

// Flags are the settings as command-line flags. Each is nil if the flag was not given; then the environment counts, then
// the configuration file, then the fallback. A setting's environment variable is MINDROUTER_ and its path in capitals.
type Flags struct {
	Config string `help:"Read settings from this YAML file." placeholder:"FILE"`

	Addr           *string `path:"addr" fallback:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to serve on."`
	DataDir        *string `path:"data_dir" fallback:"./data" placeholder:"DIR" help:"Directory of the SQLite file, the journal and the generated secret key; the only place that is written."`
	DatabaseURL    *string `path:"database_url" name:"database-url" placeholder:"URL" help:"sqlite:PATH or postgres://...; by default mindrouter.db in the data directory. May be file:PATH of a file that holds it." secret:"url"`
	PublicURL      *string `path:"public_url" name:"public-url" placeholder:"URL" help:"Address under which users reach the service; needed behind TLS termination."`
	TrustedProxies *string `path:"trusted_proxies" placeholder:"CIDR,..." help:"Proxies whose X-Forwarded-For is believed. By default it is ignored."`
	TLSCert        *string `path:"tls.cert" name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM. With it the service speaks TLS."`
	TLSKey         *string `path:"tls.key" name:"tls-key" placeholder:"FILE" help:"Private key of the certificate in PEM."`
	InsecureHTTP   *string `path:"insecure_http" name:"insecure-http" placeholder:"0|1" fallback:"0" help:"1 allows plain HTTP on an address that is not loopback."`
	SecretKey      *string `path:"secret_key" placeholder:"KEY" help:"Key ring: 32 bytes in base64, the current key first, older ones after a comma. By default one is generated into the data directory. May be file:PATH of a file that holds it." secret:"all"`

	RemoteImages *string `path:"remote_images" placeholder:"0|1" fallback:"0" help:"1 fetches images that requests give as https addresses, from public servers only. By default they are refused."`

	AuditDurability *string `path:"audit.durability" placeholder:"process|power" help:"What a committed record survives. By default process on SQLite and power on PostgreSQL."`
	AuditContent    *string `path:"audit.content" fallback:"full" placeholder:"full|metadata|off" help:"What of requests and answers is recorded, for groups that do not say."`

	LogFormat    *string `path:"log.format" placeholder:"json|text" help:"By default text on a terminal, else json."`
	LogLevel     *string `path:"log.level" fallback:"info" placeholder:"debug|info|warn|error" help:"Least level that is logged."`
	MetricsAddr  *string `path:"metrics_addr" placeholder:"HOST:PORT" help:"Serve /metrics here without a key. By default it is on the main address and needs a key of scope admin."`
	DrainTimeout *string `path:"drain_timeout" fallback:"30s" placeholder:"DURATION" help:"How long requests may go on after a signal to stop."`
}

// Config is what the server runs by: every value checked.
type Config struct {
	Addr           string
	DataDir        string
	DatabaseURL    string
	PublicURL      string
	TrustedProxies []netip.Prefix
	TLS            *tls.Certificate // nil: plain HTTP
	SecretKey      string           // empty: generated into the data directory
	PowerSafe      bool             // a committed record survives a loss of power
	AuditContent   identity.ContentPolicy
	LogFormat      string // json, text or empty for automatic
	LogLevel       slog.Level
	MetricsAddr    string
	DrainTimeout   time.Duration
	RemoteImages   bool // images given as addresses are fetched
	Simulated      bool // the backends are simulated: every page says so

	// Values lists every setting with its source, for --print-config.
	Values []Value
	// Warnings are what looks like a mistake but stops nothing.
	Warnings []string
}

// LoadConfig resolves flags, environment and file. The error names all problems at once.
func LoadConfig(f Flags, environ []string) (Config, error) {
	l := newLoader(f, environ)
	c := Config{
		Addr:           l.text("addr"),
		DataDir:        l.text("data_dir"),
		DatabaseURL:    l.text("database_url"),
		PublicURL:      l.text("public_url"),
		TrustedProxies: l.prefixes("trusted_proxies"),
		SecretKey:      l.text("secret_key"),
		LogFormat:      l.oneOf("log.format", "", "json", "text"),
		MetricsAddr:    l.text("metrics_addr"),
		AuditContent:   identity.ContentPolicy(l.oneOf("audit.content", "full", "metadata", "off")),
		DrainTimeout:   l.duration("drain_timeout"),
		RemoteImages:   l.oneOf("remote_images", "0", "1") == "1",
	}
	if err := c.LogLevel.UnmarshalText([]byte(l.oneOf("log.level", "debug", "info", "warn", "error"))); err != nil {
		l.problem("log.level", "%v", err)
	}
	if c.SecretKey != "" {
		if _, err := secret.Parse(c.SecretKey); err != nil {
			l.problem("secret_key", "%v", err)
		}
	}
	c.checkDatabase(l)
	c.checkAddresses(l)
	l.derived("database_url", c.DatabaseURL)
	l.derived("audit.durability", c.durability())
	l.derived("log.format", "json; text on a terminal")
	c.Values, c.Warnings = l.values(), l.warnings
	return c, errors.Join(l.problems...)
}

// durability is the name of what a committed record survives.
func (c *Config) durability() string {
	if kind, err := store.KindOf(c.DatabaseURL); err == nil && kind == store.SQLite && !c.PowerSafe {
		return "process"
	}
	return "power"
}

func (c *Config) checkDatabase(l *loader) {
	if c.DatabaseURL == "" {
		c.DatabaseURL = "sqlite:" + filepath.Join(c.DataDir, "mindrouter.db")
	}
	kind, err := store.KindOf(c.DatabaseURL)
	if err != nil {
		l.problem("database_url", "%v", err)
	}
	if kind == store.Postgres {
		if u, err := url.Parse(c.DatabaseURL); err != nil || u.Host == "" && u.Query().Get("host") == "" {
			l.problem("database_url", "is no URL such as postgres://USER:PASSWORD@HOST/DATABASE") // nothing of it: it may hold a password
		}
		if c.SecretKey == "" {
			l.problem("secret_key", "must be set with PostgreSQL: several servers may share the database, and they must share the key")
		}
	}
	switch l.oneOf("audit.durability", "", "process", "power") {
	case "power":
		c.PowerSafe = true
	case "process":
		if kind == store.Postgres {
			l.problem("audit.durability", "process is not offered with PostgreSQL: its commits survive a loss of power as the database is set up")
		}
	}
}

func (c *Config) checkAddresses(l *loader) {
	cert, key := l.text("tls.cert"), l.text("tls.key")
	switch {
	case (cert == "") != (key == ""):
		l.problem("tls.cert", "and tls.key must be set together")
	case cert != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			l.problem("tls.cert", "%v", err)
		} else {
			c.TLS = &pair
		}
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			l.problem("public_url", "want http://... or https://...")
		}
		c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	}
	insecure := l.oneOf("insecure_http", "0", "1") == "1"
	switch local, err := loopback(c.Addr); {
	case err != nil:
		l.problem("addr", "%v", err)
	case !local && c.TLS == nil && !insecure && len(c.TrustedProxies) == 0:
		l.problem("addr", "%s is not loopback: set tls.cert and tls.key, or trusted_proxies if a proxy ends TLS, or insecure_http=1", c.Addr)
	}
	if c.MetricsAddr != "" {
		if _, err := loopback(c.MetricsAddr); err != nil {
			l.problem("metrics_addr", "%v", err)
		}
	}
}

// loopback reports whether an address to listen on can be reached from this machine only.
func loopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("%q is no address: want HOST:PORT", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("%q is no port: want a number up to 65535; 0 is any that is free", port)
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback(), nil
}

// SecretKeyFile is where the generated secret key lies.
func (c Config) SecretKeyFile() string { return filepath.Join(c.DataDir, "secret.key") }

// proxyTrusted reports whether addr is a trusted proxy.
func (c Config) proxyTrusted(addr netip.Addr) bool {
	return slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}
