package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// What an error of this package may be, for errors.Is. Whatever it is: the pods
// are not known.
var (
	// ErrUnauthorized: the other side does not know who is asking (401).
	ErrUnauthorized = errors.New("not authenticated")
	// ErrForbidden: it knows, and does not allow it (403).
	ErrForbidden = errors.New("not allowed")
	// ErrUnavailable: nothing answers, or not with an answer.
	ErrUnavailable = errors.New("unavailable")
	// ErrIncomplete: the kubelet has not heard of all its pods yet.
	ErrIncomplete = errors.New("not all pods are known yet")
	// ErrMalformed: the answer is not what Kubernetes answers.
	ErrMalformed = errors.New("makes no sense")
)

// errExpired: the watch cannot go on from where it was (410), only anew.
var errExpired = errors.New("the watch is too far behind")

// fault is an error with what a person can do about it.
type fault struct {
	op    string // what was asked, and of whom
	kind  error  // one of the sentinels
	cause error  // may be nil
	text  string // what the other side says; clean
	hint  string
}

func (f *fault) Error() string {
	parts := []string{f.op, f.kind.Error()}
	if f.cause != nil {
		parts = append(parts, clean(f.cause.Error()))
	}
	if f.text != "" {
		parts = append(parts, f.text)
	}
	s := strings.Join(parts, ": ")
	if f.hint != "" {
		s += " (" + f.hint + ")"
	}
	return s
}

func (f *fault) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// broken explains an error of the connection; others come back with op alone.
func (c *client) broken(op string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // it would say the address once more
	}
	f := &fault{op: op, kind: ErrUnavailable, cause: err}
	switch {
	case errors.Is(err, ErrMalformed):
		return &fault{op: op, kind: ErrMalformed, text: strings.TrimPrefix(err.Error(), ErrMalformed.Error()+": ")}
	case errors.Is(err, ErrUnavailable), errors.Is(err, errExpired):
		f.kind, f.cause = err, nil
	case errors.Is(err, context.Canceled):
		f.hint = "given up by the caller"
	default:
		f.hint = c.connectionHint(err)
	}
	return f
}

// connectionHint says what usually is behind an error of the network or of TLS.
func (c *client) connectionHint(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		dns       *net.DNSError
		timeout   net.Error
	)
	switch {
	case errors.As(err, &authority):
		return c.authorityHint()
	case errors.As(err, &host):
		return "its certificate is for another name: set the server name to one of those it names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet: renew it, or look at this machine's clock"
	case errors.As(err, &invalid):
		return "its certificate is not one for a server"
	case c.access.hasCertificate() && refusedCertificate(err):
		return "it seems to refuse " + c.identity() + ": that may have expired, or not be of its authority"
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS"):
		return "it does not speak TLS there: is the port right?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is it running, and is the address right?"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no way to that address"
	case errors.As(err, &dns):
		return "the name is not known"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
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

// clean makes text of the other side fit to be printed: on one line, without
// what a terminal would obey, and not long.
func clean(s string) string {
	const limit = 400
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
