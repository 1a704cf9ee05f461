package stats

import (
	"testing"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// A directory that was made anew has nothing of the one before.
func TestHeatOfDirectoriesMadeAnew(t *testing.T) {
	at := bpf.HeatKey{Filesystem: 8, Inode: 5, Generation: 1}
	before, after := bpf.LayerHeat{HeatKey: at, SinceNS: 10, Files: 100}, bpf.LayerHeat{HeatKey: at, SinceNS: 20, Files: 2}
	after.Generation = 2
	old, both := newHeatFinder([]bpf.LayerHeat{before}), newHeatFinder([]bpf.LayerHeat{after, before})
	place := inventory.Place{Dev: 8, Ino: 5, Generation: 2}
	if l, ok := old.at(place); ok {
		t.Errorf("found %+v", l)
	}
	if l, ok := both.at(place); !ok || l.Files != 2 {
		t.Errorf("found %+v, %v", l, ok)
	}
	place.Generation = 0 // the filesystem does not say
	if l, ok := both.at(place); !ok || l.Files != 2 {
		t.Errorf("without generations found %+v, %v", l, ok)
	}
}
