package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/fake"
)

// Growth that nothing can be done about is looked at less and less often, and logged
// once; what changes brings the next look soon.
func TestGrowthOnHold(t *testing.T) {
	inWorld(t, func(w *world) {
		rt := newCounting(w)
		w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Second)
		w.wantLogged(1, "the low threshold cannot be reached; holding")
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
		w.wantLogged(1, "level=INFO", "filesystem reached its high threshold")
		w.wantLogged(1, "level=WARN", "the low threshold cannot be reached; holding")

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

// Space that others free while the disk stays over its threshold lets images go that could not help before.
// Space that brings the disk below its threshold ends the hold. Neither needs an event.
func TestOthersEndTheHold(t *testing.T) {
	t.Run("watched by the kernel", func(t *testing.T) { testOthersEndTheHold(t, false, 0) })
	for phase := range 10 {
		t.Run(fmt.Sprint("polled, ", phase), func(t *testing.T) { testOthersEndTheHold(t, true, time.Duration(phase)*100*time.Millisecond) })
	}
}

func testOthersEndTheHold(t *testing.T, polled bool, phase time.Duration) {
	inWorld(t, func(w *world) {
		if polled {
			w.kernel = nil
		}
		ids := w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.pass(time.Minute)
		w.fill(95)
		w.pass(time.Minute)
		for _, name := range []string{"i0", "i1"} {
			w.rt.Stop(fake.CRINamespace, "c-"+name)
			w.rt.Delete(fake.CRINamespace, "c-"+name)
			w.pass(time.Minute)
		}
		w.wantRemoved() // they cannot reach the low threshold
		w.others(84)
		w.pass(time.Minute)
		w.wantRemoved()
		w.pass(phase)
		w.others(82)
		w.pass(1100 * time.Millisecond)
		w.wantRemoved(ids[0], ids[1])

		w.fill(85)
		w.pass(time.Minute)
		if w.metric("ebb_node_reclaim_holding") != 1 {
			t.Fatal("no hold")
		}
		w.pass(phase)
		w.others(79)
		w.pass(1100 * time.Millisecond)
		if w.metric("ebb_node_reclaim_holding") != 0 {
			t.Error("still holding at 79 %")
		}
		w.wantLogged(2, "hold ended", "no space is needed any more")
		before := w.metric("ebb_node_timer_wakeups_total")
		w.pass(4 * time.Minute)
		if n := w.metric("ebb_node_timer_wakeups_total") - before; n > 2 && !polled {
			t.Errorf("%v wakeups without a hold", n)
		}
	})
}

// What ends a hold is answered at once, the first times. After them looks for events are eventSpacing
// apart again: others may go on and on.
func TestHoldEndsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		rt := newCounting(w)
		names := []string{"i0", "i1", "i2", "i3"}
		for _, name := range names {
			w.add(name, 150)
		}
		w.up()
		w.run(names...)
		w.pass(time.Minute)
		for n, name := range names[:3] {
			w.fill(85)
			w.pass(time.Second)
			w.wantLogged(n+1, "the low threshold cannot be reached; holding")
			w.rt.Stop(fake.CRINamespace, "c-"+name)
			w.rt.Delete(fake.CRINamespace, "c-"+name)
			w.pass(500 * time.Millisecond)
			if got := w.rt.Removed(); len(got) != n+1 {
				t.Errorf("half a second after the end of its container %d images are gone, want %d", len(got), n+1)
			}
			w.pass(eventBurst * eventSpacing) // ebb's own removal is an event, too
		}
		w.fill(85)
		w.pass(time.Minute)
		before := rt.inventories.Load()
		for range 600 {
			w.rt.Tag(fake.CRINamespace, "i3", "again")
			w.pass(100 * time.Millisecond)
		}
		if n := rt.inventories.Load() - before; n < 60/5-2 || n > 60/5+eventBurst {
			t.Errorf("an event each 100 ms had the node read %d times in a minute", n)
		}
	})
}
