package fs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/fs/quotatest"
)

// quotaFS is loopFS with project quotas; it skips the test where the kernel has none.
func quotaFS(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a loopback filesystem")
	}
	dir := t.TempDir()
	disk, point := filepath.Join(dir, "disk"), filepath.Join(dir, "mnt")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 512<<20), os.Mkdir(point, 0o755)); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs."+kind, append(quotatest.MkfsOptions[kind], "-q", disk)...)
	if out, err := exec.Command("mount", "-o", "loop,"+quotatest.MountOption, disk, point).CombinedOutput(); err != nil {
		t.Skipf("the kernel has no project quotas on %s: %v: %s", kind, err, out)
	}
	t.Cleanup(func() { unmount(t, point) })
	return point
}

// A directory whose project has a limit is distinguished from one whose project has none, by
// whatever mount it is reached.
func TestProject(t *testing.T) {
	const limit = 64 << 20
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			point := quotaFS(t, kind)
			dir := filepath.Join(point, "dir")
			bound := filepath.Join(t.TempDir(), "bound")
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(bound, 0o755)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(dir, bound, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unmount(t, bound) })

			wantProject(t, dir, Project{})
			if err := quotatest.Assign(dir, 42); err != nil {
				t.Fatal(err)
			}
			wantProject(t, dir, Project{})
			for _, l := range []struct {
				bytes, inodes uint64
				want          Project
			}{
				{limit, 0, Project{ID: 42, Limited: true}},
				{0, 500, Project{ID: 42, Limited: true}},
				{1 << 40, 0, Project{}}, // more than there is: statfs speaks of the filesystem
				{limit, 500, Project{ID: 42, Limited: true}},
				{0, 0, Project{}},
			} {
				if err := quotatest.Limit(point, 42, l.bytes, l.inodes); err != nil {
					t.Fatal(err)
				}
				wantProject(t, dir, l.want)
				wantProject(t, bound, l.want)
				wantProject(t, point, Project{})
			}
			if err := errors.Join(quotatest.Limit(point, 42, limit, 0), quotatest.Assign(dir, 0)); err != nil {
				t.Fatal(err)
			}
			wantProject(t, dir, Project{})
		})
	}
}

func wantProject(t *testing.T, path string, want Project) {
	t.Helper()
	disk, info, err := Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	at, err := Identify(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Project != want || at.Project != want {
		t.Errorf("the project of %s is %+v and %+v, want %+v; statfs reports %+v", path, info.Project, at.Project, want, disk)
	}
}

// A directory that is of a project, on a filesystem that keeps no quotas, is one as any
// other: there is nothing to ask.
func TestProjectWithoutQuotas(t *testing.T) {
	point := loopFS(t, "xfs")
	if err := quotatest.Assign(point, 42); err != nil {
		t.Fatal(err)
	}
	wantProject(t, point, Project{})
}
