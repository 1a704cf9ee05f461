package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
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
