package bpf

import (
	"errors"
	"fmt"
	"math/bits"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// nearBlocks is the least headroom of a filesystem that is far from its line,
// besides what is dirty and what CPUs may have under way. It is no bound that
// anything rests on, only keeps the last few steps exact.
const nearBlocks = 1 << 14

// dirtyUnknown has the program look at once: more than any disk, and far from
// where a sum would overflow.
const dirtyUnknown = 1 << 62

// folioBlocks is FOLIO_BLOCKS in headers/near.h.
const folioBlocks = 2048

// prepareUsageExt4 leaves out the far program where it would run as often as
// the near one: ext4 has large folios since Linux 6.16. Room is near_blocks.
func prepareUsageExt4(room uint32) func(*ebpf.CollectionSpec, *btf.Cache) error {
	return func(spec *ebpf.CollectionSpec, types *btf.Cache) error {
		if err := prepareUsage(spec, types); err != nil {
			return err
		}
		params, err := tracepointParams(types, "ext4_da_reserve_space", "ext4")
		if err != nil {
			return err
		}
		large, err := hasFunction(types, "ext4_set_inode_mapping_order", "ext4")
		if err != nil {
			return err
		}
		if !large {
			delete(spec.Programs, usageExt4ProgUsageDirty)
		}
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return fmt.Errorf("count CPUs: %w", err)
		}
		return errors.Join(
			spec.Variables[usageExt4VarReserveHasCount].Set(params >= 2),
			spec.Variables[usageExt4VarFarFirst].Set(large),
			spec.Variables[usageExt4VarNearBlocks].Set(room),
			spec.Variables[usageExt4VarPageShift].Set(uint32(bits.Len(uint(os.Getpagesize()))-1)),
			// WB_STAT_BATCH in include/linux/backing-dev.h.
			spec.Variables[usageExt4VarDirtyBatch].Set(uint32(8*bits.Len(uint(cpus)))),
		)
	}
}

// approach keeps a type's near program attached while one of its filesystems is
// near its line. The program is not pinned as attached: it ends with the process,
// the only one that could be told. Its owner, Probes, guards it.
type approach struct {
	program *ebpf.Program
	room    uint64            // near_blocks
	near    map[uint64]uint64 // by device: blocks of headroom when it came near
	link    link.Link         // nil while near is empty
}

// newApproach returns nil for a set that watches everything alike.
func newApproach(s *set, room uint32) *approach {
	if s == nil || s.near == nil {
		return nil
	}
	return &approach{program: s.near, room: uint64(room), near: map[uint64]uint64{}}
}

// nearRoom is the headroom up to which a filesystem is near its line for sure:
// least, and what every CPU may have under way.
func nearRoom(least uint32) (uint32, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return 0, fmt.Errorf("count CPUs: %w", err)
	}
	return least + uint32(cpus)*folioBlocks, nil
}

// decide says whether a filesystem is to be watched closely. It is if nobody
// knows how much is free, and stays so until its headroom has doubled: only the
// programs know how much is dirty, and would ask again at once.
func (a *approach) decide(dev uint64, l Line) bool {
	if l.RaiseFree == 0 {
		return false
	}
	least := a.room
	if entered, ok := a.near[dev]; ok {
		least = 2 * max(a.room, entered)
	}
	return l.Free < l.RaiseFree+l.Reserved+least
}

// enter attaches the near program, if it is not, on behalf of a filesystem.
func (a *approach) enter(dev, headroom uint64) (err error) {
	if a.link == nil {
		if a.link, err = link.AttachTracing(link.TracingOptions{Program: a.program}); err != nil {
			return fmt.Errorf("watch closely: %w", err)
		}
	}
	if _, ok := a.near[dev]; !ok {
		a.near[dev] = headroom
	}
	return nil
}

// leave detaches the near program when the last filesystem has left.
func (a *approach) leave(dev uint64) error {
	if a == nil {
		return nil
	}
	delete(a.near, dev)
	if len(a.near) > 0 {
		return nil
	}
	return a.close()
}

func (a *approach) close() error {
	if a == nil || a.link == nil {
		return nil
	}
	err := a.link.Close()
	a.link = nil
	return err
}

// status corrects that of the near program, which is in no set.
func (a *approach) status(all []ProgramStatus) {
	if a == nil || a.link == nil {
		return
	}
	for i := range all {
		if s := &all[i]; s.Idle != "" {
			s.Attached, s.Idle = true, ""
		}
	}
}

// setClosely puts a line where filesystems far from it are watched from afar.
// The near program is attached before the line counts on it, and detached after.
func (a *approach) setClosely(watches *ebpf.Map, dev uint64, l Line, value watchValue) error {
	if !a.decide(dev, l) {
		value.DirtyThen = dirtyUnknown
		if err := lineFull(watches.Put(dev, value)); err != nil {
			return err
		}
		return a.leave(dev)
	}
	headroom := l.Free - min(l.Free, l.RaiseFree+l.Reserved)
	if err := a.enter(dev, headroom); err != nil {
		return err
	}
	value.Near = 1
	return lineFull(watches.Put(dev, value))
}

// comeNear answers the event of a filesystem that came near its line. What
// happened before it is answered shows in the figures, but may be the last
// thing that happens: so whoever set the line has to look.
func (p *Probes) comeNear(dev, free uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.usage["ext4"]
	var w watchValue
	if u.closely == nil || u.maps[mapWatches].Lookup(dev, &w) != nil || w.Near == 0 {
		return // cleared or set again since
	}
	if err := u.closely.enter(dev, free-min(free, w.Bytes.Raise)); err != nil {
		p.log.Warn("a filesystem near its line is watched from afar", "device", deviceName(dev), "reason", classify(err))
	}
}
