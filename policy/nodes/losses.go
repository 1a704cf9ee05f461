package nodes

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// LostTogether is how far apart Nodes are lost that count together.
const LostTogether = time.Hour

// DefaultLostShare of all Nodes may be lost together: with it, one zone of three may.
const DefaultLostShare = 0.34

const rounding = 1e-9 // 0.29 of 100 is 29

// Loss is a Node that is gone while something is bound to it that is to go with it. The zero value with a
// name is of a Node that is not lost. A collector keeps one for each such Node.
type Loss struct {
	Name      string
	lost      bool
	counts    bool      // against others that are lost
	held      bool      // it was lost together with too many others
	confirmed bool      // a person says that it is gone
	left      time.Time // when it was lost first since it was there; zero: it was not
}

// Lost says whether it is.
func (l *Loss) Lost() bool { return l.lost }

// Held says whether it was lost together with too many others, and no person has confirmed it.
func (l *Loss) Held() bool { return l.held }

// Losses are the Nodes that are lost, and how many may be. If more than MaxShare of all Nodes, those lost
// included and rounded up, are lost within [LostTogether], these are held: a mistake is more likely. One
// always may be lost. Each Node is weighed against those lost around its own time, so that later losses
// do not wait for earlier ones.
type Losses struct {
	MaxShare float64
	Changed  func(*Loss) // called at the end of Weigh with each that is held now, or is not any more

	present int
	lost    []*Loss // by when they left
	stale   bool    // something changed since the last Weigh
	// settled are Nodes that were lost together with some that are held, and to which nothing is bound
	// any more, by when they left. They count: who confirmed one has not confirmed the others.
	settled map[string]time.Time
}

// Reset forgets all Nodes.
func (s *Losses) Reset() {
	for _, l := range s.lost {
		*l = Loss{Name: l.Name}
	}
	s.present, s.lost, s.settled, s.stale = 0, nil, nil, true
}

// AddPresent says that so many more Nodes are there.
func (s *Losses) AddPresent(n int) { s.present, s.stale = s.present+n, true }

// SetShare sets MaxShare; 0 or less stands for [DefaultLostShare].
func (s *Losses) SetShare(most float64) {
	if !(most > 0) {
		most = DefaultLostShare
	}
	s.MaxShare, s.stale = most, true
}

// Lose says that a Node is lost; counts, that it counts against others.
func (s *Losses) Lose(now time.Time, l *Loss, counts bool) {
	if l.lost && l.counts == counts {
		return
	}
	s.stale = true
	if l.counts = counts; l.lost {
		return
	}
	if l.left.IsZero() {
		l.left = now
	}
	delete(s.settled, l.Name)
	l.lost = true
	s.lost = slices.Insert(s.lost, s.place(l), l)
}

// Drop says that a Node is not lost any more. gone says that it still is not there, and that what was
// bound to it went.
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

// Back says that a Node is there again, after Drop. What a person confirmed is forgotten.
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

// Weigh which Nodes were lost together with too many others, if anything changed.
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
	for _, l := range changed { // these may lose or find others
		s.Changed(l)
	}
}

func (l *Loss) count() int {
	if l.counts {
		return 1
	}
	return 0
}

// Held are the Nodes that are held.
func (s *Losses) Held(yield func(*Loss) bool) {
	for _, l := range s.lost {
		if l.held && !yield(l) {
			return
		}
	}
}

// Confirm says that a person has seen that a Node is gone, and reports whether that was waited for. It
// counts until the Node is there again, or nothing is bound to it any more.
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
