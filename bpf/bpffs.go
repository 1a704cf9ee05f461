package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultBPFFS is the conventional mount point of bpffs.
const defaultBPFFS = "/sys/fs/bpf"

// ensureBPFFS makes dir a directory on a bpffs. If there is no bpffs it mounts
// one: at defaultBPFFS if dir is below that, at dir itself if not.
func ensureBPFFS(dir string) error {
	on, err := onBPFFS(dir)
	if err != nil {
		return err
	}
	if !on {
		target := dir
		if strings.HasPrefix(dir, defaultBPFFS+"/") {
			target = defaultBPFFS
		} else if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := mountBPFFS(target); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o700)
}

// onBPFFS reports whether dir, or its nearest ancestor that exists, is on a bpffs.
func onBPFFS(dir string) (bool, error) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			return st.Type == unix.BPF_FS_MAGIC, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return false, fmt.Errorf("statfs %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}

// mountBPFFS mounts a bpffs on target, under a lock on target. Without the lock
// two processes could stack two mounts and hide the pins of the first.
func mountBPFFS(target string) error {
	point, err := os.Open(target)
	if err != nil {
		return err
	}
	defer point.Close()
	if err := unix.Flock(int(point.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", target, err)
	}
	if on, err := onBPFFS(target); on || err != nil {
		return err
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("bpf", target, "bpf", flags, "mode=0700"); err != nil {
		return fmt.Errorf("mount bpffs on %s: %w", target, err)
	}
	return nil
}

// claimTries bounds how often claim recreates a directory that another process
// removed.
const claimTries = 1000

// claim creates dir, as ensureBPFFS does, and locks it. The Unload of another
// process may remove dir between the two steps. Then claim creates it again.
func claim(dir string) (lock *os.File, err error) {
	for range claimTries {
		// Check before a mount covers dir, or lands where a symbolic link leads.
		if err = trusted(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err = ensureBPFFS(dir); err != nil {
			err = classify(err)
		} else {
			lock, err = lockDir(dir)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return lock, err
}

// lockDir takes the lock that makes this process the only user of dir. The kernel
// releases it when the file is closed or the process dies. lockDir returns
// fs.ErrNotExist also if dir was removed before it could be locked: no other
// process finds a removed directory, so its lock would exclude none.
func lockDir(dir string) (*os.File, error) {
	if err := trusted(dir); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	ours, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	theirs, err := os.Lstat(dir)
	if err == nil && !os.SameFile(ours, theirs) {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}
