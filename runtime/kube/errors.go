package kube

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// What an error of this package may be, for errors.Is. Whatever it is: the pods
// are not known.
var (
	ErrUnauthorized = fault.ErrUnauthorized
	ErrForbidden    = fault.ErrForbidden
	ErrUnavailable  = fault.ErrUnavailable
	ErrMalformed    = fault.ErrMalformed
	// ErrIncomplete: the kubelet has not heard of all its pods yet.
	ErrIncomplete = errors.New("not all pods are known yet")
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
