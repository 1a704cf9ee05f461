package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

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

// TestRemoveBesideOpen: an Open that another's Remove comes between has a file that
// others find, which holds what the Store believes it to hold.
func TestRemoveBesideOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ebb")
	done := make(chan struct{})
	var removed atomic.Int64
	var other sync.WaitGroup
	other.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			n, err := state.Remove(dir)
			if err != nil && !errors.Is(err, state.ErrLocked) {
				t.Error("remove: ", err)
				return
			}
			removed.Add(int64(n))
		}
	})
	for n := 0; (n < 25 || removed.Load() < 5) && !t.Failed(); n++ {
		saved := openAndSave(t, dir)
		if s, got, _, err := state.Open(dir, time.Now()); err != nil {
			t.Error(err)
		} else {
			if len(got.Images) != 0 && !cmp.Equal(got, saved) {
				t.Errorf("what was saved differs: %s", cmp.Diff(saved, got))
			}
			s.Close()
		}
	}
	close(done)
	other.Wait()
}

// openAndSave saves one image more than is there, and looks that the file is there.
func openAndSave(t *testing.T, dir string) state.Records {
	t.Helper()
	s, r, aside, err := state.Open(dir, time.Now())
	if err != nil || aside != "" {
		t.Fatalf("open: %v, %q moved aside", err, aside)
	}
	r.Images["sha256:"+strconv.Itoa(len(r.Images))] = state.Image{Observed: time.Unix(1e9, 0).UTC()}
	if err := s.Save(r); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, state.File)); err != nil {
		t.Error("it is open: ", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return r
}

// TestRemoveLeavesWhatIsMade: a new file is locked before it has its name. However slow
// the disk, a Remove beside it does not starve the Open.
func TestRemoveLeavesWhatIsMade(t *testing.T) {
	dir := t.TempDir()
	fresh := filepath.Join(dir, state.File+".new")
	made, err := bolt.Open(fresh, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := state.Remove(dir); n != 0 || !errors.Is(err, state.ErrLocked) {
		t.Errorf("%d things removed, %v", n, err)
	}
	if _, _, _, err := state.Open(dir, time.Now()); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second one that makes it: %v", err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	s, _, _, err := state.Open(dir, time.Now()) // over what a process that died has left
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := state.Remove(dir); n != 2 || err != nil {
		t.Errorf("%d things removed, %v", n, err)
	}
}
