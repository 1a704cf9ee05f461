package lastuse

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// containers is which container was made from which image, and how well the runtime's events
// are heard.
type containers struct {
	records map[string]state.Container // by namespace/ID
	broken  bool                       // the events broke off, and have not come back
	gap     bool                       // events may have been lost since the runtime was last asked
	since   time.Time                  // since when none is lost; zero: they do not come
	heard   map[string]time.Time       // when an event was, of containers that had one since the runtime was last asked
}

func newContainers() containers { return containers{gap: true, heard: make(map[string]time.Time)} }

// broke is for events that break off.
func (c *containers) broke() { c.broken, c.gap, c.since = true, true, time.Time{} }

// back is for events that come, since that time. It reports whether they had broken off.
func (c *containers) back(at time.Time) (again bool) {
	again = c.broken
	c.broken, c.gap, c.since = false, true, at
	return again
}

// list learns which container was made from which image, for the events that name only the
// container, and returns the ends that no event reported, as uses of images by ID: at the time
// that the runtime gives, which end converts, or, of a container that is gone, when it was asked,
// unless the kernel has stamped its image since the runtime was last asked.
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
			if c.heard[name].After(asked) || now.Ended.IsZero() && c.endStands(was.Ended) {
				now.Ended = was.Ended // what was heard is newer than the list
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

// endStands is whether a container has still ended although the runtime does not say so: it
// is behind, or has deleted the task. That it began anew since would have been heard.
func (c *containers) endStands(ended time.Time) bool {
	return !c.gap || !c.since.IsZero() && !ended.Before(c.since)
}

// event takes in that a container was made, or that its process began or ended. It returns the
// ID of its image; "" if that is not known. named finds an image by a reference; now is when
// it was heard.
func (c *containers) event(e inventory.Event, at, now time.Time, named func(reference string) string) (image string) {
	name := e.Namespace + "/" + e.Container
	c.heard[name] = now
	r := c.records[name]
	if e.Image != "" { // it is new; who had the name before is not it
		r.Image = named(e.Image)
	}
	if r.Ended = (time.Time{}); e.Ended {
		r.Ended = at
	}
	c.records[name] = r // also of an image that is still to be listed
	return r.Image
}

// removed takes in that a container was removed: it ended by then, if that was not heard, as a
// runtime that kills it may not tell. It returns the ID of the image that it used until now; ""
// if there is none.
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
