// Package owned manages directories that belong to a living process, for throwaway nodes,
// machines and control planes. The owner holds a lock (flock) on the file "lock" in its
// directory, and so does every child that inherits it. If no process holds the lock, a
// crash has left the directory behind.
package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned (wrapped) when a living process owns a directory.
var ErrInUse = errors.New("owned by a living process")

// LockName is the name of the file whose lock means ownership of its directory.
const LockName = "lock"

// Release removes what a dead owner has left outside its directory, or mounted in it.
type Release func(dir string) error

// LockBase waits for the lock on the base directory, which every creation and removal of
// an owned directory takes. Hold it only for moments. Under it, each directory is either
// owned or left behind, never half made.
func LockBase(base string) (*os.File, error) {
	if err := os.MkdirAll(base, 0o711); err != nil {
		return nil, fmt.Errorf("make base directory: %w", err)
	}
	f, err := os.Open(base)
	if err != nil {
		return nil, fmt.Errorf("open base directory: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock base directory: %w", err)
		}
	}
}

// Claim makes this process the owner of a directory, and deletes what a dead owner left in
// it. Closing the file gives up the directory, and so does the end of all processes that
// have it open.
func Claim(dir string, release Release) (*os.File, error) {
	lock, err := Acquire(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 1 { // more than the lock
		if err = release(dir); err == nil {
			err = empty(dir)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("remove what an earlier owner left in %s: %w", dir, err), lock.Close())
	}
	return lock, nil
}

// Acquire is Claim without the deletion, for a directory whose owner ended with the
// machine and whose content is to be kept.
func Acquire(dir string) (*os.File, error) {
	base, err := LockBase(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// empty deletes everything but the lock, by which the directory is recognised.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == LockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes a directory whose lock the caller holds. The lock is deleted last: while
// anything is left, the next Clean recognises the directory.
func Remove(dir string, release Release) error {
	err := release(dir)
	if err == nil {
		err = empty(dir)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	base, err := LockBase(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer base.Close()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// Clean removes every directory below base that no living process owns, and returns the
// names of the removed ones. It continues after an error and returns all errors. Cleaning
// again resumes where it stopped.
func Clean(base string, log *slog.Logger, release Release) (gone []string, err error) {
	// The kernel reports mounts and loop devices by their real path.
	base, err = filepath.EvalSymlinks(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("clean: %w", err)
	}
	names, err := list(base)
	if err != nil {
		return nil, fmt.Errorf("clean: %w", err)
	}
	var errs []error
	for _, name := range names {
		dir := filepath.Join(base, name)
		lock, err := Acquire(dir)
		if errors.Is(err, ErrInUse) {
			log.Info("left alone", "directory", dir, "reason", ErrInUse)
			continue
		}
		if err == nil {
			err = errors.Join(Remove(dir, release), lock.Close())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, name)
	}
	return gone, errors.Join(errs...)
}

// list returns the names of the owned directories below base. The lock is created first
// and deleted last. An empty directory is one whose owner died in between.
func list(base string) (names []string, err error) {
	lock, err := LockBase(base)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(base, e.Name()))
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(filepath.Join(base, e.Name(), LockName)); err == nil || len(files) == 0 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
