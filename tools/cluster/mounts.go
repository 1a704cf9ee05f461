package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// build sets up the machine, from within its namespaces.
func (s setup) build() error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"leave the other mounts", leaveMounts},
		// The loop device writes to a file in this directory, while / is read-only.
		{"mount directory", func() error { return unix.Mount(s.Dir, s.Dir, "", unix.MS_BIND, "") }},
		{"make disk", s.mountDisk},
		{"copy /etc", s.copyEtc},
		{"mount filesystems", s.mountAll},
		{"shield kernel settings", shieldSettings},
		{"make network", makeNetwork},
		{"set host name", func() error { return unix.Sethostname([]byte(s.Name)) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// kept are the mounts that the machine shares with the real one.
var kept = []string{"/proc", "/sys", "/dev"}

// leaveMounts detaches all other mounts, such as those of other throwaway nodes. Their
// owners could not unmount them while this namespace holds them.
func leaveMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if m.Mountpoint == "/" || slices.ContainsFunc(kept, func(dir string) bool {
			return m.Mountpoint == dir || strings.HasPrefix(m.Mountpoint, dir+"/")
		}) {
			continue
		}
		// Detaching a mount detaches those below it.
		err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("detach %s: %w", m.Mountpoint, err)
		}
	}
	return nil
}

// path returns the path at which a part of the machine is prepared before it is moved
// into place.
func (s setup) path(name string) string { return filepath.Join(s.Dir, name) }

// mountDisk makes the disk. mount(8) finds a loop device, which the kernel detaches
// with the last mount.
func (s setup) mountDisk() error {
	if err := errors.Join(os.Mkdir(s.path("var"), 0o755), os.Mkdir(s.path("etc"), 0o755)); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("disk.img"), nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(s.path("disk.img"), s.DiskBytes); err != nil {
		return err
	}
	if err := command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", s.path("disk.img")); err != nil {
		return err
	}
	if err := command("mount", "-o", "loop,discard", s.path("disk.img"), s.path("var")); err != nil {
		return err
	}
	for dir, mode := range map[string]os.FileMode{"lib": 0o755, "log": 0o755, "cache": 0o755, "tmp": 0o777 | os.ModeSticky} {
		path := filepath.Join(s.path("var"), dir)
		if err := errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, mode)); err != nil {
			return err
		}
	}
	return nil
}

func (s setup) copyEtc() error {
	if err := unix.Mount("tmpfs", s.path("etc"), "tmpfs", 0, "mode=755,size=64m"); err != nil {
		return err
	}
	return command("cp", "-a", "/etc/.", s.path("etc"))
}

// mountAll moves all mounts into place. From then on nothing outside the machine can be
// written to, except for Out.
func (s setup) mountAll() error {
	seen, err := s.take()
	if err != nil {
		return err
	}
	// Moved, not bound: a kubelet identifies a device by the first of its mounts.
	for _, m := range [][2]string{{s.path("etc"), "/etc"}, {s.path("var"), "/var"}} {
		if err := unix.Mount(m[0], m[1], "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := readOnly("/"); err != nil {
		return err
	}
	for _, m := range []struct{ fs, path, options string }{
		{"tmpfs", "/run", "mode=755,size=256m"},
		{"tmpfs", "/tmp", "mode=1777,size=512m"},
		{"proc", "/proc", ""},
		{"bpf", "/sys/fs/bpf", "mode=700"}, // each mount is a new instance, without others' pins
	} {
		if err := unix.Mount(m.fs, m.path, m.fs, unix.MS_NOSUID|unix.MS_NODEV, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	if err := s.put(seen); err != nil {
		return err
	}
	// As systemd configures a machine: containerd and the kubelet both see the mounts
	// of pods.
	return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")
}

func readOnly(path string) error {
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// take opens the directories in See before the mounts on /tmp or /var can cover them.
func (s setup) take() ([]int, error) {
	fds := make([]int, len(s.See))
	for i, dir := range s.See {
		fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", dir, err)
		}
		fds[i] = fd
	}
	return fds, nil
}

// put mounts the directories at their old paths, read-only except for Out.
func (s setup) put(fds []int) error {
	for i, dir := range s.See {
		if _, err := os.Stat(dir); err != nil { // covered by a new mount
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		err := unix.MoveMount(fds[i], "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err == nil && dir != s.Out {
			err = readOnly(dir)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", dir, errors.Join(err, unix.Close(fds[i])))
		}
		if err := unix.Close(fds[i]); err != nil {
			return err
		}
	}
	return nil
}

// shieldSettings mounts files over the kernel settings that a kubelet would change. The
// files hold the kubelet's own values, which it leaves unchanged. The real settings are
// shared by the whole kernel.
func shieldSettings() error {
	const dir = "/run/ebb-cluster/settings"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := peers.KubeletSettings(dir)
	if err != nil {
		return err
	}
	for target, source := range files {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", target, err)
		}
	}
	return nil
}

// makeNetwork makes one interface. Its peer is in the same namespace and unused.
func makeNetwork() error {
	for _, args := range []string{
		"link set lo up",
		"link add node0 type veth peer name uplink0",
		"address add " + NodeIP + "/24 dev node0",
		"link set node0 up",
		"link set uplink0 up",
		"route add default via 10.254.0.1 dev node0",
	} {
		if err := command("ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

func command(name string, args ...string) error {
	_, err := process.Output(exec.Command(name, args...))
	return err
}
