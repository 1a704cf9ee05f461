package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// namespace has the Leases of Nodes.
const namespace = "kube-node-lease"

// Signs are the signs of life that Nodes give by their Leases, for collectors of other types. Changed is
// called with the name of each Node that gave one, or lost its Lease.
type Signs struct {
	gc.Others[*Sign]
	Changed func(node string)
	of      map[string]*Sign
}

// Sign is the Lease of a Node.
type Sign struct {
	gc.Entry
	// Last is when it expires, and not before it was seen to be written: the clock of a machine may be
	// behind by days.
	Last gc.Stamp
	seen bool // in an earlier version
}

// Init makes s ready; news is called when the Leases are known, or are not any more.
func (s *Signs) Init(news func(), changed func(node string)) {
	s.Gone, s.News, s.Changed, s.of = s.drop, news, changed, make(map[string]*Sign)
}

// Of returns the Lease of a Node; nil if there is none, as far as is known.
func (s *Signs) Of(node string) *Sign { return s.of[node] }

// Observe takes a Lease as a list or a watch reported it; fields is a [Lease].
func (s *Signs) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if o.Namespace != namespace {
		return
	}
	l, changed := s.Others.Observe(t, o, func() *Sign { return &Sign{Last: gc.NoStamp} })
	if !changed {
		return
	}
	f, known := fields.(Lease)
	if l.Last = gc.StampOf(f.Expires); !known || s.Known() || l.seen {
		l.Last = max(l.Last, gc.StampOf(now))
	}
	l.seen = true
	s.of[l.Name] = l
	s.Changed(l.Name)
}

func (s *Signs) drop(l *Sign) {
	if s.of[l.Name] == l {
		delete(s.of, l.Name)
		s.Changed(l.Name)
	}
}
