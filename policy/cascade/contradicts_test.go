package cascade_test

import (
	"strconv"
	"testing"

	"github.com/ebb-agent/ebb/policy/cascade"
)

// An etcd that was restored and has gone on is told by the objects in a list: by each
// that was gone, or newer, when all was told; and never without a restore.
func TestContradicts(t *testing.T) {
	told, untold := 0, 0
	for seed := range uint64(1000) {
		s, err := cascade.Simulate(seed, 40)
		if err != nil {
			t.Fatal(err)
		}
		backup, then := s.Objects(), s.History()
		s.Live(5) // nobody tells the collector
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
			want := v <= last && (!there || before > v) && o.Kind != "Far" // versions say nothing there
			if got := s.Collector().Contradicts(o, uint64(last)); got != want {
				t.Fatalf("world %d: %+v contradicts: %v, want %v; seen at %d, all told up to %d", seed, o, got, want, before, last)
			}
			if want {
				told++
			} else {
				untold++
			}
		}
	}
	if told < 300 || untold < 300 {
		t.Errorf("%d contradict, %d do not", told, untold)
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
