package fs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Identity identifies the mount at a path, its filesystem, and the project whose limit statfs
// reports there. All three are the same in two readings that are equal (==). A reading takes a few
// system calls, where [Locate] reads all mounts.
//
// Since Linux 6.8 a mount's number is never reused. Before, another filesystem can get both the
// mount number and the device number of one that was unmounted; then the directory's birth time and
// the filesystem's own number differ.
type Identity struct {
	Mount    uint64
	Dev, Ino uint64 // as stat(2) has them
	Birth    int64  // ns; 0 where the filesystem has none
	FSID     unix.Fsid
	Project  Project // whose limit statfs reports
}

// Identify returns the identity of the directory or file at path. If there is none, the error wraps
// os.ErrNotExist.
func Identify(path string) (Identity, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return Identity{}, fmt.Errorf("open %q: %w", path, err)
	}
	defer unix.Close(fd)
	var stx unix.Statx_t
	// Kernels without the unique mount number return the other one.
	const mask = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, &stx); err != nil {
		return Identity{}, fmt.Errorf("statx %q: %w", path, err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return Identity{}, fmt.Errorf("statfs %q: %w", path, err)
	}
	return Identity{
		Mount: stx.Mnt_id, Dev: unix.Mkdev(stx.Dev_major, stx.Dev_minor), Ino: stx.Ino,
		Birth: stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec), FSID: st.Fsid, Project: projectOf(path),
	}, nil
}
