package cascade

import (
	"slices"

	"github.com/ebb-agent/ebb/policy/gc"
)

// ownerKey is the key of the owner that a reference of a dependent in namespace names. A
// cluster-scoped owner has no namespace, any other has its dependent's. While the scope of
// a type is not known, the type is treated as namespaced; rescope corrects that.
func (c *Collector) ownerKey(r gc.Reference, namespace string, kind uint32) key {
	if k := &c.kinds.all[kind]; k.scoped && !k.namespaced {
		namespace = ""
	}
	return key{r.UID, r.Name, namespace, kind}
}

// sameOwners reports whether a node's references equal refs, in the same order.
func (c *Collector) sameOwners(i index, refs []gc.Reference) bool {
	owners := c.at(i).owners
	if len(owners) != len(refs) {
		return false
	}
	for at, e := range owners {
		r, o := refs[at], c.at(e.owner)
		k := &c.kinds.all[o.kind]
		if e.block != r.Block || o.name != r.Name || k.kind != r.Kind || k.apiVersion != r.APIVersion || o.uid != gc.UIDOf(r.UID) {
			return false
		}
	}
	return true
}

// setOwners replaces a node's references. The new ones are linked first, so that the state
// of an owner in both lists is not forgotten in between.
func (c *Collector) setOwners(i index, refs []gc.Reference) {
	n := c.at(i)
	namespace := c.namespaces.all[n.namespace].text
	fresh := make([]edge, len(refs))
	for at, r := range refs {
		kind := c.kinds.acquire(kindName{r.APIVersion, r.Kind})
		k := c.ownerKey(r, namespace, kind)
		owner := c.find(k)
		if owner == 0 {
			owner = c.add(k)
			c.applyTombstone(owner)
		}
		c.kinds.release(kind) // the node holds it now
		o := c.at(owner)
		fresh[at] = edge{owner, uint32(len(o.dependents)), r.Block}
		o.dependents = append(o.dependents, backref{i, uint32(at)})
		if r.Block && owner != i {
			o.blocking++
		}
	}
	old := n.owners
	n.owners = nil
	if len(fresh) > 0 {
		n.owners = fresh
	}
	for at := range old {
		c.unlink(i, old, at)
	}
}

// unlink removes one edge from the owner's list. old are the node's edges before the
// change.
func (c *Collector) unlink(i index, old []edge, at int) {
	e := old[at]
	old[at].owner = 0
	o := c.at(e.owner)
	last := uint32(len(o.dependents) - 1)
	moved := o.dependents[last]
	o.dependents[e.at] = moved
	o.dependents = o.dependents[:last]
	if e.at != last {
		edges := c.at(moved.dependent).owners
		// The moved entry may belong to one of the old edges, too.
		if moved.dependent == i && int(moved.at) < len(old) && old[moved.at].owner == e.owner && old[moved.at].at == last {
			edges = old
		}
		edges[moved.at].at = e.at
	}
	if last == 0 {
		o.dependents = nil
	} else if cap(o.dependents) > 64 && int(last) < cap(o.dependents)/4 {
		o.dependents = slices.Clone(o.dependents)
	}
	if e.block && e.owner != i {
		o.blocking--
	}
	c.ownerChanged(e.owner)
}

// ownerChanged handles an owner that lost a dependent.
func (c *Collector) ownerChanged(owner index) {
	c.wakeTerminating(owner) // which may be another node of the same UID
	if o := c.at(owner); len(o.dependents) == 0 && o.flags&observed == 0 {
		c.drop(owner)
	}
}

// wakeTerminating queues every terminating object of a UID: it may have waited for its
// dependents.
func (c *Collector) wakeTerminating(i index) {
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if c.at(s).flags&(observed|terminating) == observed|terminating {
			c.wake(s)
		}
	}
}

// rescope moves references to the right owners after the scope of a kind became known or
// changed.
func (c *Collector) rescope(kind uint32) {
	for _, i := range c.nodesOf(kind) {
		var wrong []index
		for _, d := range c.at(i).dependents {
			if c.misplaced(i, d.dependent) {
				wrong = append(wrong, d.dependent)
			}
		}
		for _, d := range wrong {
			// A dependent that has two references here is corrected by the first.
			c.setOwners(d, c.references(d))
			c.wake(d)
		}
	}
}

func (c *Collector) misplaced(owner, dependent index) bool {
	k := &c.kinds.all[c.at(owner).kind]
	want := c.namespaces.all[c.at(dependent).namespace].text
	if k.scoped && !k.namespaced {
		want = ""
	}
	return c.namespaces.all[c.at(owner).namespace].text != want
}

// references returns a node's owner references as they were written.
func (c *Collector) references(i index) []gc.Reference {
	owners := c.at(i).owners
	refs := make([]gc.Reference, len(owners))
	for at := range owners {
		refs[at] = c.reference(owners[at])
	}
	return refs
}

func (c *Collector) reference(e edge) gc.Reference {
	o := c.at(e.owner)
	k := &c.kinds.all[o.kind]
	return gc.Reference{APIVersion: k.apiVersion, Kind: k.kind, Name: o.name, UID: c.uidOf(e.owner), Block: e.block}
}
