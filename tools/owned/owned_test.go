package owned

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func nothing(string) error { return nil }

func claim(t *testing.T, dir string) *os.File {
	t.Helper()
	lock, err := Claim(dir, nothing)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// leave makes what a dead owner leaves behind.
func leave(t *testing.T, dir string) {
	t.Helper()
	lock := claim(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "base", "name")
	leave(t, dir)
	errStuck := errors.New("stuck")
	if _, err := Claim(dir, func(string) error { return errStuck }); !errors.Is(err, errStuck) || !exists(filepath.Join(dir, "data")) {
		t.Errorf("claim of what cannot be released: %v", err)
	}
	var released string
	lock, err := Claim(dir, func(dir string) error { released = dir; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if released != dir || exists(filepath.Join(dir, "data")) {
		t.Errorf("what was left behind is still there; released %q", released)
	}
	if _, err := Claim(dir, nothing); !errors.Is(err, ErrInUse) {
		t.Errorf("claim of what is owned: %v, want ErrInUse", err)
	}
	if err := Remove(dir, nothing); err != nil || exists(dir) {
		t.Errorf("remove: %v, still there: %v", err, exists(dir))
	}
	lock.Close()
}

func TestClean(t *testing.T) {
	base := t.TempDir()
	leave(t, filepath.Join(base, "dead"))
	owner := claim(t, filepath.Join(base, "owned"))
	// The owner is gone, a child is not: it has inherited the lock.
	inherited := claim(t, filepath.Join(base, "inherited"))
	child := exec.Command("/bin/sleep", "1000")
	child.ExtraFiles = []*os.File{inherited}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	if err := os.Mkdir(filepath.Join(base, "begun"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, stranger := range []string{"photos/cat.jpg", "notes"} {
		path := filepath.Join(base, stranger)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o644)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if !exists(path) {
				t.Errorf("Clean deleted %s, which nobody has claimed", stranger)
			}
		}()
	}

	errStuck := errors.New("stuck")
	if gone, err := Clean(base, testLog(t), func(dir string) error {
		if filepath.Base(dir) == "dead" {
			return errStuck
		}
		return nil
	}); !errors.Is(err, errStuck) || !slices.Equal(gone, []string{"begun"}) {
		t.Errorf("Clean of what cannot be released: %v, %v; want [begun]", gone, err)
	}
	if gone, err := Clean(base, testLog(t), nothing); err != nil || !slices.Equal(gone, []string{"dead"}) {
		t.Errorf("Clean: %v, %v; want [dead]", gone, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // returns that it was killed
	owner.Close()
	if gone, err := Clean(base, testLog(t), nothing); err != nil || !slices.Equal(gone, []string{"inherited", "owned"}) {
		t.Errorf("Clean: %v, %v; want [inherited owned]", gone, err)
	}
	if gone, err := Clean(filepath.Join(base, "nowhere"), testLog(t), nothing); err != nil || len(gone) > 0 {
		t.Errorf("Clean without a base directory: %v, %v", gone, err)
	}
}
