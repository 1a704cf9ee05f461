package image

import (
	"fmt"
	"strings"
	"time"
)

// unprotected returns why a protection does not apply.
func (d *decision) unprotected(reason Reason, c *candidate) string {
	ago := func(t time.Time) time.Duration { return age(t, d.now).Round(time.Second) }
	pods := d.Pods
	switch reason {
	case KeptBlocked:
		return "nothing blocks removals, and what is known of the image makes sense"
	case KeptInUse:
		return "no container, snapshot or sandbox uses it"
	case KeptWanted:
		switch {
		case !pods.Unknown:
			return "no pod of this node waits for it"
		case pods.Answered.IsZero():
			return "which pods want it was never known"
		}
		return fmt.Sprintf("no pod waited for it %v ago, when the pods were last known", ago(pods.Answered))
	case KeptPinned:
		return "the runtime has not pinned it"
	case KeptSandbox:
		return "it is not the runtime's sandbox image"
	case KeptByRule:
		return "no rule of the configuration keeps it"
	case KeptUseUnknown:
		return "everything that may use it can be read"
	case KeptPodsUnknown:
		switch {
		case !pods.Unknown:
			return "it is known which pods there are"
		case pods.Answered.IsZero():
			return fmt.Sprintf("arrived %v ago, more than %v: a pod that wants it would use it by now", ago(c.arrived()), UnansweredAge)
		}
		return fmt.Sprintf("arrived before the pods were last known, %v ago", ago(pods.Answered))
	case KeptYoung:
		if d.Policy.MinimumAge <= 0 {
			return "no minimum age is set"
		}
		return fmt.Sprintf("arrived %v ago, minimum age %v", ago(c.arrived()), d.Policy.MinimumAge)
	}
	return "no removal of it has failed lately"
}

// passed returns why a rule about the disk did not decide on an image, if a later rule does.
func (d *decision) passed(reason Reason, c *candidate, e Explanation) string {
	switch reason {
	case RemovedAge:
		return d.notAged(c)
	case KeptNotNeeded:
		return d.needInWords() + " to be freed to reach the low threshold"
	case KeptHold:
		switch {
		case d.stuck == (weight{}):
			return "the low threshold can be reached"
		case d.swept:
			return "a hold begins: all that may go goes once"
		}
		return "it was unused when the hold began, or a threshold that can be reached needs it"
	case KeptFreesNothing:
		return fmt.Sprintf("frees %s and %d inodes when all before it are gone", humanBytes(e.InTurn.Bytes), e.InTurn.Inodes)
	}
	if d.stuck == (weight{}) {
		return "the low threshold can be reached"
	}
	return "the low threshold cannot be reached, but more is gained than is futile"
}

// notAged returns why an image is not removed for its age.
func (d *decision) notAged(c *candidate) string {
	most := d.Policy.MaximumAge
	switch unused := age(c.lastUsed(), d.now); {
	case most <= 0:
		return "no maximum age is set"
	case c.lastUsed().IsZero():
		return "when it was last used is not known"
	case unused < most:
		return fmt.Sprintf("unused for %v, maximum age %v", unused.Round(time.Second), most)
	case c.Observed.IsZero():
		return "when it was first seen is not known"
	}
	return fmt.Sprintf("first seen %v ago, maximum age %v", age(c.Observed, d.now).Round(time.Second), most)
}

// needInWords returns the need as the beginning of a sentence: "1.0 GiB and 20 inodes have".
func (d *decision) needInWords() string {
	var parts []string
	if d.need.bytes > 0 {
		parts = append(parts, humanBytes(d.need.bytes))
	}
	if d.need.inodes > 0 {
		parts = append(parts, fmt.Sprintf("%d inodes", d.need.inodes))
	}
	return strings.Join(parts, " and ") + " have"
}
