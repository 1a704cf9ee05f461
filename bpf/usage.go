package bpf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// usage watches how full filesystems are. At each allocation usage_TYPE.bpf.c compares
// the filesystem's own counters with a [Watermark] and sends one [Crossing] when free space
// has come down to it. The watermark is then disarmed until free space was above a second,
// higher figure, or user space sets it again. A watermark belongs to a superblock and stays
// when that is unmounted, and the next one can have its number: whoever follows mounts
// clears it.
//
// An event is never late. It can be early:
//   - ext4: while promised blocks become allocated ones, they count twice, as for
//     statfs(2) (ext4_statfs, fs/ext4/super.c; ext4_mb_new_blocks, fs/ext4/mballoc.c;
//     ext4_da_reserve_space, fs/ext4/inode.c).
//   - xfs: by what transactions hold at the moment and what files being written were
//     given in advance, as for statfs(2) (xfs_fs_statfs, fs/xfs/xfs_super.c;
//     xfs_trans_reserve; xfs_buffered_write_iomap_begin, fs/xfs/xfs_iomap.c).
//   - btrfs: statfs(2) shows growth up to half a minute late (btrfs_statfs,
//     btrfs_calc_avail_data_space), so what was promised counts as well
//     (btrfs_reserve_data_bytes, fs/btrfs/space-info.c; btrfs_add_reserved_bytes,
//     fs/btrfs/block-group.c). That can be more than will be taken, and what is freed
//     counts from the next commit on: overwriting can raise one event for each
//     headroom's worth. What a commit adds to the metadata counts when the block group
//     for it is made.
//
// On btrfs, therefore, the caller makes statfs true (fs.Settle) before it decides
// anything, and compares a watermark it has set with [Probes.Counted]. A caller that gets
// early events in quick succession leaves time between them.
type usage struct {
	pins       *pins
	nearBlocks uint32

	mu   sync.Mutex          // guards all below
	on   map[string]usageSet // by type of filesystem; nil once closed
	more chan struct{}       // closed when another type has been attached
}

// usageSet is what became of the object for one type of filesystem.
type usageSet struct {
	attachment
	closely *closeWatch // nil where all is watched alike
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

// watermarkMaps have an entry for each filesystem with a watermark, in the objects that
// have them.
var watermarkMaps = []string{mapWatches, mapCounted, mapGivenBack}

// reset forgets the watermarks of the process before, whose watches would keep their
// room for ever if their filesystems are gone; and its sets.
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

// CanWatch reports whether a filesystem of this type can have a watermark. It stays
// as it is until CatchUp.
func (u *usage) CanWatch(fsType string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.on[fsType].set != nil
}

// maps returns those of that name, of all objects that are attached and have one.
func (u *usage) maps(name string) (all []*ebpf.Map) {
	for _, on := range u.on {
		if on.set != nil && on.set.maps[name] != nil {
			all = append(all, on.set.maps[name])
		}
	}
	return all
}

// reason says why nothing is watched; nil if something is.
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
