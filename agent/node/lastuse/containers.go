package lastuse

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// containers records which container was made from which image, and whether the runtime's events
// arrive.
type containers struct {
	records map[string]state.Container // by namespace/ID
	broken  bool                       // the event stream is broken
	gap     bool                       // events may have been lost since the latest list was requested
	since   time.Time                  // since when no event is lost; zero: none arrive
	heard   map[string]time.Time       // by namespace/ID: receipt of the latest event since the latest list
}

func newContainers() containers { return containers{gap: true, heard: make(map[string]time.Time)} }

// broke records that the event stream broke off.
func (c *containers) broke() { c.broken, c.gap, c.since = true, true, time.Time{} }

// back records that events arrive since that time. It reports whether the stream had broken off.
func (c *containers) back(at time.Time) (again bool) {
	again = c.broken
	c.broken, c.gap, c.since = false, true, at
	return again
}

// list takes over which container was made from which image, for the events that name only the
// container. It returns the ends that no event reported, as uses of images by ID. The runtime dates an
// end, and end converts that date. A container that is gone ended when the list was requested, at
// asked, unless the kernel has stamped its image since the list before.
func (c *containers) list(list []inventory.Container, asked time.Time, end func(time.Time) time.Time, stamped map[string]bool) (uses map[string]time.Time) {
	before := c.records
	uses = make(map[string]time.Time)
	c.records = make(map[string]state.Container, len(list))
	for _, one := range list {
		if one.ImageID == "" {
			continue
		}
		name := one.Namespace + "/" + one.ID
		now := state.Container{Image: one.ImageID, Ended: one.Ended}
		was, known := before[name]
		if known && (was.Image == now.Image || was.Image == "") { // events came before its image was listed
			delete(before, name)
			if c.heard[name].After(asked) || now.Ended.IsZero() && c.endHolds(was.Ended) {
				now.Ended = was.Ended // the event is newer than the list
			}
		}
		c.records[name] = now
		if !now.Ended.IsZero() && (was.Image != now.Image || !was.Ended.Equal(now.Ended)) {
			uses[now.Image] = clock.Latest(uses[now.Image], end(now.Ended))
		}
	}
	for name, was := range before {
		if c.heard[name].After(asked) {
			c.records[name] = was
			continue
		}
		if was.Image != "" && was.Ended.IsZero() && !stamped[was.Image] {
			uses[was.Image] = clock.Latest(uses[was.Image], asked)
		}
	}
	c.gap = c.broken || c.since.After(asked)
	clear(c.heard)
	return uses
}

// endHolds reports whether a recorded end still holds although the runtime does not show it: the
// runtime is late, or has deleted the task. If the container had started again, an event would have
// reported it.
func (c *containers) endHolds(ended time.Time) bool {
	return !c.gap || !c.since.IsZero() && !ended.Before(c.since)
}

// event records that a container was made, or that its process began or ended. It returns the ID of its
// image; "" if that is not known. named finds an image by a reference; now is when the event was
// received.
func (c *containers) event(e inventory.Event, at, now time.Time, named func(reference string) string) (image string) {
	name := e.Namespace + "/" + e.Container
	c.heard[name] = now
	r := c.records[name]
	if e.Image != "" { // the container is new; an earlier one may have had the name
		r.Image = named(e.Image)
	}
	if r.Ended = (time.Time{}); e.Ended {
		r.Ended = at
	}
	c.records[name] = r // also if its image is not listed yet
	return r.Image
}

// removed records that a container was removed. If no event reported its end, it ended by then: a
// runtime that kills a container may not report it. removed returns the ID of the image that the
// container used until now; "" if there is none.
func (c *containers) removed(e inventory.Event, at, now time.Time) (image string) {
	name := e.Namespace + "/" + e.Container
	r, known := c.records[name]
	if !known || !r.Ended.IsZero() {
		return ""
	}
	r.Ended = at
	c.records[name], c.heard[name] = r, now
	return r.Image
}
