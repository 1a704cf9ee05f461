// Package cgroup makes and removes the cgroups of throwaway nodes and machines, in every
// mounted hierarchy, of version 1 and 2.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/busy"
)

// Hierarchies returns the mount points of all cgroup hierarchies.
func Hierarchies() ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	var points []string
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}

// Make makes a cgroup below the root of every hierarchy, with all of the hierarchy's
// controllers. A kubelet requires the parent of its pods' cgroups to exist.
func Make(name string) error {
	tops, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, top := range tops {
		dir := filepath.Join(top, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if err := enableControllers(top); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// A cpuset of version 1 accepts no process before it has these.
		for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(top, dir, setting); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
	}
	return nil
}

// enableControllers enables all controllers for the children of the root, in a hierarchy of
// version 2. A manager such as systemd enables only those that its units need.
func enableControllers(top string) error {
	all, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // version 1
	}
	for _, c := range strings.Fields(string(all)) {
		err = errors.Join(err, os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+"+c), 0o644))
	}
	return err
}

// inherit copies a setting from the root cgroup to a child in which it is empty, if this
// hierarchy has the setting.
func inherit(top, dir, setting string) error {
	data, err := os.ReadFile(filepath.Join(top, setting))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(dir, setting))
	if err != nil || strings.TrimSpace(string(own)) != "" {
		return err
	}
	return os.WriteFile(filepath.Join(dir, setting), data, 0o644)
}

// Remove removes a cgroup and its descendants, in every hierarchy. A cgroup is busy until
// the kernel has released its last process.
func Remove(ctx context.Context, name string) error {
	tops, err := Hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range tops {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(top, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // a cgroup that vanishes during the walk needs no removal
		})
		errs = append(errs, err)
		for _, dir := range slices.Backward(dirs) {
			err := busy.Retry(ctx, unix.EBUSY, func() error { return os.Remove(dir) })
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}
