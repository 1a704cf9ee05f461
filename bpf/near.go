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

// nearBlocks is the least headroom of a filesystem that is far from its watermark,
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

// closeWatch: ext4 with large folios is watched where folios become dirty, once for up
// to 8 MiB (__folio_mark_dirty, mm/page-writeback.c), while it is far from its watermark. A
// program at each promised block takes 8 % of buffered writes at page-cache speed.
// Before blocks that nobody saw promised could reach the watermark, an event asks for the
// closer watch, which lasts until headroom has doubled (headers/near.h has the bound).
//
// It keeps a type's near program attached while one of its filesystems is
// near its watermark. The program is not pinned as attached: it ends with the process,
// the only one that can be known. Its owner, usage, guards it.
type closeWatch struct {
	program *ebpf.Program
	room    uint64            // near_blocks
	near    map[uint64]uint64 // by device: blocks of headroom when it came near
	link    link.Link         // nil while near is empty
}

// newCloseWatch returns nil for a set that watches everything alike.
func newCloseWatch(s *set, room uint32) *closeWatch {
	if s == nil || s.near == nil {
		return nil
	}
	return &closeWatch{program: s.near, room: uint64(room), near: map[uint64]uint64{}}
}

// nearRoom is the headroom up to which a filesystem is near its watermark for sure:
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
func (w *closeWatch) decide(dev uint64, l Watermark) bool {
	if l.RaiseFree == 0 {
		return false
	}
	least := w.room
	if entered, ok := w.near[dev]; ok {
		least = 2 * max(w.room, entered)
	}
	return l.Free < l.RaiseFree+l.Reserved+least
}

// enter attaches the near program, if it is not, on behalf of a filesystem.
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

// status corrects that of the near program, which is in no set.
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

// setWatermark puts a watermark where filesystems far from it are watched from afar.
// The near program is attached before the watermark counts on it, and detached after.
func (w *closeWatch) setWatermark(watches *ebpf.Map, dev uint64, l Watermark, value watchValue) error {
	if !w.decide(dev, l) {
		value.DirtyThen = dirtyUnknown
		if err := watermarksFull(watches.Put(dev, value)); err != nil {
			return err
		}
		return w.leave(dev)
	}
	headroom := l.Free - min(l.Free, l.RaiseFree+l.Reserved)
	if err := w.enter(dev, headroom); err != nil {
		return err
	}
	value.Near = 1
	return watermarksFull(watches.Put(dev, value))
}

// watchClosely answers the event of a filesystem that came near its watermark. What
// happened before it is answered shows in the figures, but may be the last
// thing that happens: so whoever set the watermark has to look.
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
