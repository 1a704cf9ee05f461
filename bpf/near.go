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

// nearBlocks is the least headroom, in blocks, of a filesystem that is far from its
// watermark, in addition to what is dirty and what CPUs may have under way. No guarantee
// depends on it; it only keeps the last few steps exact.
const nearBlocks = 1 << 14

// dirtyUnknown makes the program sum what is dirty at its first run. It is more bytes than
// any disk has, and far from where a sum would overflow.
const dirtyUnknown = 1 << 62

// folioBlocks is FOLIO_BLOCKS in headers/near.h.
const folioBlocks = 2048

// prepareUsageExt4 sets the constants of the ext4 programs; room is near_blocks. It leaves
// out the far program where that would run as often as the near one: ext4 has large folios
// since Linux 6.16.
func prepareUsageExt4(spec *ebpf.CollectionSpec, types *btf.Cache, room uint32) error {
	if err := prepareUsage(spec, types, room); err != nil {
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

// closeWatch switches the near program of a type of filesystem on and off. Only ext4 with
// large folios has one. While a filesystem is far from its watermark, only the far program
// watches it, where folios become dirty, once for up to 8 MiB (__folio_mark_dirty,
// mm/page-writeback.c). The near program runs at each promised block, which takes 8 % of
// buffered writes at page-cache speed.
//
// The far program does not see every promised block. Before the unseen blocks could reach
// the watermark, it sends an event that asks for the near program (headers/near.h has the
// bound). The filesystem stays near until its headroom is twice the least that it had since
// it came near. So every filesystem that reaches its watermark, and is brought well below
// it, is far again.
//
// closeWatch keeps the near program attached while any of its filesystems is near its
// watermark. The attachment is not pinned: it ends with the process, because only this
// process knows which filesystems are near. The owner of a closeWatch, usage, guards it.
type closeWatch struct {
	program *ebpf.Program
	room    uint64            // near_blocks
	near    map[uint64]uint64 // by device: the least headroom, in blocks, since it came near
	link    link.Link         // nil while near is empty
}

// newCloseWatch returns nil for a set without a near program.
func newCloseWatch(s *set, room uint32) *closeWatch {
	if s == nil || s.near == nil {
		return nil
	}
	return &closeWatch{program: s.near, room: uint64(room), near: map[uint64]uint64{}}
}

// nearRoom returns the headroom, in blocks, up to which a filesystem always counts as near
// its watermark: least, and what every CPU may have under way.
func nearRoom(least uint32) (uint32, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return 0, fmt.Errorf("count CPUs: %w", err)
	}
	return least + uint32(cpus)*folioBlocks, nil
}

// decide reports whether a filesystem is to be watched closely. It is if the caller does
// not know how much is free (l.Free is 0). It stays so until its headroom has doubled: only
// the programs know how much is dirty, and they would ask again at once. To ask again costs
// little if the headroom has to fall in between.
func (w *closeWatch) decide(dev uint64, l Watermark) bool {
	if l.RaiseFree == 0 {
		return false
	}
	least := w.room
	if lowest, ok := w.near[dev]; ok {
		least = max(w.room, 2*lowest)
	}
	return l.Free < l.RaiseFree+l.Reserved+least
}

func (l Watermark) headroom() uint64 { return l.Free - min(l.Free, l.RaiseFree+l.Reserved) }

// seen notes the headroom of a filesystem that is near, by a reading. reached is true if it has reached its
// watermark since the reading before.
func (w *closeWatch) seen(dev uint64, l Watermark, reached bool) {
	lowest, near := w.near[dev]
	switch {
	case near && reached:
		w.near[dev] = 0
	case near:
		w.near[dev] = min(lowest, l.headroom())
	}
}

// enter attaches the near program, if it is not attached, on behalf of a filesystem.
// headroom is in blocks.
func (w *closeWatch) enter(dev, headroom uint64) (err error) {
	if w.link == nil {
		if w.link, err = link.AttachTracing(link.TracingOptions{Program: w.program}); err != nil {
			return fmt.Errorf("watch closely: %w", err)
		}
	}
	if _, ok := w.near[dev]; !ok {
		w.near[dev] = headroom
	}
	return nil
}

// leave detaches the near program when the last filesystem has left.
func (w *closeWatch) leave(dev uint64) error {
	if w == nil {
		return nil
	}
	delete(w.near, dev)
	if len(w.near) > 0 {
		return nil
	}
	return w.close()
}

func (w *closeWatch) close() error {
	if w == nil || w.link == nil {
		return nil
	}
	err := w.link.Close()
	w.link = nil
	return err
}

// status corrects the status of the near program, whose link is in no set.
func (w *closeWatch) status(all []ProgramStatus) {
	if w == nil || w.link == nil {
		return
	}
	for i := range all {
		if s := &all[i]; s.Idle != "" {
			s.Attached, s.Idle = true, ""
		}
	}
}

// setWatermark stores a watermark of a filesystem type that has a near program. It attaches
// the near program before it stores a watermark that needs it, and detaches the program
// after storing one that does not.
func (w *closeWatch) setWatermark(watches *ebpf.Map, dev uint64, l Watermark, value watchValue) error {
	var was watchValue
	err := watches.Lookup(dev, &was)
	w.seen(dev, l, err == nil && was.Bytes.Armed == 0)
	if !w.decide(dev, l) {
		value.DirtyThen = dirtyUnknown
		if err := watermarksFull(watches.Put(dev, value)); err != nil {
			return err
		}
		return w.leave(dev)
	}
	if err := w.enter(dev, l.headroom()); err != nil {
		return err
	}
	value.Near = 1
	return watermarksFull(watches.Put(dev, value))
}

// watchClosely attaches the near program after the event of a filesystem that came near its
// watermark. The figures include every allocation before that, but there may be no later
// one that compares them. So the code that set the watermark must read the free space
// itself.
func (u *usage) watchClosely(fsType string, dev, free uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	on := u.on[fsType]
	var w watchValue
	if on.closely == nil || on.set.maps[mapWatches].Lookup(dev, &w) != nil || w.Near == 0 {
		return // cleared or set again since
	}
	if err := on.closely.enter(dev, free-min(free, w.Bytes.Raise)); err != nil {
		u.pins.log.Warn("cannot count a filesystem near its watermark exactly", "device", deviceName(dev), "reason", classify(err))
	}
}
