package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// mountSpacing is the least time between two reports of [WatchMounts]. Each
// start of a container changes the mounts several times.
const mountSpacing = 300 * time.Millisecond

// WatchMounts sends to out once it watches, and then after each change of a namespace's mounts,
// until ctx ends; then it returns ctx's error. The namespace is that of the process whose mountinfo
// file is named. A change while the caller does not receive from out, or soon after a report, is
// reported later, never lost; several may be reported as one. In between WatchMounts sleeps in the
// kernel.
//
// The kernel marks the file as exceptional when something was mounted, moved or unmounted since it
// was polled last (proc_pid_mountinfo(5); mounts_poll in fs/proc_namespace.c). A remount that only
// changes options is not marked.
func WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error {
	// Not an os.File: Go's own poller would see the mark first and clear it.
	file, err := unix.Open(mountinfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch mounts: open %s: %w", mountinfo, err)
	}
	defer unix.Close(file)
	// The far end of the pipe is closed to wake a poll that sleeps.
	woken, wake, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watch mounts: %w", err)
	}
	defer woken.Close()
	defer wake.Close()
	stop := context.AfterFunc(ctx, func() { wake.Close() })
	defer stop()

	fds := []unix.PollFd{{Fd: int32(file), Events: unix.POLLPRI}, {Fd: int32(woken.Fd())}}
	for {
		select {
		case out <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(mountSpacing):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := poll(fds); err != nil {
			return fmt.Errorf("watch mounts: poll %s: %w", mountinfo, err)
		}
		if fds[1].Revents != 0 {
			return ctx.Err()
		}
	}
}

// poll sleeps until one of fds is ready.
func poll(fds []unix.PollFd) error {
	for {
		_, err := unix.Poll(fds, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
