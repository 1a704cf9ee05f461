package node

import (
	"sync"
	"testing"
	"time"
)

// The filesystem goes away while a removal is measured, and comes back. Nothing goes in
// place of what went, and nothing is believed of the one that is there then.
func TestFilesystemGoesWhileMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		var once sync.Once
		w.disk.mu.Lock()
		w.disk.during = func() { once.Do(func() { w.disk.mount("/", 0, "", nil) }) }
		w.disk.mu.Unlock()
		w.fill(81)
		w.pass(time.Second)
		w.wantRemoved(ids[0])
		if w.agent.health.notReady.Load() == nil {
			t.Error("ready without the images' filesystem")
		}
		w.disk.unmount("/") // what was mounted over it
		w.pass(2 * retryMost)
		w.wantRemoved(ids[0], ids[1])
		w.wantReady()
		w.wantLogged(0, "the freed space does not show yet")
		f, _ := w.agent.reclaim.Target()
		if f == nil {
			t.Fatal("the filesystem was not found again")
		}
		if f.Believing() {
			t.Errorf("believed is %+v of %+v", f.Believed(), f.Disk)
		}
	})
}
