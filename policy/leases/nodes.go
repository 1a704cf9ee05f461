package leases

import (
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// nodes are the Nodes that lists and watches have told of.
type nodes struct {
	t       gc.Type
	present map[string]*node // by name
	known   bool             // all were listed, and can be read since; no list is on its way
	epoch   uint32           // of the list at hand
}

type node struct {
	uid   string
	epoch uint32 // of the list, or of the event since, that named it last
}

func (s *nodes) listing(t gc.Type) {
	s.t, s.known = t, false
	s.epoch++
}

// observe a Node, and say whether none of its name was there.
func (s *nodes) observe(t gc.Type, o gc.Object) (came bool) {
	s.t = t
	n := s.present[o.Name]
	if came = n == nil; came { // a key that is set again would be the caller's
		n = new(node)
		s.present[strings.Clone(o.Name)] = n
	}
	if n.epoch = s.epoch; n.uid != o.UID {
		n.uid = strings.Clone(o.UID)
	}
	return came
}

// forget a Node, unless another has its name.
func (s *nodes) forget(o gc.Object) (went bool) {
	if n := s.present[o.Name]; n != nil && n.uid == o.UID {
		delete(s.present, o.Name)
		return true
	}
	return false
}

func (s *nodes) synced(t gc.Type) {
	s.t, s.known = t, true
	for name, n := range s.present {
		if n.epoch != s.epoch {
			delete(s.present, name)
		}
	}
}

func (s *nodes) restored() {
	clear(s.present)
	s.known = false
}

// has says whether there is a Node of that name, as far as is known.
func (s *nodes) has(name string) bool { return s.present[name] != nil }
