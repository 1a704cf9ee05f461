package fs

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Project says whether statfs of a directory speaks of a project with a limit (ext4,
// xfs) in place of the filesystem: capacity is the limit then, and what is available is
// what the project may still take. The zero value speaks of the filesystem.
//
// The kernel does so for a directory that hands its project down to what is made in it,
// where project quotas are enforced and the limit is below what the filesystem has
// (ext4_statfs_project, xfs_qm_statvfs).
type Project struct {
	ID      uint32
	Limited bool
	Unsure  bool // Limited because nobody could ask: before Linux 5.14, or without CAP_SYS_ADMIN
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
	basicBlock    = 512        // its unit
	getPrjQuota   = qXGetQuota<<8 | prjQuota
	noDescription = ^uintptr(0) // a descriptor that nobody has
)

// diskQuota is struct fs_disk_quota in include/uapi/linux/dqblk_xfs.h. Filesystems that
// are not xfs answer with it, too.
type diskQuota struct {
	version, flags                                 int8
	fieldmask                                      uint16
	id                                             uint32
	blocksHard, blocksSoft, inodesHard, inodesSoft uint64
	_                                              [72]byte
}

// projectOf reads the project of a directory. What is no directory, or cannot be
// opened, has none.
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
	case err != nil: // no quotas are kept, or none of this project
		return Project{}
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || !quota.limits(&st) {
		return Project{}
	}
	return Project{ID: attr.projid, Limited: true}
}

// askQuota reads a project's limits. ENOSYS says that the kernel has no such call,
// and ESRCH that this filesystem has no quotas, for which the kernel has ENOSYS, too.
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

// limits: the figures of statfs are a limit. Should the filesystem be just as large, it
// makes no difference which of the two they are.
func (q *diskQuota) limits(st *unix.Statfs_t) bool {
	unit := uint64(max(st.Frsize, 1))
	blocks := func(limit uint64) bool { return limit > 0 && limit*basicBlock/unit == st.Blocks }
	inodes := func(limit uint64) bool { return limit > 0 && limit == st.Files }
	return blocks(q.blocksHard) || blocks(q.blocksSoft) || inodes(q.inodesHard) || inodes(q.inodesSoft)
}
