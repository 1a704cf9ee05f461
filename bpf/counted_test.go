package bpf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/loopfs"
)

// counted is the kernel's own figure.
func counted(t testing.TB, p *Probes, fs *filesystem) uint64 {
	t.Helper()
	free, ok, err := p.Counted(fs.dev)
	if err != nil || !ok {
		t.Fatalf("Counted: %d, %v, %v", free, ok, err)
	}
	return free
}

// watchOnly gives fs a watermark that is never reached, so that it is counted.
func watchOnly(t testing.TB, p *Probes, fs *filesystem) {
	t.Helper()
	setWatermark(t, p, fs, Watermark{RaiseFree: 1, RearmFree: 1})
}

// TestCountedIsWhatStatfsWillShow: before a commit statfs does not know what
// was written, and the kernel's figure does; after it they are the same.
func TestCountedIsWhatStatfsWillShow(t *testing.T) {
	p, fs := load(t, Options{}), newBtrfs(t)
	fs.commitsOnDemand(t)
	if _, ok, err := p.Counted(fs.dev); ok || err != nil {
		t.Fatalf("counted without a watermark: %v, %v", ok, err)
	}
	watchOnly(t, p, fs)
	if _, ok, err := p.Counted(fs.dev); ok || err != nil {
		t.Fatalf("counted before anything happened: %v, %v", ok, err)
	}
	was, _ := fs.free(t)
	f := fs.open(t, 0)
	if _, err := f.Write(make([]byte, 1000*4096)); err != nil {
		t.Fatal(err)
	}
	if is := counted(t, p, fs); is != was-1000 {
		t.Errorf("%d blocks counted, want %d less 1000", is, was)
	}
	if is, _ := fs.free(t); is != was {
		t.Errorf("statfs shows %d blocks before the commit: it was %d, there is nothing to test", is, was)
	}
	fs.sync(t)
	if is, _ := fs.free(t); is != was-1000 || counted(t, p, fs) != is {
		t.Errorf("%d blocks by statfs, %d counted, want %d", is, counted(t, p, fs), was-1000)
	}
	remove(t, f.Name())
	f.Close()
	fs.sync(t)
	if is, _ := fs.free(t); is != was || counted(t, p, fs) != is {
		t.Errorf("%d blocks by statfs, %d counted, want %d", is, counted(t, p, fs), was)
	}
	if err := p.ClearWatermark(fs.dev); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := p.Counted(fs.dev); ok || err != nil {
		t.Fatalf("counted after the watermark was cleared: %v, %v", ok, err)
	}
}

// TestCountedOnEveryProfile: one device or several of unlike size, whatever
// btrfs keeps of each block, with data, metadata and deletions.
func TestCountedOnEveryProfile(t *testing.T) {
	p := load(t, Options{})
	for _, c := range []struct {
		data, metadata string
		devices        []int64 // MiB
	}{
		{"single", "dup", []int64{256}},
		{"dup", "dup", []int64{256}},
		{"single", "single", []int64{256}},
		{"single", "raid1", []int64{256, 512}},
		{"raid0", "raid1", []int64{256, 256}},
		{"raid1", "raid1", []int64{256, 256}},
		{"raid1", "raid1", []int64{256, 768}},
		{"raid1", "raid1", []int64{256, 320, 768}},
		{"raid1c3", "raid1c3", []int64{256, 256, 256}},
		{"raid1c3", "raid1", []int64{256, 320, 512, 768}},
		{"raid1c4", "raid1", []int64{256, 256, 320, 320}},
		{"raid10", "raid10", []int64{256, 256, 256, 256}},
		{"raid10", "raid10", []int64{256, 320, 384, 512, 768}},
		{"raid5", "raid1", []int64{256, 256, 320}},
		{"raid6", "raid1", []int64{256, 256, 320, 384}},
	} {
		t.Run(fmt.Sprint(c.data, c.metadata, c.devices), func(t *testing.T) {
			fs := newBtrfsOver(t, c.data, c.metadata, c.devices)
			watchOnly(t, p, fs)
			defer clearWatermark(t, p, fs)
			for range 2 {
				dir := fs.path()
				mkdir(t, dir)
				for n := range 300 {
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), make([]byte, 1000+100*n), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				file := fs.take(t, 6000)
				fs.wantCounted(t, p, "full")
				remove(t, file)
				fs.wantCounted(t, p, "emptied")
			}
		})
	}
}

// wantCounted compares the kernel's figure with that of statfs after a commit.
func (fs *filesystem) wantCounted(t testing.TB, p *Probes, when string) {
	t.Helper()
	// A commit may leave work that the next one ends.
	fs.sync(t)
	fs.touch(t)
	fs.sync(t)
	if want, _ := fs.free(t); counted(t, p, fs) != want {
		t.Fatalf("%s: %d blocks counted, %d by statfs", when, counted(t, p, fs), want)
	}
}

// touch gives the next commit something to do.
func (fs *filesystem) touch(t testing.TB) {
	t.Helper()
	if err := unix.Utimes(fs.dir, nil); err != nil {
		t.Fatal(err)
	}
}

// newBtrfsOver makes a btrfs over devices of so many MiB.
func newBtrfsOver(t testing.TB, data, metadata string, sizes []int64) *filesystem {
	t.Helper()
	needRoot(t)
	base := t.TempDir()
	dir := filepath.Join(base, "fs")
	mkdir(t, dir)
	args, options := []string{"-q", "-d", data, "-m", metadata}, ""
	var first string
	for n, size := range sizes {
		f, err := os.Create(filepath.Join(base, fmt.Sprint("image", n)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size << 20); err != nil {
			t.Fatal(err)
		}
		loop, err := loopfs.Attach(f)
		if err != nil {
			t.Fatal(err)
		}
		defer loop.Close()
		args = append(args, loop.Name())
		if first == "" {
			first = loop.Name()
			continue
		}
		options += ",device=" + loop.Name()
	}
	if out, err := exec.Command("mkfs.btrfs", args...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.btrfs %v: %v: %s", args, err, out)
	}
	if options != "" {
		options = options[1:]
	}
	if err := unix.Mount(first, dir, "btrfs", 0, options); err != nil {
		t.Fatalf("mount btrfs: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return locate(t, "btrfs", dir)
}

// TestNoRoomForMetadata: once the last block group is made and the metadata is
// nearly full, statfs reports that nothing is available, however much room there
// is for data. Attributes that fill a leaf each bring that about.
func TestNoRoomForMetadata(t *testing.T) {
	p, fs := load(t, Options{}), newBtrfs(t, "-m", "single")
	free, _ := fs.free(t)
	// Until every block group is made, and a few of data have room: in one file, because
	// a new one sets aside twice the metadata, which 6.12 did not always have by then.
	f := fs.open(t, 0)
	for at := int64(0); free > 2500; at += 4 << 20 {
		if err := unix.Fallocate(int(f.Fd()), 0, at, 4<<20); err != nil {
			t.Fatalf("fallocate with %d free: %v", free, err)
		}
		fs.sync(t)
		free, _ = fs.free(t)
	}
	setWatermark(t, p, fs, Watermark{RaiseFree: free / 2, RearmFree: free / 2})
	for n := 0; free > 0; n++ {
		err := unix.Setxattr(fs.dir, fmt.Sprint("user.", n), make([]byte, 15000), unix.XATTR_CREATE)
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		is, _ := armed(t, p, fs)
		free, _ = fs.free(t)
		if is == (free == 0) {
			t.Fatalf("attribute %d: %d free, watermark armed %v, write: %v", n, free, is, err)
		}
		if err != nil && free > 0 {
			t.Fatalf("attribute %d: %v with %d free: there is nothing to test", n, err, free)
		}
	}
	if c := nextCrossing(t, p); c.Free != 0 {
		t.Errorf("crossing is %+v", c)
	}
}
