package volumes

import (
	"slices"

	"github.com/ebb-agent/ebb/policy/gc"
)

// index finds the objects that affect a volume, and the volumes that an object affects.
type index struct {
	byName   map[string][]*kept
	byClaim  map[string][]*kept
	byHandle map[string][]*kept
	wanted   gc.Tally // volumes that claims name
	attached gc.Tally // volumes that attachments name
	inline   gc.Tally // handles of inline volumes that attachments have
	drivers  gc.Tally // names of CSIDrivers, and of drivers of CSINodes
	classes  gc.Tally // provisioners of classes
}

func newIndex() index {
	return index{
		byName: map[string][]*kept{}, byClaim: map[string][]*kept{}, byHandle: map[string][]*kept{},
		wanted: gc.Tally{}, attached: gc.Tally{}, inline: gc.Tally{}, drivers: gc.Tally{}, classes: gc.Tally{},
	}
}

func put(in map[string][]*kept, key string, e *kept) {
	if key != "" {
		in[key] = append(in[key], e)
	}
}

func take(from map[string][]*kept, key string, e *kept) {
	list := slices.DeleteFunc(from[key], func(x *kept) bool { return x == e })
	if from[key] = list; len(list) == 0 {
		delete(from, key)
	}
}

// file adds a volume to the index (put) or removes it (take). Other volumes with its handle are judged again.
func (c *Collector) file(e *kept, do func(map[string][]*kept, string, *kept)) {
	do(c.index.byName, e.Name, e)
	do(c.index.byClaim, e.volume.claim, e)
	do(c.index.byHandle, e.volume.handle, e)
	for _, twin := range c.index.byHandle[e.volume.handle] {
		if twin != e {
			c.Plan(twin)
		}
	}
}

func (c *Collector) planVolume(name string) {
	for _, e := range c.index.byName[name] {
		c.Plan(e)
	}
}

// planClaim judges again all volumes of a claim, and those that the claim names now or named
// before.
func (c *Collector) planClaim(key, before, now string) {
	for _, e := range c.index.byClaim[key] {
		c.Plan(e)
	}
	c.planVolume(before)
	c.planVolume(now)
}
