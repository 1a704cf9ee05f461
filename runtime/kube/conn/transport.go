// Package conn is how ebb's clients of an API server or a kubelet are connected to it:
// what runtime/kube, which the agent links, and runtime/kube/metadata, which rests on
// client-go, have in common below requests and answers.
//
// # What is promised
//
//   - Certificates and authorities are asked for anew for each connection: they may be
//     replaced while the program runs.
//   - A connection whose other end vanished is noticed within 45 seconds, where it
//     speaks HTTP/2: by pings.
//   - A [Silence] ends what hears nothing for too long, and says so.
//   - Attempts of many clients do not come back at the same moment.
//
// It links neither client-go nor anything of Kubernetes.
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

// A server that does not answer a ping has gone: without them, a connection whose other
// end vanished would look like one on which nothing happens.
const (
	dialTimeout = 10 * time.Second
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// Dial opens a connection.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// NewTransport makes one that opens its connections by dial; nil means the usual way.
// With each it asks how to speak TLS, and keeps nothing of the answer. There is no proxy
// unless the caller sets one: a token must not go elsewhere because of a variable in the
// environment.
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

// RetryAfter is how long a server wants to be left alone, in seconds as Kubernetes says
// it; never longer than most, and 0 if it says nothing.
func RetryAfter(h http.Header, most time.Duration) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(min(s, 3600))*time.Second, most)
}
