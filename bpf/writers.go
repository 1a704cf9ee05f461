package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
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
	devices, err := p.writersMap(writersMapDevices)
	if err != nil {
		return fmt.Errorf("count writers: %w", err)
	}
	for _, dev := range devs {
		if err := devices.Put(dev, uint32(1)); err != nil {
			return fmt.Errorf("count writers of %s: %w", deviceName(dev), mapFull(err))
		}
	}
	var gone []uint64
	var dev uint64
	var one uint32
	for entries := devices.Iterate(); entries.Next(&dev, &one); {
		if !slices.Contains(devs, dev) {
			gone = append(gone, dev)
		}
	}
	for _, dev := range gone {
		if err := devices.Delete(dev); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("stop counting writers of %s: %w", deviceName(dev), err)
		}
	}
	return nil
}

// Writers returns every cgroup that wrote, in no order, those that ended and
// were not forgotten included.
func (p *Probes) Writers() ([]Writer, error) {
	m, err := p.writersMap(writersMapWriters)
	if err != nil {
		return nil, fmt.Errorf("read writers: %w", err)
	}
	var writers []Writer
	err = readWriters(m, func(id uint64, w *writersWriter) error {
		writers = append(writers, writerOf(id, w))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read writers: %w", err)
	}
	return writers, nil
}

// ForgetWriters makes room by dropping writers that have ended. A cgroup id is
// not given twice, so nothing else can be hit.
func (p *Probes) ForgetWriters(ended ...Writer) error {
	m, err := p.writersMap(writersMapWriters)
	if err != nil {
		return fmt.Errorf("forget writers: %w", err)
	}
	for _, w := range ended {
		if w.EndedNS == 0 {
			return fmt.Errorf("forget writers: cgroup %d has not ended", w.Cgroup)
		}
		if err := m.Delete(w.Cgroup); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget writer %d: %w", w.Cgroup, err)
		}
	}
	return nil
}

func writerOf(id uint64, w *writersWriter) Writer {
	return Writer{
		Cgroup: id, Grown: w.Grown, Shrunk: w.Shrunk, Made: w.Made, Removed: w.Removed,
		EndedNS: w.EndedNs, Path: text(w.Path[:]),
	}
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

// readWriters calls each for every entry, without holding all of them: there
// is room for 4096, and usually there are a few dozen.
func readWriters(m *ebpf.Map, each func(uint64, *writersWriter) error) error {
	ids := make([]uint64, writersBatch)
	values := make([]writersWriter, writersBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, ids, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range n {
			if err := each(ids[i], &values[i]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // that was the last batch
		}
	}
}

// carryWriters brings the counts of an earlier set into this one. Both count
// while it runs, so the earlier figures, which have everything, replace those
// of this set: lost is what a cgroup does between the reading of its entry and
// the writing of it.
func carryWriters(s *set, dir string) error {
	for _, name := range []string{writersMapDevices, writersMapWriters} {
		old, err := ebpf.LoadPinnedMap(filepath.Join(dir, "maps", name), nil)
		if err != nil {
			return fmt.Errorf("open map %s: %w", name, err)
		}
		defer old.Close()
		if old.KeySize() != s.maps[name].KeySize() || old.ValueSize() != s.maps[name].ValueSize() {
			return fmt.Errorf("map %s: %w", name, errForeign)
		}
		if name == writersMapWriters {
			return readWriters(old, func(id uint64, w *writersWriter) error { return s.maps[name].Put(id, w) })
		}
		var dev uint64
		var one uint32
		for entries := old.Iterate(); entries.Next(&dev, &one); {
			if err := s.maps[name].Put(dev, one); err != nil {
				return fmt.Errorf("write device: %w", err)
			}
		}
	}
	return nil
}

// inheritWriters takes over what earlier sets counted. What cannot be read is
// only missing from a figure for people, so it is said and no more.
func (p *Probes) inheritWriters(pins *pins, o *object) error {
	dirs, err := pins.outdated(o)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := carryWriters(p.writers, dir); err != nil {
			p.log.Warn("earlier counts of writers could not be read", "dir", dir, "reason", err)
		}
	}
	p.removeEarlier(pins, dirs)
	return nil
}

// prepareWriters tells the programs what their tracepoint passes.
func prepareWriters(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	params, err := tracepointParams(types, "ext4_da_reserve_space", "ext4")
	if err != nil {
		return err
	}
	return spec.Variables[writersVarReserveHasCount].Set(params >= 2)
}

// writersMap returns a map of writers.bpf.c.
func (p *Probes) writersMap(name string) (*ebpf.Map, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers == nil {
		return nil, notAttached(p.writersErr)
	}
	return p.writers.maps[name], nil
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
