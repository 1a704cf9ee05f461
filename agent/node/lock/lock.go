package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld is what errors.Is finds in a [HeldError].
var ErrHeld = errors.New("another ebb-agent runs on this node")

// HeldError is returned if another process holds the lock.
type HeldError struct {
	Path   string
	Holder Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: %s holds %s", ErrHeld, e.Holder, e.Path)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Lock is held until it is released, or the process dies.
type Lock struct {
	file *os.File
	path string
}

// pause is the time between two attempts of Acquire.
const pause = 50 * time.Millisecond

// Acquire takes the lock at path, and writes self into the file. While another process has the lock,
// Acquire tries again for as long as wait; then it returns a *HeldError.
func Acquire(ctx context.Context, path string, wait time.Duration, self Holder) (*Lock, error) {
	deadline := time.Now().Add(wait)
	for {
		l, err := attempt(path)
		switch {
		case err == nil && l != nil:
			l.sign(self)
			return l, nil
		case err != nil && !errors.Is(err, ErrHeld):
			return nil, cannot(path, err)
		case err != nil && !time.Now().Before(deadline):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func cannot(path string, err error) error {
	hint := ""
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
		hint = "; mount its directory writable, or set state.lockFile to a path that is"
	}
	return fmt.Errorf("lock %s: %w%s", path, err, hint)
}

// attempt takes the lock if it is free. It returns neither a lock nor an error if the file was unlinked
// during the attempt: then the lock is not the one that other processes see.
func attempt(path string) (_ *Lock, err error) {
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &HeldError{Path: path, Holder: holderOf(f)}
	}
	if err != nil {
		return nil, err
	}
	if !isAt(f, path) {
		return nil, f.Close()
	}
	return &Lock{file: f, path: path}, nil
}

// tries bounds how often create makes a directory again that vanishes.
const tries = 1000

// create opens the file, and makes it and its directory if they are missing. The [Lock.Remove] of
// another process may remove the directory between the two steps, or between those of [os.MkdirAll].
// Then create makes it again.
func create(path string) (f *os.File, err error) {
	for range tries {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			f, err = open(path, unix.O_RDWR|unix.O_CREAT)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}

// open does not follow a link at the end of path: a process that may write to the directory must not
// choose which file root truncates.
func open(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func isAt(f *os.File, path string) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Lstat(path)
	return err == nil && os.SameFile(ours, theirs)
}

// sign writes the holder into the file. An agent whose note cannot be written runs all the same.
func (l *Lock) sign(self Holder) {
	line, err := json.Marshal(self)
	if err != nil || len(line) >= maxNote {
		return
	}
	if l.file.Truncate(0) == nil {
		_, _ = l.file.WriteAt(append(line, '\n'), 0)
	}
}

// Release releases the lock. The file stays, and is empty.
func (l *Lock) Release() error {
	_ = l.file.Truncate(0)
	return l.file.Close()
}

// Remove unlinks the file, removes its directory if nothing else is in it, and releases the lock. The
// directory is ebb's own by convention only, so it may have other files. Once the file is unlinked, the
// lock is free. Its next holder may already be removing the directory, too.
func (l *Lock) Remove() error {
	err := os.Remove(l.path)
	if err == nil {
		err = unix.Rmdir(filepath.Dir(l.path))
		for _, fine := range []error{unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.EBUSY} {
			if errors.Is(err, fine) {
				err = nil
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("remove lock %s: %w", l.path, err)
	}
	return errors.Join(err, l.file.Close())
}

// Look returns the holder of the lock at path; held is false if there is none. It writes nothing.
func Look(path string) (h Holder, held bool, err error) {
	f, err := open(path, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look at lock %s: %w", path, err)
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return Holder{}, false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return holderOf(f), true, nil
	default:
		return Holder{}, false, fmt.Errorf("look at lock %s: %w", path, err)
	}
}
