package cascade

import "github.com/ebb-agent/ebb/policy/gc"

// What is excluded is neither deleted nor patched, but for one thing: if somebody
// deleted it, the collector's own finalizers come off once they hold nothing any more.
// Nobody else takes them off.

// maxLooked bounds how many dependents are looked at for that.
const maxVisited = 64

// sayHeld reports, once, of a deleted owner that all that still holds it is excluded, and
// stays. A dependent that is going, or that the collector deals with, is waited for
// first: its end brings the owner back here.
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

// ownFinalizer says whether an object is deleted and has a finalizer of the collector's.
func (c *Collector) ownFinalizer(i index) bool {
	f := c.at(i).flags
	return f&(observed|terminating) == observed|terminating && f&(wantsOrphan|wantsForegr) != 0
}
