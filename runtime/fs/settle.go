package fs

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// flushMost bounds the wait for xfs' workers. They need milliseconds; a longer wait means that
	// they hang, for example on a frozen filesystem.
	flushMost = time.Second

	// settlePoll is how often a filesystem of another kind is read again.
	settlePoll = 10 * time.Millisecond
	// settleQuiet is how long its free space must not have grown. settleMost bounds the wait for
	// that, because other processes may never stop deleting.
	settleQuiet = 200 * time.Millisecond
	settleMost  = time.Second
)

// Settle reads path's filesystem once it has counted everything that was removed before the call.
// If that takes too long, or ctx ends, it returns an error and the last reading. On a busy xfs it
// can be a little early. On btrfs statfs can show less than this reading a moment later, while the kernel removes
// a block group that has become empty.
//
// With reached, everything that was written before the call is counted, too, unless reached is true of a
// reading before that. It makes a difference on btrfs, which counts data only when it is written back.
func Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error) {
	place, err := Locate(path)
	if err != nil {
		return image.Disk{}, err
	}
	switch place.Type {
	case "ext2", "ext3", "ext4":
		return Disk(path)
	case "btrfs":
		return settleBtrfs(ctx, place.Dev, path, reached)
	case "xfs":
		ctx, cancel := context.WithTimeout(ctx, flushMost)
		defer cancel()
		return settleBy(ctx, "flush", place.Dev, path, flushInodeGC)
	default: // others may free space in the background
		ctx, cancel := context.WithTimeout(ctx, settleMost)
		defer cancel()
		return settleByWatching(ctx, path)
	}
}

// settleBy makes a call that brings the kernel's figures up to date, then reads them. The call
// cannot be interrupted: if ctx ends first, the call is left to end by itself.
func settleBy(ctx context.Context, what string, dev uint64, path string, call func(fd int) error) (image.Disk, error) {
	outcome := calls.do(ctx, callKey{dev, what}, path, call)
	disk, err := Disk(path)
	if err != nil {
		return disk, err
	}
	if outcome != nil {
		outcome = fmt.Errorf("%s %q: %w", what, path, outcome)
	}
	return disk, outcome
}

// settleByWatching waits until neither available bytes nor inodes grow any more. A writer that
// fills the disk at the same time does not prolong the wait.
func settleByWatching(ctx context.Context, path string) (image.Disk, error) {
	disk, err := Disk(path)
	if err != nil {
		return disk, err
	}
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	grown := time.Now()
	for time.Since(grown) < settleQuiet {
		select {
		case <-ctx.Done():
			return disk, fmt.Errorf("settle %q: %w", path, context.Cause(ctx))
		case <-poll.C:
		}
		now, err := Disk(path)
		if err != nil {
			return disk, err
		}
		if now.AvailableBytes > disk.AvailableBytes || now.InodesAvailable > disk.InodesAvailable {
			grown = time.Now()
		}
		disk = now
	}
	return disk, nil
}
