package metadata

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// status is the API's way to say how something went. Its zero value stands for
// an answer that was none.
type status struct {
	failure    bool
	success    bool
	code       int
	reason     string
	message    string
	name       string // of the object it is about, if of any
	group      string
	kind       string // or resource: the API is not of one mind
	retryAfter int    // seconds
	tooLarge   bool   // a resourceVersion that the server has not come to
}

// namesAbsent says whether this is proof that an object is not there: not just
// some 404, but one that names it, and is not somebody else's word. An admission
// webhook chooses code, reason and details of its refusal as it likes.
func (s *status) namesAbsent(o gc.Coordinates) bool {
	return s.failure && s.code == http.StatusNotFound && s.reason == "NotFound" &&
		s.name == o.Name && s.group == gc.GroupOf(o.APIVersion) && (s.kind == o.Resource || s.kind == o.Kind) &&
		!s.refusal()
}

// refusal says whether admission refused. The texts are the API server's own
// (admission/plugin/webhook/errors, plugin/policy/validating); a code of their own
// they have not.
func (s *status) refusal() bool {
	return strings.HasPrefix(s.message, "admission webhook ") ||
		strings.Contains(s.message, " is forbidden: ")
}

// unadmitted says whether an admission webhook could not be asked, in the API
// server's own words (admission/plugin/webhook: ErrCallingWebhook).
func (s *status) unadmitted() bool {
	return strings.HasPrefix(s.message, "Internal error occurred: failed calling webhook ")
}

// expired says whether a watch or a list cannot go on from where it was.
func (s *status) expired() bool {
	return s.code == http.StatusGone || s.reason == "Expired" || s.reason == "Gone" || s.tooLarge
}

func (s *status) pause() time.Duration {
	return min(time.Duration(max(s.retryAfter, 0))*time.Second, maxPause)
}

const tooLargeCause = "ResourceVersionTooLarge"

// protoStatus reads a Status. Text is cleaned where it is printed.
func protoStatus(b []byte) (status, error) {
	var s status
	var word, message, reason, details []byte
	err := read(b, protobuf.To{Field: 2, Bytes: &word}, protobuf.To{Field: 3, Bytes: &message}, protobuf.To{Field: 4, Bytes: &reason}, protobuf.To{Field: 5, Bytes: &details})
	if err == nil {
		s.code, err = number(b, 6)
	}
	if err != nil {
		return status{}, fmt.Errorf("status: %w", err)
	}
	s.say(string(word))
	s.message, s.reason = string(message), string(reason)
	if err := s.details(details); err != nil {
		return status{}, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

func (s *status) say(word string) { s.success, s.failure = word == "Success", word == "Failure" }

func (s *status) details(b []byte) error {
	var name, group, kind []byte
	err := read(b, protobuf.To{Field: 1, Bytes: &name}, protobuf.To{Field: 2, Bytes: &group}, protobuf.To{Field: 3, Bytes: &kind})
	if err == nil {
		s.retryAfter, err = number(b, 5)
	}
	if err == nil {
		err = each(b, func(n protowire.Number, t protowire.Type, b []byte) (size int) {
			var cause, reason []byte
			if n != 4 {
				return 0
			}
			if size = protobuf.Take(t, b, &cause); read(cause, protobuf.To{Field: 1, Bytes: &reason}) == nil {
				s.tooLarge = s.tooLarge || string(reason) == tooLargeCause
			}
			return size
		})
	}
	s.name, s.group, s.kind = string(name), string(group), string(kind)
	return err
}

func number(b []byte, field protowire.Number) (int, error) {
	v, _, err := protobuf.Number(b, field)
	if err != nil {
		return 0, nonsense("%v", err)
	}
	return int(int32(v)), nil
}

// jsonStatus returns the zero value for anything that is not a Status.
func jsonStatus(b []byte) status {
	in := fault.ParseStatus(b)
	if in.Kind == "" {
		return status{}
	}
	s := status{code: in.Code, reason: in.Reason, message: in.Message, name: in.Details.Name,
		group: in.Details.Group, kind: in.Details.Kind, retryAfter: in.Details.RetryAfterSeconds}
	s.say(in.Status)
	for _, c := range in.Details.Causes {
		s.tooLarge = s.tooLarge || c.Reason == tooLargeCause
	}
	return s
}
