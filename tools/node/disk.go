package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/fs/quotatest"
	"github.com/ebb-agent/ebb/tools/loopfs"
	"github.com/ebb-agent/ebb/tools/owned"
	"github.com/ebb-agent/ebb/tools/process"
)

// mkfs holds the command for each filesystem. ext4 keeps its default reserve, because
// tests need space that only root can use. It initialises its inode tables at once:
// done lazily, that would raise the usage after the mount.
var mkfs = map[string][]string{
	"ext4":  {"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":   {"mkfs.xfs", "-q", "-f"},
	"btrfs": {"mkfs.btrfs", "-q", "-f"},
}

// makeDisk creates the filesystem and mounts it.
func makeDisk(ctx context.Context, l layout, fs string, size int64, quotas bool) error {
	if err := createDisk(ctx, l, fs, size, quotas); err != nil {
		return err
	}
	return mountDisk(l, fs, quotas)
}

func createDisk(ctx context.Context, l layout, fs string, size int64, quotas bool) error {
	f, err := os.OpenFile(l.disk(), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create disk: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("create disk: %w", err)
	}
	args := slices.Clone(mkfs[fs][1:])
	if quotas {
		args = append(args, quotatest.MkfsOptions[fs]...)
	}
	args = append(args, l.disk())
	if _, err := process.Output(exec.CommandContext(ctx, mkfs[fs][0], args...)); err != nil {
		return fmt.Errorf("make %s filesystem: %w", fs, err)
	}
	return nil
}

func mountDisk(l layout, fs string, quotas bool) error {
	f, err := os.OpenFile(l.disk(), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open disk: %w", err)
	}
	defer f.Close()
	options := ""
	if quotas {
		options = quotatest.MountOption
	}
	loop, err := loopfs.Attach(f)
	if err != nil {
		return fmt.Errorf("attach loop device: %w", err)
	}
	defer loop.Close()
	if err := os.MkdirAll(l.mount(), 0o711); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if err := unix.Mount(loop.Name(), l.mount(), fs, 0, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", loop.Name(), l.mount(), err)
	}
	return nil
}

// abandonDisk shuts the filesystem down, so that the unmount does not write back data
// that is deleted next. That write-back takes a minute and more if many nodes share a
// slow disk. btrfs has no shutdown and is written back.
func abandonDisk(l layout) error {
	dir, err := os.Open(l.mount())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EIO) { // not made yet, or abandoned before
		return nil
	}
	if err != nil {
		return fmt.Errorf("abandon filesystem: %w", err)
	}
	defer dir.Close()
	// Without the mount, the directory is on the machine's own filesystem. Only a
	// filesystem on this node's file is shut down.
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("abandon filesystem: %w", err)
	}
	backing, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/loop/backing_file", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil || strings.TrimSuffix(string(backing), "\n") != l.disk() {
		return nil
	}
	return loopfs.Shutdown(dir)
}

// kernelMounts are the filesystems that kernel programs and their traces need.
var kernelMounts = []struct {
	path, fstype string
	magic        int64
}{
	{"/sys/kernel/tracing", "tracefs", unix.TRACEFS_MAGIC},
	{"/sys/fs/bpf", "bpf", unix.BPF_FS_MAGIC},
}

// ensureKernelMounts mounts tracefs and bpffs where they are missing. The lock
// on the base directory keeps two nodes from mounting one on top of the other.
func ensureKernelMounts(base string) error {
	lock, err := owned.LockBase(base)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, m := range kernelMounts {
		var st unix.Statfs_t
		if err := unix.Statfs(m.path, &st); err != nil {
			return fmt.Errorf("statfs %s: %w", m.path, err)
		}
		if int64(st.Type) == m.magic {
			continue
		}
		if err := unix.Mount(m.fstype, m.path, m.fstype, 0, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.fstype, m.path, err)
		}
	}
	return nil
}
