package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// loopFS makes a filesystem of this kind on a sparse file and mounts it. The
// mount holds the only reference to the loop device (autoclear), so that the
// unmount takes both away.
func loopFS(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a loopback filesystem")
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	point := filepath.Join(dir, "mnt")
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, 512<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs."+kind, "-q", disk)
	run(t, "mount", "-o", "loop", disk, point)
	t.Cleanup(func() { unmount(t, point) })
	return point
}

// unmount waits for what still works on the filesystem: a syncfs that a test
// has left to end by itself.
func unmount(t *testing.T, point string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := unix.Unmount(point, 0)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			t.Errorf("unmount %s: %v", point, err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// writeTree writes files of 16 KiB below dir.
func writeTree(t *testing.T, dir string, files int) {
	t.Helper()
	data := make([]byte, 16<<10)
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprint(i%50))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
