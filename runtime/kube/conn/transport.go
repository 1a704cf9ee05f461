// Package conn has the HTTP connections of ebb's clients of an API server or a kubelet. It is
// shared by runtime/kube, which the agent links, and runtime/kube/metadata, which uses client-go.
//
// # Guarantees
//
//   - Certificates and authorities are requested from the caller again for each connection: they
//     may be replaced while the program runs.
//   - On HTTP/2, pings notice within 45 seconds that the peer of a connection vanished.
//   - A [Silence] cancels a context in which nothing is received for too long. The cause states this.
//
// Attempts of many clients do not come back at the same moment, because callers add the jitter of
// runtime/wait.
//
// Package conn links neither client-go nor any Kubernetes module.
package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A server that does not answer a ping is gone. Without pings, a connection to a vanished peer
// would look idle.
const (
	dialTimeout = 10 * time.Second
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// Dial opens a connection.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// NewTransport returns a transport that opens its connections with dial; nil means a
// [net.Dialer]. It calls config for each TLS connection, and does not keep the result. There is
// no proxy unless the caller sets one: a variable in the environment must not send a token
// elsewhere.
func NewTransport(dial Dial, config func() (*tls.Config, error)) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext
	}
	return &http.Transport{
		DialContext: dial,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			cfg, err := config()
			if err != nil {
				return nil, err
			}
			return dialTLS(ctx, cfg, dial, network, addr)
		},
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout:     90 * time.Second,
	}
}

func dialTLS(ctx context.Context, cfg *tls.Config, dial Dial, network, addr string) (net.Conn, error) {
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
		cfg.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		if closed := raw.Close(); !errors.Is(closed, net.ErrClosed) {
			err = errors.Join(err, closed)
		}
		return nil, err
	}
	return conn, nil
}

// RetryAfter returns how long a server asks to wait, at most most, or 0 if it names no time. It
// reads the form in seconds, which Kubernetes uses.
func RetryAfter(h http.Header, most time.Duration) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(min(s, 3600))*time.Second, most)
}
