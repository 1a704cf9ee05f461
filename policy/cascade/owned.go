package cascade

import "github.com/ebb-agent/ebb/policy/gc"

// Owned is an object that has owners, and the judgement of each reference.
type Owned struct {
	Object      gc.Coordinates
	Terminating bool
	Owners      []Explained // in the order of its ownerReferences; valid until the next yield
}

// Owned yields every object that has owners. It changes nothing.
func (c *Collector) Owned(yield func(Owned) bool) {
	var x Owned
	for i := index(1); i <= c.used; i++ {
		n := c.at(i)
		if n.next == 0 || n.flags&observed == 0 || len(n.owners) == 0 {
			continue
		}
		x.Object, x.Terminating, x.Owners = c.coordinates(i), n.flags&terminating != 0, x.Owners[:0]
		for _, e := range n.owners {
			x.Owners = append(x.Owners, Explained{c.coordinates(e.owner), c.judge(i, e).String()})
		}
		if !yield(x) {
			return
		}
	}
}

// Seen returns the objects that were seen with a UID. Usually this is one object, under
// several coordinates if several versions of its type were read.
func (c *Collector) Seen(uid string) (list []gc.Coordinates) {
	for s := c.chain(uid); s != 0; s = c.at(s).same {
		if c.at(s).flags&observed != 0 {
			list = append(list, c.coordinates(s))
		}
	}
	return list
}

// Unresolved counts references that cannot be resolved now. types are those to types that
// are not served; namespaces are those of cluster-scoped objects to namespaced owners.
// Objects that are being deleted do not count. It visits every reference: some milliseconds
// for 100,000.
func (c *Collector) Unresolved() (types, namespaces int) {
	for i := index(1); i <= c.used; i++ {
		n := c.at(i)
		if n.next == 0 || n.flags&(observed|terminating) != observed {
			continue
		}
		for _, e := range n.owners {
			o := c.at(e.owner)
			if k := &c.kinds.all[o.kind]; o.flags&observed != 0 && k.scoped && !k.namespaced {
				continue // nearly all owners of cluster-scoped objects
			}
			switch c.judge(i, e) {
			case unresolvable:
				namespaces++
			case unknown:
				if c.kinds.all[o.kind].phase == unserved {
					types++
				}
			}
		}
	}
	return types, namespaces
}
