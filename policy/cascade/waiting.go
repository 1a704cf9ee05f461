package cascade

import (
	"container/heap"
	"strconv"

	"github.com/ebb-agent/ebb/policy/gc"
)

func (c *Collector) versionOf(i index) string {
	n := c.at(i)
	switch {
	case n.flags&opaque != 0:
		return c.versions[i]
	case n.version == 0:
		return ""
	}
	return strconv.FormatUint(n.version, 10)
}

// followWaiting deletes an object whose remaining owners wait for it. If it has dependents
// of its own, it is deleted in the foreground, so that they are deleted first.
func (c *Collector) followWaiting(i index, at int) {
	// A dependent that is not listed yet would require foreground deletion.
	if c.hold(i) || !c.allFresh(i, waiting) {
		return
	}
	dependents, _ := c.dependentsOf(i)
	if dependents == 0 {
		c.remove(i, c.policy(i, gc.Background), OwnersWaiting, at)
		return
	}
	if refs := c.blockingRefs(i); len(refs) > 0 && c.waitingDependent(i) {
		c.emit(i, c.action(i, gc.Unblock, CircleOfOwners, c.at(i).owners[at].owner, refs))
		return
	}
	c.remove(i, c.policy(i, gc.Foreground), OwnersWaiting, at)
}

// blockingRefs returns an object's references that block other owners.
func (c *Collector) blockingRefs(i index) (refs []gc.Position) {
	for at, e := range c.at(i).owners {
		if e.block && e.owner != i {
			refs = append(refs, gc.Position{Index: at, Reference: c.reference(e)})
		}
	}
	return refs
}

// waitingDependent reports whether a dependent of an object waits for its own dependents.
// Then the object may be one of those, and is better unblocked before it waits, too. The
// kube-controller-manager makes the same check, and no more.
func (c *Collector) waitingDependent(i index) bool {
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if s != i && !c.sameObject(s, i) {
			continue
		}
		for _, d := range c.at(s).dependents {
			if c.condition(d.dependent) == waiting {
				return true
			}
		}
	}
	return false
}

// decideTerminating evaluates an object that is deleted already.
func (c *Collector) decideTerminating(i index) {
	switch f := c.at(i).flags; {
	case len(c.at(i).owners) > 0 && !c.excluded(i) && c.leaveOrphaning(i):
	case f&wantsOrphan != 0:
		c.decideOrphaning(i)
		c.reportHeld(i)
	case f&wantsForegr != 0:
		c.decideForeground(i)
	}
}

func (c *Collector) decideForeground(i index) {
	if _, blocking := c.dependentsOf(i); blocking > 0 {
		// Two objects that were deleted in the foreground, each the other's owner, would
		// wait forever.
		if refs := c.blockingRefs(i); len(refs) > 0 && !c.excluded(i) && c.waitsForItself(i) {
			c.emit(i, c.action(i, gc.Unblock, CircleOfOwners, c.at(i).owners[refs[0].Index].owner, refs))
			return
		}
		c.reportHeld(i)
		return
	}
	if c.hold(i) {
		return
	}
	why := DependentsGone
	if c.incomplete > 0 {
		why = TypesGivenUp
	}
	c.finalize(i, gc.ForegroundFinalizer, c.at(i).foregrAt, why)
}

// waitsForItself follows the blocking references up through waiting owners, and reports
// whether they lead back to i. The object that closes a circle changes last, and is
// evaluated last.
func (c *Collector) waitsForItself(i index) bool {
	visited := map[index]bool{}
	stack := []index{i}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, e := range c.at(at).owners {
			owner := c.seenAs(e.owner)
			if !e.block || owner == 0 || owner == at || c.condition(owner) != waiting || visited[owner] {
				continue
			}
			if owner == i {
				return true
			}
			visited[owner] = true
			stack = append(stack, owner)
		}
	}
	return false
}

func (c *Collector) finalize(i index, finalizer string, at uint8, why gc.Reason) {
	w := c.workOf(i)
	if w.conflict || at == 255 {
		// The index of the finalizer may have changed.
		if w.conflict && !w.unchanged || at == 255 && c.now.Sub(w.readAt) > c.config.FreshFor {
			w.reread = true
			c.readLive(i, w)
			return
		}
	}
	a := c.action(i, gc.RemoveFinalizer, why, i, nil)
	a.Finalizer, a.Index, a.Owner = finalizer, int(at), gc.Coordinates{}
	c.emit(i, a)
}

// hold keeps a node back until every type has been listed, and reports whether it does.
func (c *Collector) hold(i index) bool {
	ok, again := c.listed()
	if ok {
		return false
	}
	if n := c.at(i); n.flags&waitsForSync == 0 {
		n.flags |= waitsForSync
		c.held = append(c.held, i)
		heap.Push(&c.alarms, alarm{again, 0})
	}
	return true
}

func (c *Collector) releaseHeld() {
	held := c.held
	c.held = nil
	for _, i := range held {
		if c.at(i).flags&waitsForSync != 0 {
			c.at(i).flags &^= waitsForSync
			c.wake(i)
		}
	}
}
