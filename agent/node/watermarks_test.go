package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
)

// On btrfs the kernel sees growth long before statfs does.
func TestGrowthThatStatfsDoesNotShow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		ids := w.five()
		w.disk.written = int64(60 * mib) // 6 %: statfs reports 75
		w.fill(81)
		w.pass(time.Second) // it looks how fast the disk fills
		w.wantRemoved(ids[0], ids[1])
	})
}

// Nor does it show at once what was deleted: images would go for nothing.
func TestDeletionsThatStatfsDoesNotShow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		w.five()
		w.fill(79)
		w.disk.written = -int64(60 * mib) // statfs reports 85
		w.kernel.crossings <- bpf.Crossing{Dev: fakeDev}
		w.pass(time.Hour)
		w.wantRemoved()
		if w.disk.settled == 0 {
			t.Error("the figure was never made true")
		}
	})
}

// Nor does it show, for a moment after a commit, a block group that the kernel removes
// because it has become empty.
func TestBlockGroupsThatStatfsLeavesOut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		ids := w.five()
		w.disk.leaving = 60 * mib
		w.fill(81)
		w.wantRemoved(ids[0], ids[1])
		if n := len(w.booked()); n != 2 { // no name of a third was taken away, either
			w.t.Errorf("%d entries in the history, want 2: %+v", n, w.booked())
		}
	})
}

// What was written between the reading and the new watermark may have been the last.
func TestGrowthJustBeforeTheWatermarkWasSet(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		ids := w.five()
		w.fill(79)
		w.rt.SetDisk(size, 610*mib, 100000) // 81 % with the images, unseen
		w.disk.written = int64(60 * mib)
		w.pass(time.Second)
		w.wantRemoved() // the kernel had no watermark that this could reach
		w.use("i4")     // a look, hence a new watermark
		w.pass(eventSpacing + time.Minute)
		w.wantRemoved(ids[0], ids[1])
	})
}

// A writer that overwrites keeps the kernel's figure below the watermark and statfs
// above it: the agent is woken, but not as often as there are writes.
func TestEarlyEventsAreSpaced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		w.five()
		w.fill(79)
		w.pass(time.Minute)
		w.kernel.promised = 20 * mib / blockSize
		events, settled := 0, w.disk.settled
		const seconds = 10
		for range seconds * 100 {
			w.pass(10 * time.Millisecond)
			if w.kernel.early(fakeDev) {
				events++
			}
		}
		if events < seconds/2 || events > 2*seconds+1 {
			t.Errorf("%d early events in %d s", events, seconds)
		}
		if n := w.disk.settled - settled; n > 4*seconds+4 {
			t.Errorf("%d commits in %d s", n, seconds)
		}
		w.wantRemoved()
	})
}

// early raises the event, if it is armed, although it is not reached.
func (k *fakeKernel) early(dev uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	half := fakeHalf{dev: dev}
	if !k.armed[half] {
		return false
	}
	k.armed[half] = false
	k.crossings <- bpf.Crossing{Dev: dev, BootNS: uint64(k.now())}
	return true
}
