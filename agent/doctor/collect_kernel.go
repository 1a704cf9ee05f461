package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/fs"
)

func readKernel(o Options) KernelFacts {
	k := KernelFacts{
		Lockdown:   lockdown("/sys/kernel/security/lockdown"),
		BPFFS:      onFilesystem(o.Config.Kernel.PinDirectory, unix.BPF_FS_MAGIC),
		BPFFSKnown: knowsFilesystem(proc+"/filesystems", "bpf"),
		Tracefs:    onFilesystem("/sys/kernel/tracing", unix.TRACEFS_MAGIC),
	}
	release, _ := os.ReadFile(proc + "/sys/kernel/osrelease")
	k.Release = strings.TrimSpace(string(release))
	_, k.BTF = os.Stat("/sys/kernel/btf/vmlinux")
	k.Missing, k.CapsErr = bpf.MissingCapabilities()
	if old := onFilesystem("/sys/kernel/debug/tracing", unix.TRACEFS_MAGIC); !k.Tracefs.Is && old.Is {
		k.Tracefs = old
	}
	hierarchy, err := cgroup.Open()
	if err == nil {
		err = hierarchy.Close()
	}
	k.CgroupV2 = err
	return k
}

// lockdown returns the active mode of a file such as "none [integrity] confidentiality", or "" if
// there is none.
func lockdown(path string) string {
	data, _ := os.ReadFile(path)
	return chosenOf(string(data))
}

var inBrackets = regexp.MustCompile(`\[([^\]]*)\]`)

// chosenOf returns the word in brackets.
func chosenOf(text string) string {
	if found := inBrackets.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// nearest returns dir, or the nearest directory above it that exists.
func nearest(dir string) string {
	for dir != "/" && dir != "." {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func onFilesystem(path string, magic int64) Mounted {
	var st unix.Statfs_t
	if err := unix.Statfs(nearest(path), &st); err != nil {
		return Mounted{Path: path, Err: fmt.Errorf("statfs %s: %w", nearest(path), err)}
	}
	return Mounted{Path: path, Is: int64(st.Type) == magic}
}

// knowsFilesystem reports whether a file has a line such as "nodev\tbpf".
func knowsFilesystem(path, fsType string) bool {
	data, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(data), "\t"+fsType+"\n")
}

// statDirectory reads the filesystem of a directory as the process owner sees it. A nil owner is
// this process.
func statDirectory(path string, owner *kubelet.Process) (Disk, error) {
	if owner == nil || owner.SameMounts() {
		figures, info, err := fs.Stat(path)
		return Disk{Type: info.Type, Mount: info.MountPoint, Dev: info.Dev, Project: info.Project, Figures: figures}, err
	}
	dir, err := owner.Open(path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return Disk{}, err
	}
	defer dir.Close()
	var stx unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return Disk{}, fmt.Errorf("statx %q: %w", path, err)
	}
	figures, err := fs.Disk(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return Disk{}, err
	}
	m, err := mountOf(owner.MountInfo(), stx.Mnt_id)
	if err != nil {
		return Disk{}, err
	}
	return Disk{Type: m.FSType, Mount: m.Mountpoint, Dev: uint64(m.Major)<<20 | uint64(m.Minor), Figures: figures}, nil
}

// mountOf finds a mount in another process's mountinfo.
func mountOf(file string, id uint64) (*mountinfo.Info, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mounts, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) { return uint64(m.ID) != id, uint64(m.ID) == id })
	if err != nil || len(mounts) == 0 {
		return nil, errors.Join(fmt.Errorf("mount %d is not in %s", id, file), err)
	}
	return mounts[0], nil
}
