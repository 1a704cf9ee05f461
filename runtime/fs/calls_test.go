package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// On a frozen filesystem the kernel's calls hang. That costs the caller no more
// than its patience, and the process one descriptor and one goroutine, however
// often it is tried.
func TestSettleOnFrozenFilesystem(t *testing.T) {
	point := loopFS(t, "xfs")
	fd := openDir(t, point)
	const freeze, thaw = 0xc0045877, 0xc0045878 // FIFREEZE, FITHAW
	if err := unix.IoctlSetInt(fd, freeze, 0); err != nil {
		t.Fatal(err)
	}
	thawed := false
	defer func() {
		if !thawed {
			_ = unix.IoctlSetInt(fd, thaw, 0)
		}
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		disk, err := Settle(ctx, point, never) // it stays frozen: without a bound this were for ever
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || disk.CapacityBytes == 0 {
			t.Errorf("settled as %+v, %v", disk, err)
		}
		if n := descriptorsOn(t, point); n != 2 {
			t.Errorf("%d descriptors are open, want the test's and that of the one call", n)
		}
	}
	if err := unix.IoctlSetInt(fd, thaw, 0); err != nil {
		t.Fatal(err)
	}
	thawed = true
	if _, err := settle(t, point, never); err != nil { // it waits for the call that hung
		t.Error(err)
	}
	if n := descriptorsOn(t, point); n != 1 {
		t.Errorf("%d descriptors are open, want the test's", n)
	}
}

// A call that is under way may have begun too early to see what the next caller
// wants to see: each gets one of its own, after that.
func TestCallsOnOneFilesystemFollowEachOther(t *testing.T) {
	p, one, two := pending{busy: make(map[callKey]chan struct{})}, callKey{1, "sync"}, callKey{2, "sync"}
	dir := t.TempDir()
	entered, leave := make(chan int, 2), make(chan struct{})
	call := func(n int) func(int) error {
		return func(int) error { entered <- n; <-leave; return nil }
	}
	results := make(chan error, 2)
	go func() { results <- p.do(t.Context(), one, dir, call(1)) }()
	<-entered
	go func() { results <- p.do(t.Context(), one, dir, call(2)) }()
	other := make(chan error, 1)
	go func() { other <- p.do(t.Context(), two, dir, func(int) error { return unix.EPERM }) }()
	if err := <-other; !errors.Is(err, unix.EPERM) {
		t.Errorf("another filesystem's call: %v", err)
	}
	select {
	case n := <-entered:
		t.Errorf("call %d began beside the first", n)
	default:
	}
	leave <- struct{}{}
	if n := <-entered; n != 2 {
		t.Errorf("call %d came second", n)
	}
	leave <- struct{}{}
	if err := errors.Join(<-results, <-results); err != nil {
		t.Error(err)
	}
	if len(p.busy) > 0 {
		t.Errorf("%d filesystems count as busy", len(p.busy))
	}
	if err := p.do(t.Context(), one, filepath.Join(dir, "gone"), nil); !errors.Is(err, os.ErrNotExist) || len(p.busy) > 0 {
		t.Errorf("a path that is gone: %v", err)
	}
}

// Filesystems other than xfs do not have the ioctl: it fails with ENOTTY.
func TestFlushIsRefused(t *testing.T) {
	if err := flushInodeGC(openDir(t, loopFS(t, "ext4"))); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("got %v, want ENOTTY", err)
	}
}

func openDir(t *testing.T, path string) int {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return int(dir.Fd())
}

func descriptorsOn(t *testing.T, path string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && target == path {
			n++
		}
	}
	return n
}
