package metadata

import (
	"cmp"
	"crypto/tls"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
)

// streamBuffer is how many bytes of an unread watch are buffered here. The default of 4 MiB,
// times the types that are listed at once, is more than all the rest of the process needs.
const streamBuffer = 256 << 10

// connect returns a transport with connections of its own, made from config, which adds the
// credentials to each request. [Client.Close] closes its idle connections.
//
// Watches share a connection, by HTTP/2 if the server supports it, because there are hundreds.
// Requests do not share one: with 32 at a time a DELETE took 106 µs of the client's CPU, and 147
// on a shared connection, measured on a busy machine. If the peer of a connection vanishes, the
// timeout of its request ends it.
func (c *Client) connect(config *rest.Config, protocols ...string) (http.RoundTripper, error) {
	copied := rest.CopyConfig(config)
	copied.UserAgent = cmp.Or(copied.UserAgent, name)
	tc, err := copied.TransportConfig()
	if err != nil {
		return nil, err
	}
	base := tc.Transport
	if base == nil {
		t, err := newTransport(tc, protocols)
		if err != nil {
			return nil, err
		}
		base, c.drop = t, append(c.drop, t.CloseIdleConnections)
	}
	return transport.HTTPWrappersForConfig(tc, base)
}

func newTransport(tc *transport.Config, protocols []string) (*http.Transport, error) {
	var dial conn.Dial
	if tc.DialHolder != nil {
		dial = tc.DialHolder.Dial
	}
	// A missing or malformed file is an error at once.
	first, err := tlsFor(tc, protocols)
	if err != nil {
		return nil, err
	}
	t := conn.NewTransport(dial, func() (*tls.Config, error) { return tlsFor(tc, protocols) })
	t.Proxy = tc.Proxy        // from the kubeconfig
	t.TLSClientConfig = first // for connections through a proxy
	t.ForceAttemptHTTP2 = protocols[0] == "h2"
	t.HTTP2.MaxReceiveBufferPerStream = streamBuffer
	t.MaxIdleConnsPerHost = 64
	t.MaxResponseHeaderBytes = 1 << 20
	// Compression would cost both ends more than the bytes are worth: most answers are small, and
	// watches are never compressed.
	t.DisableCompression = true
	return t, nil
}

// tlsFor reads the authority and the certificates again. It uses a copy of tc, which would keep
// them.
func tlsFor(tc *transport.Config, protocols []string) (*tls.Config, error) {
	fresh := *tc
	cfg, err := transport.TLSConfigFor(&fresh)
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg.NextProtos = protocols
	return cfg, nil
}
