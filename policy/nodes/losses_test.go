package nodes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLossesAgreeWithOracle: which Nodes are held is what one finds by comparing each with all others.
func TestLossesAgreeWithOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	held := 0
	for range 300 {
		s := Losses{MaxShare: []float64{0.15, 0.34, 0.5, 1}[random.IntN(4)]}
		there := map[string]bool{}
		losses := map[string]*Loss{}
		type gone struct {
			left      time.Time
			counts    bool
			confirmed bool
			bound     bool // something still is
		}
		lost := map[string]*gone{}
		s.Changed = func(l *Loss) {
			if !l.Lost() {
				t.Fatalf("%s changed, and is not lost", l.Name)
			}
		}
		now := time.Unix(1e9, 0)
		isHeld := func(name string) bool {
			g, all := lost[name], 0
			for _, other := range lost {
				if other.counts && other.left.Sub(g.left).Abs() <= LostTogether {
					all++
				}
			}
			return g.bound && g.counts && !g.confirmed && all > 1 && float64(all-1) >= s.MaxShare*float64(len(there)+all)-1e-9
		}
		for i := range 6 + random.IntN(10) {
			there[fmt.Sprint("n", i)] = true
			s.AddPresent(1)
		}
		for range 200 {
			now = now.Add(time.Duration(random.IntN(1000)) * time.Second)
			name := fmt.Sprint("n", random.IntN(16))
			l := losses[name]
			if l == nil {
				l = &Loss{Name: name}
				losses[name] = l
			}
			switch g := lost[name]; random.IntN(4) {
			case 0: // it goes, or what is bound to it counts otherwise
				if there[name] {
					delete(there, name)
					s.AddPresent(-1)
				}
				counts := random.IntN(4) > 0
				if g == nil || !g.bound {
					if g = (&gone{left: now, bound: true}); !l.left.IsZero() {
						g.left, g.confirmed = l.left, l.confirmed
					}
					lost[name] = g
				}
				g.counts = counts
				s.Lose(now, l, counts)
			case 1: // it comes
				if !there[name] {
					there[name] = true
					s.AddPresent(1)
				}
				delete(lost, name)
				s.Drop(l, false)
				s.Back(l)
			case 2: // what is bound to it goes
				if g == nil || !g.bound {
					continue
				}
				if g.bound = false; !g.counts || !l.Held() && !g.confirmed {
					delete(lost, name)
				}
				s.Drop(l, true)
			case 3:
				if g != nil && s.Confirm(name) {
					g.confirmed = true
				}
			}
			s.Weigh()
			anyHeld := false
			for other, g := range lost {
				want := isHeld(other)
				anyHeld = anyHeld || want
				if got := losses[other].Held(); g.bound && got != want {
					t.Fatalf("%s: held %v, want %v: %+v of %d there", other, got, want, g, len(there))
				}
				if want {
					held++
				}
			}
			if !anyHeld {
				for other, g := range lost {
					if !g.bound {
						delete(lost, other)
					}
				}
			}
			n := 0
			for l := range s.Held {
				if n++; !isHeld(l.Name) {
					t.Fatalf("%s is among those held", l.Name)
				}
			}
		}
	}
	if held < 1000 {
		t.Errorf("only %d were held", held)
	}
}
