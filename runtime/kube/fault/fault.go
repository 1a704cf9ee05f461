// Package fault has the errors of the clients of an API server or a kubelet (runtime/kube,
// runtime/kube/metadata). An error names the request, what happened, and a hint about the fix.
// The package also has the kinds of such errors, the API's Status, and functions that make text
// from a server printable.
//
// # Invariants
//
//   - Text from a server is shortened and cleaned before it is part of an error.
//   - An error Is its kind, a sentinel of this package or of the one that made it, and its cause.
//
// The package holds no state and does no I/O.
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

// Fault is an error with a hint about the fix.
type Fault struct {
	Op    string // the request and the server
	Kind  error  // a sentinel
	Cause error  // may be nil
	Text  string // text from the server; clean
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

// Unwrap returns the kind and the cause.
func (f *Fault) Unwrap() []error {
	if f.Cause == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Cause}
}

// Hint returns the usual cause of a network or TLS error, or "" if it knows none.
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

// Clean makes text from a server printable: on one line, without control characters, and cut
// after 400 bytes.
func Clean(s string) string { return CleanUpTo(s, 400) }

// CleanUpTo is Clean with another limit in bytes.
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

// Kinds of errors that all clients share.
var (
	// ErrUnauthorized: the server does not know the client's identity (401).
	ErrUnauthorized = errors.New("not authenticated")
	// ErrForbidden: the server knows the identity, and does not allow the request (403).
	ErrForbidden = errors.New("not allowed")
	// ErrUnavailable: there is no response, or only an error of the server.
	ErrUnavailable = errors.New("unavailable")
	// ErrMalformed: the response is not one that Kubernetes sends.
	ErrMalformed = errors.New("malformed")
	// ErrExpired: a watch or a list cannot continue from its version (410), and must start again.
	ErrExpired = errors.New("the watch is too far behind")
)

// Nonsense returns an ErrMalformed that describes what is wrong with a response.
func Nonsense(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// InJSON returns a JSON decoder's error as ErrMalformed if the content is wrong. All other errors
// come from the connection; it returns them unchanged.
func InJSON(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &typ) {
		return Nonsense("%s", Clean(err.Error()))
	}
	return err
}
