package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Text from the other side becomes one bounded line that a terminal does not obey.
func TestClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("\x1b[2Jé\r\n\u202e", 200))).Draw(t, "s")
		got := Clean(s)
		if len(got) > 400+2*utf8.UTFMax {
			t.Fatalf("%d bytes", len(got))
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q comes out", r)
			}
		}
	})
	if got := Clean(" two\nlines\t"); got != "two lines" {
		t.Errorf("%q", got)
	}
}

func TestFault(t *testing.T) {
	kind, cause := errors.New("unavailable"), errors.New("cut\noff")
	for _, test := range []struct {
		f    Fault
		want string
	}{
		{Fault{Op: "GET /", Kind: kind}, "GET /: unavailable"},
		{Fault{Op: "GET /", Kind: kind, Cause: cause, Text: "it says", Hint: "help"}, "GET /: unavailable: cut off: it says (help)"},
	} {
		if test.f.Error() != test.want {
			t.Errorf("%q, want %q", test.f.Error(), test.want)
		}
		if err := fmt.Errorf("x: %w", &test.f); !errors.Is(err, kind) || errors.Is(err, cause) != (test.f.Cause != nil) {
			t.Errorf("%v is neither kind nor cause", err)
		}
	}
}

func TestHint(t *testing.T) {
	wrap := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{wrap(syscall.ECONNREFUSED), "nothing listens"}, {wrap(syscall.EHOSTUNREACH), "no way"}, {&net.DNSError{Name: "x"}, "not known"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "authority"}, {x509.HostnameError{Certificate: &x509.Certificate{}}, "tls-server-name"},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "expired"}, {x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, "not one for a server"},
		{tls.RecordHeaderError{}, "TLS"}, {errors.New("http: server gave HTTP response to HTTPS client"), "TLS"},
		{context.Canceled, "given up"}, {context.DeadlineExceeded, "no answer in time"}, {wrap(context.DeadlineExceeded), "no answer in time"},
		{io.EOF, ""}, {wrap(syscall.ECONNRESET), ""},
	} {
		if got := Hint(test.err); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func FuzzCleanUpTo(f *testing.F) {
	f.Add("plain", 10)
	f.Add("\x1b]0;x\x07\n\u202e\xff", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, 1<<10))
		got := CleanUpTo(s, limit)
		if len(got) > limit+8 { // a rune and the ellipsis
			t.Errorf("%d bytes of %d", len(got), limit)
		}
		if strings.ContainsAny(got, "\n\r\t\x00\x1b\x7f\u202e\u2028") {
			t.Errorf("%q", got)
		}
	})
}
