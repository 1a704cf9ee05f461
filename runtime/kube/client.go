package kube

import (
	"context"
	"crypto/tls"
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

// client asks one server, by GET only.
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

// op names a request in errors.
func (c *client) op(path string) string { return "GET " + c.base.JoinPath(path).String() }

// get asks for a path. Only an answer that is 200 and has the right type comes
// back; its body is the caller's to read and close.
func (c *client) get(ctx context.Context, path, contentType string, query url.Values) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	req.Header.Set("Accept", contentType)
	req.Header.Set("User-Agent", "ebb-agent")
	token, err := c.access.bearer()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.op(path), err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(c.op(path), err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(path, resp)
	}
	if got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || got != contentType {
		_ = resp.Body.Close() // nothing of it is wanted
		return nil, &fault.Fault{Op: c.op(path), Kind: ErrMalformed,
			Text: "an answer of the type " + fault.Clean(resp.Header.Get("Content-Type")),
			Hint: "is that the right address?"}
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

// refused reads and closes an answer that is not 200.
func (c *client) refused(path string, resp *http.Response) error {
	defer resp.Body.Close()
	// A body that breaks off still has a code that tells.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	e := &answerError{code: resp.StatusCode, status: decodeStatus(body)}
	e.Fault = fault.Fault{Op: c.op(path), Kind: ErrUnavailable, Text: fault.Clean(e.status.Message)}
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
