package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/app"
	"mindrouter/internal/identity"
)

// ringKey is a key for a ring: 32 bytes in base64.
const ringKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

func ptr(s string) *string { return &s }

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificate writes a certificate for a time and its key.
func certificate(t *testing.T, from, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IPAddresses: []net.IP{{127, 0, 0, 1}}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})))
}

// value is a setting as --print-config shows it.
func value(t *testing.T, c app.Config, path string) app.Value {
	t.Helper()
	i := slices.IndexFunc(c.Values, func(v app.Value) bool { return v.Path == path })
	if i < 0 {
		t.Fatalf("there is no value %s", path)
	}
	return c.Values[i]
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := app.LoadConfig(app.Flags{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != "127.0.0.1:8080" || c.DataDir != "./data" || c.DatabaseURL != "sqlite:data/mindrouter.db" || c.PublicURL != "" ||
		c.TrustedProxies != nil || c.TLS != nil || c.SecretKey != "" || c.PowerSafe || c.AuditContent != identity.ContentFull ||
		c.LogFormat != "" || c.LogLevel != 0 || c.MetricsAddr != "" || c.DrainTimeout != 30*time.Second || c.Warnings != nil {
		t.Errorf("defaults are %+v", c)
	}
}

func TestFlagBeatsEnvironmentBeatsFile(t *testing.T) {
	t.Parallel()
	path := file(t, "m.yaml", "addr: 127.0.0.1:1\nlog:\n  level: debug\ndata_dir: /from-file\n")
	environ := []string{"MINDROUTER_ADDR=127.0.0.1:2", "MINDROUTER_LOG_LEVEL=error", "OTHER=x"}
	c, err := app.LoadConfig(app.Flags{Config: path, Addr: ptr("127.0.0.1:3")}, environ)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []app.Value{
		{Path: "addr", Value: "127.0.0.1:3", Source: "flag"},
		{Path: "log.level", Value: "error", Source: "MINDROUTER_LOG_LEVEL"},
		{Path: "data_dir", Value: "/from-file", Source: path + ":4"},
		{Path: "drain_timeout", Value: "30s", Source: "default"},
	} {
		if got := value(t, c, want.Path); got != want {
			t.Errorf("%s is %+v, want %+v", want.Path, got, want)
		}
	}
	if c.Addr != "127.0.0.1:3" || c.DataDir != "/from-file" {
		t.Errorf("in effect are %s and %s", c.Addr, c.DataDir)
	}
}

func TestTheFileMayBeNamedByTheEnvironment(t *testing.T) {
	t.Parallel()
	path := file(t, "m.yaml", "addr: 127.0.0.1:1\n")
	other := file(t, "o.yaml", "addr: 127.0.0.1:2\n")
	environ := []string{"MINDROUTER_CONFIG=" + path}
	if c, err := app.LoadConfig(app.Flags{}, environ); err != nil || c.Addr != "127.0.0.1:1" || c.Warnings != nil {
		t.Errorf("address %s, %v, warnings %v", c.Addr, err, c.Warnings)
	}
	if c, err := app.LoadConfig(app.Flags{Config: other}, environ); err != nil || c.Addr != "127.0.0.1:2" {
		t.Errorf("the flag does not beat the environment: %s, %v", c.Addr, err)
	}
}

// TestEverySettingHasAllThreeSources sets each in each source.
func TestEverySettingHasAllThreeSources(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, time.Now(), time.Now().Add(time.Hour))
	valid := map[string]string{
		"addr": "127.0.0.1:9", "data_dir": "/x", "database_url": "sqlite:/x/y.db", "public_url": "https://x.example", "trusted_proxies": "10.0.0.0/8",
		"tls.cert": cert, "tls.key": key, "insecure_http": "1", "secret_key": ringKey, "audit.durability": "power", "audit.content": "off",
		"log.format": "text", "log.level": "warn", "metrics_addr": "127.0.0.1:10", "drain_timeout": "5s", "remote_images": "1",
	}
	typ := reflect.TypeFor[app.Flags]()
	seen := 0
	for i := range typ.NumField() {
		path := typ.Field(i).Tag.Get("path")
		if path == "" {
			continue
		}
		seen++
		v, ok := valid[path]
		if !ok {
			t.Errorf("the test knows no value for %s", path)
			continue
		}
		rest := []string{"MINDROUTER_TLS_CERT=" + cert, "MINDROUTER_TLS_KEY=" + key} // one is nothing without the other
		yaml := path + ": '" + v + "'\n"
		if group, name, nested := strings.Cut(path, "."); nested {
			yaml = group + ":\n  " + name + ": '" + v + "'\n"
		}
		yamlPath := file(t, "m.yaml", yaml)
		var flags app.Flags
		reflect.ValueOf(&flags).Elem().Field(i).Set(reflect.ValueOf(&v))
		for source, load := range map[string]func() (app.Config, error){
			"flag":                func() (app.Config, error) { return app.LoadConfig(flags, rest) },
			app.Variable(path):    func() (app.Config, error) { return app.LoadConfig(app.Flags{}, append(rest, app.Variable(path)+"="+v)) },
			yamlPath + ":1 or :2": func() (app.Config, error) { return app.LoadConfig(app.Flags{Config: yamlPath}, nil) },
		} {
			c, err := load()
			if strings.HasPrefix(path, "tls.") && strings.Contains(source, " or ") {
				continue // half a pair is refused
			}
			if err != nil {
				t.Errorf("%s from %s: %v", path, source, err)
				continue
			}
			if got := value(t, c, path); !strings.Contains(source+" "+yamlPath+":1 "+yamlPath+":2", got.Source) || got.Source == "default" {
				t.Errorf("%s from %s says %+v", path, source, got)
			}
		}
	}
	if seen != len(valid) {
		t.Errorf("%d settings, %d values", seen, len(valid))
	}
}

func TestProblemsOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule    string
		environ []string
		want    string
	}{
		{"address without a port", []string{"ADDR=127.0.0.1"}, `addr (from MINDROUTER_ADDR): "127.0.0.1" is no address: want HOST:PORT`},
		{"address with a strange port", []string{"ADDR=127.0.0.1:http"}, `addr (from MINDROUTER_ADDR): "http" is no port: want a number up to 65535; 0 is any that is free`},
		{"address with a port too large", []string{"ADDR=127.0.0.1:65536"}, `addr (from MINDROUTER_ADDR): "65536" is no port: want a number up to 65535; 0 is any that is free`},
		{"empty address", []string{"ADDR="}, `addr (from MINDROUTER_ADDR): "" is no address: want HOST:PORT`},
		{"all addresses without TLS", []string{"ADDR=:8080"}, "addr (from MINDROUTER_ADDR): :8080 is not loopback: set tls.cert and tls.key, or trusted_proxies if a proxy ends TLS, or insecure_http=1"},
		{"another host without TLS", []string{"ADDR=10.0.0.1:8080"}, "addr (from MINDROUTER_ADDR): 10.0.0.1:8080 is not loopback: set tls.cert and tls.key, or trusted_proxies if a proxy ends TLS, or insecure_http=1"},
		{"a name without TLS", []string{"ADDR=host.example:8080"}, "addr (from MINDROUTER_ADDR): host.example:8080 is not loopback: set tls.cert and tls.key, or trusted_proxies if a proxy ends TLS, or insecure_http=1"},
		{"IPv6 without TLS", []string{"ADDR=[::]:8080"}, "addr (from MINDROUTER_ADDR): [::]:8080 is not loopback: set tls.cert and tls.key, or trusted_proxies if a proxy ends TLS, or insecure_http=1"},
		{"metrics address", []string{"METRICS_ADDR=9090"}, `metrics_addr (from MINDROUTER_METRICS_ADDR): "9090" is no address: want HOST:PORT`},
		{"unknown database", []string{"DATABASE_URL=mysql://h/d"}, "database_url (from MINDROUTER_DATABASE_URL): want sqlite:PATH or postgres://USER@HOST/NAME"},
		{"database in memory", []string{"DATABASE_URL=sqlite::memory:"}, "database_url (from MINDROUTER_DATABASE_URL): want sqlite:PATH with a file: what is only in memory is lost at the end"},
		{"PostgreSQL without a secret key", []string{"DATABASE_URL=postgres://h/d"}, "secret_key: must be set with PostgreSQL: several servers may share the database, and they must share the key"},
		{"PostgreSQL without a host", []string{"DATABASE_URL=postgres:///d", "SECRET_KEY=" + ringKey}, "database_url (from MINDROUTER_DATABASE_URL): is no URL such as postgres://USER:PASSWORD@HOST/DATABASE"},
		{"PostgreSQL URL that is none", []string{"DATABASE_URL=postgres://u:hunter2%zz@h/d", "SECRET_KEY=" + ringKey}, "database_url (from MINDROUTER_DATABASE_URL): is no URL such as postgres://USER:PASSWORD@HOST/DATABASE"},
		{"durability that PostgreSQL has not", []string{"DATABASE_URL=postgres://h/d", "SECRET_KEY=" + ringKey, "AUDIT_DURABILITY=process"}, "audit.durability (from MINDROUTER_AUDIT_DURABILITY): process is not offered with PostgreSQL: its commits survive a loss of power as the database is set up"},
		{"secret key that is none", []string{"SECRET_KEY=hunter2"}, "secret_key (from MINDROUTER_SECRET_KEY): key 1: want 32 bytes in base64"},
		{"half a certificate", []string{"TLS_CERT=/x.pem"}, "tls.cert (from MINDROUTER_TLS_CERT): and tls.key must be set together"},
		{"no certificate there", []string{"TLS_CERT=/no/x.pem", "TLS_KEY=/no/y.pem"}, "tls.cert (from MINDROUTER_TLS_CERT): open /no/x.pem: no such file or directory"},
		{"public URL", []string{"PUBLIC_URL=models.example"}, "public_url (from MINDROUTER_PUBLIC_URL): want http://... or https://..."},
		{"proxies", []string{"TRUSTED_PROXIES=10.0.0.0/8,lb"}, `trusted_proxies (from MINDROUTER_TRUSTED_PROXIES): "lb" is neither an address nor a CIDR range`},
		{"a word of several", []string{"LOG_LEVEL=loud"}, `log.level (from MINDROUTER_LOG_LEVEL): "loud" is none of debug, info, warn, error`},
		{"a switch", []string{"INSECURE_HTTP=yes"}, `insecure_http (from MINDROUTER_INSECURE_HTTP): "yes" is none of 0, 1`},
		{"a duration", []string{"DRAIN_TIMEOUT=30"}, `drain_timeout (from MINDROUTER_DRAIN_TIMEOUT): "30" is not a duration such as 30s`},
		{"content", []string{"AUDIT_CONTENT="}, `audit.content (from MINDROUTER_AUDIT_CONTENT): "" is none of full, metadata, off`},
		{"a file that is not there", []string{"CONFIG=/no/m.yaml"}, "config: open /no/m.yaml: no such file or directory"},
		{"a secret file that is not there", []string{"SECRET_KEY=file:/no/key"}, "secret_key (from MINDROUTER_SECRET_KEY): open /no/key: no such file or directory"},
	} {
		var environ []string
		for _, e := range c.environ {
			environ = append(environ, "MINDROUTER_"+e)
		}
		if _, err := app.LoadConfig(app.Flags{}, environ); err == nil || err.Error() != c.want {
			t.Errorf("%s\ngot  %v\nwant %s", c.rule, err, c.want)
		}
	}
}

func TestAllProblemsOfSettingsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	path := file(t, "m.yaml", "log:\n  level: loud\nmetrics:\n  addr: x\naddr: 127.0.0.1\nsurprise: 1\n")
	_, err := app.LoadConfig(app.Flags{Config: path, DrainTimeout: ptr("soon")}, []string{"MINDROUTER_AUDIT_CONTENT=all"})
	want := []string{
		path + ":4: unknown setting metrics.addr",
		path + ":6: unknown setting surprise",
		`audit.content (from MINDROUTER_AUDIT_CONTENT): "all" is none of full, metadata, off`,
		`drain_timeout (from flag): "soon" is not a duration such as 30s`,
		"log.level (from " + path + `:2): "loud" is none of debug, info, warn, error`,
		"addr (from " + path + `:5): "127.0.0.1" is no address: want HOST:PORT`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestSettingsFilesThatAreWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ yaml, want string }{
		{"addr: [", ":1: sequence end token ']' not found"},
		{"secret_key: hunter2\n\tx: 1", ":2: found character '\t' that cannot start any token"},
		{"addr: a\naddr: b", `:2: mapping key "addr" already defined at [1:1]`},
		{"- addr", ":1: want settings as key: value"},
		{"addr: {port: 80}", ":1: unknown setting addr.port"},
		{"trusted_proxies: [{a: b}]", ":1: trusted_proxies must be a single value or a list of values"},
		{"log.level: info\nlog: {level: info}", ":2: log.level appears twice"},
	} {
		path := file(t, "m.yaml", c.yaml)
		_, err := app.LoadConfig(app.Flags{Config: path}, nil)
		if err == nil || err.Error() != path+c.want {
			t.Errorf("%s\ngot  %v\nwant %s", c.yaml, err, path+c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

func TestSettingsFilesMayUseYAML(t *testing.T) {
	t.Parallel()
	path := file(t, "m.yaml", "# comment\ninsecure_http: true\ntrusted_proxies:\n  - 10.0.0.0/8\n  - 192.0.2.1\naddr: 0.0.0.0:80\npublic_url:\nlog: {format: json}\n")
	c, err := app.LoadConfig(app.Flags{Config: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32")}
	if !slices.Equal(c.TrustedProxies, want) || c.Addr != "0.0.0.0:80" || c.LogFormat != "json" {
		t.Errorf("settings %+v", c)
	}
	if c, err := app.LoadConfig(app.Flags{Config: file(t, "empty.yaml", "# nothing\n")}, nil); err != nil || c.Addr != "127.0.0.1:8080" {
		t.Errorf("an empty file: %v", err)
	}
}

func TestWhatMayListenWithoutTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, time.Now(), time.Now().Add(time.Hour))
	for rule, environ := range map[string][]string{
		"loopback":                {"MINDROUTER_ADDR=127.0.0.1:1"},
		"all of loopback":         {"MINDROUTER_ADDR=127.8.8.8:1"},
		"IPv6 loopback":           {"MINDROUTER_ADDR=[::1]:1"},
		"localhost":               {"MINDROUTER_ADDR=localhost:1"},
		"anywhere behind a proxy": {"MINDROUTER_ADDR=:1", "MINDROUTER_TRUSTED_PROXIES=10.0.0.1"},
		"anywhere on demand":      {"MINDROUTER_ADDR=:1", "MINDROUTER_INSECURE_HTTP=1"},
		"anywhere with TLS":       {"MINDROUTER_ADDR=:1", "MINDROUTER_TLS_CERT=" + cert, "MINDROUTER_TLS_KEY=" + key},
	} {
		c, err := app.LoadConfig(app.Flags{}, environ)
		if err != nil {
			t.Errorf("%s: %v", rule, err)
		}
		if (c.TLS != nil) != strings.Contains(rule, "with TLS") {
			t.Errorf("%s: TLS is %t", rule, c.TLS != nil)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	environ := []string{
		"MINDROUTER_SECRET_KEY=file:" + file(t, "key", "\n"+ringKey+"\n"),
		"MINDROUTER_DATABASE_URL=file:" + file(t, "url", "postgres://u:hunter2@h/d\n"),
	}
	c, err := app.LoadConfig(app.Flags{}, environ)
	if err != nil || c.SecretKey != ringKey || c.DatabaseURL != "postgres://u:hunter2@h/d" {
		t.Errorf("secret key %q, database %q, %v", c.SecretKey, c.DatabaseURL, err)
	}
	empty := file(t, "empty", "\n")
	if _, err := app.LoadConfig(app.Flags{}, []string{"MINDROUTER_SECRET_KEY=file:" + empty}); err == nil || !strings.Contains(err.Error(), empty+" is empty") {
		t.Errorf("an empty secret file: %v; a key must not be made in silence", err)
	}
	if c, err := app.LoadConfig(app.Flags{}, []string{"MINDROUTER_DATA_DIR=file:/x"}); err != nil || c.DataDir != "file:/x" {
		t.Errorf("what is no secret is not read from a file: %q, %v", c.DataDir, err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"SECRET_KEY=" + ringKey:                                           "(set, not shown)",
		"DATABASE_URL=postgres://u:hunter2@h/d":                           "postgres://u:xxxxx@h/d",
		"DATABASE_URL=postgres://h/d?user=u&password=hunter2":             "postgres://h/d?password=xxxxx&user=u",
		"DATABASE_URL=postgres://h/d?sslpassword=hunter2":                 "postgres://h/d?sslpassword=xxxxx",
		"DATABASE_URL=postgres://u:hunter2%zz@h/d":                        "(set, not shown)",
		"DATABASE_URL=postgres://u@h/d?sslmode=disable":                   "postgres://u@h/d?sslmode=disable",
		"DATABASE_URL=sqlite:./x.db":                                      "sqlite:./x.db",
		"DATABASE_URL=file:" + file(t, "url", "postgres://u:hunter2@h/d"): "postgres://u:xxxxx@h/d",
	} {
		c, err := app.LoadConfig(app.Flags{}, []string{"MINDROUTER_" + given})
		path := "secret_key"
		if strings.HasPrefix(given, "DATABASE") {
			path = "database_url"
		}
		if got := value(t, c, path).Value; got != want {
			t.Errorf("%s is shown as %q, want %q", given, got, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), ringKey)) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestUnknownVariablesWarn(t *testing.T) {
	t.Parallel()
	c, err := app.LoadConfig(app.Flags{}, []string{"MINDROUTER_ADRR=x", "MINDROUTER_TEST_X=1", "MINDROUTER_B=", "PATH=/", "MINDROUTER_LOG_LEVEL=info"})
	want := []string{"unknown setting MINDROUTER_ADRR in the environment", "unknown setting MINDROUTER_B in the environment"}
	if err != nil || !slices.Equal(c.Warnings, want) {
		t.Errorf("warnings %q, %v; want %q", c.Warnings, err, want)
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]bool{"": false, "MINDROUTER_AUDIT_DURABILITY=process": false, "MINDROUTER_AUDIT_DURABILITY=power": true} {
		if c, err := app.LoadConfig(app.Flags{}, []string{environ}); err != nil || c.PowerSafe != want {
			t.Errorf("%q: power safe %t, %v; want %t", environ, c.PowerSafe, err, want)
		}
	}
}

func TestDatabaseLiesInTheDataDirectory(t *testing.T) {
	t.Parallel()
	c, err := app.LoadConfig(app.Flags{DataDir: ptr("/srv/m")}, nil)
	if err != nil || c.DatabaseURL != "sqlite:/srv/m/mindrouter.db" || c.SecretKeyFile() != "/srv/m/secret.key" {
		t.Errorf("database %s, key %s, %v", c.DatabaseURL, c.SecretKeyFile(), err)
	}
}
