package lastuse

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/fs"
)

// Directory identifies a directory, even if another one has or had the same path or inode number. Birth
// is its creation time in ns, 0 where the filesystem has none.
type Directory struct {
	Dev, Ino uint64
	Birth    int64
}

// RealDirectories is the Disk of a real node.
type RealDirectories struct{}

// Directory implements Disk.
func (RealDirectories) Directory(path string) (Directory, error) {
	place, err := fs.Locate(path)
	if err != nil {
		return Directory{}, err
	}
	var stx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &stx); err != nil {
		return Directory{}, fmt.Errorf("statx %q: %w", path, err)
	}
	d := Directory{Dev: place.Dev, Ino: place.Ino}
	if stx.Mask&unix.STATX_BTIME != 0 {
		d.Birth = stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
	}
	return d, nil
}
