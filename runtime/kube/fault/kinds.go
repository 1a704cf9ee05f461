package fault

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kinds that all clients have in common.
var (
	// ErrUnauthorized: the other side does not know who is asking (401).
	ErrUnauthorized = errors.New("not authenticated")
	// ErrForbidden: it knows, and does not allow it (403).
	ErrForbidden = errors.New("not allowed")
	// ErrUnavailable: nothing answers, or not with an answer.
	ErrUnavailable = errors.New("unavailable")
	// ErrMalformed: the answer is not what Kubernetes answers.
	ErrMalformed = errors.New("makes no sense")
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

// Status is the API's way to say how something went.
type Status struct {
	Kind    string `json:"kind"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Name   string `json:"name"`
		Group  string `json:"group"`
		Kind   string `json:"kind"`
		Causes []struct {
			Reason string `json:"reason"`
		} `json:"causes"`
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

// ParseStatus returns the zero value for anything that is not a Status in JSON.
func ParseStatus(b []byte) Status {
	var s Status
	if err := json.Unmarshal(b, &s); err != nil || s.Kind != "Status" {
		return Status{}
	}
	return s
}
