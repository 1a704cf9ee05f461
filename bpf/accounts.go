package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
)

// text is a C string.
func text(c []int8) string {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c))), len(c))
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	return string(raw)
}

// writersBatch is how many writers are read by one call. It has to hold the
// fullest bucket of the map, which is a handful.
const writersBatch = 256

// readTries bounds how often a reading is taken again because a program booked
// meanwhile. The last one stands: it can lack or double what one program counted on
// a CPU between two changes of cgroup.
const readTries = 4

// readWriters sums what is booked and what the CPUs have not booked yet.
func readWriters(from map[string]*ebpf.Map) (map[uint64]*writersWriter, error) {
	before, err := readAccounts(from)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		writers, err := readBooked(from[writersMapWriters])
		if err != nil {
			return nil, err
		}
		after, err := readAccounts(from)
		if err != nil {
			return nil, err
		}
		if try < readTries && !slices.EqualFunc(before, after, func(a, b writersAccount) bool { return a.Booked == b.Booked }) {
			before = after
			continue
		}
		for _, a := range after {
			if w := writers[a.To]; w != nil {
				w.Grown += a.Grown
				w.Shrunk += a.Shrunk
				w.Made += a.Made
				w.Removed += a.Removed
			}
		}
		return writers, nil
	}
}

// readAccounts returns those of all programs on all CPUs.
func readAccounts(from map[string]*ebpf.Map) (all []writersAccount, err error) {
	m := from[writersMapAccounts]
	for program := range m.MaxEntries() {
		var cpus []writersAccount
		if err := m.Lookup(program, &cpus); err != nil {
			return nil, fmt.Errorf("read accounts: %w", err)
		}
		all = append(all, cpus...)
	}
	return all, nil
}

// readBooked reads in batches: there is room for 4096, and usually there are a
// few dozen.
func readBooked(m *ebpf.Map) (map[uint64]*writersWriter, error) {
	writers := map[uint64]*writersWriter{}
	ids := make([]uint64, writersBatch)
	var cursor ebpf.MapBatchCursor
	for {
		values := make([]writersWriter, writersBatch)
		n, err := m.BatchLookup(&cursor, ids, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read booked changes: %w", err)
		}
		for i := range n {
			writers[ids[i]] = &values[i]
		}
		if err != nil {
			return writers, nil // that was the last batch
		}
	}
}

// carryWriters brings the counts of an earlier set into this one. Both count
// while it runs, so the earlier figures, which have everything, replace those
// of this set: lost is what a cgroup does between the reading of its entry and
// the writing of it.
func carryWriters(s *set, dir string) error {
	old, err := openMaps(dir, []string{writersMapWriters, writersMapAccounts, writersMapDevices}, like(s))
	if err != nil {
		return err
	}
	defer closeMaps(old)
	devices, err := readHash[uint64, uint32](old[writersMapDevices])
	if err != nil {
		return fmt.Errorf("read devices: %w", err)
	}
	for dev, one := range devices {
		if err := s.maps[writersMapDevices].Put(dev, one); err != nil {
			return fmt.Errorf("write device: %w", err)
		}
	}
	if err := closeAccounts(s.maps[writersMapWatching]); err != nil {
		return err
	}
	writers, err := readWriters(old)
	if err != nil {
		return err
	}
	for id, w := range writers {
		if err := s.maps[writersMapWriters].Put(id, w); err != nil {
			return fmt.Errorf("write writer: %w", mapFull(err))
		}
	}
	return nil
}
