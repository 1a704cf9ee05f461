package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

// ErrInUse is returned (wrapped) when a living process owns what was asked for.
var ErrInUse = errors.New("owned by a living process")

const (
	lockName = "lock"

	// patience bounds the wait for what the kernel takes away by itself, of which it
	// tells nobody: it needs milliseconds.
	patience = 15 * time.Second
)

// claim makes this process the owner of a directory, from which it removes what a
// dead owner left. The returned file holds the lock, together with the machine's
// first process, which inherits it.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := tryLock(dir)
	if err != nil {
		return nil, err
	}
	if err := empty(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("remove what is left of an earlier machine: %w", err), lock.Close())
	}
	return lock, nil
}

// tryLock takes the lock of a directory. The owner deletes both at its end: whoever
// opened a lock that is then gone has the lock of nothing.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Nlink == 0 {
			err = ErrInUse // of the one that is just ending
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// remove takes away what the kernel leaves of a machine whose lock the caller holds.
func remove(dir string) error {
	if err := empty(dir); err != nil {
		return fmt.Errorf("remove machine: %w", err)
	}
	err := errors.Join(os.Remove(filepath.Join(dir, lockName)), os.Remove(dir))
	if err != nil && !errors.Is(err, unix.ENOTEMPTY) { // a new owner is there already
		return fmt.Errorf("remove machine: %w", err)
	}
	return nil
}

func empty(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(cgroup.Remove(ctx, Cgroup(dir)), loopfs.AwaitDetached(ctx, dir)); err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s: something is mounted below it", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Clean removes every machine below base that no living process owns, and returns
// the names of those that are gone.
func Clean(base string, log *slog.Logger) ([]string, error) {
	entries, err := os.ReadDir(base)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("clean machines: %w", err)
	}
	var (
		gone []string
		errs []error
	)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if _, err := os.Lstat(filepath.Join(dir, lockName)); !e.IsDir() || err != nil {
			continue // not ours
		}
		lock, err := tryLock(dir)
		if errors.Is(err, ErrInUse) {
			log.Info("machine left alone", "name", e.Name(), "reason", "a living process owns it")
			continue
		}
		if err == nil {
			err = errors.Join(remove(dir), lock.Close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("clean machine %s: %w", e.Name(), err))
			continue
		}
		gone = append(gone, e.Name())
	}
	return gone, errors.Join(errs...)
}
