package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
)

// What is mounted over a directory takes its place at once, and the watermark of
// what it covers is cleared.
func TestMountOverADirectory(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second := newPlainDisk(otherDev, 100*mib), newPlainDisk(thirdDev, 50*mib)
		w.mountAt(kubeletDir, first)
		w.up()
		w.wantWatermarks(fakeDev, otherDev)
		w.mountAt(kubeletDir, second)
		w.wantWatermarks(fakeDev, thirdDev)
		w.wantRaise(thirdDev, 50*mib, 85)
		w.disk.unmount(kubeletDir)
		w.pass(time.Millisecond)
		w.wantWatermarks(fakeDev)
		w.wantLogged(2, "level=INFO", "a filesystem is no longer watched", "path="+kubeletDir)
		w.fill(79)
		if got := w.metric("ebb_node_filesystem_info", "kubelet"); got != 0 {
			t.Errorf("%g series of what is not there", got)
		}
	})
}

// A directory that is not there is no error, is not asked for again and again,
// and is taken up when it comes, with a mount or without.
func TestDirectoryThatComesLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.wantLogged(1, "level=DEBUG", "a directory does not exist", "filesystem=kubelet")
		w.wantLogged(0, "level=WARN")
		w.pass(time.Hour)
		w.wantLogged(1, "level=DEBUG", "a directory does not exist", "filesystem=kubelet")
		w.disk.mu.Lock()
		w.disk.mounts = map[string]fakeMount{kubeletDir: {id: 9, dev: otherDev, kind: "ext4", read: newPlainDisk(otherDev, mib).read}}
		w.disk.mu.Unlock() // mkdir: no mount, nothing is reported
		w.pass(6 * time.Minute)
		w.wantWatermarks(fakeDev, otherDev)
	})
}

// The filesystem of the images itself is replaced.
func TestMountOverTheImages(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.disk.mount("/", otherDev, "ext4", w.rt.Disk)
		w.pass(time.Millisecond)
		w.wantWatermarks(otherDev)
		w.rt.SetDisk(size, size*61/100, 100000) // with the images 81 %
		w.kernel.wrote(fakeDev, w.rt.Disk(), w.rt.Disk())
		w.pass(time.Millisecond)
		w.wantRemoved()
		w.kernel.wrote(otherDev, w.rt.Disk(), w.rt.Disk())
		w.pass(time.Millisecond)
		w.wantRemoved(ids[0], ids[1])
	})
}

// While the images' directory is not there the agent is not ready; it is, at
// once, when it comes back.
func TestImagesUnmounted(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.disk.mount("/", 0, "", nil)
		w.pass(time.Millisecond)
		w.wantWatermarks()
		if why := w.agent.health.notReady.Load(); why == nil {
			t.Error("ready without images")
		}
		w.pass(10 * time.Minute)
		w.wantRemoved()
		w.disk.unmount("/")
		w.pass(time.Millisecond)
		w.wantWatermarks(fakeDev)
		if why := w.agent.health.notReady.Load(); why != nil {
			t.Errorf("not ready: %s", *why)
		}
		w.fill(81)
		w.wantRemoved(ids[0], ids[1])
	})
}

// Another filesystem can get the device number of one that was unmounted.
func TestDeviceNumberIsUsedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second := newPlainDisk(otherDev, 100*mib), newPlainDisk(otherDev, 500*mib)
		w.mountAt(kubeletDir, first)
		w.up()
		w.fillPlain(first, 90) // its watermark is disarmed
		w.wantLogged(1, "level=INFO", nothingHelps)
		w.mountAt(kubeletDir, second)
		w.wantWatermarks(fakeDev, otherDev)
		w.wantRaise(otherDev, 500*mib, 85)
		w.fillPlain(second, 86)
		w.wantLogged(2, "level=INFO", nothingHelps)
	})
}

// An event may wait in the ring buffer while its filesystem is unmounted.
func TestCrossingOfWhatWasDropped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mountAt(kubeletDir, newPlainDisk(otherDev, 100*mib))
		w.five()
		w.disk.unmount(kubeletDir)
		w.pass(time.Minute)
		logged := w.logs.count("")
		for _, dev := range []uint64{otherDev, thirdDev, 0} {
			w.kernel.crossings <- bpf.Crossing{Dev: dev}
		}
		w.pass(time.Minute)
		w.wantRemoved()
		w.wantWatermarks(fakeDev)
		if got := w.metric("ebb_node_filesystem_threshold_crossings_total"); got != 0 {
			t.Errorf("%g crossings counted", got)
		}
		if n := w.logs.count("") - logged; n != 0 {
			t.Errorf("%d lines logged", n)
		}
	})
}

// So may that of a filesystem that an earlier agent watched. Its watermark goes: the
// kernel would arm it again and again.
func TestWatermarkOfAnEarlierAgent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.watermarks[thirdDev] = bpf.Watermark{RaiseFree: 100, RearmFree: 101}
		w.five()
		w.wantWatermarks(fakeDev, thirdDev)
		w.kernel.crossings <- bpf.Crossing{Dev: thirdDev}
		w.pass(time.Millisecond)
		w.wantWatermarks(fakeDev)
		w.wantRemoved()
	})
}

// Containers come and go, each with mounts of its own: nothing is looked at but
// where the directories are, and no timer is set.
func TestMountsThatConcernNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.pass(time.Minute)
		woken := w.metric("ebb_node_timer_wakeups_total")
		reports := w.metric("ebb_node_mount_changes_total")
		for range 1000 {
			w.disk.changed()
			w.pass(time.Millisecond)
		}
		if got := w.metric("ebb_node_mount_changes_total") - reports; got != 1000 {
			t.Errorf("%g reports came", got)
		}
		if got := w.metric("ebb_node_timer_wakeups_total") - woken; got != 0 {
			t.Errorf("woke %g times", got)
		}
		w.kernel.mu.Lock()
		delete(w.kernel.watermarks, fakeDev) // a look would set it again
		w.kernel.mu.Unlock()
		w.disk.changed()
		w.pass(time.Millisecond)
		w.wantWatermarks()
	})
}
