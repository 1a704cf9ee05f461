package lastuse

import (
	"context"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Probes are the kernel programs that stamp uses; *bpf.Probes implements it.
type Probes interface {
	Track(k bpf.Key) error
	Untrack(k bpf.Key) error
	Tracked() []bpf.Key
	LastUse(k bpf.Key) (bootNS uint64, ok bool, err error)
	LastUses() (map[bpf.Key]uint64, error)
	Purge(beforeBootNS uint64) error
	Counters() (bpf.Counters, error)
}

// Resolver finds the directory of a layer. It may take long.
type Resolver interface {
	ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error)
}

// Disk identifies directories.
type Disk interface {
	Directory(path string) (Directory, error)
}
