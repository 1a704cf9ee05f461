package fs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// commitEach is the least pause between two commits of a btrfs while data is written back.
	commitEach = 200 * time.Millisecond

	// commitAgain is how long a commit that was asked for may take to begin until it is asked for again. Then the
	// pause grows, up to commitMost; it grows further once so many requests wait, for each of them holds a thread.
	commitAgain  = 100 * time.Millisecond
	commitMost   = 400 * time.Millisecond
	commitAsking = 16

	// groupsMost bounds the wait for block groups that are being removed, and groupsPoll is how often they
	// are looked at. A removal waits for a transaction to begin, and took up to 160 ms in an emulated machine.
	// Less than groupsLeast is no group, but copies of the superblock within others.
	groupsMost  = 250 * time.Millisecond
	groupsPoll  = 5 * time.Millisecond
	groupsLeast = 1 << 20
)

// settleBtrfs commits, which counts removals. With reached, it also has everything written that is dirty, and
// commits from time to time meanwhile: as soon as reached is true, the rest does not matter.
func settleBtrfs(ctx context.Context, dev uint64, path string, reached func(image.Disk) bool) (image.Disk, error) {
	commit := func() (disk image.Disk, pause time.Duration, err error) {
		begun := time.Now()
		if disk, err = settleBy(ctx, "commit", dev, path, commitBtrfs); err == nil {
			disk, err = diskOfBtrfs(ctx, path)
		}
		return disk, max(commitEach, time.Since(begun)), err
	}
	disk, pause, err := commit()
	if err != nil || reached == nil || reached(disk) {
		return disk, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	written := make(chan error, 1)
	go func() {
		_, err := settleBy(ctx, "syncfs", dev, path, unix.Syncfs) // commits by itself
		written <- err
	}()
	for {
		select {
		case outcome := <-written:
			disk, err := diskOfBtrfs(ctx, path)
			return disk, cmp.Or(err, outcome)
		case <-time.After(pause):
			if disk, pause, err = commit(); err != nil || reached(disk) {
				return disk, err
			}
		}
	}
}

// BTRFS_IOC_START_SYNC, _IOR(0x94, 24, __u64), BTRFS_IOC_WAIT_SYNC, _IOW(0x94, 22, __u64), and
// BTRFS_IOC_FS_INFO, _IOR(0x94, 31, struct btrfs_ioctl_fs_info_args).
const (
	btrfsStartSync = 0x80089418
	btrfsWaitSync  = 0x40089416
	btrfsFSInfo    = 0x8400941f
)

// btrfsInfo is struct btrfs_ioctl_fs_info_args in include/uapi/linux/btrfs.h.
type btrfsInfo struct {
	_    [2]uint64
	fsid [16]byte
	_    [992]byte
}

// commitBtrfs commits the current transaction of a btrfs, and waits for the commit. Then what was
// deleted before is free, and what was allocated counts as used. Unlike syncfs, it does not write what
// is dirty, which takes seconds beside a fast writer.
func commitBtrfs(fd int) error {
	transaction, err := startCommit(func() (transaction uint64, err error) {
		err = btrfsCall(fd, btrfsStartSync, unsafe.Pointer(&transaction))
		return transaction, err
	})
	if err != nil {
		return err
	}
	return btrfsCall(fd, btrfsWaitSync, unsafe.Pointer(&transaction))
}

// startCommit asks for a commit until it has begun, and returns its transaction. ask returns when the commit has
// begun.
//
// The kernel's own thread commits (since Linux 5.17). It misses requests that come while it writes the commit
// before, or goes to sleep, and would then begin at its next turn, up to 30 s later. One more request wakes it, for
// all that wait. On Linux 6.1 beside busy writers that was necessary for one commit in sixty.
func startCommit(ask func() (transaction uint64, err error)) (transaction uint64, err error) {
	type start struct {
		transaction uint64
		err         error
	}
	started := make(chan start)
	begin := func() {
		transaction, err := ask()
		started <- start{transaction, err}
	}
	go begin()
	pause := commitAgain
	again := time.NewTimer(pause)
	defer again.Stop()
	for asking, first := 1, true; asking > 0; { // all have to end: the caller closes what they use
		select {
		case s := <-started:
			asking--
			if first || err != nil { // any of them will do: all are later than what is to be counted
				transaction, err, first = s.transaction, s.err, false
			}
		case <-again.C:
			asking++
			go begin()
			if pause < commitMost || asking > commitAsking {
				pause *= 2
			}
			again.Reset(pause)
		}
	}
	return transaction, err
}

func btrfsCall(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// diskOfBtrfs reads the disk while no block group is being removed. The kernel removes groups that have become
// empty, one after another, and most often just after a commit. Such a group is read-only until it is gone, and
// statfs leaves it out, as if it were still full. Others are read-only for long, under a scrub for example: so the
// wait has a bound, and the reading with the most space counts.
func diskOfBtrfs(ctx context.Context, path string) (image.Disk, error) {
	return whileWhole(ctx, func() (image.Disk, error) { return Disk(path) }, groupsOf(path))
}

func whileWhole(ctx context.Context, read func() (image.Disk, error), readOnly func() bool) (best image.Disk, err error) {
	enough := time.After(groupsMost)
	for {
		before := readOnly()
		disk, err := read()
		if err != nil || !before && !readOnly() {
			return disk, err
		}
		if disk.AvailableBytes >= best.AvailableBytes {
			best = disk
		}
		select {
		case <-time.After(groupsPoll):
		case <-enough:
			return best, nil
		case <-ctx.Done():
			return best, context.Cause(ctx)
		}
	}
}

// groupsOf returns a function that reports whether a block group for data is read-only. It is false where the
// kernel does not say so: sysfs may not be there, or data and metadata share their groups.
func groupsOf(path string) (readOnly func() bool) {
	var info btrfsInfo
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = btrfsCall(fd, btrfsFSInfo, unsafe.Pointer(&info))
		unix.Close(fd)
	}
	if err != nil {
		return func() bool { return false }
	}
	id := info.fsid
	name := fmt.Sprintf("/sys/fs/btrfs/%x-%x-%x-%x-%x/allocation/data/bytes_readonly", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return func() bool {
		text, _ := os.ReadFile(name)
		n, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
		return n >= groupsLeast
	}
}
