package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned (wrapped) when a living process owns what was asked for.
var ErrInUse = errors.New("owned by a living process")

const (
	defaultBase = "/var/tmp/ebb-peers"
	lockName    = "lock"
)

// BaseDir is where control planes live unless a Config says otherwise:
// $EBB_PEERS_DIR, or /var/tmp/ebb-peers.
func BaseDir() string {
	if dir := os.Getenv("EBB_PEERS_DIR"); dir != "" {
		return dir
	}
	return defaultBase
}

// lockBase waits for the lock on the base directory, under which directories
// come and go. It is held for moments only. With it, whoever finds a directory
// finds it owned, or left behind, but never half made.
func lockBase(base string) (*os.File, error) {
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

// claim makes this process the owner of a directory, empty but for its lock:
// what a dead owner left there is deleted. The returned file holds the lock,
// together with every child that inherits it; the directory is free once all of
// them have closed it.
func claim(dir string) (*os.File, error) {
	base, err := lockBase(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := tryLock(dir)
	if err != nil {
		return nil, err
	}
	if err := empty(dir); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// empty deletes all but the lock, by which the directory is known.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("empty directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty directory: %w", err)
		}
	}
	return nil
}

// discard deletes a directory whose lock the caller holds.
func discard(dir string) error {
	base, err := lockBase(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer base.Close()
	if err := empty(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// Clean deletes every control plane below base that is owned by no living
// process, and returns the names of those that are gone. Their processes are
// gone already: the kernel kills them with their owner.
func Clean(base string, log *slog.Logger) ([]string, error) {
	entries, err := os.ReadDir(base)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("clean control planes: %w", err)
	}
	var (
		gone []string
		errs []error
	)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if !e.IsDir() || !ours(dir) {
			continue
		}
		lock, err := tryLock(dir)
		if errors.Is(err, ErrInUse) {
			log.Info("control plane left alone", "name", e.Name(), "reason", "a living process owns it")
			continue
		}
		if err == nil {
			err = errors.Join(discard(dir), lock.Close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("clean control plane %s: %w", e.Name(), err))
			continue
		}
		gone = append(gone, e.Name())
	}
	return gone, errors.Join(errs...)
}

// ours tells a control plane's directory from a stranger's: the lock is there
// from the first moment to the last.
func ours(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, lockName))
	return err == nil
}

// poll asks again every few milliseconds until done says so, fails, or the
// context ends: for what gives no event to wait for.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
