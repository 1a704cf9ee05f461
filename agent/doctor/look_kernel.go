package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// needed are the capabilities that bpf asks for.
var needed = []struct {
	bit uint
	Capability
}{
	{unix.CAP_BPF, Capability{"CAP_BPF", "create maps and programs"}},
	{unix.CAP_PERFMON, Capability{"CAP_PERFMON", "trace the kernel"}},
	{unix.CAP_SYS_ADMIN, Capability{"CAP_SYS_ADMIN", "mount bpffs and trace modules"}},
}

func lookAtKernel(o Options) KernelFacts {
	var k KernelFacts
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		k.Release = unix.ByteSliceToString(name.Release[:])
	}
	k.BTF = readable("/sys/kernel/btf/vmlinux")
	k.Lockdown = lockdown("/sys/kernel/security/lockdown")
	k.Missing, k.CapsErr = missingCapabilities()
	k.BPFFS = onFilesystem(o.Config.Kernel.PinDirectory, unix.BPF_FS_MAGIC)
	k.BPFFSKnown = knowsFilesystem(filepath.Join(o.Proc, "filesystems"), "bpf")
	k.Tracefs = onFilesystem("/sys/kernel/tracing", unix.TRACEFS_MAGIC)
	if !k.Tracefs.Is {
		if old := onFilesystem("/sys/kernel/debug/tracing", unix.TRACEFS_MAGIC); old.Is {
			k.Tracefs = old
		}
	}
	hierarchy, err := cgroup.Open()
	if err == nil {
		err = hierarchy.Close()
	}
	k.CgroupV2 = err
	return k
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

// lockdown reads "none [integrity] confidentiality"; "" if that is not there.
func lockdown(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return ""
	}
	return chosenOf(string(data))
}

// chosenOf returns the word in brackets.
func chosenOf(text string) string {
	_, after, _ := strings.Cut(text, "[")
	word, _, ok := strings.Cut(after, "]")
	if !ok {
		return ""
	}
	return word
}

func missingCapabilities() ([]Capability, error) {
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return nil, err
	}
	has := func(bit uint) bool { return caps[bit/32].Effective&(1<<(bit%32)) != 0 }
	var missing []Capability
	for _, c := range needed {
		// CAP_SYS_ADMIN implies the other two.
		if !has(c.bit) && !has(unix.CAP_SYS_ADMIN) {
			missing = append(missing, c.Capability)
		}
	}
	return missing, nil
}

// onFilesystem looks at a directory, or its nearest ancestor that exists.
func onFilesystem(path string, magic int64) Mounted {
	m := Mounted{Path: path}
	for dir := path; ; dir = filepath.Dir(dir) {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			m.Is = int64(st.Type) == magic
			return m
		}
		if !errors.Is(err, os.ErrNotExist) || dir == "/" || dir == "." {
			m.Err = fmt.Errorf("statfs %s: %w", dir, err)
			return m
		}
	}
}

func knowsFilesystem(path, fsType string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for l := range strings.Lines(string(data)) {
		if fields := strings.Fields(l); len(fields) > 0 && fields[len(fields)-1] == fsType {
			return true
		}
	}
	return false
}

// statDirectory reads the filesystem of a directory, as a process sees it; nil
// is this one.
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
	mounts, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) {
		return uint64(m.ID) != id, uint64(m.ID) == id
	})
	if err != nil || len(mounts) == 0 {
		return nil, errors.Join(fmt.Errorf("mount %d is not in %s", id, file), err)
	}
	return mounts[0], nil
}
