package cascade

import "github.com/ebb-agent/ebb/policy/gc"

// Excluded objects are neither deleted nor patched, with one exception. The collector
// removes its own finalizers from an excluded object that was deleted, once they hold
// nothing any more. No other component removes them.

// maxVisited bounds how many dependents reportHeld visits.
const maxVisited = 64

// reportHeld warns, once, if only excluded objects still hold a deleted owner. They stay.
// If another dependent is terminating or the collector acts on it, there is no warning yet:
// its deletion wakes the owner.
func (c *Collector) reportHeld(i index) {
	if c.heldReported[i] {
		return
	}
	orphans := c.condition(i) == orphaning
	looked, found := 0, false
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if !orphans && s != i && !c.sameObject(s, i) {
			continue
		}
		for _, d := range c.at(s).dependents {
			if d.dependent == i || !orphans && !c.at(d.dependent).owners[d.at].block {
				continue
			}
			if !c.excluded(d.dependent) || c.at(d.dependent).flags&terminating != 0 {
				return
			}
			if found = true; looked == maxVisited {
				break
			}
			looked++
		}
	}
	if !found {
		return
	}
	c.heldReported[i] = true
	c.out = append(c.out, gc.Action{Verb: gc.Warn, Object: c.coordinates(i), Reason: HeldByExcluded})
}

// ownFinalizer reports whether an object is deleted and has a collector's finalizer.
func (c *Collector) ownFinalizer(i index) bool {
	f := c.at(i).flags
	return f&(observed|terminating) == observed|terminating && f&(wantsOrphan|wantsForegr) != 0
}
