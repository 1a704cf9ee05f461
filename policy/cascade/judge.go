package cascade

import "github.com/ebb-agent/ebb/policy/gc"

// judgement is the state of one owner reference, at its own coordinates.
//
// The coordinates are apiVersion, kind, name and UID, and the namespace of the dependent if
// the owner's type is namespaced. References that give one UID different coordinates are
// judged separately. A reference is
//
//   - solid if the object was seen at these coordinates (the same object in another version
//     of its group counts), and is not waiting;
//   - waiting if that object is being deleted and has foregroundDeletion;
//   - orphaning if it is being deleted and has orphan: still solid, but its dependents are
//     to be orphaned;
//   - dangling if a DELETED event reported the UID, or a live read proved the owner absent;
//   - unresolvable if the dependent is cluster-scoped and the owner's type is namespaced;
//   - unknown otherwise: not seen yet, missing from a list, or its type not served.
//
// An owner that is gone stays gone. A deletion that no watch reported (the owner is missing
// from a list) is only a reason to read the owner live, once for all its dependents.
//
// A waiting owner may stop waiting: a second DELETE with Orphan rewrites its finalizers,
// and does not change the dependents' versions. So the owner is read again, at most
// Config.FreshFor before the action.
type judgement uint8

const (
	unknown judgement = iota // nothing is proven: never causes a deletion
	solid
	orphaning // still solid, and about to orphan its dependents
	waiting   // exists, and is deleted in the foreground
	dangling  // permanently absent
	unresolvable
)

func (j judgement) String() string {
	return [...]string{"unknown", "solid", "orphaning", "waiting", "dangling", "unresolvable"}[j]
}

// judge returns the judgement of one reference of a dependent.
func (c *Collector) judge(dependent index, e edge) judgement {
	o := c.at(e.owner)
	k := &c.kinds.all[o.kind]
	// A namespaced object cannot own a cluster-scoped one: the reference does not contain
	// the owner's namespace.
	if (!k.scoped || k.namespaced) && c.namespaces.all[c.at(dependent).namespace].text == "" {
		if k.scoped {
			return unresolvable
		}
		if s := c.seenAs(e.owner); s != 0 { // cluster-scoped, in another version of its group
			return c.condition(s)
		}
		return unknown // until its type is served
	}
	if s := c.seenAs(e.owner); s != 0 {
		return c.condition(s)
	}
	if o.flags&(gone|proven) != 0 {
		return dangling
	}
	return unknown
}

// seenAs returns the node of the object that an owner's coordinates name: the owner's node,
// or the same object as it is watched in another version of its group; 0 if it was not
// seen.
func (c *Collector) seenAs(owner index) index {
	o := c.at(owner)
	watched := c.kinds.all[o.kind].phase != unwatched
	if o.flags&observed != 0 && watched {
		return owner
	}
	for s := c.firstOf(owner); s != 0; s = c.at(s).same {
		if s != owner && c.at(s).flags&observed != 0 && c.sameObject(s, owner) {
			return s
		}
	}
	if o.flags&observed != 0 {
		return owner
	}
	return 0
}

// sameObject reports whether an object with the UID of an owner is what the owner's
// coordinates name, in whatever version. For a version that is not served it is not known
// whether it is namespaced: then the seen version decides.
func (c *Collector) sameObject(seen, owner index) bool {
	x, y := c.at(seen), c.at(owner)
	k, l := &c.kinds.all[x.kind], &c.kinds.all[y.kind]
	placed := x.namespace == y.namespace || !l.scoped && c.namespaces.all[x.namespace].text == ""
	return x.name == y.name && placed && k.group == l.group && k.base == l.base
}

func (c *Collector) condition(i index) judgement {
	switch f := c.at(i).flags; {
	case f&terminating == 0 || f&restored != 0:
		return solid
	case f&wantsOrphan != 0:
		return orphaning
	case f&wantsForegr != 0:
		return waiting
	}
	return solid
}

// count is the number of references per judgement.
type count [unresolvable + 1]int

// classify judges all references of a node. n counts them by judgement; first has the
// position of the first of each.
func (c *Collector) classify(i index) (n, first count) {
	for at, e := range c.at(i).owners {
		j := c.judge(i, e)
		if n[j] == 0 {
			first[j] = at
		}
		n[j]++
	}
	return n, first
}

// dependentsOf counts the references to an object, except its own, and those of them that
// block.
func (c *Collector) dependentsOf(i index) (all, blocking int) {
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if s == i || c.sameObject(s, i) {
			all += len(c.at(s).dependents)
			blocking += int(c.at(s).blocking)
		}
	}
	for _, e := range c.at(i).owners {
		if e.owner == i || c.sameObject(e.owner, i) && c.hasUIDOf(e.owner, i) {
			all--
			if e.block && e.owner != i {
				blocking--
			}
		}
	}
	return all, blocking
}

func (c *Collector) hasUIDOf(a, b index) bool {
	return c.at(a).uid == c.at(b).uid
}

// referred reports whether another object refers to the UID of i, by whatever coordinates:
// an owner that orphans must not leave such references behind. Objects of a type that
// cannot be read do not count: they could not be patched either, and the journal keeps them
// alive.
func (c *Collector) referred(i index) bool {
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		for _, d := range c.at(s).dependents {
			phase := c.kinds.all[c.at(d.dependent).kind].phase
			if phase != unreadable && phase != unserved && !c.hasUIDOf(d.dependent, i) {
				return true
			}
		}
	}
	return false
}

// orphaned reports whether a reference is to a UID that is being deleted with orphan, at
// whatever coordinates, or was. In the second case the journal has the UID, and no object
// exists at the reference's own coordinates. The journal never overrules an owner that was
// seen to live on.
func (c *Collector) orphaned(i index, e edge) bool {
	left := c.entry(e.owner)
	for s := c.firstOf(e.owner); s != 0; s = c.at(s).same {
		if c.at(s).flags&observed == 0 {
			continue
		}
		if c.condition(s) == orphaning {
			return true
		}
		if left != nil && c.revived(s, left) {
			left = nil
		}
	}
	return left != nil && c.judge(i, e) == dangling
}

// notReported reports whether the changes of an object are not watched now. Its deletion
// may have been seen in a history that a restored etcd has lost.
func (c *Collector) notReported(i index) bool { return c.kinds.all[c.at(i).kind].phase == unreadable }

// ownerNotReported reports whether an object with the owner's UID is being deleted with
// orphan and is notReported.
func (c *Collector) ownerNotReported(owner index) bool {
	for s := c.firstOf(owner); s != 0; s = c.at(s).same {
		if c.at(s).flags&observed != 0 && c.condition(s) == orphaning && c.notReported(s) {
			return true
		}
	}
	return false
}

func (c *Collector) excluded(i index) bool {
	n := c.at(i)
	return c.kinds.all[n.kind].excluded || len(c.excludedNS) > 0 && c.excludedNS[c.namespaces.all[n.namespace].text]
}

// reachable reports whether a request about a node can be sent at all.
func (c *Collector) reachable(i index) bool {
	k := &c.kinds.all[c.at(i).kind]
	namespace := c.namespaces.all[c.at(i).namespace].text
	return k.phase != unserved && k.scoped && (k.namespaced == (namespace != ""))
}

func (c *Collector) coordinates(i index) gc.Coordinates {
	n := c.at(i)
	k := &c.kinds.all[n.kind]
	return gc.Coordinates{
		APIVersion: k.apiVersion, Kind: k.kind, Resource: k.resource,
		Namespace: c.namespaces.all[n.namespace].text, Name: n.name, UID: c.uidOf(i),
	}
}
