package metadata

import (
	"crypto/tls"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
)

// streamBuffer bounds what a watch that is not read holds back here. The default of
// 4 MiB, times the types that are listed at once, is more than all the rest of the
// process needs.
const streamBuffer = 256 << 10

// protocol is how many share a connection.
type protocol string

// Watches share one connection: there are hundreds. Requests do not: with 32 at a
// time a DELETE took 106 µs of the client's CPU so, and 147 on a shared one, measured
// on a busy machine. One whose other end vanished ends with its request's time.
const (
	sharedConnection protocol = "h2"
	ownConnections   protocol = "http/1.1"
)

// transportFor makes connections of its own as config says, and wraps them in
// who is asking. drop closes those on which nothing happens.
func transportFor(config *rest.Config, p protocol) (rt http.RoundTripper, drop func(), err error) {
	copied := rest.CopyConfig(config)
	if copied.UserAgent == "" {
		copied.UserAgent = name
	}
	tc, err := copied.TransportConfig()
	if err != nil {
		return nil, nil, err
	}
	drop = func() {}
	base := tc.Transport
	if base == nil {
		t, err := newTransport(tc, p)
		if err != nil {
			return nil, nil, err
		}
		base, drop = t, t.CloseIdleConnections
	}
	rt, err = transport.HTTPWrappersForConfig(tc, base)
	return rt, drop, err
}

func newTransport(tc *transport.Config, p protocol) (*http.Transport, error) {
	var dial conn.Dial
	if tc.DialHolder != nil {
		dial = tc.DialHolder.Dial
	}
	// Files that are not there, or make no sense, are said at once.
	first, err := tlsFor(tc, p)
	if err != nil {
		return nil, err
	}
	t := conn.NewTransport(dial, func() (*tls.Config, error) { return tlsFor(tc, p) })
	t.Proxy = tc.Proxy        // of the kubeconfig
	t.TLSClientConfig = first // behind a proxy
	t.ForceAttemptHTTP2 = p == sharedConnection
	t.HTTP2.MaxReceiveBufferPerStream = streamBuffer
	t.MaxIdleConnsPerHost = 64
	t.MaxResponseHeaderBytes = 1 << 20
	// It would cost both ends more than the bytes are worth: most answers are small,
	// and watches are never compressed.
	t.DisableCompression = true
	return t, nil
}

// tlsFor reads authority and certificates anew: tc itself would remember them.
func tlsFor(tc *transport.Config, p protocol) (*tls.Config, error) {
	fresh := *tc
	cfg, err := transport.TLSConfigFor(&fresh)
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.NextProtos = []string{string(p)}; p == sharedConnection {
		cfg.NextProtos = append(cfg.NextProtos, string(ownConnections)) // if it knows no better
	}
	return cfg, nil
}
