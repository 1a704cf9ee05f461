package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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
	// Files that are not there are said at once, not only when they are needed.
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

// answerError is an answer that is an error.
type answerError struct {
	fault.Fault
	code       int
	status     fault.Status // the zero value if it came without one
	retryAfter time.Duration
}

// refused reads and closes an answer that is an error.
func (c *client) refused(op, path string, resp *http.Response) error {
	defer resp.Body.Close()
	// A body that breaks off still has a code that tells.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	e := &answerError{code: resp.StatusCode, status: decodeStatus(body)}
	e.Fault = fault.Fault{Op: op, Kind: ErrUnavailable, Text: fault.Clean(e.status.Message)}
	if e.Text == "" {
		e.Text = fault.Clean(string(body))
	}
	if e.Text == "" {
		e.Text = "status " + strconv.Itoa(e.code)
	}
	e.retryAfter = conn.RetryAfter(resp.Header, maxRetryAfter)
	switch e.code {
	case http.StatusUnauthorized:
		e.Kind, e.Hint = ErrUnauthorized, c.hints.unauthorized(c.identity())
	case http.StatusForbidden:
		e.Kind, e.Hint = ErrForbidden, c.hints.forbidden(path)
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
