// Package cgroup makes and removes the cgroups of throwaway nodes and machines, in
// every hierarchy that is mounted, of version 1 and 2.
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

// Hierarchies are the directories where they are mounted.
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

// Make makes a cgroup below the top of every hierarchy, with all of its controllers: a
// kubelet wants to find the one that it puts pods below.
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
		// Version 1 takes no process into a cpuset before it has these.
		for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(top, dir, setting); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
	}
	return nil
}

// enableControllers gives those below the top all controllers, in a hierarchy of version 2:
// one whose users need few, as systemd, enables no more.
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

// inherit copies a setting of the top cgroup, if this hierarchy has it there, to one
// below that has none.
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

// Remove removes a cgroup and those below it, in every hierarchy. One is busy for as
// long as the kernel takes to bury the last process in it.
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
			return nil // what vanishes during the walk needs no removal
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
