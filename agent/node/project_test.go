package node

import (
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/runtime/fs"
)

var project = fs.Project{ID: 42, Limited: true}

// limit makes a path report a project, or the filesystem; no event reports it. "/" is
// the runtime's disk.
func (w *world) limit(path string, p fs.Project) {
	w.disk.mu.Lock()
	defer w.disk.mu.Unlock()
	if path == "/" {
		w.disk.root = p
		return
	}
	m := w.disk.mounts[path]
	m.project = p
	w.disk.mounts[path] = m
}

const limitHolds = "a project quota applies here"

// The kernel's counters do not show the limit of a project: it is polled, and that
// is logged once.
func TestProjectIsPolled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limit("/", project)
		ids := w.five()
		w.wantWatermarks()
		w.pass(time.Minute)
		w.fill(81)
		w.pass(watermark.PollInterval)
		w.wantRemoved(ids[0], ids[1])
		w.pass(time.Hour)
		w.wantLogged(1, "level=WARN", limitHolds, "filesystem=images,content,containers", "project=42")
		if w.metric("ebb_node_filesystem_polled", "images") != 1 {
			t.Error("the source of the threshold is not reported")
		}
		if list := w.status().Filesystems; len(list) != 1 || list[0].Project == nil || *list[0].Project != 42 || list[0].Kernel {
			t.Errorf("filesystems: %+v", list)
		}
	})
}

// No event reports a limit that is set or removed: the next look sees it.
func TestLimitComesAndGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.wantWatermarks(fakeDev)
		w.limit("/", project)
		w.use("i4") // a look
		w.pass(calmSpacing)
		w.wantWatermarks()
		w.wantLogged(1, "level=WARN", limitHolds)
		w.fill(81)
		w.pass(watermark.PollInterval)
		w.wantRemoved(ids[0], ids[1])

		w.limit("/", fs.Project{})
		w.pass(watermark.PollInterval)
		w.wantWatermarks(fakeDev)
		if w.metric("ebb_node_ready") != 1 {
			t.Error("not ready")
		}
		w.wantLogged(0, "cannot read the node")
		polls := w.metric("ebb_node_filesystem_polls_total")
		w.pass(time.Hour)
		if n := w.metric("ebb_node_filesystem_polls_total"); n != polls {
			t.Errorf("%g polls more", n-polls)
		}
		w.fill(81)
		w.wantRemoved(ids[:4]...)
	})
}

// Only the directories of the project are apart; those of the same filesystem outside of
// it, and other filesystems, keep their watermarks in the kernel.
func TestLimitOfOneDirectory(t *testing.T) {
	inWorld(t, func(w *world) {
		kubelet, logs := newPlainDisk(fakeDev, 100*mib), newPlainDisk(otherDev, 100*mib)
		w.disk.mount(kubeletDir, fakeDev, "ext4", w.rt.Disk)
		w.mountAt(logsDir, logs)
		w.five()
		w.wantWatermarks(fakeDev, otherDev)

		w.disk.mount(kubeletDir, fakeDev, "ext4", kubelet.read)
		w.limit(kubeletDir, project)
		w.pass(6 * time.Minute) // the reconcile at the latest
		w.wantWatermarks(fakeDev, otherDev)
		w.wantRaise(fakeDev, size, 80)
		w.wantLogged(1, "level=WARN", limitHolds, "filesystem=kubelet", "project=42")
		if got := len(w.status().Filesystems); got != 3 {
			t.Errorf("%d filesystems", got)
		}
		kubelet.available.Store(10 * mib)
		w.pass(watermark.PollInterval)
		w.wantLogged(1, "level=INFO", nothingHelps, "filesystem=kubelet", "used_percent=90")
		counted := w.kernel.CountedOn()
		if !slices.Equal(counted, []uint64{fakeDev, otherDev}) {
			t.Errorf("writers are counted on %#x", counted)
		}

		w.limit(kubeletDir, fs.Project{})
		w.pass(time.Minute)
		w.wantWatermarks(fakeDev, otherDev)
		if got := len(w.status().Filesystems); got != 2 {
			t.Errorf("%d filesystems", got)
		}
		polls := w.metric("ebb_node_filesystem_polls_total")
		w.pass(time.Hour)
		if n := w.metric("ebb_node_filesystem_polls_total"); n != polls {
			t.Errorf("%g polls more", n-polls)
		}
		w.wantRemoved()
	})
}

// The images' project, reached by a bind mount of a directory in it as well, is one
// filesystem; the rest of the superblock is another.
func TestProjectByBindMount(t *testing.T) {
	inWorld(t, func(w *world) {
		rest := newPlainDisk(fakeDev, 4000*mib)
		w.limit("/", project)
		w.disk.mount(kubeletDir, fakeDev, "ext4", w.rt.Disk)
		w.limit(kubeletDir, project)
		w.mountAt(logsDir, rest)
		ids := w.five()
		w.wantWatermarks(fakeDev)
		w.wantRaise(fakeDev, 4000*mib, 85)
		list := w.status().Filesystems
		if len(list) != 2 || !slices.Equal(list[0].Names, []string{"images", "content", "containers", "kubelet"}) {
			t.Errorf("filesystems: %+v", list)
		}
		// The crossing of the rest concerns no image.
		w.fillPlain(rest, 86)
		w.wantRemoved()
		w.wantLogged(1, "level=INFO", nothingHelps, "filesystem=logs")
		w.fill(81)
		w.pass(watermark.PollInterval)
		w.wantRemoved(ids[0], ids[1])
	})
}

// A steady writer is read ever more often on its way to the threshold, and is seen there
// within a second; a quiet disk is read every ten seconds.
func TestPollsFollowTheWriter(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limit("/", project)
		ids := w.five()
		w.pass(time.Minute)
		polls := w.metric("ebb_node_filesystem_polls_total")
		w.pass(10 * time.Minute)
		if n := w.metric("ebb_node_filesystem_polls_total") - polls; n < 59 || n > 61 {
			t.Errorf("%g polls of a quiet disk in 10 min", n)
		}
		w.fill(40)
		w.pass(watermark.PollInterval + time.Second)
		polls = w.metric("ebb_node_filesystem_polls_total")
		for tenths := range uint64(390) { // one percent a second
			w.rt.SetDisk(size, size*(400+tenths)/1000-w.imageBytes(), 100000)
			w.pass(100 * time.Millisecond)
		}
		w.wantRemoved()
		if n := w.metric("ebb_node_filesystem_polls_total") - polls; n > 20 {
			t.Errorf("%g polls on the way", n)
		}
		w.rt.SetDisk(size, size*81/100-w.imageBytes(), 100000)
		w.pass(time.Second)
		w.wantRemoved(ids[0], ids[1])
	})
}

// imageBytes is what the images take.
func (w *world) imageBytes() uint64 { return 200 * mib }
