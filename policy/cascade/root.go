package cascade

import "github.com/ebb-agent/ebb/policy/gc"

// The root of a deletion is the topmost owner whose going caused it, as far up as the
// graph knows: for the Pods of a deleted Deployment the Deployment, not their
// ReplicaSets. Where everything in a namespace, or of a custom type, is being deleted,
// it is the Namespace or the CustomResourceDefinition.

// maxContainers bounds how many of those are remembered at a time.
const maxContainers = 1024

// container says what objects of a kind hold that name no owners: a Namespace all that
// is in it, a CustomResourceDefinition all of its type.
type container uint8

const (
	holdsNothing container = iota
	holdsNamespace
	holdsType
)

func containerOf(name kindName) container {
	switch {
	case name.kind == "Namespace" && name.apiVersion == "v1":
		return holdsNamespace
	case name.kind == "CustomResourceDefinition" && gc.GroupOf(name.apiVersion) == "apiextensions.k8s.io":
		return holdsType
	}
	return holdsNothing
}

// contained names a container that is going.
type contained struct {
	by   container
	name string
}

// roots is what is known of why owners go. Entries are of owners that are absent or
// being deleted and have dependents, and only where that was somebody else's fault;
// those with the same root share one value.
type roots struct {
	of    map[index]*gc.Coordinates
	going map[contained]*gc.Coordinates
}

func (r *roots) note(i index, root *gc.Coordinates) {
	if r.of == nil {
		r.of = make(map[index]*gc.Coordinates)
	}
	r.of[i] = root
}

func (r *roots) forget(i index) {
	if len(r.of) == 0 {
		return
	}
	if delete(r.of, i); len(r.of) == 0 {
		r.of = nil // a map that was large stays large
	}
}

// climb follows absent and waiting owners up. It gives what is noted of the root, or
// the root itself.
func (c *Collector) climb(owner index) (noted *gc.Coordinates, top index) {
	for range deepest {
		if s := c.seenAs(owner); s != 0 {
			owner = s
		}
		if r := c.roots.of[owner]; r != nil && !c.lives(r) {
			return r, 0
		}
		up := c.causeOf(owner)
		if up == 0 {
			break
		}
		owner = up
	}
	if r := c.containing(owner); r != nil {
		return r, 0
	}
	return nil, owner
}

// lives says whether an object is there, and nobody deletes it: then it was named as a
// root before it was seen, and is none.
func (c *Collector) lives(o *gc.Coordinates) bool {
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	i := c.find(key{o.UID, o.Name, o.Namespace, kind})
	return known && i != 0 && c.at(i).flags&(observed|terminating) == observed
}

// causeOf is the owner because of which an object goes; 0: somebody deleted the object
// itself, as far as is known.
func (c *Collector) causeOf(i index) index {
	if c.at(i).flags&observed == 0 || len(c.at(i).owners) == 0 {
		return 0
	}
	var absent, waits index
	for _, e := range c.at(i).owners {
		j := c.judge(i, e)
		if j == unknown && c.kinds.all[c.at(e.owner).kind].phase == synced {
			j = dangling // nobody has proven it, and nobody has seen it: enough to name it
		}
		switch {
		case j == dangling && absent == 0:
			absent = e.owner
		case j == waiting && waits == 0:
			waits = e.owner
		case j != dangling && j != waiting:
			return 0
		}
	}
	if absent != 0 {
		return absent
	}
	return waits
}

// containing is the Namespace or definition that takes an object along.
func (c *Collector) containing(i index) *gc.Coordinates {
	if len(c.roots.going) == 0 {
		return nil
	}
	k := &c.kinds.all[c.at(i).kind]
	if r := c.roots.going[contained{holdsType, k.resource + "." + k.group}]; r != nil {
		return r
	}
	if name := c.namespaces.all[c.at(i).namespace].text; name != "" {
		return c.roots.going[contained{holdsNamespace, name}]
	}
	return nil
}

// root of a deletion because of an owner. Those that are deep are noted, so that the
// way up is gone once.
func (c *Collector) root(owner index) gc.Coordinates {
	noted, top := c.climb(owner)
	if noted != nil {
		return *noted
	}
	root := c.coordinates(top)
	if s := c.seenAs(owner); owner != top && s != top {
		shared := &root
		c.roots.note(top, shared)
		if s == 0 {
			s = owner
		}
		c.roots.note(s, shared)
	}
	return root
}

// noteRoot remembers of an object that goes who made it go: its own owners are not
// known afterwards, and its dependents go because of the same.
func (c *Collector) noteRoot(i index) {
	owns := false
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		owns = owns || len(c.at(s).dependents) > 0
	}
	if !owns {
		return
	}
	noted, top := c.climb(i)
	if noted == nil {
		if top == i {
			return
		}
		root := c.coordinates(top)
		noted = &root
		c.roots.note(top, noted)
	}
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if len(c.at(s).dependents) > 0 {
			c.roots.note(s, noted)
		}
	}
}

// Because says that an object is about to be deleted because of a root: its dependents go because of
// that, too. The zero root says that the object was not deleted after all.
func (c *Collector) Because(o, root gc.Coordinates) {
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	i := c.find(key{o.UID, o.Name, o.Namespace, kind})
	switch {
	case !known || i == 0:
	case root == gc.Coordinates{}:
		c.roots.forget(i)
	default:
		c.roots.note(i, &root)
	}
}

// containerSeen notes whether a container is going.
func (c *Collector) containerSeen(i index) {
	by := c.kinds.all[c.at(i).kind].holds
	if by == holdsNothing {
		return
	}
	name := contained{by, c.at(i).name}
	if c.at(i).flags&terminating == 0 {
		delete(c.roots.going, name)
		return
	}
	c.containerGoes(i, name)
}

func (c *Collector) containerGoes(i index, name contained) {
	if len(c.roots.going) >= maxContainers || c.roots.going == nil {
		c.roots.going = make(map[contained]*gc.Coordinates)
	}
	if c.roots.going[name] == nil {
		at := c.coordinates(i)
		c.roots.going[name] = &at
	}
}

// containerGone is for one that is not there any more. A Namespace was empty by then;
// of a type's objects those that depend on them may be left.
func (c *Collector) containerGone(i index, why trait) {
	switch by := c.kinds.all[c.at(i).kind].holds; {
	case by == holdsNamespace:
		delete(c.roots.going, contained{by, c.at(i).name})
	case by == holdsType && why&(gone|proven) != 0:
		c.containerGoes(i, contained{by, c.at(i).name})
	}
}
