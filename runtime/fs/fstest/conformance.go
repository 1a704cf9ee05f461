// Package fstest tests what the agent relies on in runtime/fs, for that package and for what the
// agent's tests use in its place.
package fstest

import (
	"context"
	"errors"
	iofs "io/fs"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Disks reads filesystems.
type Disks interface {
	Stat(path string) (image.Disk, fs.Info, error)
	Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error)
	Identify(path string) (fs.Identity, error)
	WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error
}

// Node is a machine with two filesystems of one type, one of which is mounted at Path. Its methods
// end the test if they fail.
type Node interface {
	Disks
	// Path is a mount point, and Dev what the kernel calls the filesystem there.
	Path() string
	Dev() uint64
	// Cover mounts the other filesystem over Path; uncover unmounts it.
	Cover(t *testing.T) (uncover func())
	// Write writes that many bytes to the filesystem; remove removes them.
	Write(t *testing.T, bytes uint64) (remove func())
}

const (
	mib   = 1 << 20
	slack = mib // of metadata
)

// Conformance runs the suite on nodes with each type of filesystem.
func Conformance(t *testing.T, node func(t *testing.T, fsType string) Node) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			n := node(t, fsType)
			t.Run("Reading", func(t *testing.T) { testReading(t, n, fsType) })
			t.Run("Settle", func(t *testing.T) { testSettle(t, n) })
			t.Run("Missing", func(t *testing.T) { testMissing(t, n) })
			t.Run("Mounts", func(t *testing.T) { testMounts(t, n) })
		})
	}
}

// The figures agree with the raw counters, from which thresholds in the kernel are computed.
func testReading(t *testing.T, n Node, fsType string) {
	d, info, err := n.Stat(n.Path())
	if err != nil {
		t.Fatal(err)
	}
	if info.Type != fsType || info.MountPoint != n.Path() || info.Dev != n.Dev() || info.Project != (fs.Project{}) {
		t.Errorf("a %s at %s is %+v", fsType, n.Path(), info)
	}
	if info.BlockSize == 0 || d.CapacityBytes != info.Blocks*info.BlockSize || d.AvailableBytes != info.Avail*info.BlockSize {
		t.Errorf("%+v, of %+v", d, info)
	}
	if info.Avail > info.Free || info.Free > info.Blocks || d.InodesAvailable > d.Inodes {
		t.Errorf("more is free than there is: %+v, %+v", d, info)
	}
	if fsType == "ext4" && info.Avail == info.Free {
		t.Errorf("nothing is kept for root: %+v", info)
	}
	if (d.Inodes > 0) == (fsType == "btrfs") {
		t.Errorf("%d inodes", d.Inodes)
	}
}

// settle calls Settle, again if it times out, and returns the available bytes.
func settle(t *testing.T, n Node) uint64 {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		d, err := n.Settle(t.Context(), n.Path(), func(image.Disk) bool { return false }) // count all that was written
		if errors.Is(err, context.DeadlineExceeded) && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		now, _, err := n.Stat(n.Path())
		if err != nil || max(now.AvailableBytes, d.AvailableBytes)-min(now.AvailableBytes, d.AvailableBytes) > slack {
			t.Errorf("it has settled at %+v, and is %+v, %v", d, now, err)
		}
		return d.AvailableBytes
	}
}

// Written and removed bytes show in the figures, at the latest once they have settled.
func testSettle(t *testing.T, n Node) {
	n.Write(t, mib)() // the filesystem allocates what it needs for itself
	before := settle(t, n)
	const bytes = 32 * mib
	remove := n.Write(t, bytes)
	if took := before - settle(t, n); took < bytes || took > bytes+slack {
		t.Errorf("%d bytes took %d", bytes, took)
	}
	remove()
	if after := settle(t, n); after+slack < before || after > before+slack {
		t.Errorf("%d bytes are available, and were %d before", after, before)
	}
}

// For a missing path, the error is fs.ErrNotExist.
func testMissing(t *testing.T, n Node) {
	const path = "/not/there"
	_, _, err1 := n.Stat(path)
	_, err2 := n.Settle(t.Context(), path, nil)
	_, err3 := n.Identify(path)
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
}

// A mount is reported, and has another identity than what it covers. Without a change, the identity
// stays the same.
func testMounts(t *testing.T, n Node) {
	identify := func() fs.Identity {
		t.Helper()
		i, err := n.Identify(n.Path())
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	reports := watch(t, n)
	reported := func(what string) {
		t.Helper()
		select {
		case <-reports:
		case <-time.After(time.Minute):
			t.Fatalf("no report of %s", what)
		}
	}
	reported("the beginning")
	under := identify()
	if again := identify(); again != under {
		t.Errorf("%+v became %+v by itself", under, again)
	}
	for range 2 {
		uncover := n.Cover(t)
		reported("a mount")
		over := identify()
		if _, info, err := n.Stat(n.Path()); err != nil || info.Dev == n.Dev() || over == under {
			t.Errorf("covered: %+v, %v; %+v on %+v", info, err, over, under)
		}
		uncover()
		reported("an unmount")
		if again := identify(); again != under {
			t.Errorf("uncovered it is %+v, and was %+v", again, under)
		}
	}
}

// watch watches mounts until the test ends.
func watch(t *testing.T, n Node) <-chan struct{} {
	t.Helper()
	out, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- n.WatchMounts(ctx, "/proc/self/mountinfo", out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("WatchMounts ended with %v", err)
		}
	})
	return out
}
