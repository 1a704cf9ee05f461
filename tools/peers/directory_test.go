package peers

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

// leave makes what a dead owner leaves behind.
func leave(t *testing.T, dir string) {
	t.Helper()
	lock, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cp")
	leave(t, dir)
	lock, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, "data")) {
		t.Error("what was left behind is still there")
	}
	if _, err := claim(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("claim of what is owned: %v, want ErrInUse", err)
	}
	if err := discard(dir); err != nil || exists(dir) {
		t.Errorf("discard: %v, still there: %v", err, exists(dir))
	}
	lock.Close()
}

func TestClean(t *testing.T) {
	base := t.TempDir()
	leave(t, filepath.Join(base, "dead"))
	owned, err := claim(filepath.Join(base, "owned"))
	if err != nil {
		t.Fatal(err)
	}
	// The owner is gone, a component is not: it has inherited the lock.
	inherited, err := claim(filepath.Join(base, "inherited"))
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/sleep", "1000")
	child.ExtraFiles = []*os.File{inherited}
	p, err := spawn(child, nil)
	if err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	stranger := filepath.Join(base, "photos", "cat.jpg")
	if err := os.MkdirAll(filepath.Dir(stranger), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stranger, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}

	if gone, err := Clean(base, testLog(t)); err != nil || !slices.Equal(gone, []string{"dead"}) {
		t.Errorf("Clean: %v, %v; want [dead]", gone, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	owned.Close()
	if gone, err := Clean(base, testLog(t)); err != nil || !slices.Equal(gone, []string{"inherited", "owned"}) {
		t.Errorf("Clean: %v, %v; want [inherited owned]", gone, err)
	}
	if !exists(stranger) {
		t.Error("Clean deleted what is not a control plane's")
	}
	if gone, err := Clean(filepath.Join(base, "nowhere"), testLog(t)); err != nil || len(gone) > 0 {
		t.Errorf("Clean without a base directory: %v, %v", gone, err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
