package bpf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// usage watches how full filesystems are. At each allocation usage_TYPE.bpf.c compares the
// filesystem's own counters with a [Watermark]. When free space has fallen to it, the
// program sends one [Crossing] and disarms the watermark. The watermark is armed again when
// free space was above a second, higher figure, or when user space sets it again.
//
// A watermark belongs to a superblock and is kept when that is unmounted. The next
// superblock can have the same number, so the code that follows mounts must clear the
// watermark.
//
// An event is never late. It can be early:
//
//   - ext4: while promised blocks (those reserved for delayed allocation) become allocated
//     ones, they count twice, as in statfs(2) (ext4_statfs, fs/ext4/super.c;
//     ext4_mb_new_blocks, fs/ext4/mballoc.c; ext4_da_reserve_space, fs/ext4/inode.c).
//   - xfs: by what transactions hold at the moment and by what is preallocated for files
//     being written, as in statfs(2) (xfs_fs_statfs, fs/xfs/xfs_super.c; xfs_trans_reserve;
//     xfs_buffered_write_iomap_begin, fs/xfs/xfs_iomap.c).
//   - btrfs: statfs(2) shows growth up to half a minute late (btrfs_statfs,
//     btrfs_calc_avail_data_space), so promised bytes count as well
//     (btrfs_reserve_data_bytes, fs/btrfs/space-info.c; btrfs_add_reserved_bytes,
//     fs/btrfs/block-group.c). They can be more than is used in the end. Freed space counts
//     from the next commit on, so overwriting can raise one event for each headroom's
//     worth. Metadata that a commit adds counts when the block group for it is made.
//
// On btrfs, therefore, the caller makes statfs exact (fs.Settle) before it decides
// anything, and compares a watermark it has set with [Probes.Counted]. A caller that gets
// early events in quick succession leaves time between them.
type usage struct {
	pins       *pins
	nearBlocks uint32

	mu   sync.Mutex          // guards all below
	on   map[string]usageSet // by type of filesystem; nil once closed
	more chan struct{}       // closed when another type has been attached
}

// usageSet is the result of loading the object for one type of filesystem.
type usageSet struct {
	attachment
	closely *closeWatch // nil if there is no near program
}

func (u *usage) parts() (all []part) {
	for _, fsType := range fsTypes {
		load := func(types *btf.Cache) error { return u.load(types, fsType) }
		all = append(all, part{objectUsage + fsType, u.on[fsType].err, load})
	}
	return all
}

// load brings up the watermarks of one type of filesystem.
func (u *usage) load(types *btf.Cache, fsType string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	o, err := usageObject(fsType, u.nearBlocks)
	if err != nil {
		return err
	}
	s, err := u.pins.open(o, types)
	if err == nil {
		err = u.reset(o, s)
	}
	if err != nil {
		err = classify(err)
		u.pins.warn("usage is not watched", err, "type", fsType)
		if s != nil {
			err = errors.Join(err, s.close())
		}
		u.on[fsType] = usageSet{attachment: attachment{err: err}}
		return nil
	}
	u.on[fsType] = usageSet{attachment{set: s}, newCloseWatch(s, u.nearBlocks)}
	close(u.more)
	u.more = make(chan struct{})
	return nil
}

// watermarkMaps names the maps with an entry for each filesystem that has a watermark. Not
// every object has all of them.
var watermarkMaps = []string{mapWatches, mapCounted, mapGivenBack}

// reset forgets the watermarks of the process before. If their filesystems are gone, their
// entries would take up room for ever. It also removes the outdated sets of o.
func (u *usage) reset(o *object, s *set) error {
	for _, name := range watermarkMaps {
		m, ok := s.maps[name]
		if !ok {
			continue
		}
		var dev uint64
		for m.NextKey(nil, &dev) == nil {
			if err := deleteKey(m, dev); err != nil {
				return fmt.Errorf("clear watermark: %w", err)
			}
		}
	}
	return u.pins.removeOutdated(o)
}

func (u *usage) close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, on := range u.on {
		errs = append(errs, on.closely.close(), on.attachment.close())
	}
	u.on = nil
	return errors.Join(errs...)
}

func (u *usage) status() (all []ProgramStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, fsType := range fsTypes {
		on := u.on[fsType]
		programs := on.statusOf(objectUsage+fsType, usageTypes[fsType].attach, approximation(on.set))
		on.closely.status(programs)
		all = append(all, programs...)
	}
	return all
}

func (u *usage) count(c *Counters) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, fsType := range fsTypes {
		cpus, err := countersOf[usageCounters](u.on[fsType].attachment, objectUsage+fsType, mapUsageCounts, c)
		if err != nil {
			return err
		}
		for _, n := range cpus {
			c.Checked += n.Checked
			c.Summed += n.Summed
			c.Approximate += n.Approximate
			c.Raised += n.Raised
			c.Neared += n.Neared
			c.Rearmed += n.Rearmed
			c.CrossingsHeld += n.RingFull
		}
	}
	return nil
}

// CanWatch reports whether a filesystem of this type can have a watermark. Only CatchUp
// changes the answer.
func (u *usage) CanWatch(fsType string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.on[fsType].set != nil
}

// maps returns the maps called name, of all objects that are attached and have one.
func (u *usage) maps(name string) (all []*ebpf.Map) {
	for _, on := range u.on {
		if on.set != nil && on.set.maps[name] != nil {
			all = append(all, on.set.maps[name])
		}
	}
	return all
}

// reason returns why no filesystem is watched; nil if one type is.
func (u *usage) reason() error {
	var errs []error
	for _, fsType := range fsTypes {
		on := u.on[fsType]
		if on.set != nil {
			return nil
		}
		if on.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", fsType, on.err))
		}
	}
	return errors.Join(errs...)
}
