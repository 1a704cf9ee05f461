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

var errExpired = fault.ErrExpired

// Throttled says whether an error is the server's wish for fewer requests, and how long
// it wants to be left alone.
func Throttled(err error) (pause time.Duration, ok bool) {
	var f *fault.Answer
	if !errors.As(err, &f) || f.Status.Inadmissible() || f.Code != http.StatusTooManyRequests && (f.Code/100 != 5 || f.RetryAfter == 0) {
		return 0, false
	}
	return f.RetryAfter, true
}

// broken explains an error of the connection, or of what came over it.
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

// namesAbsent says whether this is proof that an object is not there.
func namesAbsent(s fault.Status, o gc.Coordinates) bool {
	return s.Absent(gc.GroupOf(o.APIVersion), o.Name, o.Resource, o.Kind)
}

// unadmitted says whether an admission webhook could not be asked, in the API
// server's own words (admission/plugin/webhook: ErrCallingWebhook).
func unadmitted(s fault.Status) bool {
	return strings.HasPrefix(s.Message, "Internal error occurred: failed calling webhook ")
}

// expired says whether a watch or a list cannot go on from where it was.
func expired(s fault.Status) bool {
	return s.Code == http.StatusGone || s.Reason == "Expired" || s.Reason == "Gone" || s.TooLarge()
}

// pause is how long to wait as a Status says, and 0 if it does not.
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
