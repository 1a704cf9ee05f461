package cascade

import (
	"errors"
	"slices"
	"strconv"

	"github.com/ebb-agent/ebb/policy/gc"
)

// OtherFinalizer replaces the names of foreign finalizers in the result of
// [Collector.Part]. The graph knows that an object has some, but not their names.
const OtherFinalizer = "(name not kept)"

// Part is a piece of the graph, as it was observed.
type Part struct {
	Objects []gc.Object
	// Absent are owners that were proven gone, by coordinates without Resource.
	Absent []gc.Coordinates
	// Orphaned are the UIDs that are in the journal: their dependents are to stay.
	Orphaned []string
}

// Errors of [Collector.Part].
var (
	ErrNoObject = errors.New("the graph has no such object")
	ErrTooMany  = errors.New("too many objects")
)

// Part returns the object at these coordinates and everything that affects what its
// deletion would do: its direct and indirect dependents, the owners of all these, and the
// dependents of an owner that is itself about to be deleted. Objects of types that are not
// fully listed at present are left out. The UID may be empty. If there are more than most
// objects, Part returns ErrTooMany. It changes nothing, and its strings are the graph's.
func (c *Collector) Part(target gc.Coordinates, most int) (p Part, err error) {
	i := c.named(target)
	if i == 0 {
		return Part{}, ErrNoObject
	}
	r := reach{c: c, most: most, whole: map[index]bool{}, moving: map[index]bool{}, absent: map[index]bool{}}
	r.add(i, true)
	for len(r.todo) > 0 {
		next := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		r.follow(next)
		if len(r.order) > most {
			return Part{}, ErrTooMany
		}
	}
	p.Objects = make([]gc.Object, 0, len(r.order))
	for _, i := range r.order {
		p.Objects = append(p.Objects, c.object(i))
	}
	for _, i := range r.gone {
		at := c.coordinates(i)
		at.Resource = ""
		p.Absent = append(p.Absent, at)
	}
	p.Orphaned = r.orphaned()
	return p, nil
}

// named finds an existing object; an empty UID matches any.
func (c *Collector) named(o gc.Coordinates) index {
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	if !known || c.kinds.all[kind].phase != synced {
		return 0
	}
	if o.UID != "" {
		if i := c.find(key{o.UID, o.Name, o.Namespace, kind}); i != 0 && c.at(i).flags&observed != 0 {
			return i
		}
		return 0
	}
	k := &c.kinds.all[kind]
	for at, i := 0, k.head; at < k.size; at, i = at+1, c.at(i).next {
		if n := c.at(i); n.flags&observed != 0 && n.name == o.Name && c.namespaces.all[n.namespace].text == o.Namespace {
			return i
		}
	}
	return 0
}

// reach is a walk over the graph for Part.
type reach struct {
	c      *Collector
	most   int
	order  []index
	whole  map[index]bool // visited; true: with its dependents
	moving map[index]bool // see moves
	absent map[index]bool // visited
	gone   []index
	todo   []index
}

func (r *reach) add(i index, whole bool) {
	n := r.c.at(i)
	if n.flags&observed == 0 || r.c.kinds.all[n.kind].phase != synced {
		return
	}
	was, met := r.whole[i]
	if met && (was || !whole) {
		return
	}
	if !met {
		r.order = append(r.order, i)
	}
	r.whole[i] = whole
	r.todo = append(r.todo, i)
}

func (r *reach) follow(i index) {
	for _, e := range r.c.at(i).owners {
		for s := r.c.firstOf(e.owner); s != 0; s = r.c.at(s).same {
			r.add(s, r.moves(s, 0))
		}
		if f := r.c.at(e.owner).flags; f&observed == 0 && f&(gone|proven) != 0 && !r.absent[e.owner] {
			r.absent[e.owner] = true
			r.gone = append(r.gone, e.owner)
		}
	}
	if !r.whole[i] {
		return
	}
	for s := r.c.firstOf(i); s != 0; s = r.c.at(s).same {
		for _, d := range r.c.at(s).dependents {
			r.add(d.dependent, true)
			if len(r.order) > r.most {
				return
			}
		}
	}
}

// orphaned returns the visited UIDs that are in the journal.
func (r *reach) orphaned() (list []string) {
	note := func(i index) {
		if r.c.entry(i) != nil && !slices.Contains(list, r.c.uidOf(i)) {
			list = append(list, r.c.uidOf(i))
		}
	}
	for _, i := range r.order {
		note(i)
		for _, e := range r.c.at(i).owners {
			note(e.owner)
		}
	}
	return list
}

// deepest bounds how many levels of owners are climbed. An object at a deeper level is
// treated as moving, which costs time and is never wrong.
const deepest = 1000

// moves reports whether an object may change without a new request: it is being deleted, or
// no owner of it stays. Then its dependents matter, too.
func (r *reach) moves(i index, depth int) bool {
	n := r.c.at(i)
	switch known, met := r.moving[i]; {
	case n.flags&terminating != 0:
		return true
	case n.flags&observed == 0, len(n.owners) == 0:
		return false
	case met:
		return known
	case depth > deepest:
		return true
	}
	r.moving[i] = false // a circle of owners: they stay
	stays := false
	for _, e := range n.owners {
		for s := r.c.firstOf(e.owner); s != 0 && !stays; s = r.c.at(s).same {
			stays = r.c.at(s).flags&observed != 0 && !r.moves(s, depth+1)
		}
	}
	r.moving[i] = !stays
	return !stays
}

// object returns a node as it was observed, except for the names of foreign finalizers.
func (c *Collector) object(i index) gc.Object {
	n, k := c.at(i), &c.kinds.all[c.at(i).kind]
	o := gc.Object{APIVersion: k.apiVersion, Kind: k.kind, Namespace: c.namespaces.all[n.namespace].text, Name: n.name, UID: c.uidOf(i),
		Owners: c.references(i), Terminating: n.flags&terminating != 0}
	if o.ResourceVersion = c.versions[i]; n.flags&opaque == 0 && n.version != 0 {
		o.ResourceVersion = strconv.FormatUint(n.version, 10)
	}
	for _, f := range []struct {
		flag trait
		name string
	}{{hasFinalizer, OtherFinalizer}, {wantsOrphan, gc.OrphanFinalizer}, {wantsForegr, gc.ForegroundFinalizer}} {
		if n.flags&f.flag != 0 {
			o.Finalizers = append(o.Finalizers, f.name)
		}
	}
	return o
}

// Census counts the existing objects of all listed types, by namespace and by type.
func (c *Collector) Census() (namespaces map[string]int, types map[gc.Type]int) {
	namespaces, types = make(map[string]int), make(map[gc.Type]int)
	byID := make(map[uint32]int)
	for id := range c.kinds.all {
		k := &c.kinds.all[id]
		if k.phase != synced {
			continue
		}
		found := 0
		for at, i := 0, k.head; at < k.size; at, i = at+1, c.at(i).next {
			if n := c.at(i); n.flags&observed != 0 {
				byID[n.namespace]++
				found++
			}
		}
		types[gc.Type{APIVersion: k.apiVersion, Kind: k.kind, Resource: k.resource}] = found
	}
	for id, n := range byID {
		if name := c.namespaces.all[id].text; name != "" {
			namespaces[name] = n
		}
	}
	return namespaces, types
}
