package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Key identifies the directory of a layer's files, as the kernel sees it: struct
// layer_key in lastuse.bpf.c.
type Key struct {
	Dev uint64 // s_dev of the superblock: major<<20 | minor; or its ErofsFilesystem
	Ino uint64 // inode number of the directory
}

func (k Key) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("layer %d:%d: %w", k.Dev, k.Ino, err)
}

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

// newLayerTable reads which slots are taken. A process may have given up any
// other slot just before it died. So unless the table is new, none of them
// counts as never used. damaged is how many entries were dropped because their
// slot was invalid.
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
	owned, err := readHash[Key, uint32](t.layers)
	if err != nil {
		return nil, 0, fmt.Errorf("read layers: %w", err)
	}
	taken := make([]bool, t.stamps.MaxEntries())
	for key, slot := range owned {
		if int(slot) >= len(taken) || taken[slot] {
			damaged++
			if err := t.layers.Delete(key); err != nil {
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

// track gives k a slot. Its stamp starts at lastNS, or at the use of k that the
// kernel noted before, if that is later. Nothing happens if k has a slot.
//
// The stamp is written before the key, while no program can reach the slot. A
// use in between is noted in unresolved, which lastUse reads too.
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
		err = t.layers.Put(k, slot)
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

// untrack gives k's slot up. It deletes the key first, so that no program finds
// the slot from now on. takeSlot waits for the programs that already found it.
func (t *layerTable) untrack(k Key) error {
	slot, ok := t.slots[k]
	if !ok {
		return t.forget(k, math.MaxUint64)
	}
	if err := deleteKey(t.layers, k); err != nil {
		return fmt.Errorf("delete layer: %w", err)
	}
	delete(t.slots, k)
	t.retired = append(t.retired, slot)
	return t.forget(k, math.MaxUint64)
}

// takeSlot returns an unused slot. It prefers low ones, so that reading all
// stamps reads few.
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
// program may write in between. A later use is put back, unless a program has
// noted a still later one since.
func (t *layerTable) forget(k Key, upTo uint64) error {
	var noted uint64
	err := t.unresolved.LookupAndDelete(k, &noted)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take unresolved use: %w", err)
	}
	if noted <= upTo {
		return nil
	}
	err = t.unresolved.Update(k, noted, ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("put unresolved use back: %w", err)
	}
	return nil
}

// lastUse returns the later of k's stamp and k's use in unresolved; 0 if k is
// not tracked. A program that missed the key just before it was tracked may have
// written to unresolved.
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

// lastUses returns the last use of every tracked layer that was used. It reads
// all stamps at once.
func (t *layerTable) lastUses() (map[Key]uint64, error) {
	if len(t.slots) == 0 {
		return map[Key]uint64{}, nil
	}
	high := slices.Max(slices.Collect(maps.Values(t.slots))) + 1
	stamps, err := readArray[lastuseStamp](t.stamps, high)
	if err != nil {
		return nil, fmt.Errorf("read stamps: %w", err)
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

// purge forgets the uses of untracked layers from before a CLOCK_BOOTTIME.
func (t *layerTable) purge(before uint64) error {
	noted, err := readUnresolved(t.unresolved)
	if err != nil {
		return err
	}
	for key, at := range noted {
		if at >= before {
			continue
		}
		// The stamp of a tracked layer can lack a use that a late program noted
		// here.
		if _, tracked := t.slots[key]; tracked {
			continue
		}
		if err := t.forget(key, before-1); err != nil {
			return err
		}
	}
	return nil
}

// readUnresolved returns the uses of layers that were not tracked.
func readUnresolved(m *ebpf.Map) (map[Key]uint64, error) {
	uses, err := readHash[Key, uint64](m)
	if err != nil {
		return nil, fmt.Errorf("read unresolved uses: %w", err)
	}
	return uses, nil
}

// carryStamps copies the layers, stamps and unresolved uses of an earlier set,
// which may still be recording, into t, the table of s. The programs of s must
// be attached already, so that s also records what the earlier set records from
// now on. Layers that t has are left alone; their stamps came from an earlier
// attempt.
func carryStamps(t *layerTable, s *set, dir string) error {
	old, err := openMaps(dir, []string{lastuseMapLayers, lastuseMapStamps, lastuseMapUnresolved}, like(s))
	if err != nil {
		return err
	}
	defer closeMaps(old)
	slots, err := readHash[Key, uint32](old[lastuseMapLayers])
	if err != nil {
		return fmt.Errorf("read layers: %w", err)
	}
	stamps, err := readArray[lastuseStamp](old[lastuseMapStamps], old[lastuseMapStamps].MaxEntries())
	if err != nil {
		return fmt.Errorf("read stamps: %w", err)
	}
	for key, slot := range slots {
		if int(slot) >= len(stamps) {
			return fmt.Errorf("slot %d of %d: %w", slot, len(stamps), errForeign)
		}
		if err := t.track(key, stamps[slot].LastNs); err != nil {
			return err
		}
	}
	return carryUnresolved(t, old[lastuseMapUnresolved])
}

// carryUnresolved copies unresolved uses into t. Entries that t has are kept:
// they are as new or newer. The oldest uses may find no room, because the
// programs of t have noted others since. They are counted with those that the
// programs lose for the same reason.
func carryUnresolved(t *layerTable, unresolved *ebpf.Map) error {
	uses, err := readUnresolved(unresolved)
	if err != nil {
		return err
	}
	latestFirst := slices.SortedFunc(maps.Keys(uses), func(a, b Key) int { return cmp.Compare(uses[b], uses[a]) })
	for i, key := range latestFirst {
		err := t.unresolved.Update(key, uses[key], ebpf.UpdateNoExist)
		if errors.Is(err, unix.E2BIG) {
			t.lost += uint64(len(latestFirst) - i)
			return nil
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("write unresolved use: %w", err)
		}
	}
	return nil
}
