package gc

import (
	"slices"
	"strings"
)

// Entry is the part of a kept object that [Objects] use. A collector embeds it in its own
// type.
type Entry struct {
	Item
	Namespace, Name, UID, ResourceVersion string

	epoch uint32 // of the list or later event that named it last
	of    uint8  // index of its type
}

func (e *Entry) entry() *Entry { return e }

// Kept is a type that embeds an [Entry].
type Kept interface {
	Queued
	entry() *Entry
}

// Objects are the objects that lists and watches have reported and that a collector keeps,
// of one type or of a few. The zero value is ready.
type Objects[E Kept] struct {
	all        map[string]E // by UID
	namespaces Words        // names come in batches that share their memory
	types      []reading
}

// reading is how well a type is known. All versions of a type share one: the API server may
// begin to prefer another version, and the objects are the same.
type reading struct {
	Type
	epoch   uint32
	current bool // listed, and readable since
	listing bool // a list is in progress
}

// Len returns the number of objects.
func (s *Objects[E]) Len() int { return len(s.all) }

// Get returns the object with a UID; the zero value if there is none.
func (s *Objects[E]) Get(uid string) E { return s.all[uid] }

// All yields the objects, in no order.
func (s *Objects[E]) All(yield func(E) bool) {
	for _, e := range s.all {
		if !yield(e) {
			return
		}
	}
}

// Coordinates returns the coordinates of an object.
func (s *Objects[E]) Coordinates(of E) Coordinates {
	e := of.entry()
	t := s.types[e.of].Type
	return Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID}
}

// Current reports whether all objects of e's type are known up to now.
func (s *Objects[E]) Current(e E) bool { return s.types[e.entry().of].current }

// Known reports whether all objects of each type are known up to now.
func (s *Objects[E]) Known() bool {
	return len(s.types) > 0 && !slices.ContainsFunc(s.types, func(r reading) bool { return !r.current })
}

// Whole reports whether the objects of a kind were listed, can be read since, and no list
// is in progress.
func (s *Objects[E]) Whole(kind string) bool {
	return slices.ContainsFunc(s.types, func(r reading) bool { return r.Kind == kind && r.current && !r.listing })
}

// reading returns the reading of a type, in whatever version, and its index. It adds a missing one.
func (s *Objects[E]) reading(t Type) (*reading, uint8) {
	i := s.place(t)
	if i < 0 {
		i = len(s.types)
		s.types = append(s.types, reading{Type: t})
	}
	return &s.types[i], uint8(i)
}

func (s *Objects[E]) place(t Type) int {
	return slices.IndexFunc(s.types, func(r reading) bool { return GroupOf(r.APIVersion) == GroupOf(t.APIVersion) && r.Kind == t.Kind })
}

// Listing begins a list: objects that it does not name are gone. A current type stays
// current, because every action has the object's version as a precondition.
func (s *Objects[E]) Listing(t Type) {
	r, _ := s.reading(t)
	r.Type = t // Observe does not set it: an event of an old version may come last
	r.epoch++
	r.listing = true
}

// Observe notes that o was seen, and returns its entry; fresh makes the entry of a new
// object. changed is false if o was seen in that very version before.
func (s *Objects[E]) Observe(t Type, o Object, fresh func() E) (e E, changed bool) {
	r, of := s.reading(t)
	e, known := s.all[o.UID]
	if !known {
		if s.all == nil {
			s.all = make(map[string]E)
		}
		e = fresh()
		k := e.entry()
		both := o.Name + o.UID // one allocation
		k.Namespace, k.Name, k.UID, k.of = s.namespaces.Of(o.Namespace), both[:len(o.Name)], both[len(o.Name):], of
		s.all[k.UID] = e
	}
	k := e.entry()
	k.epoch = r.epoch
	if changed = k.ResourceVersion != o.ResourceVersion; changed {
		k.ResourceVersion = strings.Clone(o.ResourceVersion)
	}
	return e, changed
}

// Forget removes the object with a UID, and returns its entry.
func (s *Objects[E]) Forget(uid string) (e E, known bool) {
	e, known = s.all[uid]
	delete(s.all, uid)
	return e, known
}

// Synced ends a list. Objects that it did not name are removed, and handed to gone. It
// reports whether the type was not current before.
func (s *Objects[E]) Synced(t Type, gone func(E)) (news bool) {
	r, of := s.reading(t)
	r.Type = t
	for uid, e := range s.all {
		if k := e.entry(); k.of == of && k.epoch != r.epoch {
			delete(s.all, uid)
			gone(e)
		}
	}
	news, r.current, r.listing = !r.current, true, false
	return news
}

// Unreadable marks a type that cannot be read now, and reports whether it could be before.
// It ignores another version than the one that is read.
func (s *Objects[E]) Unreadable(t Type) (news bool) {
	if i := s.place(t); i >= 0 && s.types[i].APIVersion != t.APIVersion {
		return false
	}
	r, _ := s.reading(t)
	news, r.current = r.current, false
	return news
}

// Restored forgets everything: etcd was restored, and no object is believed to exist until
// it is seen again.
func (s *Objects[E]) Restored(gone func(E)) {
	for i := range s.types {
		s.types[i].current = false
	}
	for uid, e := range s.all {
		delete(s.all, uid)
		gone(e)
	}
}
