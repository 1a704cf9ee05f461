package reclaim

import (
	"fmt"
	"strings"

	"github.com/docker/go-units"

	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/policy/image"
)

// holdFact is the Event about a hold.
func holdFact(path string, h *image.Hold) events.Fact {
	var what []string
	if h.Bytes {
		var held []string
		for _, s := range h.Space {
			held = append(held, s.By+" "+units.BytesSize(float64(s.Bytes)))
		}
		what = append(what, "the low threshold of "+path+" cannot be reached: "+strings.Join(held, ", "))
	}
	if h.Inodes {
		what = append(what, "the low threshold for inodes of "+path+" cannot be reached: "+heldInodes(h))
	}
	if !h.Final() {
		what = append(what, "the images of a snapshotter that cannot be read stay until it can")
	}
	return events.Fact{Reason: events.Hold, Subject: path, Message: strings.Join(what, "; ") + "; run `ebb plan` to see why each image stays"}
}

// shortResults describes the results of runs that ended before their goal. A hold has an Event of its
// own.
var shortResults = map[string]string{
	resultShort:      "what was planned is gone, and it is not enough",
	resultShortfall:  "by what was computed enough is free, and the disk does not show it",
	resultIncomplete: "removals failed or images came into use; ebb tries again",
	resultCapped:     "images.maxRemovalsPerHour is used up; ebb goes on when it has room",
}

// short returns the Event about a run that ended before its goal; false if there is none.
func (end *outcome) short(f *filesystem) (fact events.Fact, short bool) {
	why := shortResults[end.result]
	// While the cap is used up, each look ends like this. Only the run that used it up is reported.
	if why == "" || end.result == resultCapped && end.removed == 0 {
		return fact, false
	}
	return events.Fact{Reason: events.ReclaimShort, Subject: f.Path + " " + end.result, Message: fmt.Sprintf(
		"reclaim on %s (%s) ended %s: %s; %d images removed, %d removals failed, %s freed, %d %% used",
		f.Path, end.trigger, end.result, why, end.removed, end.failed, units.BytesSize(float64(end.freed)), f.UsedPercent())}, true
}
