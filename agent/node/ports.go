package node

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/agent/node/workloads"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Runtime is what the agent needs of a container runtime. runtime/containerd
// is the real one; its conformance suite states what each method promises.
type Runtime interface {
	Version() string
	Learn(f inventory.Facts) (changes uint64)
	Learnt(known uint64) (f *inventory.Facts, changes uint64)
	Roots(ctx context.Context) (inventory.Roots, error)
	Inventory(ctx context.Context) (*inventory.Inventory, error)
	ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error)
	Watch(ctx context.Context, out chan<- inventory.Event) error
	Close() error

	reclaim.Runtime
	workloads.Runtime
}

// Probes is what the agent needs of the kernel programs; *bpf.Probes implements it.
type Probes interface {
	lastuse.Probes
	watermark.Probes
	CatchUp() (came bool, err error)
	Crossings(ctx context.Context, out chan<- bpf.Crossing) error
	stats.HeatProbes
	stats.WriterProbes
	stats.ProgramProbes
	Lost() bool
	Close() error
}

// Disk reads filesystems and identifies directories.
type Disk interface {
	watermark.Disk
	lastuse.Disk
}

// RealDisk is the Disk of a real node.
type RealDisk struct {
	watermark.RealDisk
	lastuse.RealDirectories
}
