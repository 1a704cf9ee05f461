package watermark

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/image"
)

// What is believed is the truth as long as nobody else writes, however much of it the
// disk shows at any time. With writers it is never less than the disk shows, nor more
// beyond that than was removed.
func TestBelief(t *testing.T) {
	w := newTestWatcher(&testDisk{})
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 1 << 40
		f := &Filesystem{Path: "/late"}
		f.CapacityBytes, f.Inodes = capacity, capacity
		f.AvailableBytes, f.InodesAvailable = 1<<30, 1<<20
		truth, inodes := f.AvailableBytes, f.InodesAvailable
		hidden, removed, wrote := uint64(0), uint64(0), false
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"remove", "remove", "show", "write"}).Draw(t, "step") {
			case "remove":
				d := image.Decision{FreesBytes: rapid.Uint64Range(0, 1<<30).Draw(t, "frees"), FreesInodes: rapid.Uint64Range(0, 1<<10).Draw(t, "inodes")}
				before := Measured{Reading: f.Reading}
				truth, inodes, hidden, removed = truth+d.FreesBytes, inodes+d.FreesInodes, hidden+d.FreesBytes, removed+d.FreesBytes
				w.settling.believe(f, d, before, before)
			case "show":
				n := rapid.Uint64Range(0, hidden).Draw(t, "shown")
				hidden, f.AvailableBytes = hidden-n, f.AvailableBytes+n
			case "write":
				n := rapid.Uint64Range(0, min(1<<20, f.AvailableBytes)).Draw(t, "written")
				wrote = wrote || n > 0
				truth, f.AvailableBytes = truth-n, f.AvailableBytes-n
			}
		}
		d := f.Believed()
		if !wrote && (d.AvailableBytes != truth || d.InodesAvailable != inodes) {
			t.Fatalf("believed are %d bytes and %d inodes, the truth is %d and %d", d.AvailableBytes, d.InodesAvailable, truth, inodes)
		}
		if d.AvailableBytes < f.AvailableBytes || d.AvailableBytes-f.AvailableBytes > removed {
			t.Fatalf("%d bytes are believed of %d that the disk shows and %d removed", d.AvailableBytes, f.AvailableBytes, removed)
		}
		if f.Believing() == (f.believed == belief{}) {
			t.Fatal("something is believed without an end")
		}
		w.settling.shown(f, f.believed, true)
		if d := f.Believed(); d != f.Disk {
			t.Fatalf("the figure is true, and %+v is believed", d)
		}
	})
}
