package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Contradicts reports whether an object in a list proves that etcd was restored. The list
// must be current, and everything up to version upTo must have been reported before. The
// object is a contradiction if by then it was seen in a newer version, or if its version is
// at most upTo and it was not seen at all. That detects a restored etcd that has already
// passed the versions that were seen: only the versions of single objects go backwards.
// Contradicts changes nothing.
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
		return false // versions of other API servers prove nothing
	}
	i := c.find(key{o.UID, o.Name, o.Namespace, kind})
	if i == 0 || c.at(i).flags&observed == 0 {
		return true
	}
	n := c.at(i)
	return n.flags&(opaque|restored) == 0 && v < n.version && n.version <= upTo
}

// Restored handles resourceVersions that went backwards: etcd was restored from a backup.
// Objects that were gone may exist again. Any version may appear a second time, and may
// mean something else than before. Until an object is seen again, no action is taken on it,
// and as an owner it is solid. Every type is to be listed next. Answers to earlier actions
// are ignored.
func (c *Collector) Restored(now time.Time) {
	c.now = now
	c.dropTombstones(func(uint32) bool { return true })
	c.out = nil
	c.roots.of = nil
	clear(c.inFlight)
	for _, e := range c.journal {
		e.asked, e.left = true, time.Time{} // earlier events may not have happened in this history
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
