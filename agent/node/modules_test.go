package node

import (
	"testing"
	"time"
)

// TestModulesComeLater: an agent that began before the modules of the node's
// filesystems were loaded tracks layers and sets its watermark at the first look at
// which they are there.
func TestModulesComeLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.absent, w.kernel.waiting = true, true
		ids := w.five()
		w.pass(time.Minute)
		if got := w.metric("ebb_node_filesystem_polled", "images"); got != 1 {
			t.Errorf("polling is %g", got)
		}
		if n := len(w.kernel.Tracked()); n != 0 {
			t.Errorf("%d layers are tracked", n)
		}
		w.kernel.absent = false
		w.kernel.ran(w.keyOf(ids[0])) // before anybody tracks it
		w.use("i4")                   // a look
		w.pass(eventSpacing)
		if got := w.metric("ebb_node_filesystem_polled", "images"); got != 0 {
			t.Errorf("polling goes on: %g", got)
		}
		if n := len(w.kernel.Tracked()); n != len(ids) {
			t.Errorf("%d layers are tracked, want %d", n, len(ids))
		}
		w.fill(81)
		w.wantRemoved(ids[1], ids[2])
	})
}
