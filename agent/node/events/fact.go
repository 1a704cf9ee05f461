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
	PulledAgain  Reason = "EbbPulledAgain"  // an image is removed and pulled again and again
	ReclaimShort Reason = "EbbReclaimShort" // a run ended before its goal
	Paused       Reason = "EbbPaused"
	Resumed      Reason = "EbbResumed"
)

func (r Reason) warns() bool { return r != Paused && r != Resumed }

// Fact is the content of a Kubernetes Event about this node.
type Fact struct {
	Reason  Reason
	Subject string // the path or image concerned. Facts with the same Reason and Subject are one
	Message string
}

// Limits in bytes. maxMessage is the limit of the API for Events of its later group
// (k8s.io/kubernetes/pkg/apis/core/validation/events.go, NoteLengthLimit). maxQuoted is what Quote
// keeps of a text.
const (
	maxMessage = 1024
	maxQuoted  = 200
)

// Quote makes text from outside ebb fit for a message: it escapes the text and cuts it to maxQuoted
// bytes.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(cut(s, maxQuoted)) + "…"
	}
	return strconv.Quote(s)
}

// cut shortens s to at most n bytes, without splitting a rune.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
