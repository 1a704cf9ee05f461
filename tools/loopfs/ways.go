package loopfs

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const block = 4096

// Way is a way of allocating space. Begin prepares it. Each step then allocates a
// little, and fails permanently when there is no more space.
type Way struct {
	Name    string
	Reflink bool // not for ext4
	// Metadata: on btrfs the way allocates metadata only, or mostly. The commit itself
	// writes some of it.
	Metadata bool
	Begin    func(fs *FS) (step func() error, err error)
}

// Ways lists all ways.
var Ways = []Way{
	{Name: "buffered", Begin: appending(0)},
	{Name: "direct", Begin: appending(unix.O_DIRECT)},
	{Name: "synced", Begin: appending(unix.O_SYNC)},
	{Name: "mapped", Begin: intoMappedHoles},
	{Name: "fallocate", Begin: fallocating},
	{Name: "fallocate of files", Begin: fallocatingFiles},
	{Name: "unwritten", Begin: intoUnwritten},
	{Name: "truncate and write", Begin: truncating},
	{Name: "copy", Begin: copying},
	{Name: "tiny files", Metadata: true, Begin: tinyFiles},
	{Name: "directories", Metadata: true, Begin: directories},
	{Name: "unpacking", Metadata: true, Begin: unpacking},
	{Name: "write into reflink", Reflink: true, Begin: intoReflink(0)},
	{Name: "direct write into reflink", Reflink: true, Begin: intoReflink(unix.O_DIRECT)},
	{Name: "mapped reflink", Reflink: true, Begin: intoMappedReflink},
}

// prefix is the prefix of the names of files that ways make.
const prefix = "way-"

// WayNamed returns the way of that name, and panics if there is none.
func WayNamed(name string) Way {
	for _, w := range Ways {
		if w.Name == name {
			return w
		}
	}
	panic("no way is named " + name)
}

// Path returns a new file name, which Clear removes.
func (fs *FS) Path() string {
	return filepath.Join(fs.Dir, fmt.Sprint(prefix, made.Add(1)))
}

// open makes a new file, closed by Release.
func (fs *FS) open(flags int) (*os.File, error) {
	f, err := os.OpenFile(fs.Path(), os.O_CREATE|os.O_RDWR|flags, 0o644)
	if err == nil {
		fs.undo = append(fs.undo, func() { f.Close() })
	}
	return f, err
}

// page returns a page of memory that O_DIRECT accepts.
func (fs *FS) page() ([]byte, error) {
	b, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		fs.undo = append(fs.undo, func() { unix.Munmap(b) })
	}
	return b, err
}

func (fs *FS) shared(f *os.File, size int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		fs.undo = append(fs.undo, func() { unix.Munmap(b) })
	}
	return b, err
}

func appending(flags int) func(*FS) (func() error, error) {
	return func(fs *FS) (func() error, error) {
		page, err := fs.page()
		if err != nil {
			return nil, err
		}
		f, err := fs.open(flags)
		return func() error {
			_, err := f.Write(page)
			return err
		}, err
	}
}

// errEnd ends a way when its file is used up.
var errEnd = fmt.Errorf("the file is used up: %w", unix.ENOSPC)

func intoMappedHoles(fs *FS) (func() error, error) {
	const size = 64 << 20
	f, err := fs.open(0)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	holes, err := fs.shared(f, size)
	at := 0
	return func() error {
		if at == size {
			return errEnd
		}
		holes[at] = 1
		at += block
		return nil
	}, err
}

func fallocating(fs *FS) (func() error, error) {
	f, err := fs.open(0)
	size := int64(0)
	return func() error {
		size += block
		return unix.Fallocate(int(f.Fd()), 0, size-block, block)
	}, err
}

func fallocatingFiles(fs *FS) (func() error, error) {
	return func() error {
		f, err := os.Create(fs.Path())
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fallocate(int(f.Fd()), 0, 0, 16*block)
	}, nil
}

// intoUnwritten allocates with fallocate, more at a time than the writes that follow.
// The writes convert unwritten extents to written ones, and may split them.
func intoUnwritten(fs *FS) (func() error, error) {
	const ahead = 32 * block
	page, err := fs.page()
	if err != nil {
		return nil, err
	}
	f, err := fs.open(0)
	at := int64(0)
	return func() error {
		if at%ahead == 0 {
			if err := unix.Fallocate(int(f.Fd()), 0, at, ahead); err != nil {
				return err
			}
		}
		_, err := f.WriteAt(page, at)
		at += block
		return err
	}, err
}

func truncating(fs *FS) (func() error, error) {
	page, err := fs.page()
	if err != nil {
		return nil, err
	}
	f, err := fs.open(0)
	size := int64(0)
	return func() error {
		size += 1 << 20
		if err := f.Truncate(size); err != nil {
			return err
		}
		_, err := f.WriteAt(page, size-block)
		return err
	}, err
}

func copying(fs *FS) (func() error, error) {
	from, err := fs.Filled(1)
	if err != nil {
		return nil, err
	}
	to, err := fs.open(0)
	// One byte less than a block: a partial block cannot be shared.
	return func() error {
		in := int64(0)
		_, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), nil, block-1, 0)
		return err
	}, err
}

func tinyFiles(fs *FS) (func() error, error) {
	text := make([]byte, 1900)
	return func() error { return os.WriteFile(fs.Path(), text, 0o644) }, nil
}

func directories(fs *FS) (func() error, error) {
	return func() error { return os.Mkdir(fs.Path(), 0o755) }, nil
}

func unpacking(fs *FS) (func() error, error) {
	sizes, n := []int{100, 5000, 70000, 300, 12000}, 0
	return func() error {
		n++
		dir := fs.Path()
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(dir, fs.Path()); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "f"), make([]byte, sizes[n%len(sizes)]), 0o644)
	}, nil
}

// cloned is the number of blocks of a shared file. Every other block is written to, so
// that each becomes an extent of its own.
const cloned = 16384

func intoReflink(flags int) func(*FS) (func() error, error) {
	return func(fs *FS) (func() error, error) {
		page, err := fs.page()
		if err != nil {
			return nil, err
		}
		clone, err := fs.clone()
		if err != nil {
			return nil, err
		}
		f, err := os.OpenFile(clone.Name(), os.O_RDWR|flags, 0)
		if err != nil {
			return nil, err
		}
		fs.undo = append(fs.undo, func() { f.Close() })
		at := int64(0)
		return func() error {
			if at >= cloned*block {
				return errEnd
			}
			_, err := f.WriteAt(page, at)
			at += 2 * block
			return err
		}, nil
	}
}

func intoMappedReflink(fs *FS) (func() error, error) {
	f, err := fs.clone()
	if err != nil {
		return nil, err
	}
	shared, err := fs.shared(f, cloned*block)
	at := 0
	return func() error {
		if at >= len(shared) {
			return errEnd
		}
		shared[at] = 1
		at += 2 * block
		return nil
	}, err
}

// Filled makes a file of that many blocks, written to the disk.
func (fs *FS) Filled(blocks int) (*os.File, error) {
	f, err := fs.open(0)
	if err != nil {
		return nil, err
	}
	for range blocks / 16 {
		if _, err := f.Write(make([]byte, 16*block)); err != nil {
			return nil, err
		}
	}
	if _, err := f.Write(make([]byte, blocks%16*block)); err != nil {
		return nil, err
	}
	return f, f.Sync()
}

// clone makes a file that shares all its blocks with another one.
func (fs *FS) clone() (*os.File, error) {
	from, err := fs.Filled(cloned)
	if err != nil {
		return nil, err
	}
	to, err := fs.open(0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		return nil, fmt.Errorf("reflink: %w", err)
	}
	return to, fs.Sync()
}
