package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
)

// text converts a C string; without a NUL it is all of c.
func text(c []int8) string {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c))), len(c))
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	return string(raw)
}

// writersBatch is how many writers one call reads. It must hold the fullest bucket
// of the map, which has a handful of entries.
const writersBatch = 256

// readTries bounds how often a reading is repeated because a program booked in
// between. The last reading is used as it is: it can miss or double what one
// program counted on a CPU between two changes of cgroup.
const readTries = 4

// readWriters returns, by cgroup id, the sum of what is booked and what the CPUs
// have not booked yet.
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

// readAccounts returns the accounts of all programs on all CPUs.
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

// readBooked returns the booked changes by cgroup id. It reads in batches: the map
// has room for 4096 writers and usually holds a few dozen.
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

// carryWriters copies the counts of an earlier set, pinned at dir, into s. Both
// sets count while it runs. The earlier figures are complete, so they replace those
// of s. Changes of a cgroup between the reading and the writing of its entry are
// lost.
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
