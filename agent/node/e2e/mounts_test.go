package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/node"
)

// attach makes a filesystem of that many bytes and mounts it, until the test
// ends or detach is called.
func (b *fixture) attach(kind, point string, bytes int64) {
	b.Helper()
	b.must(os.MkdirAll(point, 0o711))
	disk := filepath.Join(b.node.Dir(), fmt.Sprintf("disk-%d.img", fixtures.Add(1)))
	b.must(os.WriteFile(disk, nil, 0o600))
	b.must(os.Truncate(disk, bytes))
	for _, args := range [][]string{{"mkfs." + kind, "-q", disk}, {"mount", "-o", "loop", disk, point}} {
		out, err := exec.CommandContext(b.ctx, args[0], args[1:]...).CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	b.Cleanup(func() { b.detach(point) })
}

// detach unmounts it once nobody works on it. Twice is harmless.
func (b *fixture) detach(point string) {
	b.Helper()
	b.eventually("the unmount of "+point, func() error {
		if err := unix.Unmount(point, 0); err != nil && err != unix.EINVAL {
			return err
		}
		return nil
	})
}

// write writes a file with so many bytes.
func (b *fixture) write(file string, bytes int64) {
	b.Helper()
	b.must(os.WriteFile(file, make([]byte, bytes), 0o600))
}

// kubelets returns the filesystem that the agent has under the kubelet's name.
func (b *fixture) kubelets() (path string, names []string) {
	b.Helper()
	s, err := b.status()
	b.must(err)
	for _, f := range s.Filesystems {
		if slices.Contains(f.Names, "kubelet") {
			return f.Path, f.Names
		}
	}
	return "", nil
}

// TestMountsAreFollowed: the kubelet's directory comes, gets a filesystem of
// its own, and loses it again, and the agent always watches what is there. Its
// crossing costs no image.
func TestMountsAreFollowed(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 2)...)
	kubelet := b.config.Filesystems.Kubelet.Path
	b.must(os.Mkdir(kubelet, 0o711))
	b.start()
	if _, names := b.kubelets(); !slices.Equal(names, []string{"images", "content", "containers", "kubelet"}) {
		t.Errorf("on one filesystem are %v", names)
	}
	const crossings = `ebb_node_filesystem_threshold_crossings_total{filesystem="kubelet"}`
	began, crossed := time.Now(), 0.0
	for _, kind := range []string{"ext4", "btrfs"} { // the loop device may be the same
		mark := b.journal.mark()
		b.attach(kind, kubelet, 160*mib)
		line := b.journal.await(t, mark, "the kernel watches a filesystem")
		if line.Text("path") != kubelet || line.Text("filesystem") != "kubelet" || line.Text("type") != kind {
			t.Errorf("watched is %v", line.Fields)
		}
		b.fillBeside(kubelet, 87)
		line = b.journal.await(t, mark, "filesystem reached its high threshold; no image is on it")
		if used := line.Number("used_percent"); line.Text("path") != kubelet || used < 85 {
			t.Errorf("it was logged for %v", line.Fields)
		}
		// A reading can show the crossing before the kernel's event comes, which nobody takes
		// once the filesystem is gone.
		before := crossed
		b.eventually("a crossing from the kernel on "+kind, func() error {
			if crossed = b.metric(crossings); crossed <= before {
				return fmt.Errorf("it reported %g crossings, as before", crossed)
			}
			return nil
		})
		mark = b.journal.mark()
		b.detach(kubelet)
		b.journal.await(t, mark, "a filesystem is no longer watched")
	}
	// Each of three percentage points twice, and what comes too early twice a second.
	if most := 6 + 2*time.Since(began).Seconds(); crossed > most {
		t.Errorf("%g crossings of the kubelet's thresholds, more than %g", crossed, most)
	}
	b.mustStay("a0", "a1")

	// Below is the filesystem of the images, as before.
	b.use("a1", "a0")
	if _, names := b.kubelets(); !slices.Contains(names, "images") {
		t.Errorf("on one filesystem are %v", names)
	}
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	if got := b.removedNames(mark); len(got) == 0 || got[0] != "a1" {
		t.Errorf("removed %v", got)
	}
}

// TestContentOnAnotherFilesystem: blobs are apart from unpacked layers. Either
// filesystem is brought to its own low threshold.
func TestContentOnAnotherFilesystem(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.V2)
	b.config.Images.LowThresholdPercent = 70
	const size = 128 * mib
	content := filepath.Join(b.node.Root(), "io.containerd.content.v1.content")
	b.must(b.node.Stop(b.ctx))
	b.must(os.Rename(content, content+".old"))
	b.attach("ext4", content, size)
	b.must(os.CopyFS(content, os.DirFS(content+".old")))
	b.must(b.node.Restart(b.ctx))
	b.Cleanup(func() { b.must(b.node.Kill()) }) // it may be at work there; before the unmount
	b.importImages(plains("a", 8)...)
	b.start()
	b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()

	mark := b.journal.mark()
	b.fillBeside(content, 78)
	b.write(filepath.Join(content, "over"), size*2/100)
	line := b.journal.await(t, mark, "filesystem reached its high threshold")
	if line.Text("path") != content {
		t.Errorf("it was logged for %v", line.Fields)
	}
	capacity, _ := b.space(content)
	low := capacity * 30 / 100
	const slack = 256 << 10
	b.checkLow(b.journal.await(t, mark, "reclaim run ended"), func() error {
		if _, available := b.space(content); available+slack < low {
			return fmt.Errorf("%d bytes are available; the low threshold is at %d", available, low)
		}
		return nil
	})
	removed := b.removedNames(mark)
	if want, _ := b.scenario.goes(len(removed)); !slices.Equal(removed, want) || len(removed) < 2 || len(removed) == 8 {
		t.Errorf("removed %v; used longest ago were %v", removed, want)
	}
	_, available := b.space(content)
	if available+slack < low || available-layerBytes >= low+slack {
		t.Errorf("%d bytes are available, %d of them by the last removal; the low threshold is at %d", available, layerBytes, low)
	}
	if n := b.metric("ebb_node_image_removal_shortfalls_total"); n != 0 {
		t.Errorf("%g removals freed less than computed", n)
	}
}

// fillBeside writes until a filesystem is at so many percent.
func (b *fixture) fillBeside(dir string, percent int64) {
	b.Helper()
	capacity, available := b.space(dir)
	b.write(filepath.Join(dir, "fill"), available-capacity*(100-percent)/100)
}

// space reads a filesystem as the kubelet does.
func (b *fixture) space(dir string) (capacity, available int64) {
	b.Helper()
	var st unix.Statfs_t
	b.must(unix.Statfs(dir, &st))
	return int64(st.Blocks) * st.Frsize, int64(st.Bavail) * st.Frsize
}

// TestScrapeWithoutOneFilesystem: one filesystem that cannot be read takes no other
// figure away. A directory that is removed is such a one until the agent looks at the mounts,
// which anybody's mount has it do; then it has no series at all.
func TestScrapeWithoutOneFilesystem(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 1)...)
	point := filepath.Join(b.node.Mount(), "other")
	b.attach("ext4", point, 32*mib)
	kubelet := filepath.Join(point, "kubelet")
	b.must(os.Mkdir(kubelet, 0o711))
	b.config.Filesystems.Kubelet.Path = kubelet
	b.start()
	const readable = `ebb_node_filesystem_readable{filesystem="kubelet"}`
	b.awaitMetric(readable, 1)
	b.must(os.Remove(kubelet))
	b.eventually("the directory is missing from the figures", func() error {
		body, err := b.agent.Get(b.ctx, "/metrics")
		b.must(err)
		for _, series := range []string{"readable{filesystem=\"images\"} 1", "capacity_bytes{filesystem=\"images\"} "} {
			if !strings.Contains(body, "ebb_node_filesystem_"+series) {
				t.Errorf("no %s", series)
			}
		}
		unread, exported := strings.Contains(body, readable+" 0\n"), strings.Contains(body, `ebb_node_filesystem_threshold_ratio{filesystem="kubelet"`)
		if unread != exported {
			t.Errorf("unreadable: %v, its threshold is exported: %v", unread, exported)
		}
		if !unread && strings.Contains(body, readable) {
			return errors.New("it is readable")
		}
		return nil
	})
	b.must(os.Mkdir(kubelet, 0o711))
	b.must(unix.Mount("look", kubelet, "tmpfs", 0, "size=1m")) // the agent looks
	b.awaitMetric(readable, 1)
	b.must(unix.Unmount(kubelet, 0))
}
