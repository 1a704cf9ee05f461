package volumes

import (
	"slices"
	"strings"
)

// index finds what bears on a volume, and the volumes on which something bears.
type index struct {
	byName   map[string][]*kept
	byClaim  map[string][]*kept
	byHandle map[string][]*kept
	wanted   tally // volumes that claims name
	attached tally // volumes that attachments name
	inline   tally // handles that attachments have
	drivers  tally // names of CSIDrivers, and of drivers of CSINodes
	classes  tally // provisioners of classes
}

func newIndex() index {
	return index{
		byName: map[string][]*kept{}, byClaim: map[string][]*kept{}, byHandle: map[string][]*kept{},
		wanted: tally{}, attached: tally{}, inline: tally{}, drivers: tally{}, classes: tally{},
	}
}

func cloned(s string) string { return strings.Clone(s) }

// put e into a list, or take it out; the others in it may be another matter then.
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

// add a volume to what bears on others.
func (c *Collector) add(e *kept) {
	v := e.volume
	put(c.index.byName, e.Name, e)
	put(c.index.byClaim, v.claim, e)
	put(c.index.byHandle, v.handle, e)
	c.planTwins(e)
}

func (c *Collector) unindex(e *kept) {
	v := e.volume
	take(c.index.byName, e.Name, e)
	take(c.index.byClaim, v.claim, e)
	take(c.index.byHandle, v.handle, e)
	c.planTwins(e)
}

// planTwins of e: one more or one less has its handle.
func (c *Collector) planTwins(e *kept) {
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

// planClaim has all volumes judged that were a claim's, or that it names, or named.
func (c *Collector) planClaim(key, before, now string) {
	for _, e := range c.index.byClaim[key] {
		c.Plan(e)
	}
	c.planVolume(before)
	c.planVolume(now)
}

func (c *Collector) planNode(name string) {
	for _, e := range c.byNode[name] {
		c.Plan(e)
	}
}
