package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ebb-agent/ebb/runtime/fs/quotatest"
	"github.com/ebb-agent/ebb/tools/node"
)

// needQuotas skips a test where the kernel has no project quotas on that filesystem.
func needQuotas(t *testing.T, kind string) {
	t.Helper()
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	for _, args := range [][]string{
		{"truncate", "-s", "400M", disk},
		append(append([]string{"mkfs." + kind}, quotatest.MkfsOptions[kind]...), "-q", disk),
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	point := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop,"+quotatest.MountOption, disk, point).CombinedOutput(); err != nil {
		t.Skipf("the kernel has no project quotas on %s: %v: %s", kind, err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "umount", point).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
}

// TestProjectQuota: the runtime's directory gets a project limit that is far below what
// the filesystem has, and loses it again. The agent keeps the project below its threshold,
// of which the kernel's counters know nothing.
func TestProjectQuota(t *testing.T) {
	t.Parallel()
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run(fs, func(t *testing.T) {
			needQuotas(t, fs)
			b := newFixtureWith(t, node.Config{Containerd: node.Debian, FS: fs, ProjectQuotas: true})
			root := b.node.Root()
			const project, limit = 42, 100 * mib
			b.must(quotatest.Assign(root, project))
			b.importImages(plains("a", 6)...)
			b.start()
			b.awaitMetric(`ebb_node_filesystem_polled{filesystem="images"}`, 0)
			b.use("a3", "a1", "a5", "a0", "a4", "a2")
			b.awaitOrder()

			mark := b.journal.mark()
			b.must(quotatest.Limit(root, project, limit, 0))
			b.importImages(plain("look", 64<<10)) // the runtime reports it
			line := b.journal.await(t, mark, "a project quota applies here, which the kernel watermark does not cover; reading it every 10s or sooner")
			if line.Number("project") != project {
				t.Errorf("it was logged for %v", line.Fields)
			}
			b.awaitMetric(`ebb_node_filesystem_polled{filesystem="images"}`, 1)

			mark = b.journal.mark()
			b.fillBeside(root, 81)
			low := int64(limit) * int64(100-b.config.Images.LowThresholdPercent) / 100
			b.checkLow(b.journal.await(t, mark, "reclaim run ended"), func() error {
				if _, available := b.space(root); available < low {
					return fmt.Errorf("%d bytes are available; the low threshold is at %d", available, low)
				}
				return nil
			})
			removed := b.removedNames(mark)
			if want, _ := b.scenario.goes(len(removed)); !slices.Equal(removed, want) || len(removed) < 2 {
				t.Errorf("removed %v; used longest ago were %v", removed, want)
			}
			capacity, available := b.space(root)
			if capacity != limit || available < low || available >= low+2*layerBytes {
				t.Errorf("%d of %d bytes are available; the low threshold is at %d", available, capacity, low)
			}

			mark = b.journal.mark()
			b.must(quotatest.Limit(root, project, 0, 0))
			b.journal.await(t, mark, "the kernel watches a filesystem")
			b.awaitMetric(`ebb_node_filesystem_polled{filesystem="images"}`, 0)
		})
	}
}
