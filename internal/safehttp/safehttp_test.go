package safehttp_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"mindrouter/internal/safehttp"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true, "2002:808:808::1": true,
		"127.0.0.1": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "203.0.113.5": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "ff02::1": false, "2001:db8::1": false,
		"::ffff:10.0.0.1": false, "::ffff:127.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::1": false,
	} {
		if got := safehttp.Public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: public %v, want %v", addr, got, want)
		}
	}
}

// fixture is a client whose connections end at a test server, and the addresses that it dialled.
func fixture(t *testing.T, handler http.HandlerFunc, names map[string][]string) (*safehttp.Client, *[]string) {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	var dialled []string
	return safehttp.New(safehttp.Config{
		MaxBytes: 100, AllowHTTP: true,
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			var out []netip.Addr
			for _, a := range names[host] {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
		},
	}), &dialled
}

func TestGet(t *testing.T) {
	t.Parallel()
	names := map[string][]string{
		"good.example": {"8.8.8.8"}, "mixed.example": {"8.8.8.8", "10.0.0.1"}, "inside.example": {"192.168.0.1"}, "none.example": nil,
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "http://good.example/", http.StatusFound)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat("x", 101)))
		case "/gone":
			http.NotFound(w, r)
		default:
			if r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" {
				t.Errorf("sent %v", r.Header)
			}
			_, _ = w.Write([]byte("hello"))
		}
	}
	for _, tt := range []struct {
		url   string
		err   error
		dials int
	}{
		{"http://good.example/", nil, 1},
		{"http://good.example:443/", nil, 1},
		{"http://good.example/large", safehttp.ErrTooLarge, 1},
		{"http://good.example/gone", safehttp.ErrNotServed, 1},
		{"http://good.example/moved", safehttp.ErrAddress, 1},
		{"http://good.example/file", safehttp.ErrAddress, 1},
		{"http://none.example/", safehttp.ErrNotServed, 0},
		{"http://mixed.example/", safehttp.ErrAddress, 0},
		{"http://inside.example/", safehttp.ErrAddress, 0},
		{"http://169.254.169.254/latest/meta-data", safehttp.ErrAddress, 0},
		{"http://[::ffff:10.0.0.1]/", safehttp.ErrAddress, 0},
		{"http://2130706433/", safehttp.ErrNotServed, 0}, // a number is a name here, and nobody has it
		{"http://user:pass@good.example/", safehttp.ErrAddress, 0},
		{"http://good.example:8080/", safehttp.ErrAddress, 0},
		{"file:///etc/passwd", safehttp.ErrAddress, 0},
		{"gopher://good.example/", safehttp.ErrAddress, 0},
		{"://", safehttp.ErrAddress, 0},
	} {
		c, dialled := fixture(t, handler, names)
		body, err := c.Get(t.Context(), tt.url)
		if !errors.Is(err, tt.err) || (tt.err == nil && string(body) != "hello") || len(*dialled) != tt.dials {
			t.Errorf("%s: %q, %v, dialled %v; want %v and %d connections", tt.url, body, err, *dialled, tt.err, tt.dials)
		}
		if err != nil && strings.Contains(err.Error(), "8.8.8.8") {
			t.Errorf("%s: the error tells an address: %v", tt.url, err)
		}
	}
	c := safehttp.New(safehttp.Config{MaxBytes: 1})
	if _, err := c.Get(t.Context(), "http://good.example/"); !errors.Is(err, safehttp.ErrAddress) {
		t.Errorf("plain http where only https is allowed: %v", err)
	}
}
