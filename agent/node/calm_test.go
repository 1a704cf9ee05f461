package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
)

// Growth that nothing can be done about is looked at less and less often, and said
// once; what changes brings the next look soon.
func TestGrowthOnHold(t *testing.T) {
	inWorld(t, func(w *world) {
		rt := newCounting(w)
		w.five()
		for _, name := range []string{"i0", "i1", "i2", "i3", "i4"} {
			w.rt.Run(fake.CRINamespace, "c-"+name, name)
		}
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Second)
		w.wantLogged(1, "the low line cannot be reached; holding")
		before := rt.inventories.Load()
		for percent := uint64(86); percent < 99; percent++ {
			w.fill(percent)
			w.pass(40 * time.Millisecond)
		}
		if n := rt.inventories.Load() - before; n > 1 {
			t.Errorf("the node was read %d times in half a second", n)
		}
		w.pass(10 * time.Second)
		if n := rt.inventories.Load() - before; n < 1 {
			t.Error("growth was never looked at")
		}
		w.wantLogged(1, "level=INFO", "filesystem reached its line")
		w.wantLogged(1, "level=WARN", "the low line cannot be reached; holding")

		w.rt.Stop(fake.CRINamespace, "c-i2")
		w.rt.Delete(fake.CRINamespace, "c-i2")
		w.pass(time.Second)
		w.fill(99)
		w.pass(2 * eventSpacing)
		if got := w.rt.Removed(); len(got) != 1 {
			t.Errorf("%d images went, want the one that is not used any more", len(got))
		}
	})
}

// A line that can be helped is never put off by the hold of the other resource.
func TestHoldOfOneResourceOnly(t *testing.T) {
	now := time.Now()
	disk := image.Disk{CapacityBytes: 1000, AvailableBytes: 500, Inodes: 1000, InodesAvailable: 50}
	s := &store{filesystem: &filesystem{}}
	s.kept = &state.Reclaim{Hold: &image.Hold{Inodes: true}}
	s.lines = image.Policy{HighPercent: 80, LowPercent: 70, InodesHighPercent: 90, InodesLowPercent: 80}
	s.calm.looked(true, now)
	if wait := s.waits(reading{Disk: disk}, now); wait != eventSpacing {
		t.Errorf("more inodes: wait %v, want %v", wait, eventSpacing)
	}
	disk.AvailableBytes = 100
	if wait := s.waits(reading{Disk: disk}, now); wait != 0 {
		t.Errorf("the line for bytes is reached, and waits %v", wait)
	}
	s.kept.Hold = nil
	disk.AvailableBytes = 500
	if wait := s.waits(reading{Disk: disk}, now); wait != 0 {
		t.Errorf("no hold, and a wait of %v", wait)
	}
}

// The pauses double up to a bound, whatever changes they stay above another, and
// they begin anew after a calm time.
func TestPausesOnHold(t *testing.T) {
	var c calm
	now := time.Now()
	last := time.Duration(0)
	for range 20 {
		c.looked(true, now)
		pause := c.until.Sub(now)
		if pause < eventSpacing || pause > calmMost || pause < min(2*last, calmMost) {
			t.Fatalf("%v after %v", pause, last)
		}
		last, now = pause, c.until
	}
	c.looked(true, now)
	c.changed(now)
	if wait := c.until.Sub(now); wait != eventSpacing {
		t.Errorf("after a change it waits %v", wait)
	}
	c.looked(true, c.until)
	c.looked(false, c.until)
	if c.pause == 0 {
		t.Error("a hold that ends and begins in a moment begins with no pause")
	}
	if c.looked(false, c.until.Add(1)); c.pause != 0 {
		t.Error("a hold long ago still has its pause")
	}
}
