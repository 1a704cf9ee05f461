package e2e

import (
	"slices"
	"testing"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestPulledAgain: an image that comes back after ebb removed it is counted, once and with
// its bytes, also by the next agent. It is new all the same.
func TestPulledAgain(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		images := plains("a", 7)
		b := newFixture(t, flavor, images...)
		b.start()
		b.use("a3", "a1", "a5", "a0", "a4", "a2", "a6")
		b.awaitOrder()
		mark := b.journal.mark()
		b.cross()
		b.journal.await(t, mark, "reclaim run ended")
		gone := b.removals(mark)
		if len(gone) == 0 {
			t.Fatal("nothing was removed")
		}
		first := b.removedNames(mark)[0]
		b.stop()
		b.start()
		b.importImages(images[slices.IndexFunc(images, func(i node.Image) bool { return nameOf(i) == first })])
		b.awaitMetric("ebb_node_images_repulled_total", 1)
		b.awaitMetric("ebb_node_images_repulled_bytes_total", gone[0].Number("computed_bytes"))
		b.eventually("it is new, and known as one that came back", func() error {
			i, err := b.verdict(gone[0].Text("image"))
			if err == nil && (i.PulledAgain != 1 || i.LastUsed != nil) {
				t.Errorf("the image is reported as %+v", i)
			}
			return err
		})
		b.stop()
		b.start()
		b.awaitMetric("ebb_node_images_repulled_total", 0)
	})
}
