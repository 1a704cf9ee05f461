package podlogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrMount is returned (wrapped) if something is mounted inside a directory, so that it cannot be
// removed.
var ErrMount = errors.New("a filesystem is mounted there")

// maxDepth bounds how deep directories are followed, and with it the open files:
// the kubelet makes POD/CONTAINER/FILE.
const maxDepth = 32

// beneath is how openat2 resolves a directory in another one.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Dir is an open directory of logs. It is not safe for concurrent use.
type Dir struct {
	path string
	file *os.File
}

// Open opens /var/log/pods or /var/log/containers, or another directory in their place. Links on
// the way to it are followed, because administrators move /var/log; path itself must not be a link.
// The error is fs.ErrNotExist if the directory does not exist: no kubelet has run here.
func Open(path string) (*Dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open logs", Path: path, Err: err}
	}
	return &Dir{path: path, file: os.NewFile(uintptr(fd), path)}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.file.Close() }

// Directory is the logs of one pod.
type Directory struct {
	Entry    string // its name in the directory
	Pod      Pod
	Modified time.Time // when a container's logs were last added or removed
}

// Directories lists the logs of pods, in no order. Entries that the kubelet would not name so are
// not its own, and left out.
func (d *Dir) Directories() ([]Directory, error) {
	var found []Directory
	err := d.each(func(e fs.DirEntry) error {
		pod, ok := ParseDirectory(e.Name())
		if !ok || !e.IsDir() {
			return nil
		}
		var st unix.Stat_t
		err := unix.Fstatat(int(d.file.Fd()), e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "stat logs", Path: filepath.Join(d.path, e.Name()), Err: err}
		}
		found = append(found, Directory{e.Name(), pod, time.Unix(st.Mtim.Unix())})
		return nil
	})
	return found, err
}

// Link is a link to a container's log.
type Link struct {
	Entry       string
	ContainerID string
}

// DeadLinks lists the links that lead nowhere, in no order. While a log is rotated, its link leads
// nowhere for a moment: the caller must keep the links of containers that exist.
func (d *Dir) DeadLinks() ([]Link, error) {
	var found []Link
	err := d.each(func(e fs.DirEntry) error {
		id, ok := parseLink(e.Name())
		if !ok || e.Type() != fs.ModeSymlink {
			return nil
		}
		var st unix.Stat_t
		err := unix.Fstatat(int(d.file.Fd()), e.Name(), &st, 0)
		// A loop (ELOOP) leads nowhere, too. Any other error proves nothing.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			found = append(found, Link{e.Name(), id})
		}
		return nil
	})
	return found, err
}

// RemoveLink removes a link. For anything else it returns an error.
func (d *Dir) RemoveLink(entry string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.file.Fd()), entry, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK:
		err = errors.New("not a link")
	case err == nil:
		err = unix.Unlinkat(int(d.file.Fd()), entry, 0) // never removes a directory in its place
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove link", Path: filepath.Join(d.path, entry), Err: err}
	}
	return nil
}

// RemoveDirectory removes the logs of one pod, as [Dir.Directories] named them. It continues after
// an error, and returns all errors, at most ten for each directory.
func (d *Dir) RemoveDirectory(ctx context.Context, entry string) error {
	if _, ok := ParseDirectory(entry); !ok {
		return &fs.PathError{Op: "remove logs", Path: filepath.Join(d.path, entry), Err: fs.ErrInvalid}
	}
	if err := remove(ctx, d.file, entry, 0); err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	return nil
}

// each calls f with every entry, from the beginning, a few at a time.
func (d *Dir) each(f func(fs.DirEntry) error) error {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	return entries(d.file, f)
}

func entries(dir *os.File, f func(fs.DirEntry) error) error {
	for {
		some, err := dir.ReadDir(256)
		for _, e := range some {
			if err := f(e); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list logs: %w", err)
		}
	}
}

// RemoveLog removes the log of a container at path, and the files that the kubelet rotated it to:
// FILE and FILE.*, as its containerLogManager.Clean does. path has to be POD/CONTAINER/FILE below
// the directory, and POD the directory of the pod with this UID; otherwise nothing is removed, and
// that is no error. Directories are kept.
func (d *Dir) RemoveLog(path, uid string) error {
	rel, err := filepath.Rel(d.path, path)
	parts := strings.Split(rel, string(filepath.Separator))
	if err != nil || len(parts) != 3 || uid == "" {
		return nil
	}
	if pod, ok := ParseDirectory(parts[0]); !ok || pod.UID != uid || parts[1] == ".." {
		return nil
	}
	at := d.file
	for _, name := range parts[:2] {
		below, err := openBeneath(at, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer below.Close()
		at = below
	}
	var errs []error
	err = entries(at, func(e fs.DirEntry) error {
		if name := e.Name(); !e.IsDir() && (name == parts[2] || strings.HasPrefix(name, parts[2]+".")) {
			errs = appendError(errs, unlink(at, name, 0))
		}
		return nil
	})
	return errors.Join(appendError(errs, err)...)
}

// remove removes name from the directory above, and what is in it.
func remove(ctx context.Context, above *os.File, name string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := openBeneath(above, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if depth == maxDepth {
		return &fs.PathError{Op: "enter", Path: dir.Name(), Err: errors.New("too deep to be logs")}
	}
	if err := empty(ctx, dir, depth); err != nil {
		return err
	}
	return unlink(above, name, unix.AT_REMOVEDIR)
}

// empty removes everything in a directory. It repeats the listing until it is empty, because the
// kernel may omit entries that are created while others are removed. After an error it does not
// repeat.
func empty(ctx context.Context, dir *os.File, depth int) error {
	var errs []error
	for removed := true; removed && len(errs) == 0; {
		removed = false
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := entries(dir, func(e fs.DirEntry) error {
			removed = true
			var err error
			if e.IsDir() {
				err = remove(ctx, dir, e.Name(), depth+1)
			} else {
				err = unlink(dir, e.Name(), 0)
			}
			errs = appendError(errs, err)
			return ctx.Err()
		})
		errs = appendError(errs, err)
	}
	return errors.Join(errs...)
}

func appendError(errs []error, err error) []error {
	const most = 10 // a directory can have ten thousand mounts
	if err == nil || len(errs) >= most {
		return errs
	}
	return append(errs, err)
}

// openBeneath opens a directory in another. Anything but a directory is an error.
func openBeneath(above *os.File, name string) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath}
	path := filepath.Join(above.Name(), name)
	fd, err := retry(func() (int, error) { return unix.Openat2(int(above.Fd()), name, how) })
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, &fs.PathError{Op: "enter", Path: path, Err: ErrMount}
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		// It was a directory when it was listed. The next list shows what it is now.
		return nil, &fs.PathError{Op: "enter", Path: path, Err: errors.New("is a link or no directory now")}
	case errors.Is(err, unix.ENOSYS):
		return nil, &fs.PathError{Op: "enter", Path: path, Err: errors.New("openat2 is missing: Linux 5.6 or newer is needed")}
	case err != nil:
		return nil, &fs.PathError{Op: "enter", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func unlink(above *os.File, name string, flags int) error {
	err := unix.Unlinkat(int(above.Fd()), name, flags)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.EBUSY): // a mount point: a file or an empty directory
		err = ErrMount
	}
	return &fs.PathError{Op: "remove", Path: filepath.Join(above.Name(), name), Err: err}
}

// retry calls f again, up to 127 times, while a signal interrupts it (EINTR), or while concurrent
// renames keep openat2 from verifying that the path is beneath (EAGAIN).
func retry(f func() (int, error)) (fd int, err error) {
	for range 128 {
		fd, err = f()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}
