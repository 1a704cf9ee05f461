package node

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// Runtime is what the agent needs of a container runtime. runtime/containerd
// is the real one; runtime/runtimetest states what each method promises.
type Runtime interface {
	Version() string
	Learn(f inventory.Facts) (changes uint64)
	Learnt(known uint64) (f *inventory.Facts, changes uint64)
	Roots(ctx context.Context) (inventory.Roots, error)
	Inventory(ctx context.Context) (*inventory.Inventory, error)
	Check(ctx context.Context, ids ...string) (map[string]inventory.Image, error)
	Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error)
	Remove(ctx context.Context, imageID string) error
	Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error)
	Mend(ctx context.Context) (mended []string, err error)
	ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error)
	Watch(ctx context.Context, out chan<- inventory.Event) error

	Workloads(ctx context.Context) (inventory.Workloads, error)
	ContainerNow(ctx context.Context, id string) (state container.State, finished time.Time, err error)
	SandboxNow(ctx context.Context, id string) (ready bool, containers int, err error)
	Do(ctx context.Context, s container.Step) error
	Close() error
}

// PodSource knows which pods are bound to this node; runtime/kube has two.
type PodSource interface {
	Run(ctx context.Context, changed chan<- struct{}) error
	Pods(ctx context.Context) (kube.Pods, error)
	Pass() kube.Pass
}

// Probes is what the agent needs of the kernel programs; *bpf.Probes has it.
type Probes interface {
	Track(k bpf.Key) error
	Untrack(k bpf.Key) error
	Tracked() []bpf.Key
	LastUse(k bpf.Key) (bootNS uint64, ok bool, err error)
	LastUses() (map[bpf.Key]uint64, error)
	Purge(beforeBootNS uint64) error
	CatchUp() (came bool, err error)
	CanWatch(fsType string) bool
	SetLine(dev uint64, fsType string, l bpf.Line) error
	Counted(dev uint64) (free uint64, ok bool, err error)
	GivenBack(dev uint64) (blocks uint64, ok bool, err error)
	ClearLine(dev uint64) error
	Crossings(ctx context.Context, out chan<- bpf.Crossing) error
	CanCountWriters(fsType string) bool
	CountWriters(devs ...uint64) error
	Writers() ([]bpf.Writer, error)
	ForgetWriters(ended ...bpf.Writer) error
	Heat() ([]bpf.LayerHeat, error)
	ForgetHeat(gone ...bpf.HeatKey) error
	HeatTier() (tier string, why error)
	Counters() (bpf.Counters, error)
	Status() []bpf.ProgramStatus
	Lost() bool
	Close() error
}

// Disk reads filesystems. runtime/fs is the real one.
type Disk interface {
	Stat(path string) (image.Disk, fs.Info, error)
	// Settle makes the reading true after a removal; ctx bounds how long that
	// may take.
	Settle(ctx context.Context, path string) (image.Disk, error)
	// Directory identifies a directory.
	Directory(path string) (Directory, error)
	// Identify tells cheaply whether a path stands where it stood.
	Identify(path string) (fs.Identity, error)
	// WatchMounts reports that mounts changed, and that it has begun to watch.
	WatchMounts(ctx context.Context, mountinfo string, out chan<- struct{}) error
}

// Directory is what tells a directory from another one at the same path, or
// with the same inode number. Birth is its creation time in ns, 0 where the
// filesystem has none.
type Directory struct {
	Dev, Ino uint64
	Birth    int64
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

// Directory implements Disk.
func (RealDisk) Directory(path string) (Directory, error) {
	place, err := fs.Locate(path)
	if err != nil {
		return Directory{}, err
	}
	var stx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &stx); err != nil {
		return Directory{}, fmt.Errorf("statx %q: %w", path, err)
	}
	d := Directory{Dev: place.Dev, Ino: place.Ino}
	if stx.Mask&unix.STATX_BTIME != 0 {
		d.Birth = stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
	}
	return d, nil
}

// reading is one exact look at a filesystem.
type reading struct {
	image.Disk
	fs.Info
}

func (a *Agent) stat(path string) (reading, error) {
	d, info, err := a.disk.Stat(path)
	if err != nil {
		return reading{}, fmt.Errorf("read the filesystem of %s: %w", path, err)
	}
	return reading{Disk: d, Info: info}, nil
}
