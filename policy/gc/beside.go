package gc

import "strings"

// Beside is the state of objects of another type that matter to a [Collection]. The
// collection forwards that type's events and lists to it. [Others] and [Names] implement
// it.
type Beside interface {
	Listing(t Type)
	Forget(o Object)
	Synced(t Type)
	Unreadable(t Type)
	Restored()
}

// Others keeps objects of another type as a collection keeps its own. Gone is called with
// each object that was forgotten; News when the type becomes current or stops to be.
type Others[E Kept] struct {
	Objects[E]
	Gone func(E)
	News func()
}

// Forget handles a DELETED event.
func (s *Others[E]) Forget(o Object) {
	if e, known := s.Objects.Forget(o.UID); known {
		s.Gone(e)
	}
}

// Synced ends a list.
func (s *Others[E]) Synced(t Type) {
	if s.Objects.Synced(t, s.Gone) {
		s.News()
	}
}

// Unreadable marks the type as not readable now.
func (s *Others[E]) Unreadable(t Type) {
	if s.Objects.Unreadable(t) {
		s.News()
	}
}

// Restored forgets everything: etcd was restored.
func (s *Others[E]) Restored() { s.Objects.Restored(s.Gone) }

// Names keeps a value for each object of another type, by its name or namespace/name. An
// object that the current list has not named yet may exist. Gone is called with each object
// that was forgotten, but not by Restored. News, if set, is called when a list begins or
// ends, or the type becomes unreadable.
type Names[V any] struct {
	Gone func(name string, v V)
	News func()

	all   map[string]*named[V]
	t     Type
	known bool
	epoch uint32 // of the current list
}

type named[V any] struct {
	uid   string
	value V
	epoch uint32 // of the list or later event that named it last
}

// Type returns the type of the objects.
func (s *Names[V]) Type() Type { return s.t }

// Known reports whether all objects were listed, can be read since, and no list is in
// progress.
func (s *Names[V]) Known() bool { return s.known }

// Len returns the number of objects.
func (s *Names[V]) Len() int { return len(s.all) }

// UID returns the UID of the object with a name, and whether it exists as far as is known.
func (s *Names[V]) UID(name string) (uid string, there bool) {
	if n := s.all[name]; n != nil {
		return n.uid, true
	}
	return "", false
}

// Get returns the value of the object with a name, and whether it exists as far as is
// known.
func (s *Names[V]) Get(name string) (v V, there bool) {
	if n := s.all[name]; n != nil {
		return n.value, true
	}
	return v, false
}

// Observe sets the value of an object, and returns its value before, if it was there.
func (s *Names[V]) Observe(t Type, o Object, v V) (before V, was bool) {
	s.t = t
	key := o.Key()
	n := s.all[key]
	if was = n != nil; was {
		before = n.value
	} else { // setting a key again would store the caller's string
		if s.all == nil {
			s.all = make(map[string]*named[V])
		}
		n = new(named[V])
		s.all[strings.Clone(key)] = n
	}
	if n.epoch, n.value = s.epoch, v; n.uid != o.UID {
		n.uid = strings.Clone(o.UID)
	}
	return before, was
}

func (s *Names[V]) news(t Type, known bool) {
	if s.t, s.known = t, known; s.News != nil {
		s.News()
	}
}

// Listing begins a list.
func (s *Names[V]) Listing(t Type) {
	s.epoch++
	s.news(t, false)
}

// Forget removes an object, unless another object has its name.
func (s *Names[V]) Forget(o Object) {
	key := o.Key()
	if n := s.all[key]; n != nil && n.uid == o.UID {
		delete(s.all, key)
		s.Gone(key, n.value)
	}
}

// Synced ends a list. Objects that it did not name are gone.
func (s *Names[V]) Synced(t Type) {
	for name, n := range s.all {
		if n.epoch != s.epoch {
			delete(s.all, name)
			s.Gone(name, n.value)
		}
	}
	s.news(t, true)
}

// Unreadable marks the type as not readable now.
func (s *Names[V]) Unreadable(t Type) { s.news(t, false) }

// Restored forgets everything: etcd was restored.
func (s *Names[V]) Restored() {
	clear(s.all)
	s.known = false
}

// besides are the [Beside] of a collection, by kind.
type besides []struct {
	kind string
	Beside
}

// of returns the Beside of a type; nil if the type is the collection's own.
func (b besides) of(t Type) Beside {
	for _, one := range b {
		if one.kind == t.Kind {
			return one.Beside
		}
	}
	return nil
}
