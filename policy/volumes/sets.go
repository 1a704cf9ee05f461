package volumes

import "strings"

// set is the objects of one type that are known by their names alone, each with something.
type set[V comparable] struct {
	present map[string]*member[V]
	known   bool   // all were listed, and can be read since; no list is on its way
	epoch   uint32 // of the list at hand
}

type member[V comparable] struct {
	uid   string
	value V
	epoch uint32 // of the list, or of the event since, that named it last
}

func (s *set[V]) listing() { s.epoch, s.known = s.epoch+1, false }

// observe one, and say what it had before, if it was there.
func (s *set[V]) observe(name, uid string, v V) (before V, was bool) {
	m := s.present[name]
	if was = m != nil; was {
		before = m.value
	} else { // a key that is set again would be the caller's
		if s.present == nil {
			s.present = make(map[string]*member[V])
		}
		m = new(member[V])
		s.present[strings.Clone(name)] = m
	}
	if m.epoch, m.value = s.epoch, v; m.uid != uid {
		m.uid = strings.Clone(uid)
	}
	return before, was
}

// forget one, unless another has its name.
func (s *set[V]) forget(name, uid string) (before V, was bool) {
	if m := s.present[name]; m != nil && m.uid == uid {
		delete(s.present, name)
		return m.value, true
	}
	return before, false
}

// synced ends a list. What it did not name is handed to gone.
func (s *set[V]) synced(gone func(name string, v V)) {
	s.known = true
	for name, m := range s.present {
		if m.epoch != s.epoch {
			delete(s.present, name)
			gone(name, m.value)
		}
	}
}

func (s *set[V]) restored() {
	clear(s.present)
	s.known = false
}

// claimed is what is kept of a claim.
type claimed struct {
	volume string // that it names
	blind  bool   // its fields could not be read
}

// tally counts by name.
type tally map[string]int

// add n, and say whether the name came or went.
func (t tally) add(name string, n int) (turned bool) {
	if name == "" {
		return false
	}
	before := t[name]
	if t[name] = before + n; t[name] <= 0 {
		delete(t, name)
	}
	return before > 0 != (t[name] > 0)
}
