package fs

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Project is whether statfs of a directory reports a project with a limit (ext4, xfs) instead of
// the filesystem. Capacity is then the limit, and available is what the project may still use. The
// zero value means the filesystem.
//
// The kernel reports the project for a directory whose project new files in it inherit, if project
// quotas are enforced and the limit is below what the filesystem has (ext4_statfs_project,
// xfs_qm_statvfs).
type Project struct {
	ID      uint32
	Limited bool
	Unsure  bool // Limited is assumed: Linux is older than 5.14, or CAP_SYS_ADMIN is missing
}

// fsxattr is struct fsxattr in include/uapi/linux/fs.h.
type fsxattr struct {
	xflags, extsize, nextents, projid, cowextsize uint32
	_                                             [8]byte
}

const (
	fsIocFsgetxattr  = 0x801c581f // FS_IOC_FSGETXATTR, _IOR('X', 31, struct fsxattr)
	xflagProjInherit = 0x200      // FS_XFLAG_PROJINHERIT

	prjQuota      = 2
	qXGetQuota    = 'X'<<8 + 3 // Q_XGETQUOTA
	basicBlock    = 512        // unit of its block limits, in bytes
	getPrjQuota   = qXGetQuota<<8 | prjQuota
	noDescription = ^uintptr(0) // never a valid descriptor
)

// diskQuota is struct fs_disk_quota in include/uapi/linux/dqblk_xfs.h. Filesystems other than xfs
// return it, too.
type diskQuota struct {
	version, flags                                 int8
	fieldmask                                      uint16
	id                                             uint32
	blocksHard, blocksSoft, inodesHard, inodesSoft uint64
	_                                              [72]byte
}

// projectOf reads the project of a directory. The zero value is for a path that is no directory, or
// cannot be opened.
func projectOf(path string) Project {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return Project{}
	}
	defer unix.Close(fd)
	var attr fsxattr
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsIocFsgetxattr, uintptr(unsafe.Pointer(&attr))); errno != 0 || attr.xflags&xflagProjInherit == 0 {
		return Project{}
	}
	quota, err := askQuota(fd, attr.projid)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM):
		return Project{ID: attr.projid, Limited: true, Unsure: true}
	case err != nil: // quotas are off, or the project has none
		return Project{}
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || !quota.limits(&st) {
		return Project{}
	}
	return Project{ID: attr.projid, Limited: true}
}

// askQuota reads a project's limits. The error is ENOSYS if the kernel does not have the system
// call, and ESRCH if the filesystem has no quotas. The kernel returns ENOSYS for both; a call with
// an invalid descriptor tells them apart.
func askQuota(fd int, project uint32) (q diskQuota, err error) {
	ask := func(fd uintptr) error {
		if _, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, fd, getPrjQuota, uintptr(project), uintptr(unsafe.Pointer(&q)), 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
	err = ask(uintptr(fd))
	if errors.Is(err, unix.ENOSYS) && errors.Is(ask(noDescription), unix.EBADF) {
		err = unix.ESRCH
	}
	return q, err
}

// limits reports whether the figures of statfs are a limit of the quota. If the filesystem is
// exactly as large as the limit, either answer is right.
func (q *diskQuota) limits(st *unix.Statfs_t) bool {
	unit := uint64(max(st.Frsize, 1))
	blocks := func(limit uint64) bool { return limit > 0 && limit*basicBlock/unit == st.Blocks }
	inodes := func(limit uint64) bool { return limit > 0 && limit == st.Files }
	return blocks(q.blocksHard) || blocks(q.blocksSoft) || inodes(q.inodesHard) || inodes(q.inodesSoft)
}
