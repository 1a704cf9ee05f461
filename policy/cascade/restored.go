package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Contradicts says whether an object in a list cannot be as it is reported, if that list is
// of now and everything up to a version had been reported before: it was seen newer by then,
// or it is as old and was not seen at all. That is how an etcd looks that was restored
// and has gone on beyond what was seen: no version goes backwards but those of objects.
// It changes nothing.
func (c *Collector) Contradicts(o gc.Object, upTo uint64) bool {
	v, ok := version(o.ResourceVersion)
	if !ok || v > upTo || o.UID == "" || o.Name == "" {
		return false
	}
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	if !known {
		return true
	}
	if c.kinds.all[kind].aggregated {
		return false // versions there say nothing
	}
	i := c.find(key{o.UID, o.Name, o.Namespace, kind})
	if i == 0 || c.at(i).flags&observed == 0 {
		return true
	}
	n := c.at(i)
	return n.flags&(opaque|restored) == 0 && v < n.version && n.version <= upTo
}

// Restored says that resourceVersions went backwards: etcd was restored from a
// backup. What was gone may be there again, any version may be seen anew, and may
// mean something else than before: until an object is seen again it is not acted
// on, and as an owner it is solid. Every type is to be listed next; answers to
// what was asked before are ignored.
func (c *Collector) Restored(now time.Time) {
	c.now = now
	c.dropTombstones(func(uint32) bool { return true })
	c.out = nil
	c.roots.of = nil
	clear(c.inFlight)
	for _, known := range c.journal.entries() {
		e := c.journal.of(known.UID)
		e.asked, e.left = true, time.Time{} // what had happened may not have
	}
	clear(c.absent.absences)
	clear(c.absent.witnesses)
	clear(c.absent.asking)
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
