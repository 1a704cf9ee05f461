package gc

import (
	"slices"
	"strings"
)

// Entry is what [Objects] keep of each object. Embed it in what a collector keeps.
type Entry struct {
	Item
	Namespace, Name, UID, ResourceVersion string

	epoch uint32 // of the list, or of the event since, that named it last
	of    uint8  // its type
}

func (e *Entry) entry() *Entry { return e }

// Kept is what embeds an [Entry].
type Kept interface {
	Queued
	entry() *Entry
}

// Objects are those that lists and watches have reported and that a collector keeps, of
// one type or of a few. The zero value is ready.
type Objects[E Kept] struct {
	all        map[string]E // by UID
	namespaces map[string]string
	types      []reading
}

// reading is how well a type is known. All versions of a type are one: the API server may begin to
// prefer another, and the objects are the same.
type reading struct {
	Type
	epoch   uint32
	current bool // it was listed, and can be read since
	listing bool // a list is on its way
}

// Len is how many there are.
func (s *Objects[E]) Len() int { return len(s.all) }

// Get gives the object with a UID; the zero value if there is none.
func (s *Objects[E]) Get(uid string) E { return s.all[uid] }

// All are the objects, in no order.
func (s *Objects[E]) All(yield func(E) bool) {
	for _, e := range s.all {
		if !yield(e) {
			return
		}
	}
}

// Coordinates of an object.
func (s *Objects[E]) Coordinates(of E) Coordinates {
	e := of.entry()
	t := s.types[e.of].Type
	return Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID}
}

// Current says whether all objects of e's type are known up to now.
func (s *Objects[E]) Current(e E) bool { return s.types[e.entry().of].current }

// Known says whether all objects of each type are known up to now.
func (s *Objects[E]) Known() bool {
	return len(s.types) > 0 && !slices.ContainsFunc(s.types, func(r reading) bool { return !r.current })
}

// Whole says whether the objects of a kind were listed, can be read since, and no list is on its way.
func (s *Objects[E]) Whole(kind string) bool {
	return slices.ContainsFunc(s.types, func(r reading) bool { return r.Kind == kind && r.current && !r.listing })
}

// reading of a type, and its place.
func (s *Objects[E]) reading(t Type) (*reading, uint8) {
	i := s.place(t)
	if i < 0 {
		i = len(s.types)
		s.types = append(s.types, reading{})
	}
	s.types[i].Type = t
	return &s.types[i], uint8(i)
}

func (s *Objects[E]) place(t Type) int {
	return slices.IndexFunc(s.types, func(r reading) bool { return GroupOf(r.APIVersion) == GroupOf(t.APIVersion) && r.Kind == t.Kind })
}

// Listing says that a list begins: what it does not name has gone. What was current stays
// so, because what is asked for has the object's version as a precondition.
func (s *Objects[E]) Listing(t Type) {
	r, _ := s.reading(t)
	r.epoch++
	r.listing = true
}

// Observe notes that o was seen, and gives what is kept of it; fresh makes that if it is
// new. changed is false if it was seen in that very version before.
func (s *Objects[E]) Observe(t Type, o Object, fresh func() E) (e E, changed bool) {
	r, of := s.reading(t)
	e, known := s.all[o.UID]
	if !known {
		if s.all == nil {
			s.all, s.namespaces = make(map[string]E), make(map[string]string)
		}
		namespace, ok := s.namespaces[o.Namespace]
		if !ok { // names come in batches that share their memory
			namespace = strings.Clone(o.Namespace)
			s.namespaces[namespace] = namespace
		}
		e = fresh()
		k := e.entry()
		both := o.Name + o.UID // one allocation
		k.Namespace, k.Name, k.UID, k.of = namespace, both[:len(o.Name)], both[len(o.Name):], of
		s.all[k.UID] = e
	}
	k := e.entry()
	k.epoch = r.epoch
	if changed = k.ResourceVersion != o.ResourceVersion; changed {
		k.ResourceVersion = strings.Clone(o.ResourceVersion)
	}
	return e, changed
}

// Forget drops the object with a UID, and gives what was kept of it.
func (s *Objects[E]) Forget(uid string) (e E, known bool) {
	e, known = s.all[uid]
	delete(s.all, uid)
	return e, known
}

// Synced says that a list has ended. What it did not name is dropped, and handed to gone.
// It says whether the type was not current before.
func (s *Objects[E]) Synced(t Type, gone func(E)) (news bool) {
	r, of := s.reading(t)
	for uid, e := range s.all {
		if k := e.entry(); k.of == of && k.epoch != r.epoch {
			delete(s.all, uid)
			gone(e)
		}
	}
	news, r.current, r.listing = !r.current, true, false
	return news
}

// Unreadable says that a type cannot be read now, and whether it could before. An earlier version says
// nothing of the one that is read.
func (s *Objects[E]) Unreadable(t Type) (news bool) {
	if i := s.place(t); i >= 0 && s.types[i].APIVersion != t.APIVersion {
		return false
	}
	r, _ := s.reading(t)
	news, r.current = r.current, false
	return news
}

// Restored forgets everything: etcd was, and nothing is believed until it was seen again.
func (s *Objects[E]) Restored(gone func(E)) {
	for i := range s.types {
		s.types[i].current = false
	}
	for uid, e := range s.all {
		delete(s.all, uid)
		gone(e)
	}
}
