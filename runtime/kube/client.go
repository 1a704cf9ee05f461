package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/bounded"
	"github.com/ebb-agent/ebb/runtime/kube/conn"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// client sends requests to one server: an API server or a kubelet.
type client struct {
	access access
	base   *url.URL
	http   *http.Client
	hints  hints
	close  func() // drops connections that are idle
}

// hints make the hints of a 401 and a 403 error. Which right is missing depends on the server and
// the path.
type hints struct {
	unauthorized func(identity string) string
	forbidden    func(path string) string
}

func newClient(a access, h hints) (*client, error) {
	base, err := a.parse()
	if err != nil {
		return nil, err
	}
	c := &client{access: a, base: base, hints: h}
	// No proxy: both servers are reached directly from a node.
	t := conn.NewTransport(nil, func() (*tls.Config, error) { return a.tls(base.Hostname()) })
	t.MaxIdleConnsPerHost = 1
	t.ResponseHeaderTimeout = callTimeout
	// This also bounds the headers of a redirect or of a proxy, which are not needed.
	t.MaxResponseHeaderBytes = maxAnswer
	c.close = t.CloseIdleConnections
	c.http = &http.Client{
		Transport: t,
		// Follow no redirect: the server must not choose where the token is sent.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// Report a missing file now, not only at the first request that needs it.
	if base.Scheme == "https" {
		if _, err := a.tls(base.Hostname()); err != nil {
			return nil, err
		}
		if _, err := a.bearer(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// op returns the name of a GET request for errors.
func (c *client) op(path string) string { return c.opOf(http.MethodGet, path) }

// opOf returns the name of a request for errors: its method and URL.
func (c *client) opOf(method, path string) string {
	return method + " " + c.base.JoinPath(path).String()
}

// get sends a GET request. It returns a response only if that is a 200 with the given content
// type. The caller reads and closes the body.
func (c *client) get(ctx context.Context, path, contentType string, query url.Values) (*http.Response, error) {
	resp, err := c.do(ctx, http.MethodGet, path, query, http.Header{"Accept": {contentType}}, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(c.op(path), path, resp)
	}
	if got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || got != contentType {
		_ = resp.Body.Close() // the body is not needed
		return nil, &fault.Fault{Op: c.op(path), Kind: ErrMalformed,
			Text: "an answer of the type " + fault.Clean(resp.Header.Get("Content-Type")),
			Hint: "is that the right address?"}
	}
	return resp, nil
}

// read gets one object as JSON, and decodes it into to.
func (c *client) read(ctx context.Context, path string, query url.Values, to any) error {
	resp, err := c.get(ctx, path, "application/json", query)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(bounded.NewReader(resp.Body, maxObject, maxObject)).Decode(to); err != nil {
		return c.broken(c.op(path), malformed(err))
	}
	return nil
}

// send writes an object as JSON. The response repeats the object, so send does not decode it.
func (c *client) send(ctx context.Context, method, path, contentType string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: %w", c.opOf(method, path), err)
	}
	header := http.Header{"Accept": {"application/json"}, "Content-Type": {contentType}}
	resp, err := c.do(ctx, method, path, nil, header, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return c.refused(c.opOf(method, path), path, resp)
	}
	// An HTTP/1 connection can be reused only after the body was read to its end.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.Body.Close()
}

// do sends a request with the client's credentials. The response can have any status. The caller
// reads and closes the body.
func (c *client) do(ctx context.Context, method, path string, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	op := c.opOf(method, path)
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header = header
	req.Header.Set("User-Agent", "ebb-agent")
	token, err := c.access.bearer()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(op, err)
	}
	return resp, nil
}

// refused turns an error response into an error, and closes its body.
func (c *client) refused(op, path string, resp *http.Response) error {
	defer resp.Body.Close()
	// If the body is cut off, the status code still explains the error.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	e := fault.Refused(op, resp.StatusCode, fault.ParseStatus(body), body)
	e.RetryAfter = conn.RetryAfter(resp.Header, maxRetryAfter)
	switch e.Code {
	case http.StatusUnauthorized:
		e.Hint = c.hints.unauthorized(c.identity())
	case http.StatusForbidden:
		e.Hint = c.hints.forbidden(path)
	case http.StatusGone:
		e.Kind = errExpired
	case http.StatusBadRequest:
		if strings.Contains(e.Text, "HTTP request to an HTTPS server") {
			e.Hint = "it speaks TLS there: the address must begin with https"
		}
	}
	return e
}

// identity names the client's credentials, for hints.
func (c *client) identity() string {
	a := &c.access
	switch {
	case a.tokenFile != "":
		return "the token in " + a.tokenFile
	case a.token != "":
		return "the token in the kubeconfig"
	case a.hasCertificate():
		s := "the client certificate " + orInline(a.certFile, a.certData)
		if end := a.certificateEnd(); !end.IsZero() && end.Before(time.Now()) {
			s += " (expired on " + end.UTC().Format(time.RFC3339) + ")"
		}
		return s
	}
	return "nobody: neither a token nor a client certificate is configured"
}

// Errors of this package, for errors.Is. With any of them the pods are unknown.
var (
	ErrUnauthorized = fault.ErrUnauthorized
	ErrForbidden    = fault.ErrForbidden
	ErrUnavailable  = fault.ErrUnavailable
	ErrMalformed    = fault.ErrMalformed
	// ErrIncomplete: the kubelet does not know all its pods yet.
	ErrIncomplete = errors.New("not all pods are known yet")
	// ErrNotYet: nothing is wrong. The agent has just started, or it waits for its turn to list
	// the pods, because many nodes must not list at once. The error is also ErrUnavailable.
	ErrNotYet = errors.New("not asked yet")
)

var errExpired = fault.ErrExpired

// broken adds the request's name to an error, and a hint if it is an error of the connection.
func (c *client) broken(op string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // url.Error would repeat the address
	}
	f := &fault.Fault{Op: op, Kind: ErrUnavailable, Cause: err}
	switch {
	case errors.Is(err, ErrMalformed):
		return &fault.Fault{Op: op, Kind: ErrMalformed, Text: strings.TrimPrefix(err.Error(), ErrMalformed.Error()+": ")}
	case errors.Is(err, ErrUnavailable), errors.Is(err, errExpired):
		f.Kind, f.Cause = err, nil
	default:
		f.Hint = c.connectionHint(err)
	}
	return f
}

// connectionHint returns the usual cause of a network or TLS error of this client, or "". Unlike
// [fault.Hint], it knows the client's authority and certificate.
func (c *client) connectionHint(err error) string {
	var authority x509.UnknownAuthorityError
	switch hint := fault.Hint(err); {
	case errors.As(err, &authority):
		return c.authorityHint()
	case hint != "":
		return hint
	case c.access.hasCertificate() && refusedCertificate(err):
		return "it seems to refuse " + c.identity() + ": that may have expired, or not be of its authority"
	}
	if end := c.access.certificateEnd(); !end.IsZero() && end.Before(time.Now()) {
		return "probably because of " + c.identity() // the server's reason came too late to be read
	}
	return ""
}

// refusedCertificate reports whether err can be how a server rejects a client certificate. In TLS
// 1.3 the client has finished the handshake by then, so the end of the connection can arrive
// before the reason.
func refusedCertificate(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" || // a TLS alert
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
}

func (c *client) authorityHint() string {
	if c.access.caFile != "" {
		return "the authority that signed its certificate is not in " + c.access.caFile
	}
	return "no authority is configured, and this machine's own do not know the one that signed its certificate"
}
