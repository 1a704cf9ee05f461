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

// client asks one server.
type client struct {
	access access
	base   *url.URL
	http   *http.Client
	hints  hints
	close  func() // drops connections that are idle
}

// hints are what a person can do about an answer that is an error; what is to
// be allowed depends on who is asked for what.
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
	// A redirect's or a proxy's headers are of no interest either.
	t.MaxResponseHeaderBytes = maxAnswer
	c.close = t.CloseIdleConnections
	c.http = &http.Client{
		Transport: t,
		// Where the token goes is not for the other side to choose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// A missing file is an error at once, not only when it is needed.
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

// op names a question in errors.
func (c *client) op(path string) string { return c.opOf(http.MethodGet, path) }

// opOf names any request in errors.
func (c *client) opOf(method, path string) string {
	return method + " " + c.base.JoinPath(path).String()
}

// get asks for a path. Only an answer that is 200 and has the right type comes
// back; its body is the caller's to read and close.
func (c *client) get(ctx context.Context, path, contentType string, query url.Values) (*http.Response, error) {
	resp, err := c.do(ctx, http.MethodGet, path, query, http.Header{"Accept": {contentType}}, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(c.op(path), path, resp)
	}
	if got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || got != contentType {
		_ = resp.Body.Close() // nothing of it is wanted
		return nil, &fault.Fault{Op: c.op(path), Kind: ErrMalformed,
			Text: "an answer of the type " + fault.Clean(resp.Header.Get("Content-Type")),
			Hint: "is that the right address?"}
	}
	return resp, nil
}

// read decodes the answer about one object.
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

// send writes an object, as JSON. The answer repeats it, and is not read.
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
	// Read to the end, a connection of HTTP/1 can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.Body.Close()
}

// do sends a request as whom the access says. The answer may be any; its body is the
// caller's to read and close.
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

// refused reads and closes an answer that is an error.
func (c *client) refused(op, path string, resp *http.Response) error {
	defer resp.Body.Close()
	// A body that breaks off still has a code that tells.
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

// identity says as whom the client comes.
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

// What an error of this package may be, for errors.Is. Whatever it is: the pods
// are not known.
var (
	ErrUnauthorized = fault.ErrUnauthorized
	ErrForbidden    = fault.ErrForbidden
	ErrUnavailable  = fault.ErrUnavailable
	ErrMalformed    = fault.ErrMalformed
	// ErrIncomplete: the kubelet has not heard of all its pods yet.
	ErrIncomplete = errors.New("not all pods are known yet")
	// ErrNotYet: nothing is wrong. The agent has only just begun, or it waits for its turn: many nodes do not
	// list their pods at once. It is ErrUnavailable, too.
	ErrNotYet = errors.New("not asked yet")
)

var errExpired = fault.ErrExpired

// broken explains an error of the connection; others come back with op alone.
func (c *client) broken(op string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // it would say the address once more
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

// connectionHint says what usually is behind an error of the network or of TLS, of
// this client: it knows which authority and which certificate it has.
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
		return "probably because of " + c.identity() // and the reason came too late to be read
	}
	return ""
}

// refusedCertificate tells whether err is what a server does to a client whose
// certificate it does not like. In TLS 1.3 the handshake is over by then, so that
// what arrives first may be the end of the connection and not the reason.
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
