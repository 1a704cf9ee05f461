package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestUnloadWithoutBPFFS: the directory that a container had a bpffs of its own on goes, unless
// there is something in it.
func TestUnloadWithoutBPFFS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pins")
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, nil, 0o600), Unload(dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), Unload(dir), Unload(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// TestUnloadBesideClaim: who has locked the directory has the one that others find,
// however often another's Unload takes it away meanwhile.
func TestUnloadBesideClaim(t *testing.T) {
	mounted := pinDir(t)
	if err := ensureBPFFS(mounted); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(mounted, "pins") // the mount point itself is busy
	done := make(chan struct{})
	var unloading sync.WaitGroup
	var unloaded atomic.Int64
	for range 2 {
		unloading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := Unload(dir); err == nil {
					unloaded.Add(1)
				} else if !errors.Is(err, ErrInUse) {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := 0; (n < 500 || unloaded.Load() < 500) && !t.Failed(); n++ {
		lock, err := claim(dir)
		if errors.Is(err, ErrInUse) {
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		// Whoever removed it now would have to hold this lock.
		ours, err := lock.Stat()
		theirs, err2 := os.Stat(dir)
		if err != nil || err2 != nil || !os.SameFile(ours, theirs) {
			t.Errorf("locked %v (%v), others find %v (%v)", ours, err, theirs, err2)
		}
		lock.Close()
	}
	close(done)
	unloading.Wait()
}
