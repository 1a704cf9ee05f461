package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// TestRemove: all that Open makes goes, nothing else does.
func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*") // a path, not a pattern
	other := filepath.Join(filepath.Dir(dir), "ab")
	for _, d := range []string{dir, other} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"state.db.corrupt-20260102T030405.000000000Z", "state.db.new", "precious"} {
			if err := os.WriteFile(filepath.Join(d, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, _, _, err := state.Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Remove(dir); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a file that is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := state.Remove(dir); n != 2 || err != nil { // Open has taken state.db.new away
		t.Errorf("%d things removed, %v", n, err)
	}
	for _, c := range []struct {
		dir  string
		want int
	}{{dir, 1}, {other, 3}} {
		left, err := os.ReadDir(c.dir)
		if err != nil || len(left) != c.want {
			t.Errorf("%s: %v, %v", c.dir, left, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "precious")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} { // the directory, then nothing
		if n, err := state.Remove(dir); n != want || err != nil {
			t.Errorf("%d things removed, want %d: %v", n, want, err)
		}
	}
}

// TestLinkToNowhere: a link to a disk that is not mounted is not replaced by a file.
func TestLinkToNowhere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, state.File)
	if err := os.Symlink(filepath.Join(dir, "absent", state.File), path); err != nil {
		t.Fatal(err)
	}
	if s, _, aside, err := state.Open(dir, time.Now()); s != nil || aside != "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %q, %v", s, aside, err)
	}
	if _, err := os.Readlink(path); err != nil {
		t.Error(err)
	}
}
