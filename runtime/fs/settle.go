package fs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// settlePoll is how often a filesystem that frees in the background is
	// read again. Each statfs also nudges xfs' workers.
	settlePoll = 10 * time.Millisecond
	// settleQuiet is how long its free space must stand still. The workers
	// report inode by inode, so a pause this long means that they are done.
	settleQuiet = 200 * time.Millisecond
)

// Settle reads path's filesystem once it has counted everything that was
// removed before the call. When ctx ends first it returns ctx's error beside
// the last reading, which then shows too little free space, never too much.
func Settle(ctx context.Context, path string) (image.Disk, error) {
	place, err := Locate(path)
	if err != nil {
		return image.Disk{}, err
	}
	switch place.Type {
	case "ext2", "ext3", "ext4":
		return Disk(path)
	case "btrfs":
		return settleBySync(ctx, path)
	default: // xfs, and whatever else may free in the background
		return settleByWatching(ctx, path)
	}
}

// settleBySync ends the running transaction. syncfs may take long on a busy
// disk and cannot be interrupted: past ctx it is left to end by itself.
func settleBySync(ctx context.Context, path string) (image.Disk, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return image.Disk{}, fmt.Errorf("open %q: %w", path, err)
	}
	synced := make(chan error, 1)
	go func() {
		err := unix.Syncfs(fd)
		unix.Close(fd) // before the caller goes on: it may want to unmount
		synced <- err
	}()

	var outcome error
	select {
	case err := <-synced:
		if err != nil {
			outcome = fmt.Errorf("syncfs %q: %w", path, err)
		}
	case <-ctx.Done():
		outcome = fmt.Errorf("syncfs %q: %w", path, context.Cause(ctx))
	}
	disk, err := Disk(path)
	if err != nil {
		return disk, err
	}
	return disk, outcome
}

// settleByWatching waits until neither blocks nor inodes grow any more. A
// writer that fills the disk meanwhile ends the wait no later.
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
