package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/fs"
)

// Usage is one reading of a node's filesystem, counted as the kubelet does: available
// is the space left for unprivileged writers.
type Usage struct {
	CapacityBytes  uint64
	AvailableBytes uint64
	UsedPercent    float64 // 100 − available·100/capacity
}

// settleMost bounds the wait for an exact figure.
const settleMost = 30 * time.Second

// Usage syncs the filesystem, so that the figures include delayed allocation and
// deletion (btrfs counts neither before), and reads it.
func (n *Node) Usage() (Usage, error) {
	dir, err := os.Open(n.Mount())
	if err != nil {
		return Usage{}, fmt.Errorf("read usage: %w", err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return Usage{}, fmt.Errorf("sync filesystem: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return Usage{}, fmt.Errorf("read usage: %w", err)
	}
	u := Usage{
		CapacityBytes:  st.Blocks * uint64(st.Frsize),
		AvailableBytes: st.Bavail * uint64(st.Frsize),
	}
	if n.config.FS == "btrfs" { // statfs leaves out a block group that is just being removed
		ctx, cancel := context.WithTimeout(context.Background(), settleMost)
		defer cancel()
		disk, err := fs.Settle(ctx, n.Mount(), nil)
		if err != nil {
			return Usage{}, fmt.Errorf("read usage: %w", err)
		}
		u.AvailableBytes = disk.AvailableBytes
	}
	if u.CapacityBytes > 0 {
		u.UsedPercent = 100 - 100*float64(u.AvailableBytes)/float64(u.CapacityBytes)
	}
	return u, nil
}

// AtRest returns Usage once two readings in a row are equal: xfs and btrfs free deleted
// space with a delay.
func (n *Node) AtRest(ctx context.Context) (u Usage, err error) {
	const every = 20 * time.Millisecond
	for last := u; ; last = u {
		if u, err = n.Usage(); err != nil || u == last {
			return u, err
		}
		select {
		case <-ctx.Done():
			return u, fmt.Errorf("the disk does not come to rest: %w", context.Cause(ctx))
		case <-time.After(every):
		}
	}
}

// Fill appends that many bytes to a file of that name on the node's filesystem, outside
// containerd's root. They are written, not only allocated, and not synced, as when a
// container fills a disk.
func (n *Node) Fill(name string, bytes int64) error { return n.append(name, bytes, false) }

// append appends to a file; exactly: without what xfs preallocates meanwhile, up to the size of the file.
func (n *Node) append(name string, bytes int64, exactly bool) (err error) {
	path, err := n.fillPath(name)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	if exactly && n.config.FS == "xfs" {
		st, err := f.Stat()
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		// On a disk that has less left, the writes below fill it.
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, st.Size(), bytes)
	}
	chunk := make([]byte, min(bytes, 1<<20))
	// Incompressible, should a filesystem compress.
	rand.NewChaCha8([32]byte{1}).Read(chunk) //nolint:errcheck // never fails
	for left := bytes; left > 0; {
		written, err := f.Write(chunk[:min(left, int64(len(chunk)))])
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		left -= int64(written)
	}
	// xfs preallocates for a file that grows, and keeps that through a close if the
	// file grows repeatedly. Truncating the file to its size frees it.
	st, err := f.Stat()
	if err == nil {
		err = f.Truncate(st.Size())
	}
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// fillTime bounds FillTo. Each round writes as many bytes as the reading shows missing.
// The filesystem's own allocations bring the target nearer. A process that frees space
// at the same time, such as an agent, eventually has nothing left to remove.
const fillTime = time.Minute

// FillTo fills the filesystem to at least that usage, in percent as Usage counts, or
// until nothing more can be written. On a fuller filesystem it does nothing. The bytes
// go to the file of that name, as with Fill. The filesystem is at no time much fuller than asked for.
func (n *Node) FillTo(name string, percent float64) error {
	if percent < 0 || percent > 100 {
		return fmt.Errorf("fill to %g %%: want 0 to 100", percent)
	}
	for deadline := time.Now().Add(fillTime); time.Now().Before(deadline); {
		u, err := n.Usage()
		if err != nil {
			return err
		}
		keep := float64(u.CapacityBytes) * (100 - percent) / 100
		missing := int64(math.Ceil(float64(u.AvailableBytes) - keep))
		if missing <= 0 {
			return nil
		}
		if err := n.append(name, missing, true); errors.Is(err, unix.ENOSPC) {
			return nil // xfs keeps some of what it reports as available for itself
		} else if err != nil {
			return err
		}
	}
	u, err := n.Usage()
	if err == nil && u.UsedPercent < percent {
		err = fmt.Errorf("fill to %g %%: stuck at %.2f %%", percent, u.UsedPercent)
	}
	return err
}

// Unfill deletes the file that Fill wrote under that name. A missing file is no error.
func (n *Node) Unfill(name string) error {
	path, err := n.fillPath(name)
	if err != nil {
		return fmt.Errorf("unfill: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("unfill: %w", err)
	}
	return nil
}

// fillPath returns the path of a fill file, and rejects names that would leave its
// directory.
func (n *Node) fillPath(name string) (string, error) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name || name == "." {
		return "", fmt.Errorf("bad file name %q", name)
	}
	return n.at.fill(name), nil
}
