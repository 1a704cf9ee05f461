package gc

import "strings"

// Beside are objects of another type that matter to those of a [Collection], which is informed of
// both: [Others] or [Names].
type Beside interface {
	Listing(t Type)
	Forget(o Object)
	Synced(t Type)
	Unreadable(t Type)
	Restored()
}

// Others are kept as a collection keeps its own. Gone is called with each that was forgotten,
// News when the type is known up to now, or is not any more.
type Others[E Kept] struct {
	Objects[E]
	Gone func(E)
	News func()
}

// Forget takes a DELETED event.
func (s *Others[E]) Forget(o Object) {
	if e, known := s.Objects.Forget(o.UID); known {
		s.Gone(e)
	}
}

// Synced says that a list has ended.
func (s *Others[E]) Synced(t Type) {
	if s.Objects.Synced(t, s.Gone) {
		s.News()
	}
}

// Unreadable says that the type cannot be read now.
func (s *Others[E]) Unreadable(t Type) {
	if s.Objects.Unreadable(t) {
		s.News()
	}
}

// Restored forgets everything: etcd was restored.
func (s *Others[E]) Restored() { s.Objects.Restored(s.Gone) }

// Names are of objects of which little is wanted: each is known by its name, or its
// namespace/name, and has a value. What a list has yet to name may be there. Gone is called
// with each that was forgotten, but not once etcd was restored; News, if set, when what is
// known of the type is worth more or less than before.
type Names[V any] struct {
	Gone func(name string, v V)
	News func()

	all   map[string]*named[V]
	t     Type
	known bool
	epoch uint32 // of the list at hand
}

type named[V any] struct {
	uid   string
	value V
	epoch uint32 // of the list, or of the event since, that named it last
}

// Type that they are of.
func (s *Names[V]) Type() Type { return s.t }

// Known says whether all were listed, and can be read since, and no list is on its way.
func (s *Names[V]) Known() bool { return s.known }

// Len is how many there are.
func (s *Names[V]) Len() int { return len(s.all) }

// UID of the one of a name, and whether it is there as far as is known.
func (s *Names[V]) UID(name string) (uid string, there bool) {
	if n := s.all[name]; n != nil {
		return n.uid, true
	}
	return "", false
}

// Get gives the value of the one of a name, and whether it is there as far as is known.
func (s *Names[V]) Get(name string) (v V, there bool) {
	if n := s.all[name]; n != nil {
		return n.value, true
	}
	return v, false
}

// Observe one, and say what it had before, if it was there.
func (s *Names[V]) Observe(t Type, o Object, v V) (before V, was bool) {
	s.t = t
	key := o.Key()
	n := s.all[key]
	if was = n != nil; was {
		before = n.value
	} else { // a key that is set again would be the caller's
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

// Listing says that a list begins.
func (s *Names[V]) Listing(t Type) {
	s.epoch++
	s.news(t, false)
}

// Forget one, unless another has its name.
func (s *Names[V]) Forget(o Object) {
	key := o.Key()
	if n := s.all[key]; n != nil && n.uid == o.UID {
		delete(s.all, key)
		s.Gone(key, n.value)
	}
}

// Synced says that a list has ended. What it did not name is gone.
func (s *Names[V]) Synced(t Type) {
	for name, n := range s.all {
		if n.epoch != s.epoch {
			delete(s.all, name)
			s.Gone(name, n.value)
		}
	}
	s.news(t, true)
}

// Unreadable says that the type cannot be read now.
func (s *Names[V]) Unreadable(t Type) { s.news(t, false) }

// Restored forgets everything: etcd was restored.
func (s *Names[V]) Restored() {
	clear(s.all)
	s.known = false
}

// besides are who keeps what is not a collection's own, by kind.
type besides []struct {
	kind string
	Beside
}

// of a type; nil: it is the collection's own.
func (b besides) of(t Type) Beside {
	for _, one := range b {
		if one.kind == t.Kind {
			return one.Beside
		}
	}
	return nil
}
