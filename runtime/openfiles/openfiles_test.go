package openfiles

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that this process deleted and has open is found, once, and not on another device.
func TestDeleted(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil { // blocks are counted once they are there
		t.Fatal(err)
	}
	again, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	ours := func(devices ...uint64) Process {
		t.Helper()
		list, err := Deleted(t.Context(), "/proc", devices)
		if err != nil && !errors.Is(err, ErrHidden) { // some of a locked-down machine are
			t.Fatal(err)
		}
		if n := slices.IndexFunc(list, func(p Process) bool { return p.PID == os.Getpid() }); n >= 0 {
			return list[n]
		}
		return Process{}
	}
	before := ours(st.Dev)
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	after := ours(st.Dev)
	if after.Files-before.Files != 1 || after.Bytes-before.Bytes < 1<<20 || after.Bytes-before.Bytes > 2<<20 || after.Command == "" {
		t.Errorf("found %+v, and before the file was deleted %+v", after, before)
	}
	if other := ours(st.Dev + 1); other.Files != 0 {
		t.Errorf("on another device %+v", other)
	}
}

// From a PID namespace of its own it is not known what others have open.
func TestOwnNamespace(t *testing.T) {
	proc := t.TempDir()
	if _, err := Deleted(t.Context(), proc, nil); !errors.Is(err, ErrOwnNamespace) {
		t.Errorf("%v", err)
	}
}
