package cascade

import "time"

// Restored says that resourceVersions went backwards: etcd was restored from a
// backup. What was gone may be there again, any version may be seen anew, and may
// mean something else than before: until an object is seen again it is not acted
// on, and as an owner it is solid. Every type is to be listed next; answers to
// what was asked before are ignored.
func (c *Collector) Restored(now time.Time) {
	c.now = now
	c.graves.versions, c.graves.order, c.graves.next = nil, nil, 0
	c.out = nil
	clear(c.inFlight)
	// A barrier that runs rests on versions of before; its passing is ignored.
	c.barrier.passed, c.barrier.waiting, c.barrier.holders = c.barrier.last, nil, nil
	for i := index(1); i <= c.used; i++ {
		n := c.at(i)
		if n.next == 0 {
			continue
		}
		n.flags &^= gone | proven
		if n.flags&observed != 0 {
			n.flags |= restored
		}
		if w := c.work[i]; w != nil {
			*w = work{wanted: w.wanted, recheck: w.recheck}
			c.wake(i)
		}
		if n.flags&observed == 0 {
			for _, d := range n.dependents {
				c.wake(d.dependent)
			}
		}
	}
}
