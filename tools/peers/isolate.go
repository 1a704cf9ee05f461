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

// private is what a kubelet would else have in common with the machine: paths
// that it cannot be told, and kernel settings that it makes. In a mount
// namespace of its own, directories and files of ours lie over them.
type private struct {
	binds []bind
}

type bind struct{ source, target string }

// KubeletSettings writes, below dir, a file for each kernel setting that a kubelet
// makes, with the value it wants, and returns them by the path in /proc/sys to lay
// them over. Settings that this kernel does not have are left out.
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

// sysctls are those that a kubelet sets, with the values it wants: where it
// finds them it leaves them. It wants them so that a machine of its own
// survives; ours is not its own.
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
	// /var/lib/kubelet/device-plugins and /var/log/containers are written into
	// the kubelet's code. What is covered lies above them and exists on any
	// machine: nothing needs to be made there.
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

// enter moves the calling thread into a mount namespace of its own. What is
// mounted below keep stays shared with the one it comes from.
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
		// Else the machine's own namespace would get the mount, too.
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

// letGo detaches other throwaway filesystems from this namespace, which would
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

// holderOf returns the mount point that a path lies below.
func holderOf(mounts []*mountinfo.Info, path string) string {
	holder := "/"
	for _, m := range mounts {
		if strings.HasPrefix(path+"/", strings.TrimSuffix(m.Mountpoint, "/")+"/") && len(m.Mountpoint) >= len(holder) {
			holder = m.Mountpoint
		}
	}
	return holder
}
