package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// makeCgroup makes a cgroup in every hierarchy, which a kubelet wants to find
// its root cgroup in. It goes with the node that it is named after.
func makeCgroup(cgroup string) error {
	hierarchies, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	for _, h := range hierarchies {
		dir := filepath.Join(h.Mountpoint, cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// Version 1 takes no process into a cpuset before it has these.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inheritSetting(h.Mountpoint, dir, name); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
	}
	return nil
}

// inheritSetting copies a setting of the top cgroup, if this hierarchy has it
// there, to one below that has none.
func inheritSetting(top, dir, name string) error {
	data, err := os.ReadFile(filepath.Join(top, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || strings.TrimSpace(string(own)) != "" {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), data, 0o644)
}
