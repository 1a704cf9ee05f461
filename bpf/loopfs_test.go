package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	mounts "github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

// filesystem is one of this test's own, on a loop device that the kernel frees
// with the last mount.
type filesystem struct {
	kind string
	dir  string
	dev  uint64
	next int // names files
}

// newExt4 makes one of 64 MiB; options are mkfs.ext4's.
func newExt4(t testing.TB, options ...string) *filesystem {
	t.Helper()
	return newFilesystem(t, "ext4", 64<<20, append([]string{"-N", "4096"}, options...)...)
}

// newXfs makes one of 320 MiB, a little more than the least mkfs.xfs accepts.
func newXfs(t testing.TB) *filesystem {
	t.Helper()
	return newFilesystem(t, "xfs", 320<<20)
}

// newBtrfs makes one of 256 MiB.
func newBtrfs(t testing.TB, options ...string) *filesystem {
	t.Helper()
	return newFilesystem(t, "btrfs", 256<<20, options...)
}

// commitsOnDemand has a btrfs commit when something asks for it, and not by itself.
func (fs *filesystem) commitsOnDemand(t testing.TB) {
	t.Helper()
	if err := unix.Mount("", fs.dir, "", unix.MS_REMOUNT, "commit=3600"); err != nil {
		t.Fatal(err)
	}
}

func newFilesystem(t testing.TB, kind string, size int64, options ...string) *filesystem {
	t.Helper()
	needRoot(t)
	fs, err := loopfs.New(filepath.Join(t.TempDir(), "fs"), kind, size, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	})
	return &filesystem{kind: kind, dir: fs.Dir, dev: fs.Dev}
}

// locate names a mounted filesystem as mountinfo does: on btrfs, stat(2) would
// give another device.
func locate(t testing.TB, kind, dir string) *filesystem {
	t.Helper()
	place, err := mounts.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &filesystem{kind: kind, dir: dir, dev: place.Dev}
}

// free is what statfs reports, in the terms of a watermark: blocks and inodes.
func (fs *filesystem) free(t testing.TB) (blocks, inodes uint64) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(fs.dir, &st); err != nil {
		t.Fatal(err)
	}
	if fs.kind == "btrfs" {
		return st.Bavail, 0
	}
	return st.Bfree, st.Ffree
}

// data is how much data btrfs has in use (BTRFS_IOC_SPACE_INFO).
func (fs *filesystem) data(t testing.TB) int64 {
	t.Helper()
	dir, err := os.Open(fs.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var spaces struct {
		slots, total uint64
		space        [8]struct{ flags, total, used uint64 }
	}
	spaces.slots = uint64(len(spaces.space))
	const getSpaceInfo = 0xC0109414 // _IOWR(0x94, 20, struct btrfs_ioctl_space_args)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), getSpaceInfo, uintptr(unsafe.Pointer(&spaces))); errno != 0 {
		t.Fatalf("ask for space: %v", errno)
	}
	for _, s := range spaces.space[:spaces.total] {
		if s.flags&1 != 0 {
			return int64(s.used)
		}
	}
	t.Fatal("no data in", spaces)
	return 0
}

// files counts what has a name.
func (fs *filesystem) files(t testing.TB) (n int64) {
	t.Helper()
	err := filepath.WalkDir(fs.dir, func(string, os.DirEntry, error) error { n++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (fs *filesystem) path() string {
	fs.next++
	return filepath.Join(fs.dir, fmt.Sprint("f", fs.next))
}

// open makes a new file, to be closed and removed with the filesystem.
func (fs *filesystem) open(t testing.TB, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(fs.path(), os.O_CREATE|os.O_RDWR|flags, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// filled makes a file of so many blocks that are on the disk.
func (fs *filesystem) filled(t testing.TB, blocks int) *os.File {
	t.Helper()
	here := &loopfs.FS{Kind: fs.kind, Dir: fs.dir, Dev: fs.dev}
	t.Cleanup(here.Release)
	f, err := here.Filled(blocks)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// pages is n blocks of memory where O_DIRECT accepts it.
func pages(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// take takes blocks at once, without writing them.
func (fs *filesystem) take(t testing.TB, blocks uint64) string {
	t.Helper()
	f, err := os.Create(fs.path())
	// btrfs (seen on 6.12) may be short of metadata for the moment: what it has set aside
	// for a transaction comes back with the commits that follow.
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, unix.ENOSPC) && time.Now().Before(deadline); {
		fs.sync(t)
		f, err = os.Create(fs.path())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(blocks)*4096); err != nil {
		t.Fatalf("fallocate %d blocks: %v", blocks, err)
	}
	return f.Name()
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// armed reads the state of both halves of a watermark: disarmed is, synchronously
// with the allocation, what an event is at its reader some time later.
func armed(t testing.TB, p *Probes, fs *filesystem) (bytes, inodes bool) {
	t.Helper()
	var w watchValue
	if err := p.usage.on[fs.kind].set.maps[mapWatches].Lookup(fs.dev, &w); err != nil {
		t.Fatal(err)
	}
	return w.Bytes.Armed == 1, w.Inodes.Armed == 1
}

// setWatermark sets a watermark whose figures count what ext4 keeps for root as free.
func setWatermark(t testing.TB, p *Probes, fs *filesystem, l Watermark) {
	t.Helper()
	if err := p.SetWatermark(fs.dev, fs.kind, l); err != nil {
		t.Fatal(err)
	}
}

// clearWatermark is for tests with one filesystem after another: they can be on the
// same loop device.
func clearWatermark(t testing.TB, p *Probes, fs *filesystem) {
	t.Helper()
	if err := p.ClearWatermark(fs.dev); err != nil {
		t.Error(err)
	}
}
