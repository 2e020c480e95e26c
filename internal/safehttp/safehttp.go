// Package safehttp is the HTTP client for addresses that a caller chooses. It reaches public servers only: it resolves a
// name once, refuses it if any of its addresses is inside, and connects to the address that it has vetted, so that no
// second answer of the name server can lead elsewhere. It follows no redirect, uses no proxy, sends no credentials and
// bounds time and size.
package safehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Limits of one fetch.
const (
	maxTime      = 10 * time.Second
	maxRedirects = 0
)

// Errors of the package. They name no address: what a name resolves to inside is not a caller's to learn.
var (
	ErrAddress   = errors.New("the address may not be fetched")
	ErrTooLarge  = errors.New("what is there is too large")
	ErrNotServed = errors.New("it could not be fetched")
)

// Config configures [New].
type Config struct {
	// MaxBytes bounds what is read.
	MaxBytes int64
	// AllowHTTP allows plain http beside https.
	AllowHTTP bool
	// Resolve finds the addresses of a name; nil is the system's resolver. For tests.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to a vetted address; nil is the system's. For tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client fetches. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
}

// New returns a client.
func New(cfg Config) *Client {
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &Client{cfg: cfg}
	c.http = &http.Client{
		Timeout: maxTime,
		Transport: &http.Transport{
			Proxy: nil, DialContext: c.dial, DisableKeepAlives: true, TLSHandshakeTimeout: maxTime, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return ErrAddress
			}
			return nil
		},
	}
	return c
}

// Get fetches what is at an address. Errors wrap one of the package's.
func (c *Client) Get(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || !c.allowed(u) {
		return nil, ErrAddress
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, ErrAddress
	}
	req.Header.Set("User-Agent", "MindRouter")
	req.Header.Set("Accept", "image/*")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, reason(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d", ErrNotServed, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxBytes+1))
	switch {
	case err != nil:
		return nil, reason(err)
	case int64(len(body)) > c.cfg.MaxBytes:
		return nil, ErrTooLarge
	}
	return body, nil
}

func (c *Client) allowed(u *url.URL) bool {
	if u.Scheme != "https" && (u.Scheme != "http" || !c.cfg.AllowHTTP) {
		return false
	}
	switch u.Port() {
	case "", "80", "443":
	default:
		return false
	}
	return u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// reason keeps addresses out of an error.
func reason(err error) error {
	if errors.Is(err, ErrAddress) {
		return ErrAddress
	}
	return ErrNotServed
}

// dial resolves a name once, refuses it if any address of it is inside, and connects to the first.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, ErrAddress
	}
	var addrs []netip.Addr
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{addr}
	} else if addrs, err = c.cfg.Resolve(ctx, host); err != nil || len(addrs) == 0 {
		return nil, ErrNotServed
	}
	for _, addr := range addrs {
		if !Public(addr) {
			return nil, ErrAddress
		}
	}
	var last error
	for _, addr := range addrs {
		conn, err := c.cfg.Dial(ctx, network, net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// inside are networks that are not the public internet and that netip does not tell itself.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),  // documentation
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("100::/64"),
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// Public reports whether an address is one of the public internet, however it is written: IPv4 inside IPv6, NAT64 and
// 6to4 are looked through.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		return Public(netip.AddrFrom4([4]byte(bytes[12:16])))
	case addr.Is6() && sixTo4.Contains(addr):
		return Public(netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	if !addr.IsValid() || !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range inside {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}
