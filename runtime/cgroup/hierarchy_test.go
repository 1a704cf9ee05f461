package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/cgroup/cgrouptest"
)

func idOf(t *testing.T, dir string) uint64 {
	t.Helper()
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(handle.Bytes())
}

func TestPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: making cgroups needs root")
	}
	h, err := Open()
	if errors.Is(err, ErrNone) {
		t.Skip("SKIPPED: no cgroup v2 hierarchy is mounted")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	name := fmt.Sprintf("/ebb-cgroup-test-%d", os.Getpid())
	for _, path := range []string{name, name + "/a (deleted)", name + "/a (deleted)/\"\\é\x01"} {
		dir := filepath.Join(h.mount, path)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer unix.Rmdir(dir)
		if got, err := h.Path(idOf(t, dir)); err != nil || got != path {
			t.Errorf("Path = %q, %v; want %q", got, err, path)
		}
	}
	if got, err := h.Path(idOf(t, h.mount)); err != nil || got != "/" {
		t.Errorf("Path of the root = %q, %v", got, err)
	}
}

func TestPathOfWhatIsGone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: making cgroups needs root")
	}
	h, err := Open()
	if errors.Is(err, ErrNone) {
		t.Skip("SKIPPED: no cgroup v2 hierarchy is mounted")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	dir := filepath.Join(h.mount, fmt.Sprintf("ebb-cgroup-gone-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	id := idOf(t, dir)
	if err := unix.Rmdir(dir); err != nil {
		t.Fatal(err)
	}
	cgrouptest.Conformance(t, h, idOf(t, h.mount), "/", id)
}

func TestPathsInMemory(t *testing.T) {
	cgrouptest.Conformance(t, cgrouptest.Paths{1: "/a"}, 1, "/a", 2)
}

func TestOpenAtRefusesOtherFilesystems(t *testing.T) {
	if _, err := OpenAt(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("OpenAt = %v", err)
	}
	if _, err := OpenAt("/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenAt = %v", err)
	}
}

func TestMountPoint(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"24 30 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n":      "",
		"25 30 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n": "/sys/fs/cgroup/unified",
		"25 30 0:23 / /a\\040b rw - cgroup2 none rw\n":                                  "/a b",
		"25 30 0:23 /part /a rw - cgroup2 none rw\n":                                    "", // a bind mount of a part
		"25 30 0:23 - cgroup2 \n":                                                       "",
	} {
		if got, ok := mountPoint(text); got != want || ok != (want != "") {
			t.Errorf("mountPoint(%q) = %q, %v; want %q", text, got, ok, want)
		}
	}
}
