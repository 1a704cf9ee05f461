package watermark

import (
	"context"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Probes are the kernel programs that raise an event when a filesystem reaches its watermark;
// *bpf.Probes implements them.
type Probes interface {
	CanWatch(fsType string) bool
	SetWatermark(dev uint64, fsType string, l bpf.Watermark) error
	ClearWatermark(dev uint64) error
	// Counted returns the free blocks as the programs count them, where they know more than statfs.
	Counted(dev uint64) (free uint64, ok bool, err error)
	// GivenBack returns how many blocks were ever freed there, by any process.
	GivenBack(dev uint64) (blocks uint64, ok bool, err error)
}

// Disk reads filesystems.
type Disk interface {
	Stat(path string) (image.Disk, fs.Info, error)
	// Settle makes the reading exact after a removal; ctx bounds how long that may take. With reached, it
	// also counts everything that was written, unless reached is true before: see [fs.Settle].
	Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error)
	// Identify returns, at low cost, an identity that changes when the path leads somewhere else.
	Identify(path string) (fs.Identity, error)
	// WatchMounts sends to out when mounts changed, and when it has begun to watch.
	WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error
}

// RealDisk is the Disk of a real node.
type RealDisk struct{}

// Stat implements Disk.
func (RealDisk) Stat(path string) (image.Disk, fs.Info, error) { return fs.Stat(path) }

// Settle implements Disk.
func (RealDisk) Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error) {
	return fs.Settle(ctx, path, reached)
}

// Identify implements Disk.
func (RealDisk) Identify(path string) (fs.Identity, error) { return fs.Identify(path) }

// WatchMounts implements Disk.
func (RealDisk) WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error {
	return fs.WatchMounts(ctx, mountinfo, out)
}
