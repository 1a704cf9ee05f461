package fs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/fs/fstest"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

func TestConformance(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root: mounts filesystems")
	}
	fstest.Conformance(t, func(t *testing.T, fsType string) fstest.Node {
		return &realNode{on: loop(t, fsType), other: loop(t, fsType)}
	})
}

func loop(t *testing.T, fsType string) *loopfs.FS {
	t.Helper()
	var options []string
	if fsType == "ext4" {
		options = []string{"-m", "2"} // for root
	}
	on, err := loopfs.New(filepath.Join(t.TempDir(), "fs"), fsType, 512<<20, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := on.Close(); err != nil {
			t.Error(err)
		}
	})
	return on
}

// realNode is this machine.
type realNode struct{ on, other *loopfs.FS }

func (*realNode) Stat(path string) (image.Disk, fs.Info, error) { return fs.Stat(path) }
func (*realNode) Identify(path string) (fs.Identity, error)     { return fs.Identify(path) }

func (*realNode) Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error) {
	return fs.Settle(ctx, path, reached)
}

func (*realNode) WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error {
	return fs.WatchMounts(ctx, mountinfo, out)
}

func (n *realNode) Path() string { return n.on.Dir }
func (n *realNode) Dev() uint64  { return n.on.Dev }

func (n *realNode) Cover(t *testing.T) (uncover func()) {
	t.Helper()
	if err := unix.Mount(n.other.Dir, n.on.Dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := unix.Unmount(n.on.Dir, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *realNode) Write(t *testing.T, bytes uint64) (remove func()) {
	t.Helper()
	file := n.on.Path()
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
