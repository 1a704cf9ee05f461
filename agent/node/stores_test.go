package node

import (
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
)

const contentDir = "/content"

// split puts the blobs on a disk of their own, 1000 MiB like the other. Of each
// of five's images 20 MiB are on either.
func (w *world) split() []string {
	w.rt.SplitContent(contentDir, size, 0, 100000)
	w.disk.mount(contentDir, otherDev, "ext4", w.rt.ContentDisk)
	return w.five()
}

// fillContent brings the disk of the blobs to so many percent.
func (w *world) fillContent(percent uint64) {
	before := w.rt.ContentDisk()
	w.rt.SplitContent(contentDir, size, 0, 100000)
	blobs := size - w.rt.ContentDisk().AvailableBytes
	w.rt.SplitContent(contentDir, size, size*percent/100-blobs, 100000)
	w.kernel.wrote(otherDev, before, w.rt.ContentDisk())
	w.pass(time.Millisecond)
}

// Each disk is brought to its low threshold, by what is freed there.
func TestBlobsOnADiskOfTheirOwn(t *testing.T) {
	for name, c := range map[string]struct {
		fill func(*world)
		used func(*world) image.Disk
	}{
		"blobs":  {func(w *world) { w.fillContent(81) }, func(w *world) image.Disk { return w.rt.ContentDisk() }},
		"layers": {func(w *world) { w.fill(81) }, func(w *world) image.Disk { return w.rt.Disk() }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.split()
				w.wantWatermarks(fakeDev, otherDev)
				w.wantRaise(otherDev, size, 80)
				c.fill(w)
				w.wantRemoved(ids[0], ids[1], ids[2]) // 2 % each; 6 % are needed
				if used := c.used(w).UsedPercent(); used != 75 {
					t.Errorf("%d %% used", used)
				}
				if n := w.metric("ebb_node_image_removal_shortfalls_total"); n != 0 {
					t.Errorf("%g removals freed less than computed", n)
				}
				w.pass(time.Hour)
				w.wantRemoved(ids[0], ids[1], ids[2])
			})
		})
	}
}

func TestBothDisksAreOverTheirThresholds(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.split()
		w.rt.SplitContent(contentDir, size, 720*mib, 100000) // 82 % with the blobs
		w.fill(81)
		w.pass(time.Minute)
		w.wantRemoved(ids[0], ids[1], ids[2], ids[3]) // 7 % of the blobs' disk, which include 6 % of the other
		if n := w.metric("ebb_node_reclaim_runs_total", "low_reached"); n != 1 {
			t.Errorf("%v runs counted", n)
		}
	})
}

// An image that frees nothing on the disk that is over its high threshold is no help.
func TestImageWithNothingOnTheFullDisk(t *testing.T) {
	inWorld(t, func(w *world) {
		bare := fake.Layer{Name: "bare", Bytes: 40 * mib, Inodes: 10} // its blob was discarded when it was unpacked
		w.rt.Import(fake.CRINamespace, fake.Image{Name: "bare", Layers: []fake.Layer{bare}})
		ids := w.split()
		w.fillContent(81)
		w.wantRemoved(ids[0], ids[1], ids[2]) // it was used before all of them
	})
}

// A hold on one disk neither hides nor hinders the other; and each outlives the
// agent.
func TestHoldOnOneOfTwoDisks(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.split()
		w.run("i3", "i4")
		w.pass(time.Minute)
		w.fillContent(95)
		w.wantRemoved(ids[0], ids[1], ids[2])
		w.wantLogged(1, "the low threshold cannot be reached; holding", "path="+contentDir)
		if w.metric("ebb_node_reclaim_holding") != 1 {
			t.Error("no hold")
		}
		w.down()
		w.up()
		w.pass(time.Hour)
		w.wantLogged(1, "the low threshold cannot be reached; holding")
		late := w.rt.Import(fake.CRINamespace, fake.Image{Name: "late", Layers: []fake.Layer{{Name: "late", Bytes: 100 * mib, Inodes: 10}}})
		w.pass(time.Minute)
		w.fill(81)
		w.wantRemoved(ids[0], ids[1], ids[2], late) // for the layers' disk: the hold is the other's
		w.fillContent(50)
		w.pass(time.Hour)
		w.wantLogged(1, "hold ended", "path="+contentDir)
		if w.metric("ebb_node_reclaim_holding") != 0 {
			t.Error("still holding")
		}
	})
}

// The blobs' disk comes and goes; without it all counts on the layers' one.
func TestContentMovesToAnotherDisk(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt.SplitContent(contentDir, size, 0, 100000)
		w.disk.mount(contentDir, fakeDev, "ext4", w.rt.Disk)
		w.five()
		w.wantWatermarks(fakeDev)
		w.disk.mount(contentDir, otherDev, "ext4", w.rt.ContentDisk)
		w.pass(time.Millisecond)
		w.wantWatermarks(fakeDev, otherDev)
		w.disk.mount(contentDir, 0, "", nil)
		w.pass(time.Millisecond)
		w.wantWatermarks(fakeDev)
		if why := w.agent.health.notReady.Load(); why != nil {
			t.Errorf("not ready: %s", *why)
		}
	})
}

// Where the disk does not show what was removed, what was computed counts: no
// image goes in place of another. That holds nothing up, and ends: then the disk's
// word counts.
func TestFilesystemThatDoesNotSettle(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.fillStuck()
		w.pass(32 * time.Second)
		w.wantRemoved(ids[0], ids[1])
		w.wantReady()
		w.wantLogged(1, "level=WARN", "the freed space does not show yet", "reason=shortfall")
		if n := w.metric("ebb_node_reclaim_runs_total", "shortfall"); n != 1 {
			t.Errorf("%v runs ended so", n)
		}
		if n := w.metric("ebb_node_filesystem_settle_timeouts_total"); n < 3 {
			t.Errorf("%v readings not true in time", n)
		}
		w.pass(35 * time.Second)
		w.wantRemoved(ids[:4]...)
		w.wantReady()
		w.disk.mu.Lock()
		w.disk.stuck = false
		w.disk.mu.Unlock()
		w.pass(2 * 35 * time.Second)
		w.wantRemoved(ids...) // 81 % is true
		w.wantLogged(1, "the disk shows what was removed")
		w.wantLogged(1, "level=WARN", "the freed space does not show yet")
		w.wantReady()
	})
}

// fillStuck fills a disk with five images on which neither a settlement nor statfs shows what is removed.
func (w *world) fillStuck() (ids []string) {
	w.disk.kind = "btrfs"
	ids = w.five()
	w.pass(time.Minute)
	w.disk.mu.Lock()
	w.disk.stuck = true
	w.disk.mu.Unlock()
	w.rt.SetFaults(fake.Faults{Withheld: 1})
	w.fill(81)
	return ids
}

func (w *world) wantReady() {
	w.t.Helper()
	if why := w.agent.health.notReady.Load(); why != nil {
		w.t.Errorf("not ready: %s", *why)
	}
}

// What others delete while an image goes is not taken for what its removal freed.
func TestOthersDeleteWhileImagesGo(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.disk.kind = kind
				ids := w.five()
				others := 81*size/100 - (size - w.rt.Disk().AvailableBytes)
				w.disk.during = func() {
					others -= 10 * mib
					w.rt.SetDisk(size, others, 100000)
					w.kernel.gave(10 * mib)
				}
				w.fill(81)
				w.pass(time.Minute)
				w.wantRemoved(ids[0], ids[1])
				if n := w.metric("ebb_node_image_freed_bytes_total"); n != float64(80*mib) {
					t.Errorf("%v bytes count as freed by two images of 40 MiB", n)
				}
				w.wantLogged(2, "image removed", "freed_bytes=41943040", `freed="about`)
			})
		})
	}
}

// What a large image frees makes the rest of the need small, and small images no more
// worth going: not in the same run, and not after a restart.
func TestFutileStaysAsTheNeedShrinks(t *testing.T) {
	inWorld(t, func(w *world) {
		large := w.add("large", 200) // of 240 that are needed
		small := []string{w.add("small0", 1), w.add("small1", 1)}
		w.up()
		for _, name := range []string{"large", "small0", "small1"} {
			w.use(name)
		}
		w.fill(99)
		w.wantRemoved(large)
		w.agent.monitor.DoQuietly(func() { // a page would have it looked anew
			_, plan := w.agent.reclaim.Target()
			for _, d := range plan.Keep {
				if slices.Contains(small, d.ImageID) && d.Reason != image.KeptFutile {
					t.Errorf("%s stays for %q", d.ImageID, d.Reason)
				}
			}
		})
		w.wantLogged(1, "the low threshold cannot be reached; holding", "futile 2 MiB")
		w.down()
		w.up()
		w.pass(time.Hour)
		w.wantRemoved(large)
	})
}
