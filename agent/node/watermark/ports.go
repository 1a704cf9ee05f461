package watermark

import (
	"context"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Probes are the kernel programs that raise an event when a filesystem reaches its
// watermark; *bpf.Probes has them.
type Probes interface {
	CanWatch(fsType string) bool
	SetWatermark(dev uint64, fsType string, l bpf.Watermark) error
	ClearWatermark(dev uint64) error
	// Counted is the free space as the programs count it, where they know more than statfs.
	Counted(dev uint64) (free uint64, ok bool, err error)
	// GivenBack is how much was ever freed there, by anybody.
	GivenBack(dev uint64) (blocks uint64, ok bool, err error)
}

// Disk reads filesystems.
type Disk interface {
	Stat(path string) (image.Disk, fs.Info, error)
	// Settle makes the reading true after a removal; ctx bounds how long that may take.
	Settle(ctx context.Context, path string) (image.Disk, error)
	// Identify tells cheaply whether a path stands where it stood.
	Identify(path string) (fs.Identity, error)
	// WatchMounts reports that mounts changed, and that it has begun to watch.
	WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error
}

// RealDisk is the Disk of a real node.
type RealDisk struct{}

// Stat implements Disk.
func (RealDisk) Stat(path string) (image.Disk, fs.Info, error) { return fs.Stat(path) }

// Settle implements Disk.
func (RealDisk) Settle(ctx context.Context, path string) (image.Disk, error) {
	return fs.Settle(ctx, path)
}

// Identify implements Disk.
func (RealDisk) Identify(path string) (fs.Identity, error) { return fs.Identify(path) }

// WatchMounts implements Disk.
func (RealDisk) WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error {
	return fs.WatchMounts(ctx, mountinfo, out)
}
