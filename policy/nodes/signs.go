package nodes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// LeaseNamespace is the namespace of the Leases of Nodes.
const LeaseNamespace = "kube-node-lease"

// Lease has the fields of a Lease that collectors need beside its metadata.
type Lease struct {
	Holder   string    // spec.holderIdentity
	Expires  time.Time // spec.renewTime plus spec.leaseDurationSeconds; zero: not set
	Identity bool      // it has the label apiserver.kubernetes.io/identity
}

// Sign is the Lease of a Node, which is a sign of life.
type Sign struct {
	gc.Entry
	// Last is when the Lease expires, but not before the last write that was seen: the clock of a
	// machine may be behind by days.
	Last gc.Stamp
	seen bool // an earlier version was seen
}

// Write stores the fields of the Lease. watched means that a Lease which was not seen before is
// new.
func (s *Sign) Write(now time.Time, fields any, watched bool) {
	f, known := fields.(Lease)
	if s.Last = gc.StampOf(f.Expires); !known || watched || s.seen {
		s.Last = max(s.Last, gc.StampOf(now))
	}
	s.seen = true
}

// Signs are the signs of life that Nodes give by their Leases, for collectors of other types.
type Signs struct {
	gc.Others[*Sign]
	changed func(node string)
	of      map[string]*Sign
}

// Init makes s ready for use. s calls news when Leases become known or unknown, and changed with the name
// of each Node that gave a sign of life or lost its Lease.
func (s *Signs) Init(news func(), changed func(node string)) {
	s.Gone, s.News, s.changed, s.of = s.drop, news, changed, make(map[string]*Sign)
}

// Last returns the last known sign of life of a Node, or since if there is none after that.
func (s *Signs) Last(node string, since gc.Stamp) gc.Stamp {
	if l := s.of[node]; l != nil {
		return max(since, l.Last)
	}
	return since
}

// Observe receives a Lease as a list or a watch reported it; fields is a [Lease].
func (s *Signs) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if o.Namespace != LeaseNamespace {
		return
	}
	if l, changed := s.Others.Observe(t, o, func() *Sign { return new(Sign) }); changed {
		l.Write(now, fields, s.Known())
		s.of[l.Name] = l
		s.changed(l.Name)
	}
}

func (s *Signs) drop(l *Sign) {
	if s.of[l.Name] == l {
		delete(s.of, l.Name)
		s.changed(l.Name)
	}
}
