package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Writer is what the processes of one cgroup took and gave back on the watched
// filesystems since the cgroup came, or since the programs were attached.
// A container's own sub-groups count for it if its name bears a generated id
// (64 hexadecimal digits); else they are writers of their own.
//
// Who deletes what another one wrote shrinks: Shrunk can be more than Grown.
type Writer struct {
	Cgroup  uint64 // id in the v2 hierarchy
	Grown   uint64 // bytes
	Shrunk  uint64 // bytes
	Made    uint64 // inodes
	Removed uint64 // inodes

	// EndedNS is when the cgroup was removed, by CLOCK_BOOTTIME; 0 while it is
	// there. Only then Path is set, from the root of the hierarchy: of a living
	// cgroup, its directory tells. Path is what people on the node chose.
	EndedNS uint64
	Path    string
}

// CountWriters says which filesystems count, by s_dev; others no longer do.
// What was counted stays.
func (p *Probes) CountWriters(devs ...uint64) error {
	s, err := p.writersSet()
	if err != nil {
		return fmt.Errorf("count writers: %w", err)
	}
	devices := s.maps[writersMapDevices]
	for _, dev := range devs {
		if err := devices.Put(dev, uint32(1)); err != nil {
			return fmt.Errorf("count writers of %s: %w", deviceName(dev), mapFull(err))
		}
	}
	var gone []uint64
	var dev uint64
	var one uint32
	entries := devices.Iterate()
	for entries.Next(&dev, &one) {
		if !slices.Contains(devs, dev) {
			gone = append(gone, dev)
		}
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("count writers: %w", err)
	}
	for _, dev := range gone {
		if err := devices.Delete(dev); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("stop counting writers of %s: %w", deviceName(dev), err)
		}
	}
	return closeAccounts(s.maps[writersMapWatching])
}

// closeAccounts makes every CPU look its filesystem up again.
func closeAccounts(watching *ebpf.Map) error {
	var generation uint64
	err := watching.Lookup(uint32(0), &generation)
	if err == nil {
		err = watching.Put(uint32(0), generation+1)
	}
	if err != nil {
		return fmt.Errorf("close accounts: %w", err)
	}
	return nil
}

// Writers returns every cgroup that wrote, in no order, those that ended and
// were not forgotten included.
func (p *Probes) Writers() ([]Writer, error) {
	s, err := p.writersSet()
	if err != nil {
		return nil, fmt.Errorf("read writers: %w", err)
	}
	kernel, err := readWriters(s.maps)
	if err != nil {
		return nil, fmt.Errorf("read writers: %w", err)
	}
	writers := make([]Writer, 0, len(kernel))
	for id, w := range kernel {
		writers = append(writers, Writer{
			Cgroup: id, Grown: w.Grown, Shrunk: w.Shrunk, Made: w.Made, Removed: w.Removed,
			EndedNS: w.EndedNs, Path: text(w.Path[:]),
		})
	}
	return writers, nil
}

// ForgetWriters makes room by dropping writers that have ended. A cgroup id is
// not given twice, so nothing else can be hit.
func (p *Probes) ForgetWriters(ended ...Writer) error {
	s, err := p.writersSet()
	if err != nil {
		return fmt.Errorf("forget writers: %w", err)
	}
	for _, w := range ended {
		if w.EndedNS == 0 {
			return fmt.Errorf("forget writers: cgroup %d has not ended", w.Cgroup)
		}
		if err := s.maps[writersMapWriters].Delete(w.Cgroup); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget writer %d: %w", w.Cgroup, err)
		}
	}
	return nil
}

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
		if try < readTries && !slices.EqualFunc(before, after, sameBooks) {
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

// sameBooks: nothing was moved from the account to its writer in between.
func sameBooks(a, b writersAccount) bool { return a.Booked == b.Booked }

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

func (p *Probes) writersSet() (*set, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers == nil {
		return nil, notAttached(p.writersErr)
	}
	return p.writers, nil
}

// hierarchy says whether cgroups can be told apart at all.
func hierarchy() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "read mounts: " + err.Error()
	}
	for line := range strings.Lines(string(mounts)) {
		// "… - type source options"
		if _, fs, ok := strings.Cut(line, " - "); ok && strings.HasPrefix(fs, "cgroup2 ") {
			return ""
		}
	}
	return "no cgroup v2 hierarchy is mounted: every process counts for its root"
}

// mapFull names the kernel's word for a map without room.
func mapFull(err error) error {
	if errors.Is(err, unix.E2BIG) {
		return ErrFull
	}
	return err
}
