package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned (wrapped) by Start when a living process owns a node of
// that name.
var ErrInUse = errors.New("owned by a living process")

// record is what a node's directory says about itself. Cleaning up needs only
// the directory's name; the rest is for Attach and for people.
type record struct {
	Name       string    `json:"name"`
	FS         string    `json:"fs"`
	SizeBytes  int64     `json:"sizeBytes"`
	Containerd Flavor    `json:"containerd"`
	OwnerPID   int       `json:"ownerPID"`
	Created    time.Time `json:"created"`
}

func writeRecord(l layout, c Config) error {
	data, err := json.MarshalIndent(record{
		Name: c.Name, FS: c.FS, SizeBytes: c.SizeBytes, Containerd: c.Containerd,
		OwnerPID: os.Getpid(), Created: time.Now().UTC(),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	// By rename, so that nobody reads half a record.
	tmp := l.record() + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return os.Rename(tmp, l.record())
}

func readRecord(l layout) (record, error) {
	var r record
	data, err := os.ReadFile(l.record())
	if err != nil {
		return r, fmt.Errorf("read record: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read record %s: %w", l.record(), err)
	}
	return r, nil
}

// openBase creates the base directory and returns its real path: the kernel
// reports mounts and loop devices by that.
func openBase(base string) (string, error) {
	if err := os.MkdirAll(base, 0o711); err != nil {
		return "", fmt.Errorf("make base directory: %w", err)
	}
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return "", fmt.Errorf("resolve base directory: %w", err)
	}
	return base, nil
}

// lockBase waits for the lock on the base directory, under which nodes come
// and go. It is held for moments only. With it, whoever finds a node's
// directory finds it owned, or left behind, but never half made.
func lockBase(base string) (*os.File, error) {
	dir, err := os.Open(base)
	if err != nil {
		return nil, fmt.Errorf("open base directory: %w", err)
	}
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, unix.EINTR) {
			dir.Close()
			return nil, fmt.Errorf("lock base directory: %w", err)
		}
	}
}

// acquire makes this process the owner of the node's directory, which it
// creates if need be. Closing the file gives the node up, and so does the end
// of the process, however it comes.
func acquire(l layout) (*os.File, error) {
	base, err := lockBase(filepath.Dir(string(l)))
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if err := os.MkdirAll(string(l), 0o711); err != nil {
		return nil, fmt.Errorf("make node directory: %w", err)
	}
	f, err := os.OpenFile(l.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("node %s: %w", l.name(), ErrInUse)
		}
		return nil, fmt.Errorf("lock node %s: %w", l.name(), err)
	}
	return f, nil
}

// Info is what List tells of a node.
type Info struct {
	Name       string
	Dir        string
	FS         string
	SizeBytes  int64
	Containerd Flavor
	OwnerPID   int
	Created    time.Time
	Owned      bool // by a living process; if not, Clean removes it
}

// List returns the nodes below a base directory, owned or left behind.
func List(base string) ([]Info, error) {
	base, err := openBase(base)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	lock, err := lockBase(base)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	defer lock.Close()
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var nodes []Info
	for _, e := range entries {
		l := layout(filepath.Join(base, e.Name()))
		if !e.IsDir() || !isNode(l) {
			continue
		}
		// No record: left behind by a process that died before it wrote one.
		r, err := readRecord(l)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		nodes = append(nodes, Info{
			Name: l.name(), Dir: string(l), FS: r.FS, SizeBytes: r.SizeBytes,
			Containerd: r.Containerd, OwnerPID: r.OwnerPID, Created: r.Created, Owned: isOwned(l),
		})
	}
	return nodes, nil
}

// isOwned tries the node's lock; the caller holds the base directory's, so
// that nobody mistakes the attempt for an owner.
func isOwned(l layout) bool {
	f, err := os.Open(l.lock())
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}
