package cascade

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Observe handles an object that a list or a watch reported. An object older than the known
// one is ignored, where resourceVersions can be compared.
func (c *Collector) Observe(now time.Time, o gc.Object) {
	c.now = now
	c.observe(o, true)
}

// observe handles an object. streamed is whether a list or a watch reported it, and not the
// response to a request. Only a streamed object counts as named by the current list: an
// object that a list does not name is missing, whatever a response reported in between.
func (c *Collector) observe(o gc.Object, streamed bool) {
	if o.UID == "" || o.Name == "" {
		return // it cannot be named, or deleted with a precondition
	}
	if !c.mayExistAgain(o) {
		return
	}
	kind := c.kinds.acquire(kindName{o.APIVersion, o.Kind})
	k := key{o.UID, o.Name, o.Namespace, kind}
	i := c.find(k)
	if i == 0 {
		i = c.add(k)
	}
	c.kinds.release(kind)
	n := c.at(i)
	if streamed {
		n.epoch = c.kinds.all[kind].epoch
	}
	if n.flags&observed != 0 && !c.newer(i, o.ResourceVersion) {
		return
	}
	c.apply(i, o)
}

// newer reports whether a resourceVersion is newer than the known one.
func (c *Collector) newer(i index, text string) bool {
	n := c.at(i)
	if n.flags&restored != 0 {
		return true
	}
	v, ok := version(text)
	switch {
	case n.flags&opaque != 0 || !ok:
		return c.versions[i] != text || text == ""
	case c.quarantined(i):
		return v != n.version
	}
	return v > n.version
}

// mayExistAgain reports whether an object may exist although its UID has a tombstone.
func (c *Collector) mayExistAgain(o gc.Object) bool {
	tombstone, dead := c.tombstones.byUID[o.UID]
	if !dead || c.ofQuarantine(o) {
		return true
	}
	if v, ok := version(o.ResourceVersion); ok && tombstone.version != 0 && v <= tombstone.version {
		return false // a late event
	}
	c.dropTombstone(o.UID)
	for s := c.chain(o.UID); s != 0; s = c.at(s).same {
		c.at(s).flags &^= gone
	}
	return true
}

func (c *Collector) apply(i index, o gc.Object) {
	n := c.at(i)
	before, owners, sum := n.flags, c.sameOwners(i, o.Owners), finalizerSum(o.Finalizers)
	c.setVersion(i, o.ResourceVersion)
	n.flags &^= terminating | wantsOrphan | wantsForegr | proven | gone | doubted | restored
	n.flags |= observed
	delete(c.absent.absences, i)
	if o.Terminating {
		n.flags |= terminating
	}
	n.orphanAt, n.foregrAt = 0, 0
	for at, f := range o.Finalizers {
		switch at := uint8(min(at, 255)); f {
		case gc.OrphanFinalizer:
			n.flags, n.orphanAt = n.flags|wantsOrphan, at
		case gc.ForegroundFinalizer:
			n.flags, n.foregrAt = n.flags|wantsForegr, at
		}
	}
	if !owners {
		c.setOwners(i, o.Owners)
	}
	if !o.Terminating {
		c.roots.forget(i)
	}
	c.containerSeen(i)
	const decisive = observed | terminating | wantsOrphan | wantsForegr | restored
	changed := !owners || sum != n.finalizers || (before^n.flags)&decisive != 0
	n.finalizers = sum
	c.seen(i, changed)
	if changed {
		c.wake(i) // before its dependents: its Record runs while they are handled
	}
	if (before^n.flags)&decisive != 0 {
		c.wakeDependents(i)
	}
	if changed {
		c.warn(i)
	}
}

// seen notes in a node's work that the object was seen in a new version.
func (c *Collector) seen(i index, changed bool) {
	w := c.work[i]
	if w == nil {
		return
	}
	w.seen, w.asRead = true, ""
	// In quarantine this version may be older than the action.
	if w.sent && !(w.verb == gc.Delete && c.quarantined(i) && c.at(i).flags&terminating == 0) {
		w.sent, w.due = false, time.Time{}
		c.wake(i)
	}
	if changed {
		w.conflicts, w.conflict, w.unchanged, w.withheld = 0, false, false, 0
		if c.quarantined(i) {
			w.readAt = time.Time{} // the last live read differs from the stream now
		}
	}
}

// Forget handles a DELETED event of a watch: the UID is permanently gone.
//
// Forget is for these events only: an object that is missing from a list proves nothing.
func (c *Collector) Forget(now time.Time, o gc.Object) {
	c.now = now
	if o.UID == "" {
		return
	}
	if c.ofQuarantine(o) {
		c.forgetQuarantined(o)
		return
	}
	v, _ := version(o.ResourceVersion)
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	if i := c.find(key{o.UID, o.Name, o.Namespace, kind}); known && i != 0 {
		if n := c.at(i); n.flags&(observed|restored) == observed && v != 0 && n.flags&opaque == 0 && v < n.version {
			return // from before an etcd restore, after which the object was seen again
		}
		c.goneToo(i)
		c.vanish(i, gone)
	}
	for s := c.chain(o.UID); s != 0; s = c.at(s).same {
		if c.at(s).flags&observed != 0 {
			return // the same object has another name, too (aggregated views do that): not proven gone
		}
	}
	c.addTombstone(o.UID, kindName{o.APIVersion, o.Kind}, v)
	for s := c.chain(o.UID); s != 0; s = c.at(s).same {
		if !c.quarantined(s) {
			c.at(s).flags |= gone
			c.forgetWork(s) // a read in flight is older than the event
		}
	}
	if s := c.chain(o.UID); s != 0 {
		c.wakeDependents(s)
	}
}

// goneToo removes the same object where it was read in another version.
func (c *Collector) goneToo(i index) {
	for again := true; again; {
		again = false
		for s := c.firstOf(i); s != 0 && !again; s = c.at(s).same {
			if s != i && c.at(s).flags&observed != 0 && c.sameObject(s, i) {
				c.vanish(s, gone)
				again = true // vanish may have changed the chain
			}
		}
	}
}

// vanish marks an object as absent. why is the proof: gone, proven, or doubted if there is
// none.
func (c *Collector) vanish(i index, why trait) {
	c.noteRoot(i)
	c.containerGone(i, why)
	n := c.at(i)
	old := n.owners
	n.owners = nil
	for at := range old {
		c.unlink(i, old, at)
	}
	was := n.flags & observed
	n.flags &^= observed | terminating | wantsOrphan | wantsForegr | restored
	n.flags |= why
	if why != doubted {
		c.left(i)
	}
	wanted := c.work[i] != nil && c.work[i].wanted
	c.forgetWork(i)
	c.setVersion(i, "")
	if was != 0 || why != doubted {
		c.wakeDependents(i) // also those that refer to it in another version
	}
	if len(n.dependents) == 0 {
		c.drop(i)
		return
	}
	if wanted && why == doubted {
		c.workOf(i).wanted = true
		c.wake(i)
	}
}

// warn emits OwnerRefInvalidNamespace for dependents whose owner was seen in another
// namespace: the dependents of i, and i itself.
func (c *Collector) warn(i index) {
	for _, e := range c.at(i).owners {
		c.warnOf(i, e.owner)
	}
	n := c.at(i)
	if n.same == 0 && c.firstOf(i) == i || n.flags&observed == 0 {
		return
	}
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if s == i || c.at(s).flags&observed != 0 {
			continue
		}
		for _, d := range slices.Clone(c.at(s).dependents) {
			c.warnOf(d.dependent, s)
		}
	}
}

func (c *Collector) warnOf(dependent, owner index) {
	d := c.at(dependent)
	if d.flags&(observed|invalidNS) != observed || c.at(owner).flags&observed != 0 || c.excluded(dependent) {
		return
	}
	for s := c.firstOf(owner); s != 0; s = c.at(s).same {
		o := c.at(s)
		namespaced := c.namespaces.all[o.namespace].text != ""
		if o.flags&observed != 0 && namespaced && o.namespace != d.namespace {
			d.flags |= invalidNS
			c.out = append(c.out, gc.Action{Verb: gc.Warn, Object: c.coordinates(dependent), Reason: InvalidNamespace, Owner: c.coordinates(owner)})
			return
		}
	}
}
