// Package cgrouptest has cgroups in memory, and what they and the kernel's must do.
package cgrouptest

import (
	"errors"
	"io/fs"
	"testing"
)

// Paths are living cgroups by their ids, as a cgroup.Hierarchy has them.
type Paths map[uint64]string

// Path returns where one is.
func (p Paths) Path(id uint64) (string, error) {
	if path, ok := p[id]; ok {
		return path, nil
	}
	return "", fs.ErrNotExist
}

// Conformance checks what a cgroup's path is, and that of one that is gone.
func Conformance(t *testing.T, h interface {
	Path(id uint64) (string, error)
}, id uint64, path string, gone uint64) {
	t.Helper()
	if got, err := h.Path(id); err != nil || got != path {
		t.Errorf("the path is %q, %v; want %q", got, err, path)
	}
	if got, err := h.Path(gone); got != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the path of what is gone is %q, %v", got, err)
	}
}
