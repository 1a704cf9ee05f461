package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// readStamps returns the stamps of slots 0 to n-1.
func readStamps(m *ebpf.Map, n uint32) ([]lastuseStamp, error) {
	slots := make([]uint32, n)
	stamps := make([]lastuseStamp, n)
	var cursor ebpf.MapBatchCursor
	for read := 0; read < int(n); {
		got, err := m.BatchLookup(&cursor, slots[read:], stamps[read:], nil)
		read += got
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			if read < int(n) {
				return nil, fmt.Errorf("read stamps: %d of %d", read, n)
			}
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read stamps: %w", err)
		}
	}
	return stamps, nil
}

// readUnresolved returns the uses of layers that were not tracked.
func readUnresolved(m *ebpf.Map) (map[Key]uint64, error) {
	uses, err := readHash[uint64](m)
	if err != nil {
		return nil, fmt.Errorf("read unresolved uses: %w", err)
	}
	return uses, nil
}

// readHash reads a map by layer in one call. The kernel copies bucket by
// bucket, each under its lock, and an update leaves an entry in its bucket: no
// entry that is there all the time is missed, as it can be when iterating.
func readHash[V any](m *ebpf.Map) (map[Key]V, error) {
	keys := make([]lastuseLayerKey, m.MaxEntries())
	values := make([]V, m.MaxEntries())
	var cursor ebpf.MapBatchCursor
	n, err := m.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, err
	}
	read := make(map[Key]V, n)
	for i := range n {
		read[keyOf(keys[i])] = values[i]
	}
	return read, nil
}

func lookupOrZero(m *ebpf.Map, k Key) (uint64, error) {
	var v uint64
	err := m.Lookup(k.kernel(), &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, nil
	}
	return v, err
}
