package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remove deletes everything that Open has ever made in dir, and dir itself if nothing else is in
// it. A configuration may name any directory, so other files in it stay. removed counts the deleted
// files and dir. The error is ErrLocked (wrapped) if a process has the file open.
func Remove(dir string) (removed int, err error) {
	path := filepath.Join(dir, File)
	file, err := lock(path)
	if err != nil {
		return 0, fmt.Errorf("remove %s: %w", path, err)
	}
	if file != nil {
		defer file.Close()
	}
	ours, err := filepath.Glob(escape(path) + ".corrupt-*")
	if err != nil {
		return 0, fmt.Errorf("remove state: %w", err)
	}
	fresh, err := lock(path + ".new")
	if err != nil {
		return 0, fmt.Errorf("remove %s.new: %w", path, err)
	}
	if fresh != nil {
		defer fresh.Close()
		ours = append(ours, path+".new")
	}
	if file != nil { // a file that appeared since belongs to another process
		ours = append(ours, path)
	}
	for _, p := range ours {
		err := os.Remove(p)
		switch {
		case err == nil:
			removed++
		case !errors.Is(err, fs.ErrNotExist):
			return removed, fmt.Errorf("remove state: %w", err)
		}
	}
	err = unix.Rmdir(dir)
	if err == nil {
		removed++
	}
	for _, fine := range []error{nil, unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.EBUSY} {
		if errors.Is(err, fine) {
			return removed, nil
		}
	}
	return removed, fmt.Errorf("remove %s: %w", dir, err)
}

// lock takes the lock that bbolt takes, a flock on the file. It returns nil if there is no file,
// and ErrLocked if another process holds the lock.
func lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrLocked
			}
			return nil, err
		}
		if isAt(f, path) {
			return f, nil
		}
		f.Close() // another Remove was faster
	}
}

// isAt reports whether path leads to f.
func isAt(f *os.File, path string) bool {
	ours, err := f.Stat()
	return err == nil && isThere(ours, path)
}

func isThere(file fs.FileInfo, path string) bool {
	found, err := os.Stat(path)
	return err == nil && file != nil && os.SameFile(file, found)
}

// escape returns the glob pattern that matches only path.
func escape(path string) string {
	var out []rune
	for _, r := range path {
		switch r {
		case '*', '?', '[', '\\':
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}
