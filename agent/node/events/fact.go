package events

import (
	"strconv"
	"strings"
)

// Reason is the reason of an Event: one word for machines.
type Reason string

// The reasons.
const (
	Hold         Reason = "EbbHold"         // a low threshold cannot be reached
	PulledAgain  Reason = "EbbPulledAgain"  // an image is removed and pulled in a circle
	ReclaimShort Reason = "EbbReclaimShort" // a run ended before its goal
	Paused       Reason = "EbbPaused"
	Resumed      Reason = "EbbResumed"
)

func (r Reason) warns() bool { return r != Paused && r != Resumed }

// Fact is the content of a Kubernetes Event about this node.
type Fact struct {
	Reason  Reason
	Subject string // what it is about: a path, an image. With the reason it says which facts are one
	Message string
}

// Bounds in bytes: of a message, which is the API's for Events of its later group
// (k8s.io/kubernetes/pkg/apis/core/validation/events.go, NoteLengthLimit), and of what Quote takes.
const (
	maxMessage = 1024
	maxQuoted  = 200
)

// Quote makes words that somebody else chose fit for a message: escaped, and not long.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(cut(s, maxQuoted)) + "…"
	}
	return strconv.Quote(s)
}

// cut shortens to n bytes, between two letters.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
