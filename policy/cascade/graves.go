package cascade

import "strings"

// graves remember UIDs that are gone, so that a late event does not bring an
// object back, and a late dependent needs no live read. The oldest make room.
type graves struct {
	of    map[string]grave
	order []string // a ring; what is not in of any more keeps its place
	next  int
	room  int
}

type grave struct {
	version uint64 // at which it went; 0: not known
	kind    uint32 // whose watch told so
	slot    int    // in the order
}

// bury notes that a watch of a kind told the end of a UID.
func (c *Collector) bury(id string, kind kindName, version uint64) {
	g := &c.graves
	if old, ok := g.of[id]; ok {
		old.version = max(old.version, version)
		g.of[id] = old
		return
	}
	if g.of == nil {
		g.of = make(map[string]grave)
	}
	id = strings.Clone(id)
	slot := len(g.order)
	if slot < g.room {
		g.order = append(g.order, id)
	} else {
		slot = g.next
		if old := g.order[slot]; g.of[old].slot == slot {
			c.unbury(old)
		}
		g.order[slot] = id
		g.next = (g.next + 1) % g.room
	}
	k := c.kinds.acquire(kind)
	c.kinds.all[k].graves++
	g.of[id] = grave{version, k, slot}
}

func (c *Collector) unbury(id string) {
	if g, ok := c.graves.of[id]; ok {
		delete(c.graves.of, id)
		c.kinds.all[g.kind].graves--
		c.kinds.release(g.kind)
	}
}

// unburyAll forgets what was told of some kinds, in an order that the inputs determine.
func (c *Collector) unburyAll(of func(kind uint32) bool) {
	for slot, id := range c.graves.order {
		if g, ok := c.graves.of[id]; ok && g.slot == slot && of(g.kind) {
			c.unbury(id)
			c.reopen(c.chain(id))
		}
	}
	if len(c.graves.of) == 0 {
		c.graves.of, c.graves.order, c.graves.next = nil, nil, 0
	}
}

// reopen the question whether a UID is gone, at all coordinates that name it.
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

// recall tells a new node what is remembered of its UID.
func (c *Collector) recall(i index) {
	if len(c.graves.of) == 0 {
		return
	}
	if _, dead := c.graves.of[c.uidOf(i)]; dead && !c.quarantined(i) {
		c.at(i).flags |= gone
	}
}
