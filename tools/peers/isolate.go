package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// private holds private copies of what a kubelet would otherwise share with the
// machine: paths that cannot be configured, and kernel settings that it writes. In the
// kubelet's mount namespace they cover the machine's.
type private struct {
	binds []bind
}

type bind struct{ source, target string }

// KubeletSettings writes, below dir, a file for each kernel setting that a kubelet
// sets, with the value that it wants. It returns the files by the paths in /proc/sys
// that they are to cover. It leaves out settings that this kernel does not have.
func KubeletSettings(dir string) (map[string]string, error) {
	files := map[string]string{}
	for name, value := range sysctls {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); err != nil {
			continue
		}
		source := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(source, []byte(value+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("make private settings: %w", err)
		}
		files[target] = source
	}
	return files, nil
}

// sysctls are the settings that a kubelet sets, with the values that it wants; it
// leaves a setting that has its value. The values help a dedicated machine to survive;
// this machine is not dedicated.
var sysctls = map[string]string{
	"vm/overcommit_memory":     "1",
	"vm/panic_on_oom":          "0",
	"kernel/panic":             "10",
	"kernel/panic_on_oops":     "1",
	"kernel/keys/root_maxkeys": "1000000",
	// 25 bytes a key.
	"kernel/keys/root_maxbytes": "25000000",
}

// makePrivate makes the directories and files below dir.
func makePrivate(dir string) (private, error) {
	var p private
	// /var/lib/kubelet/device-plugins and /var/log/containers are fixed in the
	// kubelet's code. The covered directories are their parents, which exist on any
	// machine.
	for _, sub := range []string{"lib/kubelet", "log/containers"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return p, fmt.Errorf("make private directories: %w", err)
		}
	}
	p.binds = []bind{{filepath.Join(dir, "lib"), "/var/lib"}, {filepath.Join(dir, "log"), "/var/log"}}
	settings, err := KubeletSettings(dir)
	if err != nil {
		return p, err
	}
	for target, source := range settings {
		p.binds = append(p.binds, bind{source, target})
	}
	return p, nil
}

// enter moves the calling thread into its own mount namespace. Mounts below keep remain
// shared with the old namespace.
func (p private) enter(keep string) error {
	for _, b := range p.binds {
		if strings.HasPrefix(keep+"/", b.target+"/") {
			return fmt.Errorf("node directory %s: below %s, which a kubelet sees its own of", keep, b.target)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	if err := letGo(mounts, keep); err != nil {
		return err
	}
	for _, b := range p.binds {
		// Otherwise the mount would propagate to the machine's namespace.
		holder := holderOf(mounts, b.target)
		if err := unix.Mount("", holder, "", unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make %s private: %w", holder, err)
		}
		if err := unix.Mount(b.source, b.target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s on %s: %w", b.source, b.target, err)
		}
	}
	return nil
}

// letGo detaches other throwaway filesystems from this namespace. Otherwise it would
// hold their loop devices after their owners have unmounted them.
func letGo(mounts []*mountinfo.Info, keep string) error {
	for _, m := range slices.Backward(mounts) {
		if !strings.HasPrefix(m.Source, "/dev/loop") || m.Mountpoint == "/" ||
			strings.HasPrefix(m.Mountpoint+"/", keep+"/") || strings.HasPrefix(keep+"/", m.Mountpoint+"/") {
			continue
		}
		if err := unix.Mount("", m.Mountpoint, "", unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make %s private: %w", m.Mountpoint, err)
		}
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("detach %s: %w", m.Mountpoint, err)
		}
	}
	return nil
}

// holderOf returns the mount point of the mount that contains a path.
func holderOf(mounts []*mountinfo.Info, path string) string {
	holder := "/"
	for _, m := range mounts {
		if strings.HasPrefix(path+"/", strings.TrimSuffix(m.Mountpoint, "/")+"/") && len(m.Mountpoint) >= len(holder) {
			holder = m.Mountpoint
		}
	}
	return holder
}
