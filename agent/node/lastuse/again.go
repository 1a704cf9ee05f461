package lastuse

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// againWithin is how soon after its removal an image must come back to count as pulled again: its
	// removal cost a pull, and freed nothing that lasts.
	againWithin = 24 * time.Hour

	// removedMost bounds how many removed images are remembered.
	removedMost = 1000

	// inACircle is how often in a row an image comes back before an Event reports it.
	inACircle = 3
)

// removedImages remembers the images that ebb removed.
type removedImages struct {
	o       *Options
	records map[string]state.Removed // by image ID; bounded in age and number
}

// add remembers one more image, and forgets those that are too old or too many.
func (s *removedImages) add(id string, now state.Removed) {
	s.records[id] = now
	oldest := ""
	for id, was := range s.records {
		if now.At.Sub(was.At) > againWithin {
			delete(s.records, id)
		} else if oldest == "" || was.At.Before(s.records[oldest].At) {
			oldest = id
		}
	}
	if len(s.records) > removedMost {
		delete(s.records, oldest)
	}
}

// cameBack counts an image that comes back within a day of its removal, and returns how often it
// has done so; 0 for any other image.
func (s *removedImages) cameBack(i inventory.Image, now time.Time) (times int) {
	was, ok := s.records[i.ID]
	delete(s.records, i.ID)
	after := now.Sub(was.At)
	if !ok || after > againWithin {
		return 0
	}
	times = was.Again + 1
	s.o.Metrics.again.Inc()
	s.o.Metrics.againBytes.Add(float64(was.Bytes))
	s.o.Log.Info("image was pulled again after its removal", "image", i.ID, "references", i.References, "reason", was.Reason,
		"after", after.Round(time.Second).String(), "freed_bytes", was.Bytes, "times", times, "last_used", Text(was.LastUsed))
	if times >= inACircle {
		s.o.Tell(inCircle(i, times))
	}
	return times
}

// inCircle is the Event about an image that is removed and pulled again and again.
func inCircle(i inventory.Image, times int) events.Fact {
	name := cmp.Or(slices.Concat(i.References, []string{i.ID})...)
	return events.Fact{Reason: events.PulledAgain, Subject: i.ID, Message: fmt.Sprintf(
		"image %s was pulled again for the %dth time, each time within a day of its removal by ebb: a rule in images.keep would keep it, more space or a higher threshold too", events.Quote(name), times)}
}

// Text returns a last use as the log shows it.
func Text(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Format(time.RFC3339Nano)
}
