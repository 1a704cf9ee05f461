package metadata

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// What an error of this package may be, for errors.Is.
var (
	ErrUnauthorized = fault.ErrUnauthorized
	ErrForbidden    = fault.ErrForbidden
	ErrUnavailable  = fault.ErrUnavailable
	ErrMalformed    = fault.ErrMalformed
	// ErrNotServed: the path is unknown there (404 without an object's name, 405, 406).
	ErrNotServed = errors.New("not served")
	// ErrRefused: the request is not one that can be sent, or is refused as such.
	ErrRefused = errors.New("refused")
)

// Ends of a watch that are no errors for anybody else.
var (
	errExpired = fault.ErrExpired
	errIdle    = conn.ErrSilent
)

// problem is a fault, and what an answer said.
type problem struct {
	fault.Fault
	code       int    // of the answer, if there was one
	status     status // its content, if it was a Status
	retryAfter time.Duration
}

// Throttled says whether an error is the server's wish for fewer requests, and how long
// it wants to be left alone.
func Throttled(err error) (pause time.Duration, ok bool) {
	var f *problem
	if !errors.As(err, &f) || f.status.refusal() || f.code != http.StatusTooManyRequests && (f.code/100 != 5 || f.retryAfter == 0) {
		return 0, false
	}
	return f.retryAfter, true
}

// nonsense is what is wrong with an answer.
func nonsense(format string, args ...any) error { return fault.Nonsense(format, args...) }

// broken explains an error of the connection, or of what came over it.
func broken(op string, err error) error {
	var f *problem
	if errors.As(err, &f) {
		return err
	}
	if errors.Is(err, ErrMalformed) {
		return &problem{Fault: fault.Fault{Op: op, Kind: ErrMalformed, Text: fault.Clean(strings.TrimPrefix(err.Error(), ErrMalformed.Error()+": "))}}
	}
	return &problem{Fault: fault.Fault{Op: op, Kind: ErrUnavailable, Cause: err, Hint: fault.Hint(err)}}
}
