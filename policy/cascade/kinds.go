package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// TypeCame says that a type is served, and how. Its objects are to be listed
// next: [Collector.Listing], Observe for each, [Collector.Synced].
//
// The watch's events follow, in order. Types are independent of each other.
func (c *Collector) TypeCame(now time.Time, t gc.Type) {
	c.now = now
	id := c.kinds.acquire(kindName{t.APIVersion, t.Kind})
	k := &c.kinds.all[id]
	if k.phase != unserved {
		c.kinds.release(id) // once is enough
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

// TypeWent says that a type is not served any more, as far as discovery knows.
// That deletes nothing and proves nothing; its objects are left alone until it
// comes again.
func (c *Collector) TypeWent(now time.Time, apiVersion, kind string) {
	c.now = now
	id, ok := c.kinds.ids[kindName{apiVersion, kind}]
	if !ok || c.kinds.all[id].phase == unserved {
		return
	}
	c.enter(id, unserved)
	c.distrust(id)
	c.wakeOrphaning(id)
	c.kinds.release(id)
	c.releaseHeld()
}

// Listing says that a list of a type begins: what it does not name until Synced
// is missing.
func (c *Collector) Listing(now time.Time, apiVersion, kind string) {
	c.now = now
	if id, ok := c.served(apiVersion, kind); ok {
		if c.kinds.all[id].phase != synced {
			c.enter(id, listing)
		}
		c.kinds.all[id].epoch++
	}
}

// Unreadable says that a type cannot be listed or watched at present. What was
// known to be gone is asked about again.
func (c *Collector) Unreadable(now time.Time, apiVersion, kind string) {
	c.now = now
	if id, ok := c.served(apiVersion, kind); ok && c.kinds.all[id].phase != unreadable {
		c.enter(id, unreadable)
		c.doubt(id)
		c.wakeKind(id)
		c.wakeOrphaning(id)
		if ok, _ := c.listed(); ok {
			c.releaseHeld() // one of another API server holds nothing
		}
	}
}

// wakeOrphaning looks again at owners that leave their dependents behind, and have some of
// a type: one that cannot be read holds them no longer.
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

// doubt takes back what was proven of a type's objects, in all its versions: who
// answers next may be an API server whose etcd was restored, and has gone on beyond the
// versions that were seen, so that nothing tells. It costs a live read for each owner
// whose dependents are yet to go.
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

// Synced says that everything of a list was observed. What was missing from it
// is gone, as it seems: of each that has dependents, one live read will tell.
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
	c.wakeKind(id)
	if ok, _ := c.listed(); ok {
		c.releaseHeld()
	}
}

func (c *Collector) served(apiVersion, name string) (id uint32, ok bool) {
	id, ok = c.kinds.ids[kindName{apiVersion, name}]
	return id, ok && c.kinds.all[id].phase != unserved
}

// enter changes the phase of a type. How long it has not been synced counts from
// when it last was, whatever happened since.
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

// wakeKind looks again at what may have waited for a type: its objects, and the
// dependents of those of its owners that were not seen.
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

// listed says whether every type has been listed, or has not for so long that it
// holds nothing any more. If not, an alarm is set for the moment when it may.
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
