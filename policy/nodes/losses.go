package nodes

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// LostTogether is the longest time between two losses that count together.
const LostTogether = time.Hour

// DefaultLostShare is the share of all Nodes that may be lost together. It allows for one of
// three zones.
const DefaultLostShare = 0.34

// beforeStart is the time of a loss that nobody saw: the Node was already missing when the controller
// started. Such Nodes count together, and never with those that are lost later: the Pods of a Node that
// was lost weeks ago may be impossible to delete.
var beforeStart = time.Unix(0, 0)

const rounding = 1e-9 // allows for the error of floats: 0.29 of 100 is 29

// Loss is a Node to which objects of a collector are bound. The Node is lost if it is gone and something
// bound to it is to be deleted with it. A Loss with only a name is not lost. A collector keeps one Loss
// for each such Node.
type Loss struct {
	Name      string
	lost      bool
	counts    bool      // as one of the Nodes lost together
	held      bool      // it was lost together with too many others
	confirmed bool      // a person confirmed that it is gone
	seen      bool      // it has existed since this Loss exists
	left      time.Time // when it was first lost since it last existed; zero: not since then
}

// Lost reports whether the Node is lost.
func (l *Loss) Lost() bool { return l.lost }

// Held reports whether the Node was lost together with too many others, and no person has
// confirmed its loss.
func (l *Loss) Held() bool { return l.held }

// Losses are the Nodes that are lost, with a limit on how many may be. If more than MaxShare of all
// Nodes, lost ones included and rounded up, are lost within [LostTogether], these Nodes are held: a
// mistake is more likely. One Node may always be lost. Each Node is weighed against those that were lost
// around the same time, so that later losses do not wait for earlier ones. Nodes that were missing before
// the controller started were lost at one time of their own.
type Losses struct {
	MaxShare float64
	Changed  func(*Loss) // called at the end of Weigh with each Node whose Held changed

	present int
	lost    []*Loss // sorted by left, then by name
	stale   bool    // something changed since the last Weigh
	// settled has the Nodes that were held or confirmed and to which nothing is bound any more, with
	// the time of their loss. They still count: the confirmation of one Node does not confirm the
	// others.
	settled map[string]time.Time
}

// Reset forgets all Nodes.
func (s *Losses) Reset() {
	for _, l := range s.lost {
		*l = Loss{Name: l.Name}
	}
	s.present, s.lost, s.settled, s.stale = 0, nil, nil, true
}

// AddPresent adds n to the number of existing Nodes.
func (s *Losses) AddPresent(n int) { s.present, s.stale = s.present+n, true }

// SetShare sets MaxShare; 0 or less means [DefaultLostShare].
func (s *Losses) SetShare(most float64) {
	if !(most > 0) {
		most = DefaultLostShare
	}
	s.MaxShare, s.stale = most, true
}

// Lose records that a Node is lost, at now if it was not lost before. counts is whether it counts as one
// of the Nodes lost together.
func (s *Losses) Lose(now time.Time, l *Loss, counts bool) {
	if l.lost && l.counts == counts {
		return
	}
	s.stale = true
	if l.counts = counts; l.lost {
		return
	}
	if l.left.IsZero() {
		l.left = cmp.Or(s.settled[l.Name], now)
	}
	delete(s.settled, l.Name)
	l.lost = true
	s.lost = slices.Insert(s.lost, s.place(l), l)
}

// Drop records that a Node is no longer lost. gone means that it still does not exist, and that
// nothing bound to it is left to delete.
func (s *Losses) Drop(l *Loss, gone bool) {
	if !l.lost {
		return
	}
	if gone && l.counts && (l.held || l.confirmed) {
		if s.settled == nil {
			s.settled = make(map[string]time.Time)
		}
		s.settled[l.Name] = l.left
	}
	at := s.place(l)
	s.lost = slices.Delete(s.lost, at, at+1)
	l.lost, l.held, s.stale = false, false, true
}

// Back records, after Drop, that a Node exists again. It forgets the confirmation by a
// person.
func (s *Losses) Back(l *Loss) {
	delete(s.settled, l.Name)
	l.left, l.confirmed, s.stale = time.Time{}, false, true
}

func (s *Losses) place(l *Loss) int {
	at, _ := slices.BinarySearchFunc(s.lost, l, func(a, b *Loss) int {
		return cmp.Or(a.left.Compare(b.left), strings.Compare(a.Name, b.Name))
	})
	return at
}

// Weigh decides which Nodes are held, if anything changed since it was last called.
func (s *Losses) Weigh() {
	if !s.stale {
		return
	}
	s.stale = false
	first, next, together, anyHeld := 0, 0, 0, false
	var changed []*Loss
	for _, l := range s.lost {
		for ; next < len(s.lost) && s.lost[next].left.Sub(l.left) <= LostTogether; next++ {
			together += s.lost[next].count()
		}
		for ; l.left.Sub(s.lost[first].left) > LostTogether; first++ {
			together -= s.lost[first].count()
		}
		all := together
		for _, left := range s.settled {
			if left.Sub(l.left).Abs() <= LostTogether {
				all++
			}
		}
		most := math.Ceil(s.MaxShare*float64(s.present+all) - rounding)
		held := l.counts && !l.confirmed && float64(all) > max(1, most)
		if anyHeld = anyHeld || held; held != l.held {
			l.held = held
			changed = append(changed, l)
		}
	}
	if !anyHeld {
		clear(s.settled)
	}
	for _, l := range changed { // Changed may add or drop losses
		s.Changed(l)
	}
}

func (l *Loss) count() int {
	if l.counts {
		return 1
	}
	return 0
}

// Held yields the Nodes that are held.
func (s *Losses) Held(yield func(*Loss) bool) {
	for _, l := range s.lost {
		if l.held && !yield(l) {
			return
		}
	}
}

// Confirm records that a person has confirmed the loss of a Node, and reports whether the Node was
// held. The confirmation holds until the Node exists again or nothing is bound to it any more.
func (s *Losses) Confirm(name string) bool {
	for l := range s.Held {
		if l.Name == name {
			l.confirmed, s.stale = true, true
			s.Weigh()
			return true
		}
	}
	return false
}
