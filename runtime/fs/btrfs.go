package fs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// commitEach is the least pause between two commits of a btrfs while data is written back.
	commitEach = 200 * time.Millisecond

	// commitAgain is how long a commit that was asked for may take to begin until it is asked for again, by
	// up to commitAsks calls at once.
	commitAgain = 100 * time.Millisecond
	commitAsks  = 4

	// groupsMost bounds the wait for block groups that are being removed, and groupsPoll is how often they
	// are looked at. A removal waits for a transaction to begin, and took up to 160 ms in an emulated machine.
	groupsMost = 250 * time.Millisecond
	groupsPoll = 5 * time.Millisecond
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
//
// The kernel's own thread commits (since Linux 5.17). Whoever asks for a commit waits until it begins, and the
// thread misses a request that comes while it ends another commit, or goes to sleep. It would then begin at its
// next turn, up to 30 s later. A further request wakes it, for all that wait. On Linux 6.1 beside busy writers
// that was necessary for one commit in fifty.
func commitBtrfs(fd int) error {
	type start struct {
		transaction uint64
		err         error
	}
	started := make(chan start, commitAsks)
	ask := func() {
		var s start
		s.err = btrfsCall(fd, btrfsStartSync, unsafe.Pointer(&s.transaction))
		started <- s
	}
	go ask()
	again := time.NewTicker(commitAgain)
	defer again.Stop()
	var last start
	for asking := 1; asking > 0; { // all have to end before fd is closed
		select {
		case last = <-started:
			asking--
		case <-again.C:
			if asking < commitAsks {
				asking++
				go ask()
			}
		}
	}
	if last.err != nil {
		return last.err
	}
	return btrfsCall(fd, btrfsWaitSync, unsafe.Pointer(&last.transaction))
}

func btrfsCall(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// diskOfBtrfs reads the disk while no block group is being removed. The kernel removes groups that have become
// empty, most often just after a commit. Such a group is read-only until it is gone, and statfs leaves it out, as
// if it were still full. Others can be read-only for long, under a scrub for example: then the wait has a bound.
func diskOfBtrfs(ctx context.Context, path string) (image.Disk, error) {
	readOnly, enough := groupsOf(path), time.After(groupsMost)
	for {
		before := readOnly()
		disk, err := Disk(path)
		if err != nil || !before && !readOnly() {
			return disk, err
		}
		select {
		case <-time.After(groupsPoll):
		case <-enough:
			return disk, nil
		case <-ctx.Done():
			return disk, context.Cause(ctx)
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
		n, err := os.ReadFile(name)
		return err == nil && string(bytes.TrimSpace(n)) != "0"
	}
}
