package node

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
)

const (
	kubeletDir = "/var/lib/kubelet"
	logsDir    = "/var/log/pods"
	otherDev   = 8<<20 | 17
	thirdDev   = 8<<20 | 33
)

// plainDisk is a filesystem without images.
type plainDisk struct {
	dev       uint64
	capacity  uint64
	available atomic.Uint64
	inodes    atomic.Uint64 // available of 1000
}

func newPlainDisk(dev, capacity uint64) *plainDisk {
	p := &plainDisk{dev: dev, capacity: capacity}
	p.available.Store(capacity)
	p.inodes.Store(1000)
	return p
}

func (p *plainDisk) read() image.Disk {
	return image.Disk{CapacityBytes: p.capacity, AvailableBytes: p.available.Load(), Inodes: 1000, InodesAvailable: p.inodes.Load()}
}

// fillPlain brings it to so many percent, and the kernel sees the write.
func (w *world) fillPlain(p *plainDisk, percent uint64) {
	w.t.Helper()
	before := p.read()
	p.available.Store(p.capacity - p.capacity*percent/100)
	w.kernel.wrote(p.dev, before, p.read())
	w.pass(time.Millisecond)
}

// mountAt mounts a filesystem and waits until the agent has seen it.
func (w *world) mountAt(path string, p *plainDisk) {
	w.t.Helper()
	w.disk.mount(path, p.dev, "ext4", p.read)
	w.pass(time.Millisecond)
}

// wantWatermarks checks which filesystems have a watermark in the kernel.
func (w *world) wantWatermarks(want ...uint64) {
	w.t.Helper()
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(w.kernel.watermarks)); !slices.Equal(got, want) {
		w.t.Errorf("watermarks on %#x, want %#x", got, want)
	}
}

func (w *world) watermarkOf(dev uint64) bpf.Watermark {
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	return w.kernel.watermarks[dev]
}

func (w *world) wantRaise(dev, capacity uint64, high int) {
	w.t.Helper()
	raise, _ := image.RaiseAt(capacity, high)
	if got := w.watermarkOf(dev).RaiseFree; got != raise/blockSize {
		w.t.Errorf("the watermark of %#x is at %d free blocks, want %d: %d %% of %d bytes", dev, got, raise/blockSize, high, capacity)
	}
}

const nothingHelps = "no image is on it"

// Each filesystem has its watermark. That of the kubelet brings no image in danger.
func TestTwoFilesystems(t *testing.T) {
	inWorld(t, func(w *world) {
		kubelet := newPlainDisk(otherDev, 100*mib)
		w.mountAt(kubeletDir, kubelet)
		ids := w.five()
		w.wantWatermarks(fakeDev, otherDev)
		w.wantRaise(otherDev, 100*mib, 85)

		looked := w.agent.looks.last
		w.fillPlain(kubelet, 86)
		w.wantRemoved()
		w.wantLogged(1, "level=INFO", nothingHelps, "filesystem=kubelet", "used_percent=86")
		if got := w.metric("ebb_node_filesystem_threshold_crossings_total", "kubelet"); got != 1 {
			t.Errorf("%g crossings of the kubelet's threshold", got)
		}
		if got := w.metric("ebb_node_filesystem_used_ratio", "kubelet", "bytes"); got != 0.86 {
			t.Errorf("the metric is %g %%", got)
		}
		w.down() // lastLook belongs to the loop
		if w.agent.looks.last != looked {
			t.Error("the runtime was listed for a filesystem without images")
		}
		w.up()
		w.fill(81)
		w.wantRemoved(ids[0], ids[1])
		if got := w.metric("ebb_node_filesystem_threshold_crossings_total", "images"); got != 1 {
			t.Errorf("%g crossings of the images' threshold", got)
		}
	})
}

// A filesystem that stays above its high threshold wakes the agent for each point that it
// gets worse, and is spoken of once; below and above again is a new story.
func TestNothingHelpsWithoutGrinding(t *testing.T) {
	inWorld(t, func(w *world) {
		kubelet := newPlainDisk(otherDev, 100*mib)
		w.mountAt(kubeletDir, kubelet)
		w.up()
		crossings := func() float64 { return w.metric("ebb_node_filesystem_threshold_crossings_total", "kubelet") }
		w.fillPlain(kubelet, 90)
		for range 100 {
			w.fillPlain(kubelet, 90) // a writer that gives back what it takes
		}
		if got := crossings(); got != 1 {
			t.Errorf("woken %g times at 90 %%", got)
		}
		w.fillPlain(kubelet, 91)
		w.fillPlain(kubelet, 92)
		if got := crossings(); got != 3 {
			t.Errorf("woken %g times by 90, 91 and 92 %%", got)
		}
		w.wantLogged(1, "level=INFO", nothingHelps)
		kubelet.available.Store(50 * mib)
		w.pass(time.Hour)
		w.wantLogged(1, "filesystem is below its high threshold again")
		w.fillPlain(kubelet, 87)
		w.wantLogged(2, "level=INFO", nothingHelps)
	})
}

func TestInodesOfAFilesystemWithoutImages(t *testing.T) {
	inWorld(t, func(w *world) {
		kubelet := newPlainDisk(otherDev, 100*mib)
		w.mountAt(kubeletDir, kubelet)
		w.up()
		if got := w.watermarkOf(otherDev); got.RaiseInodes != 109 || got.RearmInodes != 110 {
			t.Errorf("the inodes' watermark is %+v; 90 %% of 1000", got)
		}
		before := kubelet.read()
		kubelet.inodes.Store(100)
		w.kernel.wrote(otherDev, before, kubelet.read())
		w.pass(time.Millisecond)
		w.wantLogged(1, "level=INFO", nothingHelps, "inodes_used_percent=90")
		if got := w.watermarkOf(otherDev); got.WorseInodes != 90 {
			t.Errorf("worse is at %d inodes, want 90", got.WorseInodes)
		}
	})
}

// Directories on one filesystem are one filesystem: one watermark, the images'
// thresholds, one crossing, one series of each metric; filesystem_info has each directory.
func TestOneFilesystemUnderSeveralNames(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		for _, dir := range []string{kubeletDir, logsDir} {
			w.disk.mount(dir, fakeDev, "ext4", w.rt.Disk)
		}
		w.pass(time.Minute)
		w.wantWatermarks(fakeDev)
		w.wantRaise(fakeDev, size, 80)
		if list := w.status().Filesystems; len(list) != 1 ||
			!slices.Equal(list[0].Names, []string{"images", "content", "containers", "kubelet", "logs"}) {
			t.Errorf("filesystems: %+v", list)
		}
		w.fill(81)
		w.wantRemoved(ids[0], ids[1])
		if got, want := w.series("ebb_node_filesystem_capacity_bytes", "filesystem"), map[string]float64{"images": float64(size)}; !maps.Equal(got, want) {
			t.Errorf("capacities are %v", got)
		}
		on := w.series("ebb_node_filesystem_info", "directory", "filesystem", "images")
		if got := slices.Sorted(maps.Keys(on)); !slices.Equal(got, slices.Sorted(slices.Values(watermark.Names))) {
			t.Errorf("on the filesystem are %v", got)
		}
		if got := w.metric("ebb_node_filesystem_threshold_crossings_total"); got != 1 {
			t.Errorf("%g crossings", got)
		}
	})
}

// Without images, the lowest of the thresholds counts.
func TestLowestThresholdOfAFilesystemWithoutImages(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Filesystems.PodLogs.HighThresholdPercent = 70
		disk := newPlainDisk(otherDev, 100*mib)
		w.mountAt(kubeletDir, disk)
		w.mountAt(logsDir, disk)
		w.up()
		w.wantWatermarks(fakeDev, otherDev)
		w.wantRaise(otherDev, 100*mib, 70)
		w.disk.unmount(logsDir)
		w.pass(time.Minute)
		w.wantRaise(otherDev, 100*mib, 85)
	})
}

// A filesystem that the kernel cannot watch is not worth a timer if nothing can
// be removed from it; the reconcile reads it.
func TestFilesystemThatTheKernelCannotWatch(t *testing.T) {
	inWorld(t, func(w *world) {
		logs := newPlainDisk(otherDev, 100*mib)
		w.disk.mount(logsDir, otherDev, "tmpfs", logs.read)
		w.five()
		w.wantWatermarks(fakeDev)
		w.wantLogged(1, "level=INFO", "the kernel cannot watch this filesystem", "filesystem=logs")
		if w.metric("ebb_node_filesystem_polled", "logs") != 1 || w.metric("ebb_node_filesystem_polled", "images") != 0 {
			t.Error("the sources of the thresholds are not reported")
		}
		woken := w.metric("ebb_node_timer_wakeups_total")
		logs.available.Store(10 * mib)
		w.pass(time.Hour)
		w.wantLogged(1, "level=INFO", nothingHelps, "filesystem=logs")
		if got := w.metric("ebb_node_timer_wakeups_total") - woken; got > 15 {
			t.Errorf("woke %g times in an hour", got)
		}
	})
}

// Where the images are polled, so is the rest.
func TestPollingAllFilesystems(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel = nil
		logs := newPlainDisk(otherDev, 100*mib)
		w.disk.mount(logsDir, otherDev, "ext4", logs.read)
		w.five()
		logs.available.Store(10 * mib)
		w.pass(watermark.PollInterval + time.Second)
		w.wantLogged(1, "level=INFO", nothingHelps, "filesystem=logs")
		w.pass(time.Hour)
		w.wantLogged(1, "level=INFO", nothingHelps, "filesystem=logs")
	})
}

// Early events of a filesystem without images are spaced, too, and list no
// images.
func TestEarlyEventsWithoutImages(t *testing.T) {
	inWorld(t, func(w *world) {
		kubelet := newPlainDisk(otherDev, 100*mib)
		w.mountAt(kubeletDir, kubelet)
		w.five()
		w.pass(time.Minute)
		events := 0
		const seconds = 10
		for range seconds * 100 {
			w.pass(10 * time.Millisecond)
			if w.kernel.early(otherDev) {
				events++
			}
		}
		if events < seconds || events > 2*seconds+1 {
			t.Errorf("%d early events in %d s", events, seconds)
		}
		w.wantLogged(0, nothingHelps)
	})
}

// Who fills the disk is counted on every watched filesystem that can be.
func TestWritersOnAllFilesystems(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mountAt(kubeletDir, newPlainDisk(otherDev, 100*mib))
		w.disk.mount(logsDir, thirdDev, "zfs", newPlainDisk(thirdDev, mib).read)
		w.five()
		if got := w.kernel.CountedOn(); !slices.Equal(got, []uint64{fakeDev, otherDev}) {
			t.Errorf("counted on %#x", got)
		}
		w.disk.unmount(kubeletDir)
		w.pass(time.Minute)
		if got := w.kernel.CountedOn(); !slices.Equal(got, []uint64{fakeDev}) {
			t.Errorf("counted on %#x", got)
		}
	})
}
