package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNone is returned (wrapped) if no v2 hierarchy is mounted.
var ErrNone = errors.New("no cgroup v2 hierarchy is mounted")

// Hierarchy is the mounted v2 hierarchy. Its methods may be called from
// several goroutines.
type Hierarchy struct {
	mount string
	root  *os.File
}

// Open finds the v2 hierarchy among the mounts of this process.
func Open() (*Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find the cgroup hierarchy: %w", err)
	}
	mount, ok := mountPoint(string(mounts))
	if !ok {
		return nil, fmt.Errorf("find the cgroup hierarchy: %w", ErrNone)
	}
	return OpenAt(mount)
}

// OpenAt opens the v2 hierarchy at a mount point.
func OpenAt(mount string) (*Hierarchy, error) {
	root, err := os.Open(mount)
	if err != nil {
		return nil, fmt.Errorf("open the cgroup hierarchy: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		root.Close()
		return nil, fmt.Errorf("open the cgroup hierarchy: %s: %w", mount, errors.Join(ErrNone, err))
	}
	return &Hierarchy{mount: mount, root: root}, nil
}

// Close closes the descriptor.
func (h *Hierarchy) Close() error { return h.root.Close() }

// mountPoint finds the first mount of a whole v2 hierarchy in mountinfo.
func mountPoint(mountinfo string) (string, bool) {
	for line := range strings.Lines(mountinfo) {
		// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS… - TYPE SOURCE OPTIONS
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if ok && len(fields) >= 5 && strings.HasPrefix(after, "cgroup2 ") && fields[3] == "/" {
			return unescape.Replace(fields[4]), true
		}
	}
	return "", false
}

// unescape undoes the kernel's octal escapes of blanks and backslash in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// handleKernfs is FILEID_KERNFS (include/linux/exportfs.h).
const handleKernfs = 0xfe

// Path returns the path of a cgroup from the root of the hierarchy: "/a/b". The error is
// fs.ErrNotExist if the cgroup was removed. Path needs CAP_DAC_READ_SEARCH.
func (h *Hierarchy) Path(id uint64) (string, error) {
	handle := unix.NewFileHandle(handleKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(int(h.root.Fd()), handle, unix.O_PATH|unix.O_CLOEXEC)
	if errors.Is(err, unix.ESTALE) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("find cgroup %d: %w", id, err)
	}
	defer unix.Close(fd)
	full, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
	if err != nil {
		return "", fmt.Errorf("find cgroup %d: %w", id, err)
	}
	// A process in a cgroup namespace of its own sees paths outside of that namespace without the
	// mount point as prefix.
	return "/" + strings.TrimPrefix(strings.TrimPrefix(full, h.mount), "/"), nil
}
