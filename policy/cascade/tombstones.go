package cascade

import "strings"

// tombstones remember UIDs that are gone, so that a late event does not bring an object
// back, and a late dependent needs no live read. At capacity, the oldest is dropped.
type tombstones struct {
	byUID    map[string]tombstone
	order    []string // a ring of UIDs; a UID dropped from byUID keeps its slot
	next     int
	capacity int
}

type tombstone struct {
	version uint64 // of the DELETED event; 0: not known
	kind    uint32 // whose watch reported it
	slot    int    // in the order
}

// addTombstone notes that a watch of a kind reported a UID as deleted.
func (c *Collector) addTombstone(id string, kind kindName, version uint64) {
	g := &c.tombstones
	if old, ok := g.byUID[id]; ok {
		old.version = max(old.version, version)
		g.byUID[id] = old
		return
	}
	if g.byUID == nil {
		g.byUID = make(map[string]tombstone)
	}
	id = strings.Clone(id)
	slot := len(g.order)
	if slot < g.capacity {
		g.order = append(g.order, id)
	} else {
		slot = g.next
		if old := g.order[slot]; g.byUID[old].slot == slot {
			c.dropTombstone(old)
		}
		g.order[slot] = id
		g.next = (g.next + 1) % g.capacity
	}
	k := c.kinds.acquire(kind)
	c.kinds.all[k].tombstones++
	g.byUID[id] = tombstone{version, k, slot}
}

func (c *Collector) dropTombstone(id string) {
	if g, ok := c.tombstones.byUID[id]; ok {
		delete(c.tombstones.byUID, id)
		c.kinds.all[g.kind].tombstones--
		c.kinds.release(g.kind)
	}
}

// dropTombstones removes the tombstones of some kinds, in an order that the inputs
// determine.
func (c *Collector) dropTombstones(of func(kind uint32) bool) {
	for slot, id := range c.tombstones.order {
		if g, ok := c.tombstones.byUID[id]; ok && g.slot == slot && of(g.kind) {
			c.dropTombstone(id)
			c.reopen(c.chain(id))
		}
	}
	if len(c.tombstones.byUID) == 0 {
		c.tombstones.byUID, c.tombstones.order, c.tombstones.next = nil, nil, 0
	}
}

// reopen clears gone at all coordinates of a UID, and queues the dependents.
func (c *Collector) reopen(first index) {
	for s := first; s != 0; s = c.at(s).same {
		if n := c.at(s); n.flags&gone != 0 {
			n.flags &^= gone
			for _, d := range n.dependents {
				c.wake(d.dependent)
			}
		}
	}
}

// applyTombstone marks a new node as gone if its UID has a tombstone.
func (c *Collector) applyTombstone(i index) {
	if len(c.tombstones.byUID) == 0 {
		return
	}
	if _, dead := c.tombstones.byUID[c.uidOf(i)]; dead && !c.quarantined(i) {
		c.at(i).flags |= gone
	}
}
