package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watch follows the mounts of this process until the test ends.
func watch(t *testing.T) <-chan struct{} {
	t.Helper()
	return watchFile(t, "/proc/self/mountinfo")
}

func watchFile(t *testing.T, mountinfo string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- WatchMounts(ctx, mountinfo, out) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the watch ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the watch does not end")
		}
	})
	reported(t, out, "the first report")
	return out
}

func reported(t *testing.T, out <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-out:
	case <-time.After(time.Minute):
		t.Fatalf("no report of %s", what)
	}
}

func TestWatchMounts(t *testing.T) {
	out := watch(t)
	point := loopFS(t, "ext4")
	reported(t, out, "a mount")
	below := filepath.Join(point, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(point, below, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	reported(t, out, "a bind mount")
	if err := unix.Unmount(below, 0); err != nil {
		t.Fatal(err)
	}
	reported(t, out, "an unmount")
}

// change mounts something and unmounts it.
func change(t *testing.T, point string) {
	t.Helper()
	err := unix.Mount("storm", point, "tmpfs", 0, "size=4k")
	if err := errors.Join(err, unix.Unmount(point, 0)); err != nil {
		t.Fatal(err)
	}
}

// However many mounts there are, reports keep their distance; and the last
// change is among what is reported.
func TestWatchMountsInAStorm(t *testing.T) {
	out := watch(t)
	point := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root: mounts a filesystem")
	}
	begun, reports := time.Now(), 0
	for time.Since(begun) < 4*mountSpacing || reports < 2 && time.Since(begun) < time.Minute {
		change(t, point)
		select {
		case <-out:
			reports++
		default:
		}
	}
	// One of the first change, one of what came while it was quiet.
	if most := int(time.Since(begun)/mountSpacing) + 1; reports < 2 || reports > most {
		t.Errorf("%d reports in %v, want 2 to %d", reports, time.Since(begun), most)
	}
	change(t, point)
	reported(t, out, "what came last")
}

// Keeps tests off the main thread. That thread never ends, so a test that gives its
// thread another namespace would leave it there, and it is the one that /proc/self
// shows.
func init() { runtime.LockOSThread() }

// The mounts of another process's namespace are seen, and its own are not.
func TestWatchMountsOfAnotherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root: makes a mount namespace")
	}
	point := t.TempDir()
	ready, mount, mounted := make(chan int), make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err != nil {
			mounted <- err
			close(ready)
			return
		}
		ready <- unix.Gettid()
		<-mount
		mounted <- unix.Mount("other", point, "tmpfs", 0, "size=4k")
		<-mount
	}()
	tid, ok := <-ready
	if !ok {
		t.Fatal(<-mounted)
	}
	defer close(mount)
	out := watchFile(t, fmt.Sprintf("/proc/self/task/%d/mountinfo", tid))
	mount <- struct{}{}
	if err := <-mounted; err != nil {
		t.Fatal(err)
	}
	reported(t, out, "a mount in the other namespace")
	change(t, t.TempDir())
	select {
	case <-out:
		t.Error("a mount here was reported from there")
	case <-time.After(2 * mountSpacing):
	}
}

func TestWatchMountsOfNobody(t *testing.T) {
	err := WatchMounts(t.Context(), "/proc/0/mountinfo", make(chan struct{}))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestIdentify(t *testing.T) {
	identify := func(path string) Identity {
		t.Helper()
		id, err := Identify(path)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	point := loopFS(t, "ext4")
	dir := filepath.Join(point, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bare := identify(dir)
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if identify(dir) != bare {
		t.Error("a new file makes the directory another one")
	}
	run(t, "mount", "--bind", point, dir)
	covered := identify(dir)
	if covered == bare {
		t.Error("a mount over the directory is not seen")
	}
	run(t, "umount", dir)
	if identify(dir) != bare {
		t.Error("the directory is not the old one below the mount")
	}
	if _, err := Identify(filepath.Join(point, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A filesystem can get every number of one that was unmounted just before: the
// loop device, and before Linux 6.8 the mount's number.
func TestIdentifyAnotherFilesystemOnTheSameDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root: mounts a loopback filesystem")
	}
	for kind, force := range map[string]string{"ext4": "-F", "xfs": "-f", "btrfs": "-f"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			disk, point := filepath.Join(dir, "disk"), filepath.Join(dir, "mnt")
			if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 512<<20), os.Mkdir(point, 0o755)); err != nil {
				t.Fatal(err)
			}
			device, err := exec.Command("losetup", "--find", "--show", disk).Output()
			if err != nil {
				t.Fatal(err)
			}
			loop := strings.TrimSpace(string(device))
			t.Cleanup(func() { run(t, "losetup", "--detach", loop) })
			var ids [2]Identity
			for i := range ids {
				run(t, "mkfs."+kind, "-q", force, loop)
				run(t, "mount", loop, point)
				ids[i], err = Identify(point)
				unmount(t, point)
				if err != nil {
					t.Fatal(err)
				}
			}
			if ids[0] == ids[1] {
				t.Errorf("both are %+v", ids[0])
			}
			// As a kernel before 6.8 has it, at the worst.
			ids[0].Mount, ids[1].Mount = 0, 0
			if ids[0] == ids[1] {
				t.Errorf("without the mount's number both are %+v", ids[0])
			}
		})
	}
}
