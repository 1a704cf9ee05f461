package node

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// noteContainers learns which container was made from which image, for the events that
// name only the container, and takes in the ends that no event told of: at the time that
// the runtime gives or, of a container that is gone, now, unless the kernel has stamped
// its image since the runtime was last asked.
func (a *Agent) noteContainers(list []inventory.Container, asked time.Time) {
	before, uses := a.rec.Containers, map[string]time.Time{}
	a.rec.Containers = make(map[string]state.Container, len(list))
	for _, c := range list {
		if c.ImageID == "" {
			continue
		}
		name := c.Namespace + "/" + c.ID
		now := state.Container{Image: c.ImageID, Ended: c.Ended}
		was, known := before[name]
		if known && (was.Image == now.Image || was.Image == "") { // events came before its image was listed
			delete(before, name)
			if now.Ended.IsZero() && a.endStands(was.Ended) {
				now.Ended = was.Ended
			}
		}
		a.rec.Containers[name] = now
		if !now.Ended.IsZero() && (was.Image != now.Image || !was.Ended.Equal(now.Ended)) {
			uses[now.Image] = latest(uses[now.Image], a.clock.end(now.Ended))
		}
	}
	for _, was := range before {
		if was.Image != "" && was.Ended.IsZero() && !a.stamped[was.Image] {
			uses[was.Image] = latest(uses[was.Image], asked)
		}
	}
	a.used(uses)
	clear(a.stamped)
	a.unheard = a.brokeOff
}

// endStands is whether a container has still ended although the runtime does not say so: it
// is behind, or has deleted the task. That it began anew since would have been heard.
func (a *Agent) endStands(ended time.Time) bool {
	return !a.unheard || !a.heard.IsZero() && !ended.Before(a.heard)
}

// used records uses of images, by ID, which are uses of those with the same layers, too.
// Those that the runtime has not listed yet are on record all the same.
func (a *Agent) used(uses map[string]time.Time) {
	if len(uses) == 0 {
		return
	}
	record := func(id string, at time.Time) {
		if r, ok := a.rec.Images[id]; ok && at.After(r.LastUsed) {
			r.LastUsed = at
			a.rec.Images[id] = r
		}
	}
	layers := make(map[inventory.Layer]time.Time, len(uses))
	for id, at := range uses {
		record(id, at)
		for _, l := range a.known[id].Layers {
			layers[l] = latest(layers[l], at)
		}
	}
	for id, i := range a.known {
		for _, l := range i.Layers {
			record(id, layers[l])
		}
	}
}

// stampUse records a use that a runtime event tells of: that a container was made, or its
// process began or ended, not that the container was removed. The kernel knows it
// too and to the nanosecond; this is what remains where there are no programs,
// and for root filesystems that are not overlayfs.
func (a *Agent) stampUse(e inventory.Event, at time.Time) {
	if !e.Used {
		return
	}
	name := e.Namespace + "/" + e.Container
	c := a.rec.Containers[name]
	if e.Image != "" { // it is new; who had the name before is not it
		c.Image, _ = a.imageNamed(e.Image)
	}
	if c.Ended = (time.Time{}); e.Ended {
		c.Ended = at
	}
	a.rec.Containers[name] = c // also of an image that is still to be listed
	if c.Image != "" {
		a.used(map[string]time.Time{c.Image: at})
	}
}
