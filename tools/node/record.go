package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

// acquire makes this process the owner of the node's directory, which it
// creates if need be. Closing the file gives the node up, and so does the end
// of the process, however it comes.
func acquire(l layout) (*os.File, error) {
	for {
		if err := os.MkdirAll(string(l), 0o711); err != nil {
			return nil, fmt.Errorf("make node directory: %w", err)
		}
		f, err := os.OpenFile(l.lock(), os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			continue // the directory went between the two calls: its owner has just finished
		}
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
		if sameFile(f, l.lock()) {
			return f, nil
		}
		// Locked a file that its owner has just deleted together with the node.
		f.Close()
	}
}

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}
