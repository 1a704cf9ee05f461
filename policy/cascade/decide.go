package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// decide evaluates one node and emits the action that is due now, if any.
//
// The rules:
//
//   - Only dangling owners: delete. The object's own finalizers choose the policy, because
//     any other policy would strip them.
//   - A solid owner: the dangling and waiting references beside it are removed.
//   - Only waiting (and dangling) owners: delete, in the foreground if the object has
//     dependents itself. If one of those waits, too, the object's own references are
//     unblocked first: they may be a circle.
//   - Deleted and waiting: once no reference blocks it, foregroundDeletion is removed. Two
//     objects that wait for each other are unblocked. (The kube-controller-manager leaves
//     those forever, and an object that refers to itself.)
//   - Deleted with orphan: the journal records it, then all known references to its UID are
//     removed, then the finalizer is.
//   - A reference to an absent owner that is in the journal: it is removed, and never
//     causes a deletion.
//   - Terminating otherwise: nothing.
//
// Two behaviours of the kube-controller-manager are left out on purpose. It deletes a
// dependent of a waiting owner in the foreground even if the dependent has the finalizer
// orphan. It counts a reference as blocking whatever its coordinates.
//
// Excluded objects are neither deleted nor patched, with one exception. If an excluded
// object was deleted, the collector removes its foregroundDeletion or orphan finalizer once
// nothing holds it any more.
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
			// The action is Done, but its effect was not seen for Config.Settle: read the
			// object.
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

// readLive emits a live read if one is wanted. It reports whether the evaluation must wait.
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
		w.wanted = false // the watch reports it, and its changes
		if !w.reread {
			return false
		}
	}
	if !c.reachable(i) {
		return true // TypeCame wakes it
	}
	if n.flags&observed == 0 && c.kinds.all[n.kind].phase == listing && n.flags&doubted == 0 {
		return true // the list may have it; Synced wakes it
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

// emit adds an action about a node to the output.
func (c *Collector) emit(i index, a gc.Action) {
	w := c.workOf(i)
	if w.withheld == a.Verb && w.withheldFor == a.Reason {
		return // nothing has changed that would make the caller want it now
	}
	c.lastID++
	a.ID, w.id = c.lastID, c.lastID
	w.verb, w.reason, w.seen, w.overtaken, w.released, w.due = a.Verb, a.Reason, false, false, false, time.Time{}
	if a.ResourceVersion != "" {
		w.moved, w.tried = a.ResourceVersion != w.tried, a.ResourceVersion
	}
	c.inFlight[a.ID] = i
	c.out = append(c.out, a)
}

// ask requests a live read of an owner, once for all its dependents.
func (c *Collector) ask(owner index) {
	w := c.workOf(owner)
	if !w.wanted {
		w.wanted = true
		c.wake(owner)
	}
}

// fresh reports whether an owner was read live within Config.FreshFor. From half that age on it
// requests another read, so that no decision waits for it. The read may have been sent a little
// after now.
func (c *Collector) fresh(owner index) bool {
	w := c.work[owner]
	if w == nil || w.readAt.IsZero() {
		c.ask(owner)
		return false
	}
	age := c.now.Sub(w.readAt).Abs()
	if age > c.config.FreshFor/2 {
		c.ask(owner)
	}
	return age <= c.config.FreshFor
}

// allFresh reports whether all owners of a node that are judged j are fresh. It requests
// live reads like fresh.
func (c *Collector) allFresh(i index, j judgement) bool {
	ok := true
	for _, e := range c.at(i).owners {
		if c.judge(i, e) == j && !c.fresh(c.seenAs(e.owner)) {
			ok = false
		}
	}
	return ok
}

// decideDependent evaluates an object that is not being deleted.
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
		// An unknown owner never causes a deletion.
	case n[waiting] > 0:
		c.followWaiting(i, first[waiting])
	default:
		c.remove(i, c.policy(i, gc.Background), OwnersAbsent, first[dangling])
	}
}

// leaveOrphaning removes references to owners that orphan their dependents. It reports
// whether there are any. The dangling references are removed with them: left alone, they
// would cause the deletion of an object that is to stay.
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
				return true // Synced of the owner's type wakes it
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

// tidy removes absent and waiting owners beside a solid one: a waiting owner would wait for
// this object, which stays.
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

// policy is the propagation policy for an object's deletion. Its own finalizers decide,
// because another policy would strip them.
func (c *Collector) policy(i index, otherwise gc.Policy) gc.Policy {
	switch f := c.at(i).flags; {
	case f&wantsOrphan != 0:
		return gc.Orphan
	case f&wantsForegr != 0:
		return gc.Foreground
	}
	return otherwise
}

// Limits for conflicts in a row. After each of the first atOnce conflicts, a read and
// another request follow without a pause. An object that changes all the time gets atOnce
// requests after each pause. At restless conflicts a warning is emitted.
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
		// With the UID as the only precondition, an object that was adopted since would be
		// deleted.
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
