package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// TypeCame adds or updates a type that is served. Its objects are to be listed next:
// [Collector.Listing], Observe for each, [Collector.Synced].
//
// The watch's events follow, in order. Types are independent of each other.
func (c *Collector) TypeCame(now time.Time, t gc.Type) {
	c.now = now
	id := c.kinds.acquire(kindName{t.APIVersion, t.Kind})
	k := &c.kinds.all[id]
	if k.phase != unserved {
		c.kinds.release(id) // acquired already
		k = &c.kinds.all[id]
	} else {
		c.enter(id, listing)
		if t.Unwatched {
			c.enter(id, unwatched)
		}
	}
	moved := !k.scoped && !t.Namespaced || k.scoped && k.namespaced != t.Namespaced
	k.resource, k.scoped, k.namespaced = t.Resource, true, t.Namespaced
	k.aggregated, k.excluded = t.Aggregated, t.Excluded
	if moved {
		c.rescope(id)
	}
	c.wakeKind(id)
}

// TypeWent marks a type as not served any more, according to discovery. That deletes
// nothing and proves nothing. Its objects are left alone until the type is served again.
func (c *Collector) TypeWent(now time.Time, apiVersion, kind string) {
	c.now = now
	id, ok := c.kinds.ids[kindName{apiVersion, kind}]
	if !ok || c.kinds.all[id].phase == unserved {
		return
	}
	c.enter(id, unserved)
	c.distrust(id)
	c.wakeOrphaning(id)
	c.forgetVersions(id)
	c.kinds.release(id)
	c.releaseHeld()
}

// Listing begins a list of a type: objects that it does not name until Synced are missing.
func (c *Collector) Listing(now time.Time, apiVersion, kind string) {
	c.now = now
	if id, ok := c.served(apiVersion, kind); ok {
		if c.kinds.all[id].phase != synced {
			c.enter(id, listing)
		}
		c.kinds.all[id].epoch++
	}
}

// Unreadable marks a type that cannot be listed or watched at present. Owners of it that
// were proven gone are read again.
func (c *Collector) Unreadable(now time.Time, apiVersion, kind string) {
	c.now = now
	if id, ok := c.served(apiVersion, kind); ok && c.kinds.all[id].phase != unreadable {
		c.enter(id, unreadable)
		c.doubt(id)
		c.wakeKind(id)
		c.wakeOrphaning(id)
		if ok, _ := c.listed(); ok {
			c.releaseHeld() // an unreadable aggregated type holds nothing
		}
	}
}

// wakeOrphaning queues owners that orphan their dependents and have some of a type: if the
// type cannot be read, its objects hold them no longer.
func (c *Collector) wakeOrphaning(id uint32) {
	for _, i := range c.nodesOf(id) {
		for _, e := range c.at(i).owners {
			for s := c.firstOf(e.owner); s != 0; s = c.at(s).same {
				if c.at(s).flags&observed != 0 && c.condition(s) == orphaning {
					c.wake(s)
				}
			}
		}
	}
}

// doubt drops the proofs that objects of a type are gone, in all its versions. The next
// answers may come from an API server whose etcd was restored, and has already passed the
// versions that were seen, so that nothing shows the restore. The cost is a live read for
// each owner whose dependents are yet to be deleted.
func (c *Collector) doubt(id uint32) {
	if c.kinds.all[id].aggregated {
		c.distrust(id)
	}
	group, base := c.kinds.all[id].group, c.kinds.all[id].base
	concerns := func(other uint32) bool {
		k := &c.kinds.all[other]
		return k.group == group && k.base == base
	}
	tombstones := 0
	for other := range c.kinds.all {
		if !concerns(uint32(other)) {
			continue
		}
		tombstones += c.kinds.all[other].tombstones
		for _, i := range c.nodesOf(uint32(other)) {
			if n := c.at(i); n.flags&(gone|proven) != 0 {
				c.reopen(c.firstOf(i))
				n.flags &^= proven
				for _, d := range n.dependents {
					c.wake(d.dependent)
				}
			}
		}
	}
	if tombstones > 0 {
		c.dropTombstones(concerns)
	}
}

// Synced ends a list: all its objects were observed. Objects missing from it are probably
// gone. Each of those with dependents is read live, once.
func (c *Collector) Synced(now time.Time, apiVersion, kind string) {
	c.now = now
	id, ok := c.served(apiVersion, kind)
	if !ok {
		return
	}
	c.enter(id, synced)
	for _, i := range c.inFlight {
		if c.at(i).kind == id {
			c.work[i].overtaken = true
		}
	}
	epoch := c.kinds.all[id].epoch
	for _, i := range c.nodesOf(id) {
		if n := c.at(i); n.kind == id && n.flags&observed != 0 && n.epoch != epoch {
			c.vanish(i, doubted)
		}
	}
	c.forgetVersions(id)
	c.wakeKind(id)
	if ok, _ := c.listed(); ok {
		c.releaseHeld()
	}
}

// forgetVersions forgets the objects of a type in the versions that are not served any more, once they
// are all known in another version. No watch reports on them in the old ones.
func (c *Collector) forgetVersions(id uint32) {
	group, base, resource := c.kinds.all[id].group, c.kinds.all[id].base, c.kinds.all[id].resource
	listed, withdrawn := false, []uint32(nil)
	for other := range c.kinds.all {
		switch k := &c.kinds.all[other]; {
		case k.group != group || k.base != base || k.resource != resource:
		case k.phase == synced:
			listed = true
		case k.phase == unserved:
			withdrawn = append(withdrawn, uint32(other))
		}
	}
	if !listed {
		return
	}
	for _, old := range withdrawn {
		for _, i := range c.nodesOf(old) {
			if n := c.at(i); n.kind == old && n.flags&observed != 0 {
				c.vanish(i, doubted)
			}
		}
	}
}

func (c *Collector) served(apiVersion, name string) (id uint32, ok bool) {
	id, ok = c.kinds.ids[kindName{apiVersion, name}]
	return id, ok && c.kinds.all[id].phase != unserved
}

// enter changes the phase of a type. since is not reset when one incomplete phase follows
// another.
func (c *Collector) enter(id uint32, to phase) {
	k := &c.kinds.all[id]
	if !k.phase.incomplete() && to.incomplete() {
		c.incomplete++
		k.since = c.now
	} else if k.phase.incomplete() && !to.incomplete() {
		c.incomplete--
	}
	k.phase = to
}

// wakeKind queues nodes that may have waited for a type: its objects, and the dependents of
// its owners that were not seen.
func (c *Collector) wakeKind(id uint32) {
	for _, i := range c.nodesOf(id) {
		n := c.at(i)
		switch {
		case n.flags&observed != 0 && (len(n.owners) > 0 || n.flags&terminating != 0) || c.work[i] != nil:
			c.wake(i)
			if c.condition(i) == orphaning {
				c.wakeDependents(i)
			}
		case n.flags&observed == 0:
			for _, d := range n.dependents {
				c.wake(d.dependent)
			}
		}
	}
}

// listed reports whether every type has been listed, or has been incomplete for longer than
// Config.ForegroundPatience. An unreadable type of another API server does not count. If ok
// is false, again is the earliest time at which a type has been incomplete for that long.
func (c *Collector) listed() (ok bool, again time.Time) {
	ok = true
	if c.incomplete == 0 {
		return ok, again
	}
	for id := range c.kinds.all {
		k := &c.kinds.all[id]
		if !k.phase.incomplete() || k.aggregated && k.phase == unreadable {
			continue
		}
		if until := k.since.Add(c.config.ForegroundPatience); c.now.Before(until) {
			ok = false
			if again.IsZero() || until.Before(again) {
				again = until
			}
		}
	}
	return ok, again
}
