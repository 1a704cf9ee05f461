package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

// eachFilesystem runs a test on several kinds of filesystem.
func eachFilesystem(t *testing.T, kinds []string, test func(t *testing.T, kind string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// TestReclaimIsExact: on a filesystem whose figures lag behind (btrfs: until a
// commit; xfs: until workers are done), too, no image goes that did not have
// to, whatever crossed the threshold.
func TestReclaimIsExact(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, []string{"ext4", "xfs", "btrfs"}, func(t *testing.T, kind string) {
		b := newFixtureOn(t, kind, node.V2, plains("a", 12)...)
		b.config.Images.LowThresholdPercent = 70
		b.start()
		b.use("a3", "a6", "a1", "a9", "a5", "a10", "a0", "a8", "a4", "a11", "a2", "a7")
		b.awaitOrder()
		b.reclaimsBy("writes", b.cross)
		b.reclaimsBy("an import", func() {
			b.fill(float64(b.config.Images.HighThresholdPercent) - 1.2)
			b.importImages(plain("late", 2*mib)) // twice that with its blob
		})
	})
}

// TestFastWriter: what a process has written goes to a btrfs later. If the disk fills fast, images go
// for it before that, and not one too many. For data that is compressed, none goes.
func TestFastWriter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		random, compress bool
	}{
		"data": {random: true}, "data where files are compressed": {true, true}, "zeros where files are compressed": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixtureOn(t, "btrfs", node.V2, plains("a", 12)...)
			b.config.Images.LowThresholdPercent = 70
			if c.compress {
				b.must(unix.Mount("", b.node.Mount(), "", unix.MS_REMOUNT, "compress-force=zstd"))
			}
			b.start()
			b.use("a3", "a6", "a1", "a9", "a5", "a10", "a0", "a8", "a4", "a11", "a2", "a7")
			b.awaitOrder()
			b.fill(float64(b.config.Images.HighThresholdPercent) - 3)
			crossings := b.metric(`ebb_node_filesystem_threshold_crossings_total{filesystem="images"}`)
			mark := b.journal.mark()
			b.writeFast("written", 7, c.random)
			if c.random {
				b.journal.await(t, mark, "reclaim run ended")
			} else {
				b.awaitAtLeast(`ebb_node_filesystem_threshold_crossings_total{filesystem="images"}`, crossings+1)
				if early := b.removedNames(mark); len(early) > 0 {
					t.Errorf("FINAL: removed %v for data that takes no space", early)
				}
			}
			after := b.journal.mark()
			b.cross()
			b.checkLow(b.journal.await(t, after, "reclaim run ended"), b.notLow)
			b.checkRun(mark)
		})
	}
}

// writeFast writes a share of the disk, in percent, at a pace that would fill it in five seconds.
func (b *fixture) writeFast(name string, percent int64, random bool) {
	b.Helper()
	u, err := b.node.Usage()
	b.must(err)
	data := make([]byte, int64(u.CapacityBytes)/1000)
	if random {
		rand.Read(data)
	}
	f, err := os.Create(filepath.Join(b.node.Mount(), name))
	b.must(err)
	pace := time.NewTicker(5 * time.Second / 200)
	defer pace.Stop()
	for range percent * 10 {
		_, err := f.Write(data)
		b.must(err)
		<-pace.C
	}
	b.must(f.Close())
}

// checkLow: a run has brought the disk low, or the disk shows it later: the sync of a busy
// disk can take longer than a run waits. notLow is what still keeps it from being low.
func (b *fixture) checkLow(end agentrun.Line, notLow func() error) {
	b.Helper()
	switch got := end.Text("result"); got {
	case "low_reached":
	case "shortfall":
		b.eventually("a low disk", notLow)
	default:
		b.Errorf("the run ended as %v", end.Fields)
	}
}

// reclaimsBy crosses the threshold and checks what goes for it.
func (b *fixture) reclaimsBy(what string, cross func()) {
	b.Helper()
	mark := b.journal.mark()
	cross()
	b.checkLow(b.journal.await(b.T, mark, "reclaim run ended"), b.notLow)
	b.checkRun(mark)
	gone := b.removedNames(mark)
	if len(gone) < 2 || len(gone) == len(b.scenario.order) {
		b.Errorf("crossed by %s, %d of %d images went: that shows nothing", what, len(gone), len(b.scenario.order))
	}
	b.Logf("crossed by %s, gone are %v", what, gone)
	for _, name := range gone {
		b.scenario.forget(name)
		delete(b.scenario.images, name)
	}
}

// inodes reads how many inodes the node's filesystem has, and how many are
// free, once that has stopped to change.
func (b *fixture) inodes() (all, free uint64) {
	b.Helper()
	_, err := b.node.Usage() // syncs
	b.must(err)
	var st unix.Statfs_t
	b.must(unix.Statfs(b.node.Mount(), &st))
	return st.Files, st.Ffree
}

// tinyFiles is how many files an image of the test below has.
const tinyFiles = 1500

func tiny(name string, files int) node.Image {
	return node.Image{Name: ref(name), Layers: []node.Layer{{Seed: name, Bytes: int64(files) * 16, Files: files}}}
}

// TestReclaimForInodes: tiny files take no space to speak of and all inodes.
// btrfs does not count them.
func TestReclaimForInodes(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, []string{"ext4", "xfs"}, func(t *testing.T, kind string) {
		var images []node.Image
		for i := range 9 {
			images = append(images, tiny(fmt.Sprint("a", i), tinyFiles))
		}
		b := newFixtureOn(t, kind, node.V2, images...)
		all, free := b.inodes()
		high := int(100-free*100/all) + 1
		b.config.Images.InodesHighThresholdPercent = high
		b.config.Images.InodesLowThresholdPercent = high - int(2*tinyFiles*100/all) - 1 // two images or three
		b.start()
		b.use("a3", "a6", "a1", "a8", "a5", "a0", "a4", "a2", "a7")
		b.awaitOrder()
		b.reclaimsInodesBy("files", func() { b.makeFiles(b.overTheThreshold()) })
		_, free = b.inodes()
		low := all * uint64(100-b.config.Images.InodesLowThresholdPercent) / 100
		if free+inodeSlack < low {
			t.Errorf("%d inodes are free; the low threshold is at %d", free, low)
		}
		b.reclaimsInodesBy("an import", func() { b.importImages(tiny("late", b.overTheThreshold())) })
		// A look for the import may have been first to see it; the kernel has
		// reported it all the same.
		b.eventually("two crossings", func() error {
			if got := b.metric(`ebb_node_filesystem_threshold_crossings_total{filesystem="images"}`); got < 2 {
				return fmt.Errorf("there were %g", got)
			}
			return nil
		})
	})
}

// overTheThreshold is how many more files reach the high threshold, and some.
func (b *fixture) overTheThreshold() int {
	b.Helper()
	all, free := b.inodes()
	high, on := image.RaiseAt(all, b.config.Images.InodesHighThresholdPercent)
	if !on {
		b.Fatal("no threshold")
	}
	return int(free-high) + inodeSlack
}

// inodeSlack is for directories, and what the runtime has open.
const inodeSlack = tinyFiles / 10

// reclaimsInodesBy crosses the threshold for inodes, and checks that no image went
// that did not have to.
func (b *fixture) reclaimsInodesBy(what string, cross func()) {
	b.Helper()
	mark := b.journal.mark()
	cross()
	all, free := b.inodes()
	low := all * uint64(100-b.config.Images.InodesLowThresholdPercent) / 100
	b.checkLow(b.journal.await(b.T, mark, "reclaim run ended"), func() error {
		if _, free = b.inodes(); free < low {
			return fmt.Errorf("%d inodes are free; the low threshold is at %d", free, low)
		}
		return nil
	})
	gone := b.removedNames(mark)
	if want, _ := b.scenario.goes(len(gone)); !slices.Equal(gone, want) || len(gone) < 2 || len(gone) == len(b.scenario.order) {
		b.Errorf("crossed by %s, gone are %v; used longest ago were %v", what, gone, want)
	}
	if _, free = b.inodes(); free >= low+tinyFiles+inodeSlack {
		b.Errorf("crossed by %s, %d inodes are free; the low threshold is at %d, and one image has %d", what, free, low, tinyFiles)
	}
	b.Logf("crossed by %s, gone are %v; %d inodes are free, the threshold is at %d", what, gone, free, low)
	for _, name := range gone {
		b.scenario.forget(name)
	}
}

// makeFiles makes empty files.
func (b *fixture) makeFiles(n int) {
	b.Helper()
	b.makeFilesIn(0, n)
}

// makeFilesIn makes empty files in a directory of that number.
func (b *fixture) makeFilesIn(number, n int) {
	b.Helper()
	dir := filepath.Join(b.node.Mount(), "tiny", fmt.Sprint(number))
	b.must(os.MkdirAll(dir, 0o711))
	for i := range n {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		b.must(err)
		b.must(f.Close())
	}
}
