package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mindrouter/internal/app"
	"mindrouter/internal/e2e"
	"mindrouter/internal/simbackend"
)

// selfSigned writes a certificate for 127.0.0.1 and its key, and returns a pool that trusts it.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mindrouter test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := errors.Join(os.WriteFile(certFile, certPEM, 0o600), os.WriteFile(keyFile, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

// overTLS starts a server that speaks TLS, and a client that trusts it and speaks one version of HTTP.
func overTLS(t *testing.T, http2 bool) *tlsServer {
	t.Helper()
	certFile, keyFile, pool := selfSigned(t)
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{
		Protocols: &protocols, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	s := &tlsServer{client: &http.Client{Transport: transport}}
	s.Server = e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t), TimeScale: 1}},
		Settings: map[string]string{"tls.cert": certFile, "tls.key": keyFile},
		Client:   s.client,
	})
	return s
}

type tlsServer struct {
	*e2e.Server
	client *http.Client
}

// sdk is the official client over TLS; every reply must come by the version of HTTP that was asked for.
func (s *tlsServer) sdk(t *testing.T, proto string) openai.Client {
	t.Helper()
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(s.Key(app.NewKey{})), option.WithMaxRetries(0),
		option.WithHTTPClient(s.client),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			resp, err := next(r)
			if err == nil && resp.Proto != proto {
				t.Errorf("%s came over %s, want %s", r.URL.Path, resp.Proto, proto)
			}
			return resp, err
		}))
}

func TestTLSInProcess(t *testing.T) {
	t.Parallel()
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			s := overTLS(t, http2)
			if !strings.HasPrefix(s.URL, "https://") {
				t.Fatalf("the server calls itself %s", s.URL)
			}
			c := s.sdk(t, proto)
			if got, _ := bothWays(t, c, ask("chat", "[[say=sealed]]")); got.Choices[0].Message.Content != "sealed" {
				t.Errorf("answer %q", got.Choices[0].Message.Content)
			}
			_, err := c.Chat.Completions.New(t.Context(), ask("nope", "hi"))
			var apiErr *openai.Error
			if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound {
				t.Errorf("unknown model: %v, want 404", err)
			}

			// The client leaves: over HTTP/2 the connection stays, only the stream is reset.
			ctx, leave := context.WithCancel(t.Context())
			stream := c.Chat.Completions.NewStreaming(ctx, ask("chat", "[[tokens=9000]]"))
			if !stream.Next() {
				t.Fatalf("no answer: %v", stream.Err())
			}
			leave()
			waiting, cancel := context.WithTimeout(t.Context(), e2e.Deadline)
			defer cancel()
			if err := s.Backends["sim"].WaitCancelled(waiting, 1); err != nil {
				t.Errorf("the backend does not see that the client has left: %v", err)
			}
			_ = stream.Close()

			// A stream that runs when the server stops ends in good order.
			stream = c.Chat.Completions.NewStreaming(t.Context(), ask("chat", "[[tokens=40]]"))
			if !stream.Next() {
				t.Fatalf("no answer: %v", stream.Err())
			}
			stopped := make(chan struct{})
			go func() { defer close(stopped); s.Stop() }()
			finish := ""
			for stream.Next() {
				for _, choice := range stream.Current().Choices {
					finish += choice.FinishReason
				}
			}
			if err := errors.Join(stream.Err(), stream.Close()); err != nil || finish != "stop" {
				t.Errorf("a stream that ran at the stop ended with %q, %v", finish, err)
			}
			<-stopped
			s.Restart() // the check at the end of the test wants it running
		})
	}
}

func TestPlainHTTPOnATLSPort(t *testing.T) {
	t.Parallel()
	s := overTLS(t, true)
	resp, err := http.Get("http" + strings.TrimPrefix(s.URL, "https") + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP answers %d, want 400", resp.StatusCode)
	}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: s.client.Transport.(*http.Transport).TLSClientConfig.RootCAs, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10,
	}}}
	if resp, err := old.Get(s.URL + "/livez"); err == nil {
		_ = resp.Body.Close()
		t.Error("TLS 1.1 is accepted")
	}
}
