package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A kubelet goes on only if its cgroup has every controller of the hierarchy.
func TestMakeHasAllControllers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root: makes cgroups")
	}
	const name = "ebb-test-controllers"
	t.Cleanup(func() {
		if err := Remove(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	if err := Make(name); err != nil {
		t.Fatal(err)
	}
	tops, err := Hierarchies()
	if err != nil || len(tops) == 0 {
		t.Fatalf("%d hierarchies, %v", len(tops), err)
	}
	for _, top := range tops {
		want, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // version 1: a hierarchy has its controllers everywhere
		}
		got, err2 := os.ReadFile(filepath.Join(top, name, "cgroup.controllers"))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %q", top, want)
		if string(got) != string(want) {
			t.Errorf("%s has the controllers %q, not %q", filepath.Join(top, name), got, want)
		}
	}
}
