package fs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Identity tells whether a path still leads to the same mount of the same
// filesystem, and whether statfs speaks of the same there: compare with ==. A few
// system calls, where [Locate] reads all mounts.
//
// From Linux 6.8 on a mount's number is never given again. Before, another
// filesystem can get the numbers of one that was unmounted, mount's and
// device's; then the directory's birth and the filesystem's own number differ.
type Identity struct {
	Mount    uint64
	Dev, Ino uint64 // as stat(2) has them
	Birth    int64  // ns; 0 where the filesystem has none
	FSID     unix.Fsid
	Project  Project // whose limit statfs speaks of
}

// Identify says on what path stands. Of a path that is not there, the error is
// one of os.ErrNotExist.
func Identify(path string) (Identity, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return Identity{}, fmt.Errorf("open %q: %w", path, err)
	}
	defer unix.Close(fd)
	var stx unix.Statx_t
	// Kernels that do not know the unique number answer with the other one.
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
