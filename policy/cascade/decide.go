package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// decide what is to be done about one node now, if anything.
//
// The rules are these:
//
//   - No owner but dangling ones: delete. The object's own finalizers choose the policy,
//     because any other would strip them.
//   - A solid owner: the dangling and waiting references beside it are removed.
//   - No owner but waiting (and dangling) ones: delete, foreground if it has dependents
//     itself. If one of those waits, too, its own references are unblocked first: they
//     may be a circle.
//   - Deleted and waiting: once no reference blocks it, foregroundDeletion is removed.
//     Two that wait for each other are unblocked. (The kube-controller-manager leaves
//     those, and one that refers to itself, forever.)
//   - Deleted with orphan: the journal has it, all references to its UID that are known
//     are removed, then the finalizer is.
//   - A reference to an absent owner that the journal has: it is removed, and nothing is
//     deleted because of it.
//   - Terminating otherwise: nothing.
//
// The kube-controller-manager deletes a dependent of a waiting owner foreground even if
// the dependent has the finalizer orphan, and counts a reference as blocking whatever its
// coordinates. Both differ here on purpose. What is excluded is neither deleted nor
// patched, with one exception: if somebody deleted it, its own foregroundDeletion or
// orphan is removed once nothing holds it any more.
func (c *Collector) decide(i index) {
	n := c.at(i)
	if w := c.work[i]; w != nil {
		if w.id != 0 || w.due.After(c.now) {
			return // its answer, or the alarm, brings it back
		}
		if !w.recheck.IsZero() && !c.now.Before(w.recheck) {
			w.recheck, w.wanted = time.Time{}, true
		}
		if w.sent {
			// Done, and nothing was seen of it for long: look.
			w.sent, w.reread = false, true
		}
		if c.readLive(i, w) {
			return
		}
	}
	if c.withdraw(i) {
		return
	}
	defer c.rest(i)
	switch {
	case n.flags&observed == 0 || n.flags&restored != 0 || !c.reachable(i) || c.kinds.all[n.kind].phase == unwatched:
	case n.flags&terminating != 0:
		c.decideTerminating(i)
	case c.excluded(i):
	case len(n.owners) > 0:
		c.decideDependent(i)
	}
}

// readLive asks for a live read if somebody wants one.
func (c *Collector) readLive(i index, w *work) bool {
	n := c.at(i)
	if !w.wanted && !w.reread {
		return false
	}
	if n.flags&observed == 0 && (len(n.dependents) == 0 || n.flags&gone != 0 || n.flags&proven != 0) {
		w.wanted, w.reread = false, false
		return false
	}
	if w.wanted && n.flags&observed != 0 && c.condition(i) != waiting && c.kinds.all[n.kind].phase == synced {
		w.wanted = false // the watch reports it, and goes on to
		if !w.reread {
			return false
		}
	}
	if !c.reachable(i) {
		return true // the type's coming wakes it
	}
	if n.flags&observed == 0 && c.kinds.all[n.kind].phase == listing && n.flags&doubted == 0 {
		return true // the list may tell; its end wakes it
	}
	a := gc.Action{Verb: gc.Verify, Object: c.coordinates(i), Reason: OwnerUnverified}
	switch {
	case !w.wanted:
		a.Verb, a.Reason = gc.Read, ObjectMayChange
	case n.flags&observed != 0:
		a.Reason = OwnerMayChange
	}
	c.emit(i, a)
	return true
}

// emit asks for an action about a node.
func (c *Collector) emit(i index, a gc.Action) {
	w := c.workOf(i)
	if w.withheld == a.Verb && w.withheldFor == a.Reason {
		return // nothing has changed that would make the caller want it now
	}
	c.lastID++
	a.ID, w.id = c.lastID, c.lastID
	w.verb, w.reason, w.seen, w.overtaken, w.due = a.Verb, a.Reason, false, false, time.Time{}
	if a.ResourceVersion != "" {
		w.moved, w.tried = a.ResourceVersion != w.tried, a.ResourceVersion
	}
	c.inFlight[a.ID] = i
	c.out = append(c.out, a)
}

// ask has an owner read live, once for all of its dependents.
func (c *Collector) ask(owner index) {
	w := c.workOf(owner)
	if !w.wanted {
		w.wanted = true
		c.wake(owner)
	}
}

// fresh says whether what is known of an owner was read live just now. Half way
// to being old it is asked for again, so that nobody has to wait for it.
func (c *Collector) fresh(owner index) bool {
	w := c.work[owner]
	if w == nil || w.readAt.IsZero() {
		c.ask(owner)
		return false
	}
	age := c.now.Sub(w.readAt)
	if age > c.config.FreshFor/2 {
		c.ask(owner)
	}
	return age >= 0 && age <= c.config.FreshFor
}

// allFresh does the same for those owners of a node that are judged so.
func (c *Collector) allFresh(i index, j judgement) bool {
	ok := true
	for _, e := range c.at(i).owners {
		if c.judge(i, e) == j && !c.fresh(c.seenAs(e.owner)) {
			ok = false
		}
	}
	return ok
}

// decideDependent is for an object that nobody deletes yet.
func (c *Collector) decideDependent(i index) {
	n, first := c.classify(i)
	if n[unknown] > 0 {
		for _, e := range c.at(i).owners {
			if c.judge(i, e) == unknown {
				c.ask(e.owner)
			}
		}
	}
	switch {
	case c.leaveOrphaning(i):
	case n[unresolvable] > 0:
	case n[solid] > 0:
		c.tidy(i, n, first)
	case n[unknown] > 0:
		// Unknown never deletes.
	case n[waiting] > 0:
		c.followWaiting(i, first[waiting])
	default:
		c.remove(i, c.policy(i, gc.Background), OwnersAbsent, first[dangling])
	}
}

// leaveOrphaning takes references away whose owner leaves its dependents
// behind. The dangling ones go with them: had they been alone, the object would
// have gone, and it is to stay.
func (c *Collector) leaveOrphaning(i index) bool {
	owners := c.at(i).owners
	var refs []gc.Position
	var owner index
	for at, e := range owners {
		switch {
		case c.hasUIDOf(e.owner, i):
			continue
		case c.orphaned(i, e):
			if c.ownerNotReported(e.owner) {
				return true // its type's end of that wakes it
			}
			if owner == 0 {
				owner = e.owner
			}
		case c.judge(i, e) != dangling:
			continue
		}
		refs = append(refs, gc.Position{Index: at, Reference: c.reference(e)})
	}
	if owner == 0 {
		return false
	}
	c.emit(i, c.action(i, gc.RemoveReferences, OwnerOrphans, owner, refs))
	return true
}

// tidy takes away what is absent or waiting beside a solid owner: a waiting
// owner would wait for this object, which stays.
func (c *Collector) tidy(i index, n, first count) {
	if n[dangling]+n[waiting] == 0 {
		return
	}
	at := first[dangling]
	if n[dangling] == 0 {
		at = first[waiting]
	}
	withWaiting := n[waiting] > 0 && c.allFresh(i, waiting)
	if n[waiting] > 0 && !withWaiting && n[dangling] == 0 {
		return
	}
	var refs []gc.Position
	for at, e := range c.at(i).owners {
		if j := c.judge(i, e); j == dangling || j == waiting && withWaiting {
			refs = append(refs, gc.Position{Index: at, Reference: c.reference(e)})
		}
	}
	c.emit(i, c.action(i, gc.RemoveReferences, ReferencesStale, c.at(i).owners[at].owner, refs))
}

// policy is how an object is deleted: its own finalizers decide, because
// deleting it with another policy would strip them.
func (c *Collector) policy(i index, otherwise gc.Policy) gc.Policy {
	switch f := c.at(i).flags; {
	case f&wantsOrphan != 0:
		return gc.Orphan
	case f&wantsForegr != 0:
		return gc.Foreground
	}
	return otherwise
}

// Conflicts in a row: atOnce are answered by a read and another request without a
// pause, and of an object that changes all the time as many after each pause; restless are too many to keep quiet about.
const (
	atOnce   = 5
	restless = 8
)

// remove asks for the deletion of an object.
func (c *Collector) remove(i index, p gc.Policy, why gc.Reason, at int) {
	owner := c.at(i).owners[at].owner
	if c.parks(i, owner) {
		return
	}
	w := c.workOf(i)
	if w.conflict && !w.unchanged || c.kinds.all[c.at(i).kind].aggregated && c.now.Sub(w.readAt) > c.config.FreshFor {
		w.reread = true
		c.readLive(i, w)
		return
	}
	a := c.action(i, gc.Delete, why, owner, nil)
	a.Policy = p
	if a.ResourceVersion == "" {
		// With the UID alone, what was adopted meanwhile would go.
		w.reread = true
		c.retry(i, w, c.config.RetryMin)
		return
	}
	a.Root = c.root(owner)
	c.passes(a.Root.UID)
	c.emit(i, a)
}

func (c *Collector) action(i index, v gc.Verb, why gc.Reason, owner index, refs []gc.Position) gc.Action {
	return gc.Action{
		Verb: v, Object: c.coordinates(i), ResourceVersion: c.precondition(i),
		Refs: refs, Reason: why, Owner: c.coordinates(owner),
	}
}
