package e2e

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestUseWhileDown: neither a use of a few milliseconds nor the end of a long
// one is lost while no agent runs, however it ended.
func TestUseWhileDown(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor, plains("a", 6)...)
		b.start()
		b.use("a0", "a1", "a2", "a3")
		before := b.sleepIn("a4")
		b.scenario.used("a4") // in use now
		b.awaitOrder()

		b.stop()
		b.use("a1")
		during := b.sleepIn("a5")
		b.end("a4", before)
		b.use("a0")
		b.end("a5", during)
		b.start()
		b.awaitOrder() // a2 a3 a1 a4 a0 a5

		long := b.sleepIn("a2")
		b.kill()
		b.use("a3")
		b.end("a2", long)
		b.use("a1")
		b.start()
		b.awaitOrder() // a4 a0 a5 a3 a2 a1

		// What was used while nobody looked counts in the first decision, too.
		b.stop()
		b.use("a0", "a4")
		b.cross()
		mark := b.journal.mark()
		b.start()
		b.journal.await(t, mark, "reclaim run ended")
		b.checkRun(mark)
	})
}

// end ends a container that slept, and deletes it; that is its image's use.
func (b *fixture) end(name string, c *node.Container) {
	b.Helper()
	b.must(c.Kill(b.ctx))
	b.must(c.Delete(b.ctx))
	b.scenario.used(name)
}

// TestDeadContainersUseNothing: a container that has ended keeps its image, and is no use
// of it: not while it lies dead, not when an agent starts, not when it is removed. Its end
// counts, whether an agent has heard of it or not, with the programs or without.
func TestDeadContainersUseNothing(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		for name, programs := range map[string]bool{"programs": true, "no programs": false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newFixture(t, flavor, plains("a", 5)...)
				b.config.Kernel.Enabled = programs
				b.start()
				heard := b.dead("a0")
				b.use("a1")
				b.awaitOrder() // a0 a1
				b.awaitReason("a0", "in_use")

				long := b.sleepIn("a2")
				b.scenario.used("a2")
				b.awaitReason("a2", "in_use")
				b.stop()
				unheard := b.dead("a3")
				b.must(long.Kill(b.ctx))
				b.scenario.used("a2")
				b.start()
				b.awaitOrder() // a0 a1 a3 a2

				b.use("a1")
				b.awaitOrder() // a0 a3 a2 a1
				b.stop()
				b.start()
				b.awaitOrder()
				for _, name := range []string{"a0", "a2", "a3"} {
					b.awaitReason(name, "in_use")
				}
				for _, c := range []*node.Container{heard, unheard, long} {
					b.must(c.Delete(b.ctx))
				}
				b.use("a4") // its events come after theirs
				b.awaitOrder()
				if programs {
					mark := b.journal.mark()
					b.cross()
					b.journal.await(t, mark, "reclaim run ended")
					b.checkRun(mark)
				}
			})
		}
	})
}

// dead runs a container that ends, and leaves it.
func (b *fixture) dead(name string) *node.Container {
	b.Helper()
	c := b.sleepIn(name, "true")
	_, err := c.Wait(b.ctx)
	b.must(err)
	b.scenario.used(name)
	return c
}

// TestUsedOnArrival: images that are imported and used before the agent has
// looked again are known in their order of use, too.
func TestUsedOnArrival(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plain("old", layerBytes))
	b.start()
	b.use("old")
	b.importImages(plain("x", layerBytes), plain("y", layerBytes), plain("z", layerBytes))
	b.use("z", "x", "y", "z")
	b.awaitOrder()
}

// TestReadingIsNotUsing: who reads files of an image does not use it.
func TestReadingIsNotUsing(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor, plains("a", 4)...)
		b.start()
		b.use("a2", "a0", "a3", "a1")
		b.awaitOrder()
		before, err := b.images()
		b.must(err)

		if n, err := readAll(b.node.Root()); err != nil || n < 4*layerBytes {
			t.Fatalf("read only %d bytes of the layers: %v", n, err)
		}
		// The same from a container of the oldest image, which so becomes the newest.
		c, err := b.node.Run(b.ctx, node.RunSpec{
			ID: "scanner", Image: ref("a2"), Args: []string{"sh", "-c", "find /host -type f -exec cat {} + | wc -c"},
			Mounts: []node.Mount{{Source: b.node.Root(), Target: "/host", ReadOnly: true}},
		})
		b.must(err)
		code, err := c.Wait(b.ctx)
		b.must(err)
		if output, _ := c.Output(); code != 0 {
			t.Fatalf("the scanner failed: %s", output)
		}
		b.must(c.Delete(b.ctx))
		b.scenario.used("a2")
		b.awaitOrder()

		for _, i := range before.Images {
			now, err := b.verdict(i.ID)
			b.must(err)
			if name := b.scenario.name(i.ID); slices.Contains(b.scenario.order, name) && name != "a2" && !now.LastUsed.Equal(*i.LastUsed) {
				t.Errorf("%s was last used at %v, after it was read at %v", name, i.LastUsed, now.LastUsed)
			}
		}
	})
}

// readAll reads every file below dir. What goes meanwhile, as a View of the
// agent's does, is passed over.
func readAll(dir string) (read int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(io.Discard, f)
		read += n
		return err
	})
	return read, err
}

// TestKilledAgain kills the agent at random moments, in the middle of runs too,
// and starts it again. No use is lost, nobody goes out of turn, and nothing is half removed.
func TestKilledAgain(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 9)...)
	b.config.Images.Keep = []string{ref("a1")}
	b.sleepIn("a2")
	random := rand.New(rand.NewPCG(1, 2))
	b.start()
	b.use("a1", "a0", "a3", "a4", "a5", "a6", "a7", "a8")
	for range 6 {
		// Killed at any step of its start or of its work.
		victim := b.agent
		time.AfterFunc(time.Duration(random.Int64N(int64(200*time.Millisecond))), func() { _ = victim.Kill() })
		b.use(b.scenario.order[1+random.IntN(4)]) // never a1, so that the kept image is the oldest
		b.kill()
		b.use(b.scenario.order[1+random.IntN(4)])
		b.startUnready()
	}
	b.awaitReady()
	b.scenario.used("a2") // in use
	b.awaitOrder()

	b.cross()
	for range 3 {
		b.eventually("a first removal", func() error {
			if len(b.gone()) == 0 {
				return errors.New("none is gone")
			}
			return nil
		})
		b.kill()
		b.must(b.node.ImagesWhole(b.ctx))
		b.start()
	}
	b.eventually("a low disk", b.notLow)
	b.checkGone("a1", "a2")
	b.stop()
	b.must(b.node.Whole(b.ctx))
}

// TestTagIsAUse: an image that is there and that somebody tags, or imports once more, was wanted a moment
// ago. It does not go first for having been used long ago.
func TestTagIsAUse(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor, plains("a", 7)...)
		b.start()
		b.use("a0", "a1", "a2", "a3", "a4", "a5", "a6")
		b.awaitOrder()
		in := namespaces.WithNamespace(b.ctx, node.CRINamespace)
		store := b.node.Client().ImageService()
		oldest, err := store.Get(in, ref("a0"))
		b.must(err)
		_, err = store.Create(in, images.Image{Name: prefix + "mine:1", Target: oldest.Target})
		b.must(err)
		_, err = b.node.Import(b.ctx, node.CRINamespace, b.scenario.images["a1"])
		b.must(err)
		mark := b.journal.mark()
		b.cross()
		b.journal.await(t, mark, "reclaim run ended")
		gone := b.removedNames(mark)
		if len(gone) == 0 || gone[0] != "a2" || slices.Contains(gone, "a0") || slices.Contains(gone, "a1") {
			t.Errorf("FINAL: removed %v: a0 was tagged and a1 imported a moment before", gone)
		}
	})
}
