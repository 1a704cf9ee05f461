package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// lose is a use of a layer that the kernel does not track, and that it had no room
// to note.
func (k *fakeKernel) lose() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.usesLost++
}

// wantUsed compares the last use of an image; the zero time is none.
func (w *world) wantUsed(id string, want time.Time) {
	w.t.Helper()
	got := w.image(id).LastUsed
	if got == nil {
		got = new(time.Time)
	}
	if got.Sub(want).Abs() > time.Second {
		w.t.Errorf("last used %v, want %v", got, want)
	}
}

// A use that the kernel had no room to note may have been of any image that it
// does not track: those, and only those, and only at that moment.
func TestUseThatFoundNoRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		tracked := w.add("tracked", 40)
		w.up()
		w.pass(time.Hour)
		w.rt.SetFaults(fake.Faults{Resolve: inventory.ErrNoSpace})
		unknown := w.add("unknown", 40)
		w.pass(time.Hour)
		w.wantUsed(unknown, time.Time{})

		for range 2 {
			w.kernel.lose()
			lost := time.Now()
			w.wantUsed(unknown, lost)
			w.pass(time.Hour)
			w.wantUsed(unknown, lost) // the table is full for ever, and no use of late
		}
		last := *w.image(unknown).LastUsed
		w.rt.SetFaults(fake.Faults{})
		w.pass(10 * time.Minute)
		w.kernel.lose() // of somebody else's directory: this one has its stamp
		w.wantUsed(unknown, last)
		w.wantUsed(tracked, time.Time{})
		w.wantLogged(3, "level=WARN", "the kernel's table of uses was full")
		w.pass(time.Hour)
		if s := w.status(); len(s.Degraded) > 0 {
			t.Errorf("degraded by %q", s.Degraded)
		}
	})
}

// An image whose layer finds no slot was used until now, as far as anybody
// knows, when the agent starts; from then on events show its uses.
func TestNoSlotForALayer(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.add("a", 40)
		w.kernel.failTrack = fmt.Errorf("all 1 slots are taken: %w", bpf.ErrFull)
		for range 2 {
			w.up()
			started := time.Now()
			w.pass(5 * time.Hour)
			w.wantUsed(id, started)
			w.use("a")
			used := time.Now()
			w.pass(5 * time.Hour)
			w.wantUsed(id, used)
			w.down()
		}
		w.kernel.failTrack = nil
		w.up()
		w.pass(time.Hour)
		if len(w.kernel.Tracked()) != 1 {
			t.Error("there is room, and the layer is not tracked")
		}
	})
}

// The room of layers that went is given to those that came, even while another
// one cannot be resolved.
func TestRoomOfLayersThatWent(t *testing.T) {
	inWorld(t, func(w *world) {
		gone := w.add("gone", 40)
		w.up()
		w.pass(time.Hour)
		old := w.keyOf(gone)
		w.rt.SetFaults(fake.Faults{Resolve: inventory.ErrNoSpace})
		w.add("unknown", 40)
		w.rt.Untag(fake.CRINamespace, "gone")
		w.pass(time.Hour)
		if keys := w.kernel.Tracked(); len(keys) != 1 || keys[0] != old {
			t.Fatalf("tracked are %v: the layer that cannot be resolved may be in the place of the one that went", keys)
		}
		w.kernel.mu.Lock()
		w.kernel.slots = 1
		w.kernel.mu.Unlock()
		w.rt.SetFaults(fake.Faults{})
		w.pass(10 * time.Minute)
		if keys := w.kernel.Tracked(); len(keys) != 1 || keys[0] == old {
			t.Errorf("tracked are %v, want the new layer", keys)
		}
	})
}

// oneFails is a runtime that cannot resolve the first layer that it is asked for.
type oneFails struct {
	*fake.Runtime
	layer *inventory.Layer
}

func (r oneFails) ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	if *r.layer == (inventory.Layer{}) {
		*r.layer = l
	}
	if *r.layer == l {
		return inventory.LayerRoot{}, inventory.ErrNoSpace
	}
	return r.Runtime.ResolveLayer(ctx, l)
}

// One layer that cannot be resolved among others that can is no news each time.
func TestOneLayerOfABatchFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.dial = func(context.Context) (Runtime, error) { return oneFails{w.rt, new(inventory.Layer)}, nil }
		for n := range 3 {
			w.add(fmt.Sprint("image", n), 40)
		}
		w.up()
		w.pass(30 * time.Minute)
		if n := len(w.kernel.Tracked()); n != 2 {
			t.Errorf("%d layers are tracked, want 2", n)
		}
		w.wantLogged(1, "level=WARN", "a layer's directory cannot be found yet")
		w.wantLogged(0, "layers can be resolved again")
		for n := range 3 {
			if id := fmt.Sprint("image", n); slices.Contains(w.status().Degraded, "resolve") {
				w.rt.Untag(fake.CRINamespace, id)
				w.pass(10 * time.Minute)
			}
		}
		w.wantLogged(1, "layers can be resolved again") // what failed is gone
		if s := w.status(); len(s.Degraded) > 0 {
			t.Errorf("degraded by %q", s.Degraded)
		}
	})
}

// oneInode is a runtime on a filesystem that gives a directory the inode number
// of the one that was removed before it, as ext4 does.
type oneInode struct{ *fake.Runtime }

func (r oneInode) ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	root, err := r.Runtime.ResolveLayer(ctx, l)
	root.Ino = 7
	return root, err
}

// An image whose directory has the inode number of another one's that has just
// gone was used when it was, not when the other one was; also if that came before
// the agent knew of either.
func TestInodeNumberGivenAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.dial = func(context.Context) (Runtime, error) { return oneInode{w.rt}, nil }
		w.up()
		key := w.keyOf(w.add("old", 40))
		key.Ino = 7
		w.pass(time.Hour)
		w.kernel.ran(key)
		w.pass(time.Hour)

		w.rt.Untag(fake.CRINamespace, "old")
		id := w.add("new", 40)
		w.pass(time.Hour)
		w.wantUsed(id, time.Time{})

		w.rt.Untag(fake.CRINamespace, "new")
		id = w.add("newer", 40)
		used := time.Now()
		time.Sleep(time.Millisecond)
		w.kernel.ran(key)
		w.pass(time.Hour)
		w.wantUsed(id, used)
	})
}

// TestLayersOfABrokenSnapshotter: while a snapshotter cannot be read, the kernel goes on recording the uses of its
// layers, also if the agent restarts, and none is asked for again afterwards.
func TestLayersOfABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		key := w.keyOf(ids[1])
		w.rt.SetFaults(fake.Faults{Broken: map[string]string{"overlayfs": "timeout"}, In: map[string]string{ids[1]: "overlayfs"}})
		w.pass(time.Hour)
		w.down()
		w.up()
		w.add("new", 40) // once its layer is found, all layers that are gone are removed from the kernel
		w.pass(time.Hour)
		if !slices.Contains(w.kernel.Tracked(), key) {
			t.Fatal("the kernel records uses of the layer no more")
		}
		w.kernel.ran(key)
		used := time.Now()
		w.pass(time.Hour)
		w.rt.SetFaults(fake.Faults{Resolve: errors.New("a layer is looked for again")})
		w.pass(time.Hour)
		w.wantUsed(ids[1], used)
	})
}

// TestSnapshotterThatNeverAnswers: a plugin that holds no image, and that nobody runs, does not keep the kernel
// from forgetting layers that are gone.
func TestSnapshotterThatNeverAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt.SetFaults(fake.Faults{Broken: map[string]string{"stargz": "connection refused"}})
		w.up()
		key := w.keyOf(w.add("a", 40))
		w.pass(time.Hour)
		if !slices.Contains(w.kernel.Tracked(), key) {
			t.Fatal("the layer is not tracked")
		}
		w.rt.Untag(fake.CRINamespace, "a")
		w.add("b", 40)
		w.pass(2 * time.Hour)
		if slices.Contains(w.kernel.Tracked(), key) {
			t.Error("the layer is tracked two hours after its image went")
		}
	})
}
