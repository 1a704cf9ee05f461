package fault

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Answer is an error response of a server, or the lack of a response.
type Answer struct {
	Fault
	Code       int           // HTTP status code; 0: no response
	Status     Status        // the zero value if the response had none
	RetryAfter time.Duration // how long the server asks to wait; 0: it names no time
}

// Refused turns an error response into an error. Its text is the Status's message, otherwise the
// body, otherwise the code.
func Refused(op string, code int, s Status, body []byte) *Answer {
	text := cmp.Or(Clean(s.Message), Clean(string(body[:min(len(body), 1<<10)])), "status "+strconv.Itoa(code))
	a := &Answer{Fault: Fault{Op: op, Kind: ErrUnavailable, Text: text}, Code: code, Status: s}
	switch code {
	case http.StatusUnauthorized:
		a.Kind = ErrUnauthorized
	case http.StatusForbidden:
		a.Kind = ErrForbidden
	}
	return a
}

// RetryAfter returns how long the server behind an error asks to wait, or 0 if it names no time.
func RetryAfter(err error) time.Duration {
	var a *Answer
	if errors.As(err, &a) {
		return a.RetryAfter
	}
	return 0
}

// Status has the fields that are needed of a metav1.Status.
type Status struct {
	Kind    string `json:"kind"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Name              string  `json:"name"`
		Group             string  `json:"group"`
		Kind              string  `json:"kind"` // or the resource: the API is inconsistent
		Causes            []Cause `json:"causes"`
		RetryAfterSeconds int     `json:"retryAfterSeconds"`
	} `json:"details"`
}

// Cause is one of the details of a Status.
type Cause struct {
	Reason string `json:"reason"`
}

// ParseStatus decodes a Status in JSON. It returns the zero value for anything else.
func ParseStatus(b []byte) Status {
	var s Status
	if err := json.Unmarshal(b, &s); err != nil || s.Kind != "Status" {
		return Status{}
	}
	return s
}

// Failed reports whether the Status explicitly states that the request failed.
func (s *Status) Failed() bool { return s.Status == "Failure" }

// Absent reports whether the Status proves that an object does not exist. A bare 404 is no proof,
// because a server in between may send one: the Status must name the object. An admission webhook
// can choose code, reason and details of its refusal, so the Status must not come from one. kinds
// are the values of details.kind that are accepted.
func (s *Status) Absent(group, name string, kinds ...string) bool {
	return s.Failed() && s.Code == http.StatusNotFound && s.Reason == "NotFound" && s.Details.Name == name &&
		s.Details.Group == group && slices.Contains(kinds, s.Details.Kind) && !s.Inadmissible()
}

// Inadmissible reports whether admission refused the request. It compares the API server's own
// texts (admission/plugin/webhook/errors, plugin/policy/validating), because such refusals have
// no code of their own.
func (s *Status) Inadmissible() bool {
	return strings.HasPrefix(s.Message, "admission webhook ") || strings.Contains(s.Message, " is forbidden: ")
}

// TooLarge reports whether the server's cache did not reach a resourceVersion within the few
// seconds that it waits. Before Kubernetes 1.31 the cache learns of a version only by a change of
// its type, or every five seconds.
func (s *Status) TooLarge() bool {
	return slices.Contains(s.Details.Causes, Cause{"ResourceVersionTooLarge"}) || strings.Contains(s.Message, "Too large resource version")
}
