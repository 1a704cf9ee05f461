// Package fault explains what goes wrong between a client and an API server or a
// kubelet, for the clients beside it (runtime/kube, runtime/kube/metadata): an error
// that says what was asked, what became of it, and what a person can do; the kinds of
// such errors; the API's Status; and text of the other side made fit to be printed.
//
// # Invariants
//
//   - What the other side says is bounded and cleaned before it is part of an error.
//   - An error Is its kind, a sentinel of this package or of the one that made it, and
//     its cause.
//
// It holds no state and does no I/O.
package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"unicode"
)

// Fault is an error with what a person can do about it.
type Fault struct {
	Op    string // what was asked, and of whom
	Kind  error  // a sentinel
	Cause error  // may be nil
	Text  string // what the other side says; clean
	Hint  string
}

func (f *Fault) Error() string {
	parts := []string{f.Op, f.Kind.Error()}
	if f.Cause != nil {
		parts = append(parts, Clean(f.Cause.Error()))
	}
	if f.Text != "" {
		parts = append(parts, f.Text)
	}
	s := strings.Join(parts, ": ")
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Unwrap gives kind and cause.
func (f *Fault) Unwrap() []error {
	if f.Cause == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Cause}
}

// Hint says what usually is behind an error of the network or of TLS; empty if
// nothing usual is.
func Hint(err error) string {
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
		return "the authority that signed its certificate is not the one that is configured"
	case errors.As(err, &host):
		return "its certificate is for another name: set the server name (in a kubeconfig, tls-server-name) to one of those it names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet: renew it, or look at this machine's clock"
	case errors.As(err, &invalid):
		return "its certificate is not one for a server"
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS"):
		return "it does not speak TLS there: is the port right?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is it running, and is the address right?"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no way to that address"
	case errors.As(err, &dns):
		return "the name is not known"
	case errors.Is(err, context.Canceled):
		return "given up by the caller"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return ""
}

// Clean makes text of the other side fit to be printed: on one line, without what a
// terminal would obey, and not long.
func Clean(s string) string { return CleanUpTo(s, 400) }

// CleanUpTo is Clean with another limit, in bytes, beyond which the text is cut.
func CleanUpTo(s string, limit int) string {
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

// Kinds that all clients have in common.
var (
	// ErrUnauthorized: the other side does not know who is asking (401).
	ErrUnauthorized = errors.New("not authenticated")
	// ErrForbidden: it knows, and does not allow it (403).
	ErrForbidden = errors.New("not allowed")
	// ErrUnavailable: nothing answers, or not with an answer.
	ErrUnavailable = errors.New("unavailable")
	// ErrMalformed: the answer is not what Kubernetes answers.
	ErrMalformed = errors.New("malformed")
	// ErrExpired: a watch or a list cannot go on from where it was (410), only anew.
	ErrExpired = errors.New("the watch is too far behind")
)

// Nonsense is what is wrong with an answer. It is ErrMalformed.
func Nonsense(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// InJSON says which errors of a JSON decoder are the answer's fault. All others come
// from the connection, and back as they were.
func InJSON(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &typ) {
		return Nonsense("%s", Clean(err.Error()))
	}
	return err
}
