package watermark

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
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

// restless is a disk that does not settle.
type restless struct{ testDisk }

func (*restless) Settle(context.Context, string, func(image.Disk) bool) (image.Disk, error) {
	return image.Disk{}, errors.New("busy")
}

// When its time is over, nothing is believed any more, and after that look nothing reports it.
func TestBeliefEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWatcher(&restless{testDisk{available: 1 << 20}})
		w.Place(inventory.Roots{Images: "/"})
		w.Survey()
		f := w.Filesystems()[0]
		w.settling.believe(f, image.Decision{FreesBytes: 1 << 20}, Measured{Reading: f.Reading}, Measured{Reading: f.Reading})
		until := f.BelievedUntil()
		for _, believes := range []bool{true, false} {
			err := w.ReadForPlan(t.Context(), f)
			w.Looked(t.Context())
			if err != nil || f.Believing() != believes || w.o.Conditions.Holds(f.lateTopic()) != believes {
				t.Errorf("believes: %v, want %v; conditions %q; %v", f.Believing(), believes, w.o.Conditions.Names(), err)
			}
			time.Sleep(time.Until(until))
		}
	})
}
