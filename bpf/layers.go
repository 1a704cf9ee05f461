package bpf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf"
)

// Key is where a layer's files are, as the kernel sees it.
type Key struct {
	Dev uint64 // s_dev of the superblock: major<<20 | minor; or its ErofsFilesystem
	Ino uint64 // inode number of the directory
}

func (k Key) kernel() lastuseLayerKey { return lastuseLayerKey{Dev: k.Dev, Ino: k.Ino} }

func keyOf(k lastuseLayerKey) Key { return Key{Dev: k.Dev, Ino: k.Ino} }

// layerTable is user space's side of lastuse.bpf.c: it alone decides which
// layer has which slot. It is not safe for concurrent use.
type layerTable struct {
	layers, stamps, unresolved *ebpf.Map

	slots   map[Key]uint32
	next    uint32   // slots from here on were never used
	free    []uint32 // no program can still hold them
	retired []uint32 // given up, but a program may be about to stamp them

	lost uint64 // unresolved uses that found no room when they were carried over
}

// newLayerTable reads which slots are taken. The others may have been given up
// by a process that died right after, so none of them counts as never used,
// unless the table is new. damaged is how many entries were dropped because
// they made no sense.
func newLayerTable(s *set) (t *layerTable, damaged int, err error) {
	t = &layerTable{
		layers:     s.maps[lastuseMapLayers],
		stamps:     s.maps[lastuseMapStamps],
		unresolved: s.maps[lastuseMapUnresolved],
		slots:      map[Key]uint32{},
	}
	if !s.adopted {
		return t, 0, nil
	}
	owned, err := readHash[uint32](t.layers)
	if err != nil {
		return nil, 0, fmt.Errorf("read layers: %w", err)
	}
	taken := make([]bool, t.stamps.MaxEntries())
	for key, slot := range owned {
		if int(slot) >= len(taken) || taken[slot] {
			damaged++
			if err := t.layers.Delete(key.kernel()); err != nil {
				return nil, 0, fmt.Errorf("drop damaged entry: %w", err)
			}
			continue
		}
		taken[slot] = true
		t.slots[key] = slot
	}
	t.next = uint32(len(taken))
	for slot := range taken {
		if !taken[slot] {
			t.retired = append(t.retired, uint32(slot))
		}
	}
	return t, damaged, nil
}

// track gives k a slot whose stamp starts at lastNS, or at what the kernel
// noted about k before, if that is later. Nothing happens if k has one.
//
// The stamp is written before the key, while no program can reach the slot. A
// use in between goes to unresolved, where lastUse looks too.
func (t *layerTable) track(k Key, lastNS uint64) error {
	if _, ok := t.slots[k]; ok {
		return nil
	}
	noted, err := lookupOrZero(t.unresolved, k)
	if err != nil {
		return fmt.Errorf("read unresolved use: %w", err)
	}
	slot, err := t.takeSlot()
	if err != nil {
		return err
	}
	stamp := lastuseStamp{LastNs: max(lastNS, noted)}
	if err = t.stamps.Put(slot, stamp); err == nil {
		err = t.layers.Put(k.kernel(), slot)
	}
	if err != nil {
		t.retired = append(t.retired, slot)
		return fmt.Errorf("write layer: %w", err)
	}
	t.slots[k] = slot
	if noted == 0 {
		return nil
	}
	return t.forget(k, noted)
}

// untrack gives k's slot up. The key goes first, so that no program finds the
// slot from now on; those that already did are waited for in takeSlot.
func (t *layerTable) untrack(k Key) error {
	slot, ok := t.slots[k]
	if !ok {
		return t.forget(k, math.MaxUint64)
	}
	if err := t.layers.Delete(k.kernel()); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete layer: %w", err)
	}
	delete(t.slots, k)
	t.retired = append(t.retired, slot)
	return t.forget(k, math.MaxUint64)
}

// takeSlot prefers low slots, so that reading all stamps reads few.
func (t *layerTable) takeSlot() (uint32, error) {
	if len(t.free) == 0 && t.next == t.stamps.MaxEntries() {
		if len(t.retired) == 0 {
			return 0, fmt.Errorf("all %d slots are taken: %w", t.next, ErrFull)
		}
		if err := waitForPrograms(); err != nil {
			return 0, fmt.Errorf("wait for programs that hold a slot: %w: %w", err, ErrFull)
		}
		slices.SortFunc(t.retired, func(a, b uint32) int { return int(b) - int(a) })
		t.free, t.retired = t.retired, nil
	}
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		return slot, nil
	}
	t.next++
	return t.next - 1, nil
}

// forget removes k from unresolved if its use there is no later than upTo. A
// program may write in between: a later use is put back, unless a still later
// one has come since.
func (t *layerTable) forget(k Key, upTo uint64) error {
	var noted uint64
	err := t.unresolved.LookupAndDelete(k.kernel(), &noted)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take unresolved use: %w", err)
	}
	if noted <= upTo {
		return nil
	}
	err = t.unresolved.Update(k.kernel(), noted, ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("put unresolved use back: %w", err)
	}
	return nil
}

// lastUse is the later of k's stamp and what unresolved has: a program that
// missed the key just before it was tracked may have written there.
func (t *layerTable) lastUse(k Key) (uint64, error) {
	slot, ok := t.slots[k]
	if !ok {
		return 0, nil
	}
	var stamp lastuseStamp
	if err := t.stamps.Lookup(slot, &stamp); err != nil {
		return 0, fmt.Errorf("read stamp: %w", err)
	}
	noted, err := lookupOrZero(t.unresolved, k)
	if err != nil {
		return 0, fmt.Errorf("read unresolved use: %w", err)
	}
	return max(stamp.LastNs, noted), nil
}

// lastUses reads every stamp in one go.
func (t *layerTable) lastUses() (map[Key]uint64, error) {
	if len(t.slots) == 0 {
		return map[Key]uint64{}, nil
	}
	high := slices.Max(slices.Collect(maps.Values(t.slots))) + 1
	stamps, err := readStamps(t.stamps, high)
	if err != nil {
		return nil, err
	}
	noted, err := readUnresolved(t.unresolved)
	if err != nil {
		return nil, err
	}
	uses := make(map[Key]uint64, len(t.slots))
	for key, slot := range t.slots {
		if last := max(stamps[slot].LastNs, noted[key]); last != 0 {
			uses[key] = last
		}
	}
	return uses, nil
}

// purge forgets uses of unknown layers from before a moment.
func (t *layerTable) purge(before uint64) error {
	noted, err := readUnresolved(t.unresolved)
	if err != nil {
		return err
	}
	for key, at := range noted {
		if at >= before {
			continue
		}
		// A tracked layer's stamp does not know a straggler's use.
		if _, tracked := t.slots[key]; tracked {
			continue
		}
		if err := t.forget(key, before-1); err != nil {
			return err
		}
	}
	return nil
}
