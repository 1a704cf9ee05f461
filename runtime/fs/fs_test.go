package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/tools/await"
)

var kinds = []string{"ext4", "xfs", "btrfs"}

func TestStat(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			point := loopFS(t, kind)
			below := filepath.Join(point, "a", "b")
			if err := os.MkdirAll(below, 0o755); err != nil {
				t.Fatal(err)
			}
			disk, info, err := Stat(below)
			if err != nil {
				t.Fatal(err)
			}
			if info.Type != kind || info.MountPoint != point {
				t.Errorf("got type %q at %q, want %q at %q", info.Type, info.MountPoint, kind, point)
			}
			// Against df(1), which reads the same counters on its own.
			size, avail := df(t, point)
			if disk.CapacityBytes != size || disk.AvailableBytes != avail {
				t.Errorf("capacity %d available %d, df reports %d and %d", disk.CapacityBytes, disk.AvailableBytes, size, avail)
			}
			if got := info.Blocks * info.BlockSize; got != disk.CapacityBytes {
				t.Errorf("raw blocks give %d bytes, capacity is %d", got, disk.CapacityBytes)
			}
			if kind == "ext4" && info.Free == info.Avail {
				t.Error("ext4 reserves 5 % for root, but free equals available")
			}
			if counted := disk.Inodes > 0; counted == (kind == "btrfs") {
				t.Errorf("inodes: %d", disk.Inodes)
			}
		})
	}
}

func df(t *testing.T, point string) (size, avail uint64) {
	t.Helper()
	out, err := exec.Command("df", "-B1", "--output=size,avail", point).Output()
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(strings.Split(string(out), "\n")[1])
	size, err1 := strconv.ParseUint(f[0], 10, 64)
	avail, err2 := strconv.ParseUint(f[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return size, avail
}

// The number that stat(2) gives is the superblock's on ext4 and xfs, and is
// not on btrfs: that is why Locate asks mountinfo.
func TestLocateNamesTheSuperblock(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			point := loopFS(t, kind)
			dir := filepath.Join(point, "layer")
			if kind == "btrfs" {
				run(t, "btrfs", "subvolume", "create", dir)
			} else if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			top, err := Locate(point)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Locate(dir)
			if err != nil {
				t.Fatal(err)
			}
			var st unix.Stat_t
			if err := unix.Stat(dir, &st); err != nil {
				t.Fatal(err)
			}
			if got.Dev != top.Dev || got.Ino != st.Ino {
				t.Errorf("got %+v, want dev %#x ino %d", got, top.Dev, st.Ino)
			}
			same := got.Dev == uint64(unix.Major(st.Dev))<<20|uint64(unix.Minor(st.Dev))
			if same == (kind == "btrfs") {
				t.Errorf("s_dev equals st_dev: %v", same)
			}
		})
	}
}

func TestMissingPath(t *testing.T) {
	_, _, err := Stat(filepath.Join(t.TempDir(), "gone"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a not-exist error", err)
	}
	if _, err := Settle(t.Context(), "/nonexistent", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a not-exist error", err)
	}
}

func TestSettleCountsEverythingRemoved(t *testing.T) {
	files := 3000
	if testing.Short() {
		files = 500 // each takes ten times as long in an emulated machine
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			point := loopFS(t, kind)
			tree := filepath.Join(point, "tree")
			// The first tree makes the filesystem lay out its own structures, so
			// that before and after can be compared to the block.
			for range 2 {
				writeTree(t, tree, files)
				if err := os.RemoveAll(tree); err != nil {
					t.Fatal(err)
				}
			}
			before, err := settle(t, point, never)
			if err != nil {
				t.Fatal(err)
			}
			writeTree(t, tree, files)
			if err := syncFS(point); err != nil {
				t.Fatal(err)
			}
			full, err := Disk(point)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(tree); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			after, err := settle(t, point, nil)
			if err != nil {
				t.Fatal(err)
			}
			wrote := before.AvailableBytes - full.AvailableBytes
			t.Logf("%s: wrote %d bytes, settled in %v", kind, wrote, time.Since(start))
			if wrote < uint64(files)*16<<10 {
				t.Fatalf("the tree took only %d bytes", wrote)
			}
			// xfs and btrfs keep some metadata blocks for later, however many files
			// there were.
			if slack := uint64(1 << 20); after.AvailableBytes+slack < before.AvailableBytes {
				t.Errorf("%d bytes are still missing", before.AvailableBytes-after.AvailableBytes)
			}
		})
	}
}

// never has everything written counted.
func never(image.Disk) bool { return false }

// settle is Settle, again where the kernel took longer than Settle waits.
func settle(t *testing.T, point string, reached func(image.Disk) bool) (disk image.Disk, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		disk, err = Settle(ctx, point, reached)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return disk, err
		}
	}
}

func TestSettleEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	point := loopFS(t, "ext4")
	disk, err := settleByWatching(ctx, point)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if disk.CapacityBytes == 0 {
		t.Error("no reading came with the error")
	}
}

// TestSettleOnBusyFilesystem: others' deletions never end, and do not make it
// longer. What was deleted before counts all the same, on xfs a moment later at times. The
// kernel's own commits come too late for the test.
func TestSettleOnBusyFilesystem(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			point := loopFS(t, kind)
			if kind != "xfs" {
				run(t, "mount", "-o", "remount,commit=300", point)
			}
			deleted := deleteAllTheTime(t, point)
			for deleted.Load() < 100 {
				time.Sleep(time.Millisecond) // until it is busy
			}
			began := time.Now()
			const rounds = 40
			late := 0
			for range rounds {
				late += settlesBeside(t, point)
			}
			t.Logf("settled %d times in %v beside %d deletions, and %d times once more", rounds, time.Since(began), deleted.Load(), late)
			if late > 0 && kind != "xfs" {
				t.Errorf("what was deleted did not count at once, %d times", late)
			}
		})
	}
}

// settlesBeside takes 64 MiB, deletes them, and returns how often the filesystem had settled before that counted.
func settlesBeside(t *testing.T, point string) (late int) {
	t.Helper()
	const size, most = 64 << 20, 32 << 20 // the rest is what others write and delete
	empty, err := settle(t, point, nil)
	if err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(point, "big")
	if err := errors.Join(allocate(big, size), syncFS(point)); err != nil {
		t.Fatal(err)
	}
	await.Holds(t, time.Minute, "what was taken to count", func(context.Context) error { // btrfs may count a new block group twice for a moment
		disk, err := Disk(point)
		if err == nil && disk.AvailableBytes+most > empty.AvailableBytes {
			err = fmt.Errorf("%d bytes are available, %d without it", disk.AvailableBytes, empty.AvailableBytes)
		}
		return err
	})
	if err := os.Remove(big); err != nil {
		t.Fatal(err)
	}
	for ; late < 1000; late++ {
		after, err := settle(t, point, nil)
		if err != nil {
			t.Fatal(err)
		}
		if after.AvailableBytes+most > empty.AvailableBytes {
			return late
		}
	}
	t.Fatal("what was deleted never counted")
	return late
}

// allocate makes a file that takes so many bytes, and writes none of them.
func allocate(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
}

// deleteAllTheTime has four writers make small files and delete them, until the test ends.
func deleteAllTheTime(t *testing.T, point string) *atomic.Int64 {
	t.Helper()
	var deleted atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var writers errgroup.Group
	for n := range 4 {
		name, data := filepath.Join(point, fmt.Sprint("small-", n)), make([]byte, 4<<10)
		writers.Go(func() error {
			for ctx.Err() == nil {
				if err := errors.Join(os.WriteFile(name, data, 0o600), os.Remove(name)); err != nil {
					return err
				}
				deleted.Add(1)
			}
			return nil
		})
	}
	t.Cleanup(func() {
		cancel()
		if err := writers.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &deleted
}

func syncFS(point string) error {
	dir, err := os.Open(point)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Syncfs(int(dir.Fd()))
}

// On btrfs, what was removed counts without writing what is dirty; if that is asked for, it counts, too. The kernel, or
// any sync, can write what is dirty at any time, so it is enough if one of five rounds shows that.
func TestSettleCommitsWithoutWriting(t *testing.T) {
	point := loopFS(t, "btrfs")
	const size = 64 << 20
	var gain, taken int64
	for range 5 {
		old, dirty := filepath.Join(point, "old"), filepath.Join(point, "dirty")
		if err := errors.Join(allocate(old, size), syncFS(point)); err != nil {
			t.Fatal(err)
		}
		before, err1 := settle(t, point, never)
		err2 := os.WriteFile(dirty, bytes.Repeat([]byte("dirty"), size/5), 0o600)
		if err := errors.Join(err1, err2, os.Remove(old)); err != nil {
			t.Fatal(err)
		}
		removed, err1 := settle(t, point, nil)
		seen := false
		_, err2 = settle(t, point, func(image.Disk) bool { seen = true; return true })
		written, err3 := settle(t, point, never)
		if err := errors.Join(err1, err2, err3); err != nil || !seen {
			t.Fatalf("the reading before anything is written was asked about: %v; %v", seen, err)
		}
		gain, taken = int64(removed.AvailableBytes)-int64(before.AvailableBytes), int64(removed.AvailableBytes)-int64(written.AvailableBytes)
		if gain >= size*9/10 && taken >= size*9/10 {
			return
		}
		if err := os.Remove(dirty); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("after a removal of %d bytes, %d are free; of as many that were written, %d count", size, gain, taken)
}

// The syncfs goroutine must not outlive the call for long, nor block the
// unmount that loopFS does at the end.
func TestSettleLeavesNoDescriptor(t *testing.T) {
	point := loopFS(t, "btrfs")
	for range 50 {
		if _, err := Settle(t.Context(), point, never); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptorsOn(t, point); n > 0 {
		t.Errorf("%d descriptors are still open on %s", n, point)
	}
}
