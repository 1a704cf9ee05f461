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
	Dir  string // where it is mounted, or a directory below for ways to work in
	Dev  uint64 // as mountinfo has it: on btrfs, stat(2) gives another

	undo []func() // what Release gives back
}

// plain has no options but those that keep the tools from asking and the kernel
// from initialising in the background.
var plain = map[string][]string{
	"ext4":  {"-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":   {"-q"},
	"btrfs": {"-q"},
}

var made atomic.Uint64 // names files, of any filesystem

// New makes a filesystem of so many bytes and mounts it at dir, which it makes.
// Its file is in memory: no disk's noise gets into what is measured. More options
// are those of mkfs.
func New(dir, kind string, size int64, options ...string) (*FS, error) {
	// mkfs.btrfs takes loop devices for the same whose files bear one name.
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

// tries bounds how often somebody else may be first to take a free loop device.
const tries = 100

// Attach gives a file a loop device that goes with its last user.
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

// Shutdown ends the filesystem of a directory where it stands (ext4, xfs): what is not on
// its disk yet is given up, and all that asks for its disk gets EIO, until it is mounted anew.
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

// Close gives back what ways hold and unmounts.
func (fs *FS) Close() error {
	fs.Release()
	if err := unix.Unmount(fs.Dir, 0); err != nil {
		return errors.Join(fmt.Errorf("unmount %s: %w", fs.Dir, err), unix.Unmount(fs.Dir, unix.MNT_DETACH))
	}
	return nil
}

// Clear removes what ways have made. They must not be stepped again.
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

// Release closes what ways hold open.
func (fs *FS) Release() {
	for _, undo := range fs.undo {
		undo()
	}
	fs.undo = nil
}

// Sync makes what statfs says true.
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

// Free is what statfs says, in the terms of a watermark that keeps nothing back for
// root: blocks and inodes.
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
