package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/fake"
)

// What ebb removed and what comes back within a day is pulled again: each time counted, by
// each agent, and new by its age. What somebody else removed is not ours.
func TestPulledAgainIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.many(9)
		back := func(n int) {
			t.Helper()
			w.rt.SetDisk(size, 0, 100000) // nothing has to go
			name := fmt.Sprintf("docker.io/library/i%02d:latest", n)
			if w.add(name, 20) != ids[n] {
				t.Fatal("it is another image")
			}
			w.pass(time.Minute)
		}
		w.rt.Untag(fake.CRINamespace, "docker.io/library/i08:latest")
		w.pass(time.Minute)
		back(8)
		w.fill(81)
		w.pass(time.Minute)
		w.wantRemoved(ids[:3]...)
		back(0)
		w.wantLogged(1, "pulled again", "image="+ids[0], "freed_bytes=20971520", "times=1")
		if i := w.image(ids[0]); i.PulledAgain != 1 || i.LastUsed != nil {
			t.Errorf("the image is reported as %+v", i)
		}
		w.down()
		w.up()
		back(1)
		if n, bytes := w.metric("ebb_node_images_repulled_total"), w.metric("ebb_node_images_repulled_bytes_total"); n != 1 || bytes != float64(20*mib) {
			t.Errorf("%v images of %v bytes count as pulled again since the start", n, bytes)
		}
		w.pass(24 * time.Hour)
		back(2)
		if i := w.image(ids[2]); i.PulledAgain != 0 {
			t.Errorf("an image that came back after a day is reported as %+v", i)
		}
		// The first one once more: what is known of it went with it.
		for _, name := range []string{"i03", "i04", "i05", "i06", "i07", "i08", "i01", "i02"} {
			w.use("docker.io/library/" + name + ":latest")
		}
		w.fill(81)
		w.pass(time.Minute)
		back(0)
		w.wantLogged(1, "pulled again", "image="+ids[0], "times=2")
	})
}
