package fs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
)

// Info describes the filesystem of a reading, beside the figures in [image.Disk].
type Info struct {
	Type       string // "ext4", "xfs", "btrfs", …: as mountinfo names it
	MountPoint string
	Dev        uint64 // the superblock's s_dev, as the kernel encodes it: major<<20 | minor
	Compressed bool   // a mount option has it compress all new files, so that they take less than what is written

	// Project is not the zero value if the figures are those of a project.
	Project Project

	// The raw statfs counters, in units of BlockSize. Free − Avail is what the
	// filesystem reserves for root.
	BlockSize uint64
	Blocks    uint64
	Free      uint64
	Avail     uint64
}

// Stat reads the filesystem that holds path.
func Stat(path string) (image.Disk, Info, error) {
	place, err := Locate(path)
	if err != nil {
		return image.Disk{}, Info{}, err
	}
	disk, info, err := statfs(path)
	if err != nil {
		return image.Disk{}, Info{}, err
	}
	info.Type, info.MountPoint, info.Dev, info.Compressed = place.Type, place.MountPoint, place.Dev, place.Compressed
	info.Project = projectOf(path)
	return disk, info, nil
}

// Disk reads only the figures: one system call, no allocation to speak of.
func Disk(path string) (image.Disk, error) {
	disk, _, err := statfs(path)
	return disk, err
}

func statfs(path string) (image.Disk, Info, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return image.Disk{}, Info{}, fmt.Errorf("statfs %q: %w", path, err)
	}
	// f_frsize is the unit of the block counts. Kernels before 2.6 left it 0.
	unit := uint64(max(st.Frsize, 0))
	if unit == 0 {
		unit = uint64(max(st.Bsize, 0))
	}
	disk := image.Disk{
		CapacityBytes:   st.Blocks * unit,
		AvailableBytes:  st.Bavail * unit,
		Inodes:          st.Files,
		InodesAvailable: st.Ffree,
	}
	return disk, Info{BlockSize: unit, Blocks: st.Blocks, Free: st.Bfree, Avail: st.Bavail}, nil
}

// Place is the location of a file or directory.
type Place struct {
	Dev        uint64 // s_dev of the superblock
	Ino        uint64
	Type       string // filesystem type
	MountPoint string
	Compressed bool // the filesystem compresses what is written: see [Info]
}

// Locate returns the superblock that path is on, and its inode number there.
func Locate(path string) (Place, error) {
	// The descriptor pins the mount, so that its ID cannot be reused between statx and the read of
	// mountinfo.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return Place{}, fmt.Errorf("open %q: %w", path, err)
	}
	defer unix.Close(fd)

	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &stx); err != nil {
		return Place{}, fmt.Errorf("statx %q: %w", path, err)
	}
	if stx.Mask&unix.STATX_MNT_ID == 0 {
		return Place{}, fmt.Errorf("statx %q: the kernel gives no mount ID (needs Linux 5.8)", path)
	}
	m, err := findMount(stx.Mnt_id)
	if err != nil {
		return Place{}, fmt.Errorf("locate %q: %w", path, err)
	}
	return Place{Dev: m.dev, Ino: stx.Ino, Type: m.fsType, MountPoint: m.mountPoint, Compressed: m.compressed}, nil
}

// fsIocGetversion is FS_IOC_GETVERSION, _IOR('v', 1, long), with longs of 64 bits.
const fsIocGetversion = 0x80087601

// Generation returns a directory's inode generation. It differs from that of an earlier directory
// with the same inode number. It is 0 if the filesystem does not report one; ext4, xfs and btrfs
// do.
func Generation(path string) uint32 {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	generation, err := unix.IoctlGetUint32(fd, fsIocGetversion)
	if err != nil {
		return 0
	}
	return generation
}
