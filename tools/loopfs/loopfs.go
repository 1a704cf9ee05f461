package loopfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	mounts "github.com/ebb-agent/ebb/runtime/fs"
)

// FS is a mounted filesystem.
type FS struct {
	Kind string // ext4, xfs or btrfs
	Dir  string // mount point, or a directory below it in which ways work
	Dev  uint64 // as in mountinfo: on btrfs, stat(2) returns another one

	undo []func() // called by Release
}

// plain holds the default mkfs options. They keep mkfs from asking, and the kernel from
// initialising in the background.
var plain = map[string][]string{
	"ext4":  {"-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":   {"-q"},
	"btrfs": {"-q"},
}

var made atomic.Uint64 // number in file names, unique across filesystems

// New makes a filesystem of size bytes and mounts it at dir, which it creates. The backing
// file is in memory, so that no disk's noise affects measurements. options are further mkfs
// options.
func New(dir, kind string, size int64, options ...string) (*FS, error) {
	// mkfs.btrfs treats loop devices whose files have the same name as one device.
	name := fmt.Sprintf("loopfs-%d-%d", os.Getpid(), made.Add(1))
	memory, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	f := os.NewFile(uintptr(memory), name)
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return nil, fmt.Errorf("size file in memory: %w", err)
	}
	loop, err := Attach(f)
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	args := append(append([]string{}, plain[kind]...), options...)
	if out, err := exec.Command("mkfs."+kind, append(args, loop.Name())...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.%s: %w: %s (apt-get install e2fsprogs xfsprogs btrfs-progs)", kind, err, out)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount(loop.Name(), dir, kind, 0, ""); err != nil {
		return nil, fmt.Errorf("mount %s: %w", kind, err)
	}
	place, err := mounts.Locate(dir)
	if err != nil {
		return nil, errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH))
	}
	return &FS{Kind: kind, Dir: dir, Dev: place.Dev}, nil
}

// tries bounds how often another process may take the free loop device first.
const tries = 100

// Attach attaches a loop device to a file. The kernel detaches it with its last user.
func Attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range tries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprint("/dev/loop", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if err != unix.EBUSY {
			return nil, fmt.Errorf("set up loop device: %w", err)
		}
	}
	return nil, errors.New("every loop device was taken by somebody else first")
}

// Shutdown shuts down the filesystem of a directory (ext4, xfs). Data not yet on its disk is
// lost, and all access to the disk fails with EIO, until the filesystem is mounted again.
func Shutdown(dir *os.File) error {
	const (
		shutdown   = 0x8004587d // _IOR('X', 125, __u32)
		noLogFlush = 2
	)
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, noLogFlush); err != nil {
		return fmt.Errorf("shut filesystem down: %w", err)
	}
	return nil
}

// Close closes the files and mappings of ways, and unmounts.
func (fs *FS) Close() error {
	fs.Release()
	if err := unix.Unmount(fs.Dir, 0); err != nil {
		return errors.Join(fmt.Errorf("unmount %s: %w", fs.Dir, err), unix.Unmount(fs.Dir, unix.MNT_DETACH))
	}
	return nil
}

// Clear removes the files that ways have made. Their steps must not be called again.
func (fs *FS) Clear() error {
	fs.Release()
	files, err := filepath.Glob(filepath.Join(fs.Dir, prefix+"[0-9]*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	return fs.Sync()
}

// Release closes the files and mappings that ways hold open.
func (fs *FS) Release() {
	for _, undo := range fs.undo {
		undo()
	}
	fs.undo = nil
}

// Sync writes all data back, so that statfs is exact.
func (fs *FS) Sync() error {
	fd, err := unix.Open(fs.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", fs.Dir, err)
	}
	defer unix.Close(fd)
	if err := unix.Syncfs(fd); err != nil {
		return fmt.Errorf("sync %s: %w", fs.Dir, err)
	}
	return nil
}

// Free returns the free blocks and inodes from statfs, as a watermark without a reserve for
// root counts them.
func (fs *FS) Free() (blocks, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(fs.Dir, &st); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", fs.Dir, err)
	}
	if fs.Kind == "btrfs" {
		return st.Bavail, 0, nil
	}
	return st.Bfree, st.Ffree, nil
}
