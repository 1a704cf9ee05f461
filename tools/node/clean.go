package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/busy"
	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/loopfs"
	"github.com/ebb-agent/ebb/tools/owned"
)

// Bounds for the removal of one node. Killed processes end in milliseconds, and so does
// a loop device after the unmount; an unmount of btrfs may take long.
const (
	cleanTimeout = 2 * time.Minute
	loopTimeout  = time.Minute
)

// Clean removes every node below base that no living process owns, and returns the
// names of the removed ones. It continues after an error and returns all errors.
// Cleaning again resumes where it stopped.
func Clean(ctx context.Context, base string, log *slog.Logger) ([]string, error) {
	return owned.Clean(base, log, release(ctx))
}

func release(ctx context.Context) owned.Release {
	return func(dir string) error { return destroy(ctx, layout(dir)) }
}

// destroy removes everything of the node outside its directory. Each step frees what
// the next one needs: processes hold mounts and cgroups, mounts hold the loop device.
// The caller holds the lock.
func destroy(ctx context.Context, l layout) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	// First, because a process that waits for its writes cannot be killed.
	if err := abandonDisk(l); err != nil {
		return err
	}
	if err := killAll(ctx, l); err != nil {
		return err
	}
	if err := errors.Join(
		removeShimSockets(l),
		cgroup.Remove(ctx, l.cgroup()),
		unmountBelow(ctx, string(l)),
	); err != nil {
		return err
	}
	// A deadline of its own: an unmount ignores the deadline of ctx and may have
	// exceeded it.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), loopTimeout)
	defer cancel()
	if err := loopfs.AwaitDetached(grace, string(l)); err != nil {
		return err
	}
	left, err := mountsBelow(string(l))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(left, ", "))
	}
	return err
}

// shimSocket returns the socket of a task's shim. It is outside the node's directory,
// because a socket's path must be short. Its name is a hash of containerd's socket, the
// namespace and the task's ID.
func shimSocket(l layout, namespace, id string) string {
	name := sha256.Sum256([]byte(filepath.Join(l.socket(), namespace, id)))
	return fmt.Sprintf("/run/containerd/s/%x", name)
}

// removeShimSockets deletes the sockets that killed shims left behind. A task in a pod
// shares the shim of its sandbox and has no socket of its own.
func removeShimSockets(l layout) error {
	bundles, err := filepath.Glob(filepath.Join(l.state(), "io.containerd.runtime.v2.task", "*", "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, bundle := range bundles {
		socket := shimSocket(l, filepath.Base(filepath.Dir(bundle)), filepath.Base(bundle))
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove shim socket: %w", err))
		}
	}
	return errors.Join(errs...)
}

func mountsBelow(dir string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}

// patience is how long a mount may be busy before it is detached lazily. Dead processes
// release their mounts within that time; a person's shell in one does not.
const patience = 3 * time.Second

// unmountBelow unmounts everything at and below dir, last mounted first.
func unmountBelow(ctx context.Context, dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errs []error
	for _, point := range slices.Backward(points) {
		err := busy.Retry(patient, unix.EBUSY, func() error { return unix.Unmount(point, unix.UMOUNT_NOFOLLOW) })
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
