package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestADeadConnectionIsNoticedInTime(t *testing.T) {
	if d := pingAfter + pingTimeout; d > 45*time.Second {
		t.Errorf("after %s", d)
	}
}

// An authority that was replaced counts from the next connection on, and a certificate
// is for the host that was asked for.
func TestTransportAsksForEachConnection(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	pool, asked := x509.NewCertPool(), 0
	transport := NewTransport(nil, func() (*tls.Config, error) {
		asked++
		return &tls.Config{RootCAs: pool}, nil
	})
	get := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	var unknown x509.UnknownAuthorityError
	if err := get(); !errors.As(err, &unknown) {
		t.Fatalf("an unknown authority: %v", err)
	}
	pool.AddCert(server.Certificate())
	for range 2 { // the second uses the connection of the first
		if err := get(); err != nil {
			t.Fatal(err)
		}
	}
	transport.CloseIdleConnections()
	if err := get(); err != nil || asked != 3 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	transport.CloseIdleConnections()
	for _, cause := range []error{context.Canceled, errors.New("no such file")} {
		refusing := NewTransport(nil, func() (*tls.Config, error) { return nil, cause })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := refusing.RoundTrip(req); !errors.Is(err, cause) {
			t.Errorf("%v, want %v", err, cause)
		}
	}
}

// An API server with nothing but an IPv6 address, whose certificate is for that.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("SKIPPED: no IPv6: %v", err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Listener.Close()
	server.Listener = l
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	transport := NewTransport(nil, func() (*tls.Config, error) { return &tls.Config{RootCAs: pool}, nil })
	defer transport.CloseIdleConnections()
	get(t, transport, server.URL)
}

// Loopback addresses would not show it: no proxy is ever asked for them.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1") // nothing listens
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	address := strings.Replace(server.URL, "127.0.0.1", "0.0.0.0", 1)
	transport := NewTransport(nil, nil)
	defer transport.CloseIdleConnections()
	get(t, transport, address)
}

func get(t *testing.T, transport *http.Transport, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := Listen(t.Context(), time.Second)
		defer s.End()
		for range 5 {
			time.Sleep(900 * time.Millisecond)
			s.Heard(time.Second)
		}
		s.Hold()
		time.Sleep(time.Hour)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatalf("ended although it was heard of: %v", context.Cause(ctx))
		}
		s.Heard(time.Minute)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if context.Cause(ctx) != ErrSilent {
			t.Fatalf("cause: %v", context.Cause(ctx))
		}
		done, other := Listen(t.Context(), time.Second)
		other.End()
		if context.Cause(done) != context.Canceled {
			t.Fatalf("cause: %v", context.Cause(done))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-1": 0, "soon": 0, "1": time.Second, "29": 29 * time.Second, "31": 30 * time.Second,
		"9223372036854775807": 30 * time.Second, "Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, 30*time.Second); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
