package cascade_test

import (
	"strconv"
	"testing"

	"github.com/ebb-agent/ebb/policy/cascade"
)

// The objects in a list reveal an etcd that was restored and has gone on: each object does
// that was gone, or newer, when all was observed. Without a restore no object does.
func TestContradicts(t *testing.T) {
	contradicting, consistent := 0, 0
	for seed := range uint64(1000) {
		s, err := cascade.Simulate(seed, 40)
		if err != nil {
			t.Fatal(err)
		}
		backup, then := s.Objects(), s.History()
		s.Live(5) // the collector observes none of it
		for _, o := range s.Objects() {
			if s.Collector().Contradicts(o, uint64(then)) {
				t.Fatalf("world %d was not restored, and %+v contradicts", seed, o)
			}
		}
		s.Live(s.Roll(12))
		if err := s.Rest(); err != nil {
			t.Fatal(err)
		}
		last, known := s.History(), make(map[string]int)
		for _, o := range s.Objects() {
			known[o.UID] = number(t, o.ResourceVersion)
		}
		s.Restore(backup, then)
		s.Live(s.Roll(30))
		for _, o := range s.Objects() {
			v := number(t, o.ResourceVersion)
			before, there := known[o.UID]
			want := v <= last && (!there || before > v) && o.Kind != "Far" // versions prove nothing there
			if got := s.Collector().Contradicts(o, uint64(last)); got != want {
				t.Fatalf("world %d: %+v contradicts: %v, want %v; seen at %d, all observed up to %d", seed, o, got, want, before, last)
			}
			if want {
				contradicting++
			} else {
				consistent++
			}
		}
	}
	if contradicting < 300 || consistent < 300 {
		t.Errorf("%d contradict, %d do not", contradicting, consistent)
	}
}

func number(t *testing.T, version string) int {
	t.Helper()
	v, err := strconv.Atoi(version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
