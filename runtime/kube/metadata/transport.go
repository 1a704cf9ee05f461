package metadata

import (
	"cmp"
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

// connect makes connections of the client's own as config says, and wraps them in who is
// asking. [Client.Close] closes those on which nothing happens.
//
// Watches share a connection, by HTTP/2 if the server knows it: there are hundreds. Requests do
// not: with 32 at a time a DELETE took 106 µs of the client's CPU so, and 147 on a shared one,
// measured on a busy machine. One whose other end vanished ends with its request's time.
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
	t.Proxy = tc.Proxy        // of the kubeconfig
	t.TLSClientConfig = first // behind a proxy
	t.ForceAttemptHTTP2 = protocols[0] == "h2"
	t.HTTP2.MaxReceiveBufferPerStream = streamBuffer
	t.MaxIdleConnsPerHost = 64
	t.MaxResponseHeaderBytes = 1 << 20
	// It would cost both ends more than the bytes are worth: most answers are small,
	// and watches are never compressed.
	t.DisableCompression = true
	return t, nil
}

// tlsFor reads authority and certificates anew: tc itself would remember them.
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
