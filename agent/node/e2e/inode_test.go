package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestInodeNumberGivenAgain replaces an image by another whose layer ext4 puts
// into a directory with the same inode number, while the agent runs and while it
// does not. The new one has no use but its own, and that is not lost.
func TestInodeNumberGivenAgain(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plain("image0", layerBytes))
	b.start()
	b.use("image0")
	b.awaitOrder()
	tried := map[bool]int{} // by whether the agent ran
	for n := 1; tried[true] < 2 || tried[false] < 2; n++ {
		if n > 40 {
			t.Fatalf("the inode number was given again only %v times", tried)
		}
		running := n%2 == 0
		if !running {
			b.stop()
		}
		old, name := fmt.Sprint("image", n-1), fmt.Sprint("image", n)
		before := b.layerInodes()
		b.removeImage(old)
		b.importImages(plain(name, layerBytes))
		if len(common(before, b.layerInodes())) > 0 {
			tried[running]++
		}
		// Only every other one is used; of the rest, nothing is to be known.
		from := time.Now()
		used := n%4 < 2
		if used {
			b.use(name)
		}
		if !running {
			b.start()
		}
		b.eventually("news of "+name, func() error { _, err := b.verdict(b.scenario.ids[name]); return err })
		b.awaitMetric("ebb_node_layers_tracked", 2) // its own and the sandbox image's
		b.eventually("the last use of "+name, func() error {
			v, err := b.verdict(b.scenario.ids[name])
			if err != nil {
				return err
			}
			if used != (v.LastUsed != nil) || used && v.LastUsed.Before(from) {
				return fmt.Errorf("used: %v, since %v; last used: %v", used, from, v.LastUsed)
			}
			return nil
		})
	}
}

func (b *fixture) removeImage(name string) {
	b.Helper()
	_, images := b.node.CRI()
	_, err := images.RemoveImage(b.ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: b.scenario.ids[name]}})
	b.must(err)
	b.scenario.order = slices.DeleteFunc(b.scenario.order, func(n string) bool { return n == name })
	delete(b.scenario.ids, name)
	delete(b.scenario.images, name)
}

// layerInodes are those of all unpacked layers.
func (b *fixture) layerInodes() map[uint64]bool {
	b.Helper()
	dirs, err := filepath.Glob(filepath.Join(b.node.Root(), "io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs"))
	b.must(err)
	inodes := map[uint64]bool{}
	for _, dir := range dirs {
		var st unix.Stat_t
		err := unix.Stat(dir, &st)
		if os.IsNotExist(err) {
			continue // a View of the agent's, already gone
		}
		b.must(err)
		inodes[st.Ino] = true
	}
	return inodes
}

func common(a, b map[uint64]bool) []uint64 {
	both := maps.Clone(a)
	maps.DeleteFunc(both, func(n uint64, _ bool) bool { return !b[n] })
	return slices.Collect(maps.Keys(both))
}
