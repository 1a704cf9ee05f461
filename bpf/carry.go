package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// errForeign: an earlier set whose maps have another shape.
var errForeign = errors.New("unknown layout")

// carryOver brings the layers, stamps and unresolved uses of an earlier set,
// which may still be recording, into t. The programs of t must be attached
// already: then what the earlier set records from now on, t records as well.
// Layers that t has are left alone; their stamps came from an earlier attempt.
func carryOver(t *layerTable, dir string) error {
	if err := trustedSet(dir); err != nil {
		return err
	}
	old := map[string]*ebpf.Map{}
	defer func() {
		for _, m := range old {
			m.Close()
		}
	}()
	for name, value := range map[string]uint32{
		lastuseMapLayers: 4, lastuseMapStamps: 16, lastuseMapUnresolved: 8,
	} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "maps", name), nil)
		if err != nil {
			return fmt.Errorf("open map %s: %w", name, err)
		}
		old[name] = m
		key := uint32(16)
		if m.Type() == ebpf.Array {
			key = 4
		}
		if m.KeySize() != key || m.ValueSize() != value {
			return fmt.Errorf("map %s: %w", name, errForeign)
		}
	}
	return errors.Join(
		carryStamps(t, old[lastuseMapLayers], old[lastuseMapStamps]),
		carryUnresolved(t, old[lastuseMapUnresolved]),
	)
}

func carryStamps(t *layerTable, layers, stamps *ebpf.Map) error {
	slots, err := readHash[uint32](layers)
	if err != nil {
		return fmt.Errorf("read layers: %w", err)
	}
	values, err := readStamps(stamps, stamps.MaxEntries())
	if err != nil {
		return err
	}
	for key, slot := range slots {
		if int(slot) >= len(values) {
			return fmt.Errorf("slot %d of %d: %w", slot, len(values), errForeign)
		}
		if err := t.track(key, values[slot].LastNs); err != nil {
			return err
		}
	}
	return nil
}

// carryUnresolved leaves what t has: it is as new or newer. The oldest uses may
// find no room, because the programs of t have noted others since; they are
// counted with those that the programs lose for the same reason.
func carryUnresolved(t *layerTable, unresolved *ebpf.Map) error {
	uses, err := readUnresolved(unresolved)
	if err != nil {
		return err
	}
	latestFirst := slices.SortedFunc(maps.Keys(uses), func(a, b Key) int { return cmp.Compare(uses[b], uses[a]) })
	for i, key := range latestFirst {
		err := t.unresolved.Update(key.kernel(), uses[key], ebpf.UpdateNoExist)
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
