package gc

import "strings"

// Entry is what [Objects] keep of each object. Embed it in what a collector keeps.
type Entry struct {
	Item
	Namespace, Name, UID, ResourceVersion string

	epoch uint32 // of the list, or of the event since, that named it last
}

func (e *Entry) entry() *Entry { return e }

// Coordinates of the object, which is of type t.
func (e *Entry) Coordinates(t Type) Coordinates {
	return Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID}
}

// Kept is what embeds an [Entry].
type Kept interface {
	Queued
	entry() *Entry
}

// Objects are those of one type that lists and watches have told of and that a collector
// keeps. The zero value is ready.
type Objects[E Kept] struct {
	all        map[string]E // by UID
	namespaces map[string]string
	epoch      uint32
	complete   bool
}

// Complete says whether a list has ended and no other has begun.
func (s *Objects[E]) Complete() bool { return s.complete }

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

// Listing says that a list begins: what it does not name has gone.
func (s *Objects[E]) Listing() { s.epoch, s.complete = s.epoch+1, false }

// Observe notes that o was seen, and gives what is kept of it; fresh makes that if it is
// new. changed is false if it was seen in that very version before.
func (s *Objects[E]) Observe(o Object, fresh func() E) (e E, changed bool) {
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
		k.Namespace, k.Name, k.UID = namespace, strings.Clone(o.Name), strings.Clone(o.UID)
		s.all[k.UID] = e
	}
	k := e.entry()
	k.epoch = s.epoch
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
func (s *Objects[E]) Synced(gone func(E)) {
	for uid, e := range s.all {
		if e.entry().epoch != s.epoch {
			delete(s.all, uid)
			gone(e)
		}
	}
	s.complete = true
}

// Restored forgets everything: etcd was, and nothing is believed until it was seen again.
func (s *Objects[E]) Restored(gone func(E)) {
	s.epoch++
	s.Synced(gone)
	s.complete = false
}
