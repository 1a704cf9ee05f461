// Package quotatest sets up project quotas (ext4, xfs) for tests, without the tools that machines
// lack.
package quotatest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MountOption is the mount option that enforces project quotas.
const MountOption = "prjquota"

// MkfsOptions are the options of mkfs that a filesystem type needs for project quotas.
var MkfsOptions = map[string][]string{"ext4": {"-I", "256", "-O", "quota,project"}}

type fsxattr struct {
	xflags, extsize, nextents, projid, cowextsize uint32
	_                                             [8]byte
}

const (
	fsIocFsgetxattr  = 0x801c581f
	fsIocFssetxattr  = 0x401c5820
	xflagProjInherit = 0x200
)

// Assign assigns a tree to a project, and with it all that will be made in it.
func Assign(root string, project uint32) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			if errors.Is(err, os.ErrNotExist) && path != root {
				err = nil // it was deleted in the meantime
			}
			return err
		}
		err = assign(path, project, e.IsDir())
		if errors.Is(err, os.ErrNotExist) && path != root {
			err = nil
		}
		return err
	})
}

func assign(path string, project uint32, directory bool) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var attr fsxattr
	if err := ioctl(f, fsIocFsgetxattr, &attr); err != nil {
		return fmt.Errorf("read the project of %s: %w", path, err)
	}
	attr.projid = project
	if directory {
		attr.xflags |= xflagProjInherit
	}
	if err := ioctl(f, fsIocFssetxattr, &attr); err != nil {
		return fmt.Errorf("give %s to project %d: %w", path, project, err)
	}
	return nil
}

func ioctl(f *os.File, request uintptr, attr *fsxattr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(attr))); errno != 0 {
		return errno
	}
	return nil
}

// diskQuota is struct fs_disk_quota, with names for what is set here.
type diskQuota struct {
	version, flags                                 int8
	fieldmask                                      uint16
	id                                             uint32
	blocksHard, blocksSoft, inodesHard, inodesSoft uint64
	_                                              [72]byte
}

const (
	prjQuota   = 2
	qXSetQLim  = 'X'<<8 + 4
	allLimits  = 1 | 2 | 4 | 8 // FS_DQ_ISOFT, FS_DQ_IHARD, FS_DQ_BSOFT, FS_DQ_BHARD
	basicBlock = 512
)

// Limit sets how many bytes and inodes a project may use on the filesystem of a directory; 0 is no
// limit.
func Limit(dir string, project uint32, bytes, inodes uint64) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	q := diskQuota{version: 1, flags: prjQuota, fieldmask: allLimits, id: project, blocksHard: bytes / basicBlock, inodesHard: inodes}
	if _, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), qXSetQLim<<8|prjQuota, uintptr(project), uintptr(unsafe.Pointer(&q)), 0, 0); errno != 0 {
		return fmt.Errorf("set the limit of project %d on %s: %w", project, dir, errno)
	}
	return nil
}
