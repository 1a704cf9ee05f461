package bpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	mounts "github.com/ebb-agent/ebb/runtime/fs"
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
	return newFilesystem(t, "ext4", 64<<20, append([]string{
		"-F", "-q", "-m", "0", "-N", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"}, options...)...)
}

// newXfs makes one of 320 MiB, a little more than the least mkfs.xfs accepts.
func newXfs(t testing.TB) *filesystem {
	t.Helper()
	return newFilesystem(t, "xfs", 320<<20, "-q")
}

// newBtrfs makes one of 256 MiB.
func newBtrfs(t testing.TB, options ...string) *filesystem {
	t.Helper()
	return newFilesystem(t, "btrfs", 256<<20, append([]string{"-q"}, options...)...)
}

func newFilesystem(t testing.TB, kind string, size int64, options ...string) *filesystem {
	t.Helper()
	needRoot(t)
	base := t.TempDir()
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "fs")
	mkdir(t, dir)
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+kind, append(options, image)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s (apt-get install e2fsprogs xfsprogs btrfs-progs)", kind, err, out)
	}
	loop := attachLoop(t, f)
	defer loop.Close()
	if err := unix.Mount(loop.Name(), dir, kind, 0, ""); err != nil {
		t.Fatalf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return locate(t, kind, dir)
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

// attachLoop finds a free loop device. Other tests look for one, too.
func attachLoop(t testing.TB, image *os.File) *os.File {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			t.Fatalf("find a loop device: %v", err)
		}
		loop, err := os.OpenFile(fmt.Sprint("/dev/loop", n), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return loop
		}
		loop.Close()
		if err != unix.EBUSY {
			t.Fatalf("set up loop device: %v", err)
		}
	}
	t.Fatal("every loop device was taken by somebody else first")
	return nil
}

// free is what statfs says, in the terms of a line: blocks and inodes.
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

// armed reads the state of both halves of a line: disarmed is, synchronously
// with the allocation, what an event is at its reader some time later.
func armed(t testing.TB, p *Probes, fs *filesystem) (bytes, inodes bool) {
	t.Helper()
	var w watchValue
	if err := p.usage[fs.kind].maps[mapWatches].Lookup(fs.dev, &w); err != nil {
		t.Fatal(err)
	}
	return w.Bytes.Armed == 1, w.Inodes.Armed == 1
}

// setLine sets a line whose figures count what ext4 keeps for root as free.
func setLine(t testing.TB, p *Probes, fs *filesystem, l Line) {
	t.Helper()
	if err := p.SetLine(fs.dev, fs.kind, l); err != nil {
		t.Fatal(err)
	}
}

// clearLine is for tests with one filesystem after another: they can be on the
// same loop device.
func clearLine(t testing.TB, p *Probes, fs *filesystem) {
	t.Helper()
	if err := p.ClearLine(fs.dev); err != nil {
		t.Error(err)
	}
}
