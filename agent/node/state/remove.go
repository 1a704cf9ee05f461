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
// files and dir. The error is ErrLocked (wrapped) if a process has the file open. The caller holds
// the node's lock.
func Remove(dir string) (removed int, err error) {
	path := filepath.Join(dir, File)
	if err := checkUnlocked(path); err != nil {
		return 0, fmt.Errorf("remove %s: %w", path, err)
	}
	aside, err := filepath.Glob(escape(path) + ".corrupt-*")
	if err != nil {
		return 0, fmt.Errorf("remove state: %w", err)
	}
	for _, p := range append(aside, path+suffixNew, path) {
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

// checkUnlocked returns ErrLocked if a process holds the lock that bbolt takes, a flock on the file.
func checkUnlocked(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	} else if err != nil {
		return err
	}
	return nil
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
