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

// Answer is an error that the other side answered, or the lack of an answer.
type Answer struct {
	Fault
	Code       int           // of HTTP; 0: there was no answer
	Status     Status        // the zero value if the answer came without one
	RetryAfter time.Duration // how long the other side wants to be left alone; 0: it does not say
}

// Refused makes an error of an answer that is one. The body explains it if the Status does not.
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

// RetryAfter is how long the other side of an error wants to be left alone; 0 if it does not say.
func RetryAfter(err error) time.Duration {
	var a *Answer
	if errors.As(err, &a) {
		return a.RetryAfter
	}
	return 0
}

// Status is the API's way to say how something went.
type Status struct {
	Kind    string `json:"kind"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Name              string  `json:"name"`
		Group             string  `json:"group"`
		Kind              string  `json:"kind"` // or resource: the API is not of one mind
		Causes            []Cause `json:"causes"`
		RetryAfterSeconds int     `json:"retryAfterSeconds"`
	} `json:"details"`
}

// Cause is one of the details of a Status.
type Cause struct {
	Reason string `json:"reason"`
}

// ParseStatus returns the zero value for anything that is not a Status in JSON.
func ParseStatus(b []byte) Status {
	var s Status
	if err := json.Unmarshal(b, &s); err != nil || s.Kind != "Status" {
		return Status{}
	}
	return s
}

// Failed says whether something failed, in so many words.
func (s *Status) Failed() bool { return s.Status == "Failure" }

// Absent says whether this is proof that an object is not there: not just some 404, which
// something in between may answer, but one that names the object, and is not somebody else's
// word. An admission webhook chooses code, reason and details of its refusal as it likes.
func (s *Status) Absent(group, name string, kinds ...string) bool {
	return s.Failed() && s.Code == http.StatusNotFound && s.Reason == "NotFound" && s.Details.Name == name &&
		s.Details.Group == group && slices.Contains(kinds, s.Details.Kind) && !s.Inadmissible()
}

// Inadmissible says whether admission refused. The texts are the API server's own
// (admission/plugin/webhook/errors, plugin/policy/validating); a code of their own
// they have not.
func (s *Status) Inadmissible() bool {
	return strings.HasPrefix(s.Message, "admission webhook ") || strings.Contains(s.Message, " is forbidden: ")
}

// TooLarge says whether the server's cache did not reach a resourceVersion within the few
// seconds that it waits: before Kubernetes 1.31 it hears of no version but by changes of
// its type and every five seconds.
func (s *Status) TooLarge() bool {
	return slices.Contains(s.Details.Causes, Cause{"ResourceVersionTooLarge"}) || strings.Contains(s.Message, "Too large resource version")
}
