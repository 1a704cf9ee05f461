package cascade

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Simulated is a random world and the collector at work on it, for the tests of
// packages that import this one.
type Simulated struct{ w *world }

// Simulate lets a world live for a while, and then come to rest. The finalizers
// of others stay.
func Simulate(seed uint64, steps int) (Simulated, error) {
	s := Simulated{newWorld(seeded(seed))}
	for range 4 + s.w.roll(8) {
		s.w.user()
	}
	for range steps {
		s.w.step()
	}
	s.w.calm = true
	s.w.c.Hold(s.w.now, false)
	s.w.exclude("") // a preview gets the exclusions as input; they are not under test here
	if s.w.lies == lyingNow {
		s.w.lie()
	}
	s.w.create("Far", "b", "witness", nil, nil)
	for _, t := range s.w.sortedTypes() {
		if !t.served {
			t.served = true
			s.w.c.TypeCame(s.w.now, t.Type)
			if !t.Unwatched {
				s.w.streams[t.Kind].listed = false
			}
		}
	}
	return s, s.Rest()
}

// Types that are served.
func (s Simulated) Types() (list []gc.Type) {
	for _, t := range s.w.sortedTypes() {
		list = append(list, t.Type)
	}
	return list
}

// Objects that are there.
func (s Simulated) Objects() (list []gc.Object) {
	for _, o := range s.w.objects {
		list = append(list, snapshot(o))
	}
	return list
}

// Roll draws a number below n.
func (s Simulated) Roll(n int) int { return s.w.roll(n) }

// Delete is what a user's DELETE does.
func (s Simulated) Delete(uid string, p gc.Policy) { s.w.remove(s.w.byUID(uid), p) }

// Serve takes the finalizers of others off an object.
func (s Simulated) Serve(uid string) (any bool) {
	o := s.w.byUID(uid)
	if o == nil || !slices.Contains(o.Finalizers, "other") {
		return false
	}
	s.w.dropForeign(o)
	return true
}

// Rest lets everything happen that is going to by itself.
func (s Simulated) Rest() error {
	w, until := s.w, s.w.now.Add(time.Hour)
	for len(w.late) > 0 {
		w.arrive(0)
	}
	for range 5000 {
		for _, kind := range kindNames {
			for st := w.streams[kind]; !st.listed || len(st.pending) > 0; {
				w.deliver(kind)
			}
		}
		w.take(1000)
		if len(w.flight) > 0 {
			for len(w.flight) > 0 {
				w.carryOut(0)
			}
			continue
		}
		next := w.c.Next()
		if w.fault != "" {
			return fmt.Errorf("forbidden: %s", w.fault)
		}
		if next.IsZero() || next.After(until) {
			return nil
		}
		if next.After(w.now) {
			w.now = next
		}
	}
	return fmt.Errorf("no end of it")
}

// Story is what has happened, in order.
func (s Simulated) Story() []string { return s.w.story }

// Collector that is at work on it.
func (s Simulated) Collector() *Collector { return s.w.c }

// Journal returns the number of owners in the journal.
func (s Simulated) Journal() int { return len(s.w.c.Journal()) }

// History is the version up to which everything was delivered, in a world at rest.
func (s Simulated) History() int { return s.w.version }

// Restore puts back what there was at some version.
func (s Simulated) Restore(objects []gc.Object, version int) {
	s.w.objects, s.w.version = nil, version
	for _, o := range objects {
		s.w.objects = append(s.w.objects, &stored{o, map[string]int{}})
	}
}

// Live lets users do something.
func (s Simulated) Live(steps int) {
	for range steps {
		s.w.user()
	}
}
