package node

import (
	"testing"
	"time"

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
