package cascade

import "github.com/ebb-agent/ebb/policy/gc"

// The root of a deletion is the topmost owner whose deletion caused it, as far up as the
// graph knows. For the Pods of a deleted Deployment it is the Deployment, not their
// ReplicaSets. Where everything in a namespace, or of a custom type, is being deleted, it
// is the Namespace or the CustomResourceDefinition.

// maxContainers bounds how many deleted Namespaces and CustomResourceDefinitions are
// remembered at a time. One more replaces them all.
const maxContainers = 1024

// container is what objects of a kind contain without owner references: a Namespace all
// objects in it, a CustomResourceDefinition all objects of its type.
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

// contained names a container that is being deleted.
type contained struct {
	by   container
	name string
}

// roots records why owners are deleted. An owner has an entry if it is absent or being
// deleted, has dependents, and another object caused its deletion. Entries with the same
// root share one value.
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

// deepest bounds how many levels of owners are climbed.
const deepest = 1000

// climb follows absent and waiting owners up. It returns the noted root, or else the
// topmost owner.
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

// lives reports whether an object exists and is not being deleted. Such an object was noted
// as a root before it was seen, and is none.
func (c *Collector) lives(o *gc.Coordinates) bool {
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	i := c.find(key{o.UID, o.Name, o.Namespace, kind})
	return known && i != 0 && c.at(i).flags&(observed|terminating) == observed
}

// causeOf returns the owner whose deletion causes an object's; 0 if the object itself was
// deleted, as far as is known.
func (c *Collector) causeOf(i index) index {
	if c.at(i).flags&observed == 0 || len(c.at(i).owners) == 0 {
		return 0
	}
	var absent, waits index
	for _, e := range c.at(i).owners {
		j := c.judge(i, e)
		if j == unknown && c.kinds.all[c.at(e.owner).kind].phase == synced {
			j = dangling // not proven, but not seen either: enough to name it
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

// containing returns the Namespace or CustomResourceDefinition whose deletion includes an
// object; nil if none.
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

// root returns the root of a deletion that an owner causes. It notes the root of deep
// chains, so that each is climbed once.
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

// noteRoot remembers the root of an object that is going. Its own owners are not known
// afterwards, and its dependents have the same root.
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

// Because notes the root of an object that is about to be deleted: its dependents get the
// same root. The zero root means that the object was not deleted after all.
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

// containerSeen notes whether a container is being deleted.
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

// containerGone handles a container that does not exist any more. A Namespace is empty by
// then. After a CustomResourceDefinition, dependents of its objects may be left.
func (c *Collector) containerGone(i index, why trait) {
	switch by := c.kinds.all[c.at(i).kind].holds; {
	case by == holdsNamespace:
		delete(c.roots.going, contained{by, c.at(i).name})
	case by == holdsType && why&(gone|proven) != 0:
		c.containerGoes(i, contained{by, c.at(i).name})
	}
}
