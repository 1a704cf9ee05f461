package metadata

import (
	"errors"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Errors of this package, for errors.Is.
var (
	ErrUnauthorized = fault.ErrUnauthorized
	ErrForbidden    = fault.ErrForbidden
	ErrUnavailable  = fault.ErrUnavailable
	ErrMalformed    = fault.ErrMalformed
	// ErrNotServed: the path is unknown there (404 without an object's name, 405, 406).
	ErrNotServed = errors.New("not served")
	// ErrRefused: the request cannot be sent, or the server rejects it as such.
	ErrRefused = errors.New("refused")
)

var errExpired = fault.ErrExpired

// Throttled reports whether an error means that the server asks for fewer requests, and returns
// how long it asks to wait.
func Throttled(err error) (pause time.Duration, ok bool) {
	var f *fault.Answer
	if !errors.As(err, &f) || f.Status.Inadmissible() || f.Code != http.StatusTooManyRequests && (f.Code/100 != 5 || f.RetryAfter == 0) {
		return 0, false
	}
	return f.RetryAfter, true
}

// broken adds the request's name and a hint to an error of the connection or of a response. It
// returns a [fault.Answer] unchanged.
func broken(op string, err error) error {
	var f *fault.Answer
	if errors.As(err, &f) {
		return err
	}
	if errors.Is(err, ErrMalformed) {
		return &fault.Answer{Fault: fault.Fault{Op: op, Kind: ErrMalformed, Text: fault.Clean(strings.TrimPrefix(err.Error(), ErrMalformed.Error()+": "))}}
	}
	return &fault.Answer{Fault: fault.Fault{Op: op, Kind: ErrUnavailable, Cause: err, Hint: fault.Hint(err)}}
}

// namesAbsent reports whether a Status proves that an object does not exist.
func namesAbsent(s fault.Status, o gc.Coordinates) bool {
	return s.Absent(gc.GroupOf(o.APIVersion), o.Name, o.Resource, o.Kind)
}

// unadmitted reports whether the API server could not call an admission webhook, by the server's
// own text (admission/plugin/webhook: ErrCallingWebhook).
func unadmitted(s fault.Status) bool {
	return strings.HasPrefix(s.Message, "Internal error occurred: failed calling webhook ")
}

// expired reports whether a watch or a list cannot continue from its version.
func expired(s fault.Status) bool {
	return s.Code == http.StatusGone || s.Reason == "Expired" || s.Reason == "Gone" || s.TooLarge()
}

// pause returns how long a Status asks to wait, maxPause at most, or 0 if it names no time.
func pause(s fault.Status) time.Duration {
	return min(time.Duration(max(s.Details.RetryAfterSeconds, 0))*time.Second, maxPause)
}

// protoStatus reads a Status. Text is cleaned where it is printed.
func protoStatus(b []byte) (fault.Status, error) {
	var in metav1.Status
	if err := in.Unmarshal(b); err != nil {
		return fault.Status{}, fault.Nonsense("status: %v", err)
	}
	s := fault.Status{Kind: "Status", Status: in.Status, Message: in.Message, Reason: string(in.Reason), Code: int(in.Code)}
	if d := in.Details; d != nil {
		s.Details.Name, s.Details.Group, s.Details.Kind, s.Details.RetryAfterSeconds = d.Name, d.Group, d.Kind, int(d.RetryAfterSeconds)
		for _, c := range d.Causes {
			s.Details.Causes = append(s.Details.Causes, fault.Cause{Reason: string(c.Type)})
		}
	}
	return s, nil
}
